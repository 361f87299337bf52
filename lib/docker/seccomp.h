#pragma once

#include <string>

namespace sandboxkit::docker {

/// The element of `SecurityOpt` that says which system calls a container of ours may make.
///
/// Not the engine's own profile: before version 23 that one lets a container open AF_VSOCK sockets,
/// which reach the hypervisor of a worker that is a virtual machine, past any network; and before
/// 25 it lets io_uring open sockets that no filter of system calls sees.
const std::string& seccomp_option();

}  // namespace sandboxkit::docker
