#include "sandboxkit/gate.h"

#include "base/text.h"
#include "gate/path_rules.h"

#include <algorithm>
#include <utility>

namespace sandboxkit {
namespace {

using gate::Access;

/// What one branch said of one access.
struct Spoken {
  GateAnswer answer;
  GateBranch branch;
  std::string rule;
  std::string source;
  std::string reason;
};

/// Everything that a decision goes by, besides the access itself.
struct Judge {
  const std::vector<GateRule>& hardlocks;
  const GatePolicy& policy;
  const GateGrants& grants;
  const std::string& agent;
  PermissionMode mode;
  WallTime now;
};

bool only_reads(GateOperation operation) {
  return operation == GateOperation::kRead || operation == GateOperation::kList ||
         operation == GateOperation::kStat;
}

std::optional<Spoken> first_denial(const std::vector<GateRule>& rules, const Access& access,
                                   GateBranch branch) {
  for (const GateRule& rule : rules) {
    if (gate::denies(rule, access)) {
      return Spoken{GateAnswer::kDeny, branch, rule.path, rule.source, "denied"};
    }
    if (gate::takes_away(rule, access)) {
      return Spoken{GateAnswer::kDeny, branch, rule.path, rule.source, "contains_denied"};
    }
  }
  return std::nullopt;
}

/// What lies outside of any box has no legitimate use by an agent. Source: H7 to H9, H12.
std::optional<Spoken> built_in_denial(const Access& access) {
  using enum GateOperation;
  const bool locked = access.operation == kSignal || access.operation == kPtrace ||
                      access.operation == kMount || access.operation == kDevice ||
                      (access.operation == kEnv && gate::is_locked_variable(access.requested));
  if (!locked) {
    return std::nullopt;
  }
  return Spoken{GateAnswer::kDeny, GateBranch::kHardlock, name_of(access.operation), "built in",
                "denied"};
}

std::optional<Spoken> in_work_tree(const GatePolicy& policy, const Access& access) {
  using enum GateOperation;
  const std::string& path = access.seen.canonical;
  const bool silent = !gate::takes_path(access.operation) || access.operation == kUnix ||
                      (access.operation == kExec && !policy.box_is_active) ||
                      std::ranges::any_of(policy.exclusions, [&](const std::string& excluded) {
                        return gate::covers(excluded, path);
                      });
  if (silent) {
    return std::nullopt;
  }
  const bool needs_write = !only_reads(access.operation) && access.operation != kExec;
  for (const GateRoot& root : policy.roots) {
    if (gate::covers(root.path, path) && (!needs_write || root.access == RootAccess::kReadWrite)) {
      return Spoken{GateAnswer::kAllow, GateBranch::kWorkTree, root.path, "roots", "in_root"};
    }
  }
  return std::nullopt;
}

std::optional<Spoken> first_grant(const std::vector<GateGrant>& grants, const Judge& judge,
                                  const Access& access, GateBranch branch) {
  for (const GateGrant& grant : grants) {
    const bool live = judge.now < grant.expires && grant.agent == judge.agent &&
                      grant.rule.operations.contains(access.operation);
    const bool meant = gate::takes_path(access.operation)
                           ? gate::covers(grant.rule.path, access.seen.canonical)
                           : grant.rule.path == access.requested;
    if (live && meant) {
      return Spoken{GateAnswer::kAllow, branch, grant.id, grant.rule.source, "granted"};
    }
  }
  return std::nullopt;
}

/// The six branches, in the order of the document.
Spoken speak(const Judge& judge, const Access& access) {
  if (auto spoken = built_in_denial(access)) {
    return *spoken;
  }
  if (auto spoken = first_denial(judge.hardlocks, access, GateBranch::kHardlock)) {
    return *spoken;
  }
  if (auto spoken = first_denial(judge.policy.denials, access, GateBranch::kMandatoryDenial)) {
    return *spoken;
  }
  if (auto spoken = in_work_tree(judge.policy, access)) {
    return *spoken;
  }
  if (auto spoken =
          first_grant(judge.grants.permanent, judge, access, GateBranch::kPermanentGrant)) {
    return *spoken;
  }
  if (auto spoken = first_grant(judge.grants.session, judge, access, GateBranch::kSessionGrant)) {
    return *spoken;
  }
  const bool strict = judge.mode == PermissionMode::kStrict;
  return Spoken{strict ? GateAnswer::kDeny : GateAnswer::kAsk, GateBranch::kAsk, "", "",
                strict ? "strict" : "not_granted"};
}

GateItemDecision decision_of(const GateItem& item, const Access& access, Spoken spoken) {
  GateItemDecision decision;
  decision.operation = item.operation;
  decision.requested = access.requested;
  decision.canonical = access.seen.canonical;
  decision.answer = spoken.answer;
  decision.branch = spoken.branch;
  decision.rule = std::move(spoken.rule);
  decision.source = std::move(spoken.source);
  decision.reason = std::move(spoken.reason);
  return decision;
}

GateItemDecision unreadable(const GateItem& item, const char* reason) {
  GateItemDecision decision;
  decision.operation = item.operation;
  decision.requested = item.target;
  decision.reason = reason;
  return decision;
}

struct Part {
  GateOperation operation;
  const std::string& path;
};

/// What an item does, object by object. Source: design of the gate, 4.1.
std::vector<Part> parts_of(const GateItem& item) {
  using enum GateOperation;
  if (item.operation == kRename) {
    return {{kDelete, item.target}, {kCreate, item.to}, {kWrite, item.to}};
  }
  if (item.operation == kLink) {
    return {{kRead, item.target}, {kWrite, item.target}, {kCreate, item.to}};
  }
  if (item.operation == kSymlink) {
    return {{kCreate, item.target}};
  }
  return {{item.operation, item.target}};
}

bool is_malformed(const GateRequest& request, const GateItem& item) {
  const bool wants_to =
      item.operation == GateOperation::kRename || item.operation == GateOperation::kLink;
  return item.target.empty() || (wants_to && item.to.empty()) ||
         item.target.size() > gate::kMaxPathBytes || item.to.size() > gate::kMaxPathBytes ||
         item.target.find('\0') != std::string::npos || item.to.find('\0') != std::string::npos ||
         (item.operation == GateOperation::kExec && item.argv.empty()) ||
         !gate::is_plain_absolute(request.cwd);
}

GateItemDecision judge_item(const Judge& judge, const GateRequest& request, const GateItem& item,
                            const FileEyes& eyes) {
  if (is_malformed(request, item)) {
    return unreadable(item, "malformed");
  }
  std::optional<GateItemDecision> strictest;
  for (const Part& part : parts_of(item)) {
    Access access{.operation = part.operation, .requested = part.path, .seen = {}};
    if (gate::takes_path(part.operation)) {
      auto seen = eyes.look(request.cwd, part.path);
      if (!seen || !gate::is_plain_absolute(seen->canonical)) {
        return unreadable(item, "cannot_see");
      }
      access.requested = gate::plain_path(request.cwd, part.path);
      access.seen = std::move(*seen);
    }
    GateItemDecision decision = decision_of(item, access, speak(judge, access));
    if (!strictest || decision.answer < strictest->answer) {
      strictest = std::move(decision);
    }
  }
  return std::move(*strictest);
}

Error invalid(std::string field, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), {}, std::move(field)};
}

