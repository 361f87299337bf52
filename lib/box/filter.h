#pragma once

#include "sandboxkit/result.h"

#include <vector>

#include <linux/filter.h>

namespace sandboxkit::box {

struct FilterInput {
  /// AF_UNIX sockets may be made; pairs of them always.
  bool unix_sockets = false;
  /// What a sandbox of its own needs stays open.
  bool allow_nested = false;
};

/// The filter of system calls. It allows what it does not name: walls are the namespaces, and the
/// filter closes what they leave: other families of sockets than three, io_uring, keyrings, typing
/// into a terminal, new namespaces and mounts, and calls that only the machine's owner makes. A
/// call by another interface than this machine's own ends the process.
/// Errors: kUnavailable `box_unavailable`.
Result<std::vector<sock_filter>> make_filter(const FilterInput& input);

}  // namespace sandboxkit::box
