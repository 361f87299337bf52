#pragma once

#include "sandboxkit/box_plan.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sandboxkit::gate {

/// `bubblewrap 0.8.0`.
struct BwrapVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const BwrapVersion&) const = default;
};

struct BwrapInput {
  const BoxPlan& plan;
  BwrapVersion version;
  /// Absolute, as seen in the box.
  std::string cwd;
  /// `NAME=VALUE`, and nothing else is there.
  const std::vector<std::string>& environment;
  /// Canonical paths of /home, /root, /run, /tmp, /var/tmp as this machine has them.
  std::vector<std::string> own_places;
  /// Files of the host that stand in for others: an empty one that nobody may read, and an empty
  /// one that can be read.
  std::string closed_file;
  std::string blank_file;
  /// Something stands at every absent name already: bubblewrap need not make it.
  bool has_placeholders = false;
  /// A filter of system calls stands at this descriptor; -1: none.
  int filter_fd = -1;
};

/// A plan as bubblewrap's arguments, without the program and the command.
struct BwrapArguments {
  static constexpr std::size_t kMax = 9000;  ///< bubblewrap's own.
  std::vector<std::string> arguments{};
  /// What this back end does not hold, in words.
  std::vector<std::string> weaknesses{};

  /// For `--args FD`: each with a NUL behind it.
  std::string joined() const;
};

/// Errors: kInvalidArgument for a staged plan, a place that is not canonical, or a text with a NUL;
/// kTooLarge for more than kMax arguments; kUnavailable `bwrap_too_old` before 0.12 when a mount
/// point would have to be made below a place that can be written, where it would follow the
/// agent's links on the host. Source: design of the permission gate, 2.4 and 4.8.
Result<BwrapArguments> bwrap_arguments(const BwrapInput& input);

}  // namespace sandboxkit::gate
