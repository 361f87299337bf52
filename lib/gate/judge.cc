#include "gate/judge.h"

#include "base/text.h"
#include "gate/path_text.h"
#include "gate/protection.h"
#include "gate/unwrap.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr std::uint32_t kSetuid = 04000;

GateItemDecision decision_of(const Access& access) {
  GateItemDecision decision;
  decision.operation = access.asked;
  decision.requested = access.spelled.empty() ? access.requested : access.spelled;
  decision.canonical = takes_path(access.operation) ? access.canonical.text : access.requested;
  decision.via = access.seen.links;
  return decision;
}

GateItemDecision deny(const Access& access, GateBranch branch, Denied denied) {
  GateItemDecision decision = decision_of(access);
  decision.branch = branch;
  decision.rule = std::move(denied.rule);
  decision.source = std::move(denied.source);
  decision.reason = std::move(denied.reason);
  if (!denied.via.empty() && std::ranges::find(decision.via, denied.via) == decision.via.end()) {
    decision.via.push_back(std::move(denied.via));
  }
  return decision;
}

GateItemDecision allow(const Access& access, GateBranch branch, const std::string& rule,
                       const char* reason) {
  GateItemDecision decision = decision_of(access);
  decision.answer = GateAnswer::kAllow;
  decision.branch = branch;
  decision.rule = rule;
  decision.reason = reason;
  return decision;
}

Denied built_in(std::string rule, const char* reason) {
  return Denied{std::move(rule), "built in", reason};
}

std::optional<EgressTarget> target_of(const Access& access) {
  auto target = EgressTarget::from_authority(access.requested);
  return target ? std::optional(std::move(*target)) : std::nullopt;
}

bool unshares_mounts(const std::vector<std::string>& words) {
  return base_name(words.front()) == "unshare" &&
         std::ranges::any_of(words, [](const std::string& word) {
           return word.starts_with("--mount") ||
                  (word.size() > 1 && word[0] == '-' && word[1] != '-' &&
                   word.find('m') != std::string::npos);
         });
}

/// Source: hardlock H7, H9.
std::optional<Denied> takes_privilege(const Access& access) {
  if (access.words.empty()) {
    return std::nullopt;
  }
  const bool is_setuid = access.seen.file && access.seen.file->type == FileType::kFile &&
                         (access.seen.file->mode & kSetuid) != 0;
  const std::string_view called = base_name(access.words.front());
  const std::string_view is = leaf_of(access.canonical.text);
  if (is_privilege_program(called) || is_privilege_program(is) || is_setuid ||
      unshares_mounts(access.words)) {
    return built_in(std::string(called), "privilege");
  }
  return std::nullopt;
}

