#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// What an agent wants to do. Source: design of the permission gate, 4.1.
enum class GateOperation : std::uint8_t {
  kRead,
  kList,
  kStat,
  kWrite,
  kCreate,
  kDelete,
  kMeta,     ///< chmod, chown, utimes, extended attributes.
  kRename,   ///< Judged as a delete of the source and a create and write of the target.
  kLink,     ///< Judged as read and write of the source and a create of the link.
  kSymlink,  ///< Judged as a create; the text of the link is judged when it is used.
  kExec,
  kEnv,      ///< Pass a variable of the host into the box.
  kConnect,  ///< `host:port`.
  kUnix,     ///< A unix socket's path; apart from read and write on purpose.
  kListen,   ///< `address:port`.
  kSignal,
  kPtrace,
  kMount,
  kDevice,
};

SANDBOXKIT_API const char* name_of(GateOperation operation);
SANDBOXKIT_API Result<GateOperation> gate_operation_from(std::string_view name);

/// The six branches, in their order: the first that speaks decides.
enum class GateBranch : std::uint8_t {
  kHardlock,         ///< Protects the gate itself. Compiled in; nobody can lift it.
  kMandatoryDenial,  ///< Protects the user's assets. The owner's file, never a prompt.
  kWorkTree,         ///< What the session may use as a matter of course.
  kPermanentGrant,
  kSessionGrant,
  kAsk,
};

SANDBOXKIT_API const char* name_of(GateBranch branch);

/// Strictest first, so that the smallest of several answers is the request's.
enum class GateAnswer : std::uint8_t { kDeny, kAsk, kAllow };

SANDBOXKIT_API const char* name_of(GateAnswer answer);

enum class PermissionMode : std::uint8_t {
  kOff,     ///< Nothing is judged; decisions say so.
  kPrompt,  ///< What no branch settles is asked.
  kStrict,  ///< What would be asked is denied.
};

SANDBOXKIT_API const char* name_of(PermissionMode mode);
SANDBOXKIT_API Result<PermissionMode> permission_mode_from(std::string_view name);

/// One operation with what it is aimed at.
struct GateItem {
  GateOperation operation;
  /// A path, a variable's name, `host:port`, or the program of an exec, as it was asked.
  std::string target;
  /// The new path of a rename or link, the text of a symlink; else empty.
  std::string to{};
  /// Of an exec, the program's own name first.
  std::vector<std::string> argv{};
};

/// What is decided as one: the strictest item wins, all items are judged.
struct GateRequest {
  /// Absolute; the base of relative paths.
  std::string cwd;
  std::vector<GateItem> items;
  std::string agent{};
  /// The agent's own words: shown, never trusted.
  std::string why{};
};

/// Which file it is, whatever it is called.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

/// A path after somebody looked: one name without links, and the names that led there.
struct SeenPath {
  std::string canonical;
  /// Every link on the way, as a path.
  std::vector<std::string> links{};
  /// Empty when it does not exist; then `canonical` is the parent's canonical path and the name.
  std::optional<FileIdentity> identity{};
};

/// Looks at the file system for the gate, which itself never does.
/// Thread-safety: any thread.
class SANDBOXKIT_API FileEyes {
 public:
  virtual ~FileEyes() = default;
  /// Errors: whatever keeps it from being certain; the gate denies then.
  virtual Result<SeenPath> look(const std::string& cwd, const std::string& path) const = 0;
};

/// A place and what is said about it. The path is absolute and canonical; a directory covers
/// everything below it.
struct GateRule {
  std::string path;
  std::set<GateOperation> operations;
  /// Known identity of the object: a denial holds for it under any name.
  std::optional<FileIdentity> identity{};
  /// Where the rule stands, for explanations: `policy.json:37`, `built in`.
  std::string source{};
};

enum class RootAccess : std::uint8_t { kReadOnly, kReadWrite };

/// A directory that a session uses as a matter of course.
struct GateRoot {
  std::string path;
  RootAccess access;
};

/// What the machine's owner decided for a session.
struct GatePolicy {
  std::vector<GateRule> denials{};
  std::vector<GateRoot> roots{};
  /// Places in the roots where branch 3 stays silent (`.github/workflows`).
  std::vector<std::string> exclusions{};
  /// Without a box that encloses children, no exec is a matter of course.
  bool box_is_active = false;
};

/// What the gate must protect of itself.
struct GateSelf {
  /// Policy, grants, keys, audit, sockets: closed for every operation.
  std::string state_dir;
  /// Our own programs and libraries: closed for changes.
  std::vector<std::string> install_dirs{};
};

/// An allowance that a person gave. Matches canonical paths, and other targets as a whole text.
struct GateGrant {
  std::string id;
  GateRule rule;
  /// The agent it was given to.
  std::string agent;
  WallTime expires;
};

struct GateGrants {
  std::vector<GateGrant> permanent{};
  std::vector<GateGrant> session{};
};

/// What one item came to. Made by default it is a denial.
struct GateItemDecision {
  GateOperation operation = GateOperation::kRead;
  std::string requested{};
  std::string canonical{};
  GateAnswer answer = GateAnswer::kDeny;
  GateBranch branch = GateBranch::kHardlock;
  /// The path, grant or built-in rule that decided; empty when nothing did.
  std::string rule{};
  std::string source{};
  /// Stable name: `malformed`, `cannot_see`, `denied`, `contains_denied`, `in_root`, `granted`,
  /// `not_granted`, `strict`, `mode_off`.
  std::string reason{};
};

/// A decision with the item that made it first. Made by default it is a denial.
struct GateDecision {
  GateAnswer answer = GateAnswer::kDeny;
  /// False when the mode is off: nothing was judged.
  bool judged = true;
  /// The strictest item's, and every item's in the order of the request.
  GateItemDecision decisive{};
  std::vector<GateItemDecision> items{};
};

/// The decision in one sentence for the machine's owner; never for the agent, as it names rules.
SANDBOXKIT_API std::string explain(const GateDecision& decision);

/// Judges what an agent may do on a person's machine.
///
/// Thread-safety: immutable; const members may be called from any thread.
class SANDBOXKIT_API PermissionGate {
 public:
  /// Errors: kInvalidArgument with the field's path: a path that is not absolute and plain, a root
  /// that covers the gate's own state, an empty set of operations.
  static Result<PermissionGate> create(const GateSelf& self, GatePolicy policy,
                                       PermissionMode mode);

  /// Pure but for what `eyes` see. `check` only: between the decision and the use of a path
  /// somebody may swap it; who opens files must open the object that was judged.
  GateDecision decide(const GateRequest& request, const GateGrants& grants, const FileEyes& eyes,
                      WallTime now) const;

  PermissionMode mode() const { return mode_; }

 private:
  PermissionGate(std::vector<GateRule> hardlocks, GatePolicy policy, PermissionMode mode);
  std::vector<GateRule> hardlocks_;
  GatePolicy policy_;
  PermissionMode mode_;
};

}  // namespace sandboxkit
