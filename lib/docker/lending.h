#pragma once

#include "sandboxkit/driver.h"

#include "egress/authority.h"

#include <span>
#include <string>

namespace sandboxkit::docker {

// The authority of one sandbox's lent secrets. Its key lies in the sandbox's folder on this host,
// for root alone and in no container, so that a worker or a proxy that starts again can go on
// serving a sandbox that trusts it. It is good for that sandbox's lent domains and believed in that
// sandbox alone. Secrets themselves are in no file.

/// Makes the authority for the domains of the order's secrets. Errors: as egress::make_authority.
Result<egress::CertifiedKey> make_lending(const SandboxOrder& order, WallTime now);
/// Keeps it in the sandbox's folder. Errors: kUnavailable when the file cannot be written.
Status keep_lending(const std::string& folder, const egress::CertifiedKey& authority);

/// The authority that was kept. Errors: kNotFound when there is none: the sandbox was made without
/// secrets.
Result<egress::CertifiedKey> read_lending(const std::string& folder);

/// The roots that prove the real servers: the file that the worker's option names.
/// Errors: kUnavailable with field `egress_ca_file`.
Result<std::string> read_roots(const std::string& path);

/// What the proxy is given (egress::write_secret_order).
std::string order_text(std::span<const LentSecret> secrets, const egress::CertifiedKey& authority,
                       const std::string& roots);

}  // namespace sandboxkit::docker
