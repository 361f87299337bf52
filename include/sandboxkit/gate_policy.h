#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/egress.h"
#include "sandboxkit/file_eyes.h"
#include "sandboxkit/gate_request.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

enum class PermissionMode : std::uint8_t {
  kOff,     ///< Nothing is judged; decisions say so.
  kPrompt,  ///< What no branch settles is asked.
  kStrict,  ///< What would be asked is denied.
};

SANDBOXKIT_API const char* name_of(PermissionMode mode);
SANDBOXKIT_API Result<PermissionMode> permission_mode_from(std::string_view name);

/// Places and what is said about them.
///
/// Patterns: `*` and `?` never match `/`, `**` stands for any number of whole components, `[a-z]`
/// for one character, `\` escapes. They begin with `/`, `~/`, `${tree}/` or `${scratch}/`; one
/// without any `/` is a name at any depth, which denials alone may be. A directory that matches
/// covers everything below it. Denials fold case and Unicode, whatever allows is exact.
struct GateRule {
  std::string pattern;
  std::set<GateOperation> operations;
  /// Where the rule stands, for explanations: `policy.json: deny[3]`, `shipped`.
  std::string source;
  /// A denial for the name itself and only while it is no directory (`.git`).
  bool spares_directories = false;
};

/// Lifts denials, and only those, for exact operations at canonical paths.
struct GateException {
  std::string pattern;
  std::set<GateOperation> operations;
  std::string source;
  /// The pattern of the one denial that it lifts; empty: every denial.
  std::string lifts{};
};

enum class RootAccess : std::uint8_t { kReadOnly, kReadWrite };

/// A directory that a session uses as a matter of course.
struct GateRoot {
  /// Absolute and canonical; `~/` at the front is the home.
  std::string path;
  RootAccess access;
};

/// What the machine's owner decided.
struct GatePolicy {
  std::vector<GateRule> denials{};
  std::vector<GateException> exceptions{};
  /// Places in the roots where changes are no matter of course (`.github/workflows`).
  std::vector<GateRule> exclusions{};
  std::vector<GateRoot> roots{};
  /// Names of variables, with `*`; ASCII case is folded.
  std::vector<std::string> denied_variables{};
  /// Names of variables that may pass, with `*`; exact.
  std::vector<std::string> allowed_variables{};
  /// What may be dialled as a matter of course; without it nothing.
  std::optional<EgressPolicy> egress{};

  /// The lists that come with sandboxkit: mandatory denials, exclusions, variables.
  SANDBOXKIT_API static GatePolicy shipped();
};

/// Whose session is judged, and where. Paths are absolute and canonical.
struct GateSession {
  /// The work tree, an rw root.
  std::string tree;
  /// Grants belong to this object and not only to its path.
  FileIdentity tree_identity;
  std::string home;
  std::string scratch{};
  std::string agent{};
  std::string session{};
  /// Policy, grants, keys, audit, sockets of the gate: closed for every operation.
  std::vector<std::string> state_dirs{};
  /// Patterns of our own programs and libraries: closed for changes.
  std::vector<std::string> own_files{};
  /// Where programs are looked for, in this order; closed for changes.
  std::vector<std::string> program_dirs{};
  /// Without a box that encloses children, no exec is a matter of course.
  bool box_is_active = false;
};

}  // namespace sandboxkit
