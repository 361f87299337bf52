// From what an owner wrote to rules that are matched.

#include "sandboxkit/gate.h"

#include "base/text.h"
#include "gate/grants.h"
#include "gate/path_text.h"
#include "gate/platform.h"
#include "gate/rules.h"
#include "gate/unwrap.h"

#include <algorithm>
#include <utility>

namespace sandboxkit {
namespace {

using gate::Matching;
using gate::PathName;
using gate::PathPattern;

Error invalid(std::string field, std::string message, std::string reason = {}) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(reason),
               std::move(field)};
}

Status check_plain(const std::string& path, const std::string& field) {
  if (!gate::is_plain_absolute(path)) {
    return invalid(field, field + " " + quoted(path) + " must be an absolute, plain path");
  }
  return {};
}

Status check_session(const GateSession& session) {
  if (auto status = check_plain(session.tree, "tree"); !status) {
    return status;
  }
  if (auto status = check_plain(session.home, "home"); !status) {
    return status;
  }
  if (!session.scratch.empty()) {
    if (auto status = check_plain(session.scratch, "scratch"); !status) {
      return status;
    }
  }
  for (std::size_t i = 0; i < session.state_dirs.size(); ++i) {
    const std::string field = "state_dirs[" + std::to_string(i) + "]";
    if (auto status = check_plain(session.state_dirs[i], field); !status) {
      return status;
    }
  }
  return {};
}

/// A root must not take in what the gate protects as a whole.
Status check_root(const GateSession& session, const GateRoot& root, const std::string& field) {
  if (auto status = check_plain(root.path, field); !status) {
    return status;
  }
  if (gate::covers(root.path, session.home)) {
    return invalid(field, field + " " + quoted(root.path) +
                              " covers the home; name the project's directory below it");
  }
  for (const std::string& state : session.state_dirs) {
    if (gate::covers(root.path, state) || gate::covers(state, root.path)) {
      return invalid(field, field + " " + quoted(root.path) + " covers the gate's own state");
    }
  }
  return {};
}

Result<std::vector<gate::Rule>> compile_rules(const std::vector<GateRule>& rules,
                                              const gate::Anchors& anchors, Matching matching,
                                              const char* list) {
  std::vector<gate::Rule> compiled;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string field = std::string(list) + "[" + std::to_string(i) + "]";
    auto pattern = PathPattern::compile(rules[i].pattern, anchors, matching);
    if (!pattern) {
      return invalid(field, rules[i].source + ": " + pattern.error().message);
    }
    if (rules[i].operations.empty()) {
      return invalid(field, rules[i].source + " names no operation");
    }
    if (pattern->matches(PathName(anchors.home))) {
      return invalid(field, rules[i].source + ": pattern " + quoted(rules[i].pattern) +
                                " covers the home; name what is in it");
    }
    compiled.push_back(gate::Rule{std::move(*pattern), gate::OperationMask(rules[i].operations),
                                  rules[i].source, rules[i].spares_directories});
  }
  return compiled;
}

Result<std::vector<gate::Exception>> compile_exceptions(const GatePolicy& policy,
                                                        const gate::Anchors& anchors) {
  std::vector<gate::Exception> compiled;
  for (std::size_t i = 0; i < policy.exceptions.size(); ++i) {
    const GateException& exception = policy.exceptions[i];
    const std::string field = "exceptions[" + std::to_string(i) + "]";
    auto pattern = PathPattern::compile(exception.pattern, anchors, Matching::kExact);
    if (!pattern) {
      return invalid(field, field + ": " + pattern.error().message);
    }
    if (pattern->is_bare_name()) {
      return invalid(field, field + ": pattern " + quoted(exception.pattern) +
                                " is a name at any depth; an exception names a place");
    }
    if (exception.operations.empty() || pattern->matches(PathName(anchors.home))) {
      return invalid(field, field + " needs operations, and must not cover the home");
    }
    compiled.push_back(gate::Exception{std::move(*pattern),
                                       gate::OperationMask(exception.operations), exception.lifts});
  }
  return compiled;
}

/// What is looked for in the program folders must not be replaced there.
std::vector<GateRule> with_program_dirs(std::vector<GateRule> denials, const GateSession& session) {
  for (const std::string& directory : session.program_dirs) {
    const bool is_place = gate::is_plain_absolute(directory) && directory != "/" &&
                          !gate::covers(directory, session.home) &&
                          !gate::covers(directory, session.tree);
    if (is_place) {
      denials.push_back(GateRule{gate::escape_pattern(directory), gate::changing_operations(),
                                 "program folders"});
    }
  }
  return denials;
}

