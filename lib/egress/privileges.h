#pragma once

#include "sandboxkit/result.h"

#include <string>

namespace sandboxkit::egress {

// Bounds of one proxy process on the worker's host; a sidecar's are the engine's to hold.
inline constexpr unsigned kProxyUser = 65'534;
inline constexpr unsigned long kProxyDescriptors = 2'048;
inline constexpr unsigned long kProxyDataBytes = 256UL << 20;

/// Makes this process one that can do nothing but talk over the descriptors it has and over
/// sockets: sees `root` alone, user and group 65534, no other group, no capability and no way to
/// one, no new process or thread, no core file, not to be looked into by others of that user.
/// Errors: kPermissionDenied when it is not root to begin with, or any of it fails; the caller ends
/// then.
Status give_up_privileges(const std::string& root);

/// The same without root's help: the user stays, and Landlock closes every file to it, where the
/// kernel has that. No capability, no way to one, no new process, no core file, not to be looked
/// into. Errors: kPermissionDenied when it is root, or any of it fails.
Status give_up_files();

}  // namespace sandboxkit::egress