/// Hardlocks that are no list of places.
std::optional<Denied> built_in_denial(const Access& access) {
  using enum GateOperation;
  switch (access.operation) {
    case kSignal:
    case kPtrace:
    case kMount:
    case kDevice:
    case kUnknown:
      return built_in(name_of(access.operation), "denied");
    case kEnv:
      return is_locked_variable(access.requested)
                 ? std::optional(built_in(access.requested, "denied"))
                 : std::nullopt;
    case kConnect: {
      const auto target = target_of(access);
      return target && is_metadata(*target)
                 ? std::optional(built_in(target->host(), "metadata_address"))
                 : std::nullopt;
    }
    case kExec:
      return takes_privilege(access);
    case kRead:
    case kList:
    case kStat:
    case kWrite:
    case kCreate:
    case kDelete:
    case kMeta:
    case kRename:
    case kLink:
    case kSymlink:
    case kUnix:
    case kListen:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Denied> denied_variable(const Judge& judge, const Access& access) {
  if (access.operation != GateOperation::kEnv) {
    return std::nullopt;
  }
  for (const std::string& pattern : judge.rules.denied_variables) {
    if (matches_name(ascii_lower(pattern), ascii_lower(access.requested))) {
      return Denied{pattern, "denied_variables", "denied"};
    }
  }
  return std::nullopt;
}

bool has_place(const Access& access) { return !access.canonical.text.empty(); }

std::optional<Denied> mandatory_denial(const Judge& judge, const Access& access,
                                       const Protection& protection) {
  if (auto denied = denied_variable(judge, access)) {
    return denied;
  }
  if (!takes_path(access.operation) || !has_place(access)) {
    return std::nullopt;
  }
  if (auto denied = takes_root_away(judge.rules, access)) {
    return denied;
  }
  if (auto denied = first_denial(judge.rules.denials, protection)) {
    return denied;
  }
  return access.operation == GateOperation::kExec ? std::nullopt
                                                  : in_bare_repository(access, judge.sight);
}

bool is_loopback_listen(const std::string& target) {
  const auto parsed = EgressTarget::from_authority(target);
  if (!parsed) {
    return false;
  }
  if (!parsed->address()) {
    return parsed->host() == "localhost";
  }
  const auto& address = *parsed->address();
  return address.is_v6 ? address.to_string() == "::1" : address.bytes[0] == 127;
}

/// In a box, whatever may be read may run, and the box answers for what it does.
std::optional<GateItemDecision> exec_in_box(const Judge& judge, const Access& access) {
  if (!judge.rules.session.box_is_active) {
    return std::nullopt;
  }
  if (!access.seen.file) {
    return allow(access, GateBranch::kWorkTree, "box", "box_answers");
  }
  // The program folders are the owner's own choice, wherever they lie, and closed for changes.
  if (!access.is_found_by_name &&
      !in_root(judge.rules, access.canonical.text, GateOperation::kExec)) {
    return std::nullopt;
  }
  return allow(access, GateBranch::kWorkTree, "box", access.is_opaque ? "box_answers" : "in_root");
}

/// Whether changes there are no matter of course.
bool is_excluded(const Judge& judge, const Access& access) {
  const std::vector<Rule>& exclusions = judge.rules.exclusions.all();
  const auto excludes = [&](const Rule& exclusion) {
    return exclusion.operations.has(access.operation) &&
           exclusion.pattern.matches(access.canonical);
  };
  if (judge.sight.narrowing() == Narrowing::kNone) {
    return std::ranges::any_of(exclusions, excludes);
  }
  Numbers numbers;
  judge.rules.exclusions.index().find(access.canonical, numbers);
  return std::ranges::any_of(numbers,
                             [&](std::uint32_t number) { return excludes(exclusions[number]); });
}

std::optional<GateItemDecision> path_in_tree(const Judge& judge, const Access& access) {
  const auto& link = access.seen.asked_link;
  if (is_excluded(judge, access)) {
    return std::nullopt;
  }
  if (!in_root(judge.rules, access.canonical.text, access.operation) ||
      (link && !in_root(judge.rules, *link, access.operation))) {
    return std::nullopt;
  }
  const auto root = std::ranges::find_if(
      judge.rules.roots, [&](const GateRoot& r) { return covers(r.path, access.canonical.text); });
  return allow(access, GateBranch::kWorkTree, root->path, "in_root");
}

/// Branch 3: what the session uses as a matter of course.
std::optional<GateItemDecision> matter_of_course(const Judge& judge, const Access& access) {
  using enum GateOperation;
  if (access.operation == kExec) {
    return exec_in_box(judge, access);
  }
  if (access.operation == kEnv) {
    const auto& allowed = judge.rules.allowed_variables;
    const bool passes = std::ranges::any_of(allowed, [&](const std::string& pattern) {
      return matches_name(pattern, access.requested);
    });
    return passes ? std::optional(allow(access, GateBranch::kWorkTree, "allowed_variables",
                                        "variable_allowed"))
                  : std::nullopt;
  }
  if (access.operation == kListen) {
    const bool is_private =
        judge.rules.session.box_is_active && is_loopback_listen(access.requested);
    return is_private ? std::optional(allow(access, GateBranch::kWorkTree, "box", "box_answers"))
                      : std::nullopt;
  }
  if (!takes_path(access.operation) || access.operation == kUnix) {
    return std::nullopt;
  }
  return path_in_tree(judge, access);
}

/// The egress policy is the owner's, and so as good as a permanent grant.
std::optional<GateItemDecision> egress_allows(const Judge& judge, const Access& access) {
  if (access.operation != GateOperation::kConnect || !judge.rules.egress) {
    return std::nullopt;
  }
  const auto target = target_of(access);
  if (!target) {
    return std::nullopt;
  }
  const EgressPolicy& policy = *judge.rules.egress;
  const EgressVerdict verdict = target->address()
                                    ? policy.decide_address(*target, *target->address())
                                    : policy.decide(*target);
  const bool allowed = verdict.allowed && policy.decide(*target).allowed;
  return allowed ? std::optional(
                       allow(access, GateBranch::kPermanentGrant, verdict.rule, "egress_allows"))
                 : std::nullopt;
}

GateItemDecision ask(const Judge& judge, const Access& access, const GrantSearch& permanent) {
  GateItemDecision decision = decision_of(access);
  decision.branch = GateBranch::kAsk;
  const bool is_strict = judge.mode == PermissionMode::kStrict;
  decision.answer = is_strict ? GateAnswer::kDeny : GateAnswer::kAsk;
  decision.reason = is_strict ? "strict" : access.is_opaque ? "opaque" : "not_granted";
  if (permanent.dead != nullptr) {
    decision.rule = permanent.dead->id;
    decision.source = "grants";
    decision.reason = is_strict ? "strict" : permanent.reason;
  }
  return decision;
}

GateItemDecision granted(const Access& access, GateBranch branch, const Grant& grant) {
  GateItemDecision decision = allow(access, branch, grant.id, "granted");
  decision.source = "grants";
  return decision;
}

}  // namespace

GateItemDecision refused(GateOperation operation, const std::string& requested,
                         const std::string& reason, const std::string& words) {
  GateItemDecision decision;
  decision.operation = operation;
  decision.requested = requested;
  decision.reason = reason;
  decision.source = "built in";
  if (!words.empty()) {
    decision.via.push_back(words);
  }
  return decision;
}

GateItemDecision judge_access(const Judge& judge, const Access& access) {
  if (auto denied = built_in_denial(access)) {
    return deny(access, GateBranch::kHardlock, std::move(*denied));
  }
  const bool has_objects = takes_path(access.operation) && has_place(access);
  const auto of_objects =
      has_objects ? rules_of_objects(access, judge.sight) : std::vector<const Rule*>();
  const Protection protection{judge.rules, access, of_objects, judge.sight.narrowing()};
  if (has_objects) {
    if (auto denied = first_denial(judge.rules.hardlocks, protection)) {
      return deny(access, GateBranch::kHardlock, std::move(*denied));
    }
  }
  if (auto denied = mandatory_denial(judge, access, protection)) {
    return deny(access, GateBranch::kMandatoryDenial, std::move(*denied));
  }
  if (auto decision = matter_of_course(judge, access)) {
    return std::move(*decision);
  }
  if (auto decision = egress_allows(judge, access)) {
    return std::move(*decision);
  }
  const GrantQuestion question{judge.rules, access, judge.sight, judge.now};
  const GrantSearch permanent = find_permanent(judge.grants.permanent, question);
  if (permanent.found != nullptr) {
    return granted(access, GateBranch::kPermanentGrant, *permanent.found);
  }
  const GrantSearch session = find_session(judge.grants.session, question);
  if (session.found != nullptr) {
    return granted(access, GateBranch::kSessionGrant, *session.found);
  }
  return ask(judge, access, permanent);
}

}  // namespace sandboxkit::gate