std::vector<GateRoot> all_roots(const GateSession& session, const GatePolicy& policy) {
  std::vector<GateRoot> roots{{session.tree, RootAccess::kReadWrite}};
  if (!session.scratch.empty()) {
    roots.push_back({session.scratch, RootAccess::kReadWrite});
  }
  roots.insert(roots.end(), policy.roots.begin(), policy.roots.end());
  for (const char* path : gate::kPlatform) {
    roots.push_back({path, RootAccess::kReadOnly});
  }
  for (const char* path : gate::kPlatformWritten) {
    roots.push_back({path, RootAccess::kReadWrite});
  }
  return roots;
}

Status check_roots(const GateSession& session, const GatePolicy& policy) {
  if (auto status = check_root(session, {session.tree, RootAccess::kReadWrite}, "tree"); !status) {
    return status;
  }
  for (std::size_t i = 0; i < policy.roots.size(); ++i) {
    const std::string field = "roots[" + std::to_string(i) + "]";
    if (auto status = check_root(session, policy.roots[i], field); !status) {
      return status;
    }
  }
  return {};
}

Error in_list(const char* list, std::size_t index, const Error& error) {
  const std::string at = std::string(list) + "[" + std::to_string(index) + "]";
  Error told = error;
  told.field = at + "." + error.field;
  told.message = at + ": " + error.message;
  return told;
}

}  // namespace

Result<PermissionGate> PermissionGate::create(GateSession session, GatePolicy policy,
                                              PermissionMode mode) {
  if (auto status = check_session(session); !status) {
    return status.error();
  }
  for (GateRoot& root : policy.roots) {
    if (root.path.starts_with("~/")) {
      root.path = session.home + root.path.substr(1);
    }
  }
  if (auto status = check_roots(session, policy); !status) {
    return status.error();
  }
  const gate::Anchors anchors{session.home, session.tree, session.scratch};
  auto hardlocks = gate::hardlocks_of(session, anchors);
  if (!hardlocks) {
    return hardlocks.error();
  }
  auto denials = compile_rules(with_program_dirs(std::move(policy.denials), session), anchors,
                               Matching::kFolded, "denials");
  if (!denials) {
    return denials.error();
  }
  auto exclusions = compile_rules(policy.exclusions, anchors, Matching::kFolded, "exclusions");
  if (!exclusions) {
    return exclusions.error();
  }
  auto exceptions = compile_exceptions(policy, anchors);
  if (!exceptions) {
    return exceptions.error();
  }
  auto roots = all_roots(session, policy);
  std::vector<std::string> own_roots{session.tree};
  for (const GateRoot& root : policy.roots) {
    own_roots.push_back(root.path);
  }
  auto rules = std::make_shared<Rules>(
      Rules{std::move(session), anchors, gate::RuleList(std::move(*hardlocks)),
            gate::RuleList(std::move(*denials)), std::move(*exceptions),
            gate::RuleList(std::move(*exclusions)), std::move(roots), std::move(own_roots),
            std::move(policy.denied_variables), std::move(policy.allowed_variables),
            std::move(policy.egress)});
  return PermissionGate(std::move(rules), mode);
}

Result<GateGrants> PermissionGate::compile(std::span<const PermanentGrant> permanent,
                                           std::span<const SessionGrant> session) const {
  auto compiled = std::make_shared<GateGrants::Compiled>();
  for (std::size_t i = 0; i < permanent.size(); ++i) {
    auto grant = gate::read_use(permanent[i].use, rules_->anchors);
    if (!grant) {
      return in_list("grants", i, grant.error());
    }
    grant->id = permanent[i].id;
    grant->tree = permanent[i].tree;
    grant->tree_identity = permanent[i].tree_identity;
    grant->agent = permanent[i].agent;
    grant->needs_box = permanent[i].needs_box;
    grant->expires = permanent[i].expires;
    compiled->permanent.grants.push_back(std::move(*grant));
  }
  for (std::size_t i = 0; i < session.size(); ++i) {
    auto grant = gate::read_use(session[i].use, rules_->anchors);
    if (!grant) {
      return in_list("session_grants", i, grant.error());
    }
    grant->id = session[i].id;
    grant->session = session[i].session;
    grant->agent = session[i].agent;
    grant->expires = session[i].expires;
    compiled->session.grants.push_back(std::move(*grant));
  }
  for (gate::GrantList* list : {&compiled->permanent, &compiled->session}) {
    list->index = gate::GrantIndex(list->grants);
  }
  return GateGrants(std::move(compiled));
}

}  // namespace sandboxkit