Status check_policy(const GateSelf& self, const GatePolicy& policy) {
  if (!gate::is_plain_absolute(self.state_dir)) {
    return invalid("state_dir", "state_dir must be an absolute, plain path");
  }
  for (std::size_t i = 0; i < policy.denials.size(); ++i) {
    const std::string field = "denials[" + std::to_string(i) + "]";
    if (!gate::is_plain_absolute(policy.denials[i].path) || policy.denials[i].operations.empty()) {
      return invalid(field, field + " needs an absolute, plain path and operations");
    }
  }
  for (std::size_t i = 0; i < policy.roots.size(); ++i) {
    const std::string field = "roots[" + std::to_string(i) + "]";
    const GateRoot& root = policy.roots[i];
    if (!gate::is_plain_absolute(root.path)) {
      return invalid(field, field + " must be an absolute, plain path");
    }
    if (root.access == RootAccess::kReadWrite && gate::covers(root.path, self.state_dir)) {
      return invalid(field, field + " " + quoted(root.path) + " covers the gate's own state");
    }
  }
  return {};
}

}  // namespace

PermissionGate::PermissionGate(std::vector<GateRule> hardlocks, GatePolicy policy,
                               PermissionMode mode)
    : hardlocks_(std::move(hardlocks)), policy_(std::move(policy)), mode_(mode) {}

Result<PermissionGate> PermissionGate::create(const GateSelf& self, GatePolicy policy,
                                              PermissionMode mode) {
  if (auto status = check_policy(self, policy); !status) {
    return status.error();
  }
  return PermissionGate(gate::hardlocks_of(self), std::move(policy), mode);
}

GateDecision PermissionGate::decide(const GateRequest& request, const GateGrants& grants,
                                    const FileEyes& eyes, WallTime now) const {
  GateDecision decision;
  if (mode_ == PermissionMode::kOff) {
    decision.answer = GateAnswer::kAllow;
    decision.judged = false;
    decision.decisive.answer = GateAnswer::kAllow;
    decision.decisive.branch = GateBranch::kAsk;
    decision.decisive.reason = "mode_off";
    return decision;
  }
  if (request.items.empty()) {
    decision.decisive.reason = "malformed";
    return decision;
  }
  const Judge judge{hardlocks_, policy_, grants, request.agent, mode_, now};
  for (const GateItem& item : request.items) {
    decision.items.push_back(judge_item(judge, request, item, eyes));
  }
  decision.decisive =
      *std::ranges::min_element(decision.items, std::ranges::less{}, &GateItemDecision::answer);
  decision.answer = decision.decisive.answer;
  return decision;
}

std::string explain(const GateDecision& decision) {
  if (!decision.judged) {
    return "allowed: the permission mode is off, so nothing was judged.";
  }
  const GateItemDecision& item = decision.decisive;
  std::string text = std::string(name_of(item.answer)) + ": " + name_of(item.operation) + " of " +
                     quoted(item.canonical.empty() ? item.requested : item.canonical) + " by " +
                     name_of(item.branch);
  if (!item.rule.empty()) {
    text += " " + quoted(item.rule);
  }
  if (!item.source.empty()) {
    text += " (" + item.source + ")";
  }
  return text + ", " + item.reason + ".";
}

}  // namespace sandboxkit
