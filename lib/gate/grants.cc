#include "gate/grants.h"

#include "base/text.h"
#include "gate/path_text.h"
#include "gate/unwrap.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::gate {
namespace {

Error invalid(const char* field, const std::string& message, const char* reason = "") {
  return Error{ErrorCode::kInvalidArgument, message, reason, field};
}

bool is_path_use(const GrantedUse& use) {
  return std::ranges::any_of(use.operations, [](GateOperation operation) {
    return takes_path(operation) && operation != GateOperation::kExec;
  });
}

bool same_words(const Grant& grant, const Access& access) {
  const auto& granted = grant.use.argv;
  const auto& asked = access.words;
  const bool fits =
      grant.use.argv_is_prefix ? asked.size() >= granted.size() : asked.size() == granted.size();
  // The program itself is compared as a file, whatever it was called.
  return fits && !asked.empty() &&
         std::equal(granted.begin() + 1, granted.end(), asked.begin() + 1);
}

bool same_program(const Grant& grant, const GrantQuestion& question) {
  if (!question.access.seen.file) {
    return false;
  }
  const std::string& word = grant.use.target.empty() ? grant.use.argv.front() : grant.use.target;
  const auto program = question.sight.program("/", word);
  return program && program->file && program->canonical == question.access.seen.canonical;
}

bool meets_path(const Grant& grant, const GrantQuestion& question) {
  const Access& access = question.access;
  if (!grant.pattern || !grant.pattern->matches(access.canonical)) {
    return false;
  }
  // A link that the asked path itself is must be allowed as well as what it points at.
  const auto& link = access.seen.asked_link;
  return !link || grant.pattern->matches(PathName(*link)) ||
         in_root(question.rules, *link, access.operation);
}

bool is_meant(const Grant& grant, const GrantQuestion& question) {
  const Access& access = question.access;
  if (!grant.operations.has(access.operation) && !grant.operations.has(access.asked)) {
    return false;
  }
  if (access.operation == GateOperation::kExec) {
    return !access.is_opaque && !grant.use.argv.empty() && same_words(grant, access) &&
           same_program(grant, question);
  }
  return takes_path(access.operation) ? meets_path(grant, question)
                                      : grant.use.target == access.requested;
}

bool is_over(const Grant& grant, WallTime now) { return grant.expires && *grant.expires <= now; }

bool is_anothers(const Grant& grant, const GateSession& session) {
  return grant.agent != session.agent || grant.tree != session.tree ||
         (grant.needs_box && !session.box_is_active);
}

bool is_for_session(const Grant& grant, const GateSession& session) {
  return grant.session == session.session && grant.agent == session.agent;
}

/// Takes one grant into account; true when it is the one.
bool weigh(const Grant& grant, const GrantQuestion& question, auto why_dead, GrantSearch& result) {
  if (!is_meant(grant, question)) {
    return false;
  }
  const char* dead = is_over(grant, question.now) ? "grant_expired" : why_dead(grant);
  if (dead == nullptr) {
    result.found = &grant;
    return true;
  }
  if (dead[0] != '\0' && result.dead == nullptr) {
    result.dead = &grant;
    result.reason = dead;
  }
  return false;
}

GrantSearch search(const GrantList& list, const GrantQuestion& question, auto why_dead) {
  GrantSearch result;
  if (question.sight.narrowing() == Narrowing::kNone) {
    std::ranges::any_of(
        list.grants, [&](const Grant& grant) { return weigh(grant, question, why_dead, result); });
    return result;
  }
  std::ranges::any_of(list.index.find(question.access), [&](std::uint32_t number) {
    return weigh(list.grants[number], question, why_dead, result);
  });
  return result;
}

}  // namespace

Result<Grant> read_use(const GrantedUse& use, const Anchors& anchors) {
  if (use.operations.empty() || use.operations.contains(GateOperation::kUnknown)) {
    return invalid("op", "op must name the operations that are granted");
  }
  const bool is_exec = use.operations.contains(GateOperation::kExec);
  if (is_exec && (use.operations.size() > 1 || use.argv.empty())) {
    return invalid("argv",
                   "a grant of exec names the words of its command, and no other operation");
  }
  if (!is_exec && !use.argv.empty()) {
    return invalid("argv", "argv belongs to a grant of exec");
  }
  Grant grant{.id = {}, .operations = OperationMask(use.operations)};
  grant.use = use;
  if (is_path_use(use)) {
    if (use.target.find('/') == std::string::npos) {
      return invalid("target", "target " + quoted(use.target) +
                                   " must hold a `/`: a grant is for a place and not for a name");
    }
    auto pattern = PathPattern::compile(use.target, anchors, Matching::kExact);
    if (!pattern) {
      return invalid("target", pattern.error().message);
    }
    grant.pattern = std::move(*pattern);
  } else if (!is_exec && use.target.empty()) {
    return invalid("target", "target must not be empty");
  }
  return grant;
}

bool in_root(const PermissionGate::Rules& rules, const std::string& path, GateOperation operation) {
  const bool needs_write = !only_reads(operation) && operation != GateOperation::kExec;
  return std::ranges::any_of(rules.roots, [&](const GateRoot& root) {
    return covers(root.path, path) && (!needs_write || root.access == RootAccess::kReadWrite);
  });
}

GrantSearch find_permanent(const GrantList& list, const GrantQuestion& question) {
  const GateSession& session = question.rules.session;
  return search(list, question, [&](const Grant& grant) -> const char* {
    if (is_anothers(grant, session)) {
      return "";
    }
    return grant.tree_identity == session.tree_identity ? nullptr : "grant_stale";
  });
}

GrantSearch find_session(const GrantList& list, const GrantQuestion& question) {
  return search(list, question, [&](const Grant& grant) -> const char* {
    return is_for_session(grant, question.rules.session) ? nullptr : "";
  });
}

bool counts_permanent(const Grant& grant, const GateSession& session, WallTime now) {
  return !is_over(grant, now) && !is_anothers(grant, session) &&
         grant.tree_identity == session.tree_identity;
}

bool counts_session(const Grant& grant, const GateSession& session, WallTime now) {
  return !is_over(grant, now) && is_for_session(grant, session);
}

}  // namespace sandboxkit::gate
