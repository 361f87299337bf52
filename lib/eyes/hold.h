#pragma once

#include "sandboxkit/file_eyes.h"

#include "io/fd.h"

#include <string>

namespace sandboxkit::eyes {

/// A path that was walked once, with what was found there held open: whatever is swapped
/// afterwards, this is the object that was seen.
struct HeldPath {
  SeenPath seen;
  /// The object as a place (O_PATH); where it does not exist, the nearest directory that does.
  io::Fd place;
};

/// Errors: as `system_eyes().look`. Nothing is resolved a second time.
Result<HeldPath> hold_path(const LookAt& at);

/// The name that the kernel has for a held object now, or empty.
std::string name_of_held(const io::Fd& place);

struct OpenHow {
  /// Of open(2); never O_CREAT or O_TRUNC.
  int flags = 0;
};

/// The held file itself, opened. Errors: what the system says.
Result<io::Fd> open_held(const HeldPath& held, OpenHow how);

struct CreateHow {
  int flags = 0;
  unsigned mode = 0600;
};

/// Makes the file that was missing, in the directory that is held; one that is there by now is an
/// error (kConflict), whatever it is. Errors: kNotFound when more than the last name is missing.
Result<io::Fd> create_held(const HeldPath& held, CreateHow how);

}  // namespace sandboxkit::eyes
