#pragma once

#include "sandboxkit/box.h"

#include "gate/bwrap_arguments.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::box {

/// The system's bubblewrap.
struct BwrapProgram {
  std::string path;
  gate::BwrapVersion version;
};

/// What `bwrap --version` says. Errors: kUnavailable `bwrap_unavailable`.
Result<gate::BwrapVersion> parse_bwrap_version(std::string_view text);

/// Looks in the system's folders, never in PATH: root's file, that nobody else may write.
/// Errors: kUnavailable `bwrap_unavailable`. Blocking: for as long as it takes to say its version.
Result<BwrapProgram> find_bwrap();

/// A box that bubblewrap makes, for kernels that give mounts to its program alone.
struct BwrapBox {
  std::unique_ptr<Box> box;
  /// What it does not hold, in words; it is never as strong as the native one.
  std::vector<std::string> weaknesses{};
};

/// As Box::start, without terminal, listener, later grants, staged trees and homes of the host,
/// each of which is kInvalidArgument. Every place is compared with the object that was judged right
/// before, and not afterwards: bubblewrap finds it by its path again. That the command executes is
/// not waited for; a set-up that fails ends with code 1 and bubblewrap's words on its standard
/// error.
Result<BwrapBox> start_in_bwrap(const BwrapProgram& program, const BoxPlan& plan,
                                const BoxCommand& command, const BoxOptions& options);

}  // namespace sandboxkit::box
