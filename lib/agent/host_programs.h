#pragma once

#include "sandboxkit/gate_policy.h"

#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::agent {

/// Patterns of our own programs and libraries, wherever they were installed.
std::vector<std::string> own_files();

/// The folders of a PATH (empty: the usual one) in which nobody but the owner puts programs: none
/// of the tree.
std::vector<std::string> program_dirs(const std::string& tree, std::string_view path);

/// The tree and the owner's roots, `~/` as the session's home.
std::vector<std::string> roots_of(const GateSession& session, const GatePolicy& policy);

}  // namespace sandboxkit::agent
