#pragma once

#include "sandboxkit/gate.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

/// One thing that really happens to one object, taken apart from an item.
struct Access {
  GateOperation operation;
  /// As it was asked, made absolute and plain where it is a path.
  std::string requested;
  SeenPath seen;
};

inline constexpr std::size_t kMaxPathBytes = 4096;

std::set<GateOperation> every_operation();
std::set<GateOperation> changing_operations();

/// Whether the operation's target is a path.
bool takes_path(GateOperation operation);

/// Absolute, without `.`, `..`, empty components, a final slash (but `/`) or NUL.
bool is_plain_absolute(std::string_view path);

/// `path` joined to `cwd`, with `.`, `..` and double slashes taken out by text alone.
std::string plain_path(std::string_view cwd, std::string_view path);

/// Whether `path` is `directory` or lies below it; whole components, exact bytes.
bool covers(std::string_view directory, std::string_view path);

/// Denials look at every name of the object (as asked, canonical, each link), ignoring ASCII case,
/// and at its identity.
bool denies(const GateRule& rule, const Access& access);

/// The ancestor rule: taking away a directory takes away what is protected below it.
bool takes_away(const GateRule& rule, const Access& access);

/// Built-in protection of the gate itself and of the ways around it.
std::vector<GateRule> hardlocks_of(const GateSelf& self);

/// Whether a variable would take over a program's loading in the box, or the gate itself.
bool is_locked_variable(std::string_view name);

}  // namespace sandboxkit::gate
