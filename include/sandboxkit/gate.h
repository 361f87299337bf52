#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/gate_grant.h"
#include "sandboxkit/gate_policy.h"
#include "sandboxkit/gate_request.h"
#include "sandboxkit/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit {

struct BoxChoices;
struct BoxPlan;

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

/// What one item came to. Made by default it is a denial.
struct GateItemDecision {
  GateOperation operation = GateOperation::kUnknown;
  std::string requested{};
  std::string canonical{};
  GateAnswer answer = GateAnswer::kDeny;
  GateBranch branch = GateBranch::kHardlock;
  /// The pattern, grant or built-in rule that decided; empty when nothing did.
  std::string rule{};
  std::string source{};
  /// Stable name: `malformed`, `cannot_see`, `magic_link`, `denied`, `contains_denied`,
  /// `same_object`, `bare_repository`, `privilege`, `metadata_address`, `in_root`, `box_answers`,
  /// `variable_allowed`, `granted`, `egress_allows`, `not_granted`, `opaque`, `grant_expired`,
  /// `grant_stale`, `strict`, `mode_off`.
  std::string reason{};
  /// What led there: links and other names of the same object, and problems in words.
  std::vector<std::string> via{};
};

/// A decision with the item that made it first. Made by default it is a denial.
struct GateDecision {
  GateAnswer answer = GateAnswer::kDeny;
  /// False when the mode is off: nothing was judged.
  bool judged = true;
  /// The strictest item's, and every item's in the order of the request. A command is several
  /// items: its programs, variables, redirections, and whatever else in it is denied.
  GateItemDecision decisive{};
  std::vector<GateItemDecision> items{};
};

/// The decision in one sentence for the machine's owner; never for the agent, as it names rules.
SANDBOXKIT_API std::string explain(const GateDecision& decision);

namespace gate {
struct PlainScan;
}  // namespace gate

/// Grants, ready to be matched. Thread-safety: immutable.
class SANDBOXKIT_API GateGrants {
 public:
  GateGrants();
  struct Compiled;

 private:
  friend class PermissionGate;
  friend struct gate::PlainScan;
  explicit GateGrants(std::shared_ptr<const Compiled> compiled);
  // Shared, because it is immutable and goes to every session of an agent.
  std::shared_ptr<const Compiled> compiled_;
};

/// The objects that a gate's literal denials name (`~/.ssh` ...), as somebody saw them at one
/// moment. Looking at them is most of what a decision costs, so they can be kept over several; who
/// keeps them decides for how long.
///
/// What an old one misses: a denied place that was made, replaced or pointed elsewhere since, while
/// it is reached under a name that is not denied itself (another mount, what a link at the denied
/// place points at). Every denied name stays denied, and other hard links of protected files are
/// looked for by each decision. Where that is too little, take one for each request, or none.
///
/// Thread-safety: immutable. Made by default it is of no gate: each decision looks by itself.
class SANDBOXKIT_API ProtectedObjects {
 public:
  ProtectedObjects() = default;
  struct Seen;

 private:
  friend class PermissionGate;
  explicit ProtectedObjects(std::shared_ptr<const Seen> seen);
  // Shared, because it is immutable and goes to every thread that decides.
  std::shared_ptr<const Seen> seen_{};
};

/// Judges what an agent may do on a person's machine.
///
/// Thread-safety: immutable; const members may be called from any thread.
class SANDBOXKIT_API PermissionGate {
 public:
  /// Errors: kInvalidArgument with the field's path: a pattern that cannot be read, that covers `/`
  /// or the home, or never matches; a path that is not absolute and plain; a root that covers the
  /// home or the gate's own state.
  static Result<PermissionGate> create(GateSession session, GatePolicy policy, PermissionMode mode);

  /// Reads grants that somebody kept. One that a denial shadows is dead and no error here.
  /// Errors: kInvalidArgument with the field (`grants[3].target`).
  Result<GateGrants> compile(std::span<const PermanentGrant> permanent,
                             std::span<const SessionGrant> session) const;

  /// Whether a person may be given this grant at all.
  /// Errors: kInvalidArgument `shadowed` when a hardlock or a denial speaks before it, `too_wide`
  /// when it covers the home, a root's parent or more, `runner` for a prefix of a program that runs
  /// other programs; and what `compile` finds.
  Status check_new(const GrantedUse& use) const;

  /// What the literal denials name now. Never fails: what cannot be seen has no object, and its
  /// name stays denied.
  ProtectedObjects look_at_protected(const FileEyes& eyes) const;

  /// Pure but for what `eyes` see. It advises: between the decision and the use of a path somebody
  /// may swap it; who opens files must open the object that was judged. `objects` of another gate
  /// count as none.
  GateDecision decide(const GateRequest& request, const GateGrants& grants, const FileEyes& eyes,
                      WallTime now, const ProtectedObjects& objects = {}) const;

  /// The same rules and grants for a kernel, with every `ask` a denial. Pure but for what `eyes`
  /// see; it shows how the machine is now, and a back end refuses places that are not the same.
  ///
  /// The rw places, the owner's roots, granted places and `/etc` are looked through to their end;
  /// what every program reads besides (`/usr`, `/opt` ...) is not, and names that are hidden at any
  /// depth stay readable there. Rights come in two sizes, to read and to change: a denial of a part
  /// of one denies it whole. A grant of `write` changes a file; a directory takes `write`, `create`
  /// and `delete`, and is not changed with less.
  /// Limits: kMaxPlaces places. Errors: kConflict when the mode is off or the session has no box,
  /// or when the tree is not the object that the session is for; kTooLarge; and whatever keeps the
  /// look from being complete. Blocking: as `eyes` do.
  Result<BoxPlan> plan_box(const GateGrants& grants, const FileEyes& eyes, WallTime now,
                           const BoxChoices& choices) const;
  static constexpr std::size_t kMaxPlaces = 20'000;

  PermissionMode mode() const { return mode_; }

  struct Rules;

 private:
  friend struct gate::PlainScan;
  PermissionGate(std::shared_ptr<const Rules> rules, PermissionMode mode);
  // Shared, because compiled rules are immutable.
  std::shared_ptr<const Rules> rules_;
  PermissionMode mode_;
};

}  // namespace sandboxkit
