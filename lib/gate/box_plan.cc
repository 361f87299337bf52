// From a gate's rules and grants to what a kernel is asked to enforce.

#include "sandboxkit/box_plan.h"

#include "base/text.h"
#include "gate/grants.h"
#include "gate/judge.h"
#include "gate/path_text.h"
#include "gate/place_finder.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace sandboxkit {
namespace {

using gate::Grant;
using gate::PathName;
using gate::Start;
using enum GateOperation;

// What a box makes anew. Source: design of the permission gate, 4.8.
constexpr const char* kOwnPlaces[] = {"/root", "/home",    "/run",     "/tmp",
                                      "/proc", "/var/tmp", "/dev/shm", "/dev"};

// Read by every program and too large to be looked through at each start.
constexpr std::string_view kNotSearched[] = {
    "/usr",    "/bin", "/sbin",      "/lib",    "/lib32",   "/lib64",
    "/libx32", "/opt", "/nix/store", "/System", "/Library", "/sys/devices/system/cpu",
};

bool is_made_by_box(std::string_view path) {
  return gate::covers("/proc", path) || gate::covers("/dev", path);
}

class PlanMaker {
 public:
  PlanMaker(const PermissionGate::Rules& rules, const GateGrants::Compiled& grants,
            const FileEyes& eyes, WallTime now)
      : rules_(rules),
        grants_(grants),
        eyes_(eyes),
        now_(now),
        sight_({rules, eyes, request_, gate::Narrowing::kIndexed, nullptr}) {}

  Result<BoxPlan> make(const BoxChoices& choices);

 private:
  Status add_roots();
  Status add_root(const GateRoot& root, bool is_platform);
  Status add_grants(std::span<const Grant> grants, GateBranch branch);
  Status add_grant(const Grant& grant, GateBranch branch);
  void add_granted(const Grant& grant, GateBranch branch, const std::string& path,
                   const FileFacts& facts);
  Status for_each_object(const Grant& grant,
                         const std::function<void(const std::string&, const FileFacts&)>& visit);
  Result<gate::Ground> ground() const;
  std::vector<BoxNameRule> names() const;
  bool reaches_changed_place(const gate::PathPattern& pattern) const;
  std::vector<std::string> variables(const std::vector<std::string>& names);
  std::optional<EgressPolicy> egress() const;
  void add_targets(std::vector<std::string>& domains, std::vector<std::string>& networks) const;
  bool allows(GateOperation operation, const std::string& target);

  const PermissionGate::Rules& rules_;
  const GateGrants::Compiled& grants_;
  const FileEyes& eyes_;
  WallTime now_;
  // Nothing is asked for here: what the session may use is told.
  const GateRequest request_{};
  gate::Sight sight_;
  std::vector<Start> starts_{};
  std::vector<std::string> sockets_{};
};

Status PlanMaker::add_root(const GateRoot& root, bool is_platform) {
  const auto seen = eyes_.look({.cwd = "/", .path = root.path, .last = LastLink::kKeep});
  if (!seen) {
    return Error{ErrorCode::kUnavailable,
                 "root " + quoted(root.path) + " cannot be looked at: " + seen.error().message};
  }
  // A root that is a link, or is reached through one, is no canonical path's root: the gate never
  // finds anything in it.
  const bool is_there = seen->file && seen->canonical == root.path &&
                        (seen->file->type == FileType::kDirectory || is_platform) &&
                        seen->file->type != FileType::kLink;
  if (is_there && !is_made_by_box(root.path)) {
    starts_.push_back(Start{
        .path = root.path,
        .facts = *seen->file,
        .access =
            root.access == RootAccess::kReadWrite ? BoxAccess::kReadWrite : BoxAccess::kReadOnly,
        .branch = GateBranch::kWorkTree,
        .rule = root.path,
        .is_searched =
            !is_platform || std::ranges::find(kNotSearched, root.path) == std::end(kNotSearched),
        .is_chosen = !is_platform});
  }
  return {};
}

Status PlanMaker::add_roots() {
  const auto chosen = [&](const GateRoot& root) {
    return root.path == rules_.session.scratch ||
           std::ranges::find(rules_.own_roots, root.path) != rules_.own_roots.end();
  };
  for (const GateRoot& root : rules_.roots) {
    if (auto status = add_root(root, !chosen(root)); !status) {
      return status;
    }
  }
  const bool is_tree = !starts_.empty() && starts_.front().path == rules_.session.tree &&
                       starts_.front().facts.identity == rules_.session.tree_identity;
  if (!is_tree) {
    return Error{ErrorCode::kConflict,
                 "the tree " + quoted(rules_.session.tree) +
                     " is not the directory that the session is for; begin a new session",
                 "tree_replaced", "tree"};
  }
  return {};
}

/// Calls `visit` for what is there now and is granted, not for what lies below that.
Status PlanMaker::for_each_object(
    const Grant& grant, const std::function<void(const std::string&, const FileFacts&)>& visit) {
  const gate::PathPattern& pattern = *grant.pattern;
  const auto seen = eyes_.look({.cwd = "/", .path = pattern.path(), .last = LastLink::kKeep});
  if (!seen) {
    return Error{ErrorCode::kUnavailable, "grant " + quoted(grant.id) + " of " +
                                              quoted(grant.use.target) +
                                              " cannot be looked at: " + seen.error().message};
  }
  // A pattern is compared with canonical paths alone: through a link it matches nothing.
  if (!seen->file || seen->canonical != pattern.path() || seen->file->type == FileType::kLink) {
    return {};
  }
  if (pattern.matches(PathName(pattern.path()))) {
    visit(pattern.path(), *seen->file);
    return {};
  }
  return eyes_.walk({.directory = pattern.path(), .skip_unreadable = true},
                    [&](const std::string& path, const FileFacts& facts) {
                      if (!pattern.matches(PathName(path))) {
                        return WalkStep::kInto;
                      }
                      if (facts.type != FileType::kLink) {
                        visit(path, facts);
                      }
                      return WalkStep::kPast;
                    });
}

/// Rights come in two sizes: to read, and to change as well.
void PlanMaker::add_granted(const Grant& grant, GateBranch branch, const std::string& path,
                            const FileFacts& facts) {
  const auto& use = grant.operations;
  if (use.has(kUnix) && facts.type == FileType::kSocket && allows(kUnix, path)) {
    sockets_.push_back(path);
  }
  const bool is_directory = facts.type == FileType::kDirectory;
  const bool changes = use.has(kWrite) && (!is_directory || (use.has(kCreate) && use.has(kDelete)));
  if ((changes || use.has(kRead)) && !is_made_by_box(path)) {
    starts_.push_back(Start{.path = path,
                            .facts = facts,
                            .access = changes ? BoxAccess::kReadWrite : BoxAccess::kReadOnly,
                            .branch = branch,
                            .rule = grant.id});
  }
}

Status PlanMaker::add_grant(const Grant& grant, GateBranch branch) {
  if (!grant.pattern || grant.pattern->path().empty()) {
    return {};
  }
  return for_each_object(grant, [&](const std::string& path, const FileFacts& facts) {
    add_granted(grant, branch, path, facts);
  });
}

Status PlanMaker::add_grants(std::span<const Grant> grants, GateBranch branch) {
  const bool is_permanent = branch == GateBranch::kPermanentGrant;
  for (const Grant& grant : grants) {
    const bool counts = is_permanent ? gate::counts_permanent(grant, rules_.session, now_)
                                     : gate::counts_session(grant, rules_.session, now_);
    if (counts) {
      if (auto status = add_grant(grant, branch); !status) {
        return status;
      }
    }
  }
  return {};
}

/// All that stands in `/` and is no matter of course is hidden.
Result<gate::Ground> PlanMaker::ground() const {
  gate::Ground ground;
  ground.own.assign(std::begin(kOwnPlaces), std::end(kOwnPlaces));
  ground.own.push_back(rules_.session.home);
  const auto is_known = [&](const std::string& path) {
    return std::ranges::find(ground.own, path) != ground.own.end() ||
           std::ranges::any_of(starts_, [&](const Start& start) { return start.path == path; });
  };
  const auto status = eyes_.walk({.directory = "/", .skip_unreadable = true},
                                 [&](const std::string& path, const FileFacts& facts) {
                                   if (facts.type != FileType::kLink && !is_known(path)) {
                                     ground.hidden.push_back(BoxPlace{.path = path,
                                                                      .access = BoxAccess::kHide,
                                                                      .identity = facts.identity,
                                                                      .type = facts.type,
                                                                      .branch = GateBranch::kAsk,
                                                                      .rule = "nothing allows it"});
                                   }
                                   return WalkStep::kPast;
                                 });
  return status ? Result<gate::Ground>(std::move(ground)) : Result<gate::Ground>(status.error());
}

bool PlanMaker::reaches_changed_place(const gate::PathPattern& pattern) const {
  return pattern.path().empty() || std::ranges::any_of(starts_, [&](const Start& start) {
           const PathName name(start.path);
           return start.access == BoxAccess::kReadWrite &&
                  (pattern.reaches_below(name) || pattern.matches(name) ||
                   gate::covers(start.path, pattern.path()));
         });
}

std::vector<BoxNameRule> PlanMaker::names() const {
  std::vector<BoxNameRule> found;
  const auto add = [&](const gate::Rule& rule, GateBranch branch) {
    const auto& use = rule.operations;
    const bool comes_to_be = use.has(kCreate) || use.has(kWrite);
    const bool hides = use.has(kRead) || use.has(kList) || use.has(kStat);
    if ((!comes_to_be && !hides) || !reaches_changed_place(rule.pattern)) {
      return;
    }
    BoxNameRule name{
        .pattern = rule.pattern.text(),
        .source = rule.source,
        .spares_directories = rule.spares_directories,
        .access = hides && branch != GateBranch::kAsk ? BoxAccess::kHide : BoxAccess::kReadOnly,
        .branch = branch};
    for (const gate::Exception& exception : rules_.exceptions) {
      const bool is_meant = exception.lifts.empty() || exception.lifts == rule.pattern.text();
      if (branch != GateBranch::kMandatoryDenial || !is_meant) {
        continue;
      }
      if (exception.operations.has(kCreate) && exception.operations.has(kWrite)) {
        name.except.push_back(exception.pattern.text());
      } else if (exception.operations.has(kRead) && hides) {
        name.except_reading.push_back(exception.pattern.text());
      }
    }
    found.push_back(std::move(name));
  };
  for (const gate::Rule& rule : rules_.hardlocks.all()) {
    add(rule, GateBranch::kHardlock);
  }
  for (const gate::Rule& rule : rules_.denials.all()) {
    add(rule, GateBranch::kMandatoryDenial);
  }
  for (const gate::Rule& rule : rules_.exclusions.all()) {
    add(rule, GateBranch::kAsk);
  }
  return found;
}

bool PlanMaker::allows(GateOperation operation, const std::string& target) {
  const gate::Judge judge{rules_, grants_, PermissionMode::kStrict, now_, sight_};
  const GateItem item{.operation = operation, .target = target};
  return gate::judge_item(judge, request_, item).answer == GateAnswer::kAllow;
}

std::vector<std::string> PlanMaker::variables(const std::vector<std::string>& names) {
  std::vector<std::string> passing;
  for (const std::string& name : names) {
    if (allows(kEnv, name)) {
      passing.push_back(name);
    }
  }
  std::ranges::sort(passing);
  passing.erase(std::unique(passing.begin(), passing.end()), passing.end());
  return passing;
}

/// Addresses that somebody granted, as entries of an allow-list.
void PlanMaker::add_targets(std::vector<std::string>& domains,
                            std::vector<std::string>& networks) const {
  const auto add = [&](const Grant& grant) {
    const auto target = grant.operations.has(kConnect)
                            ? EgressTarget::from_authority(grant.use.target)
                            : Result<EgressTarget>(Error{ErrorCode::kInvalidArgument, ""});
    if (!target || gate::is_metadata(*target)) {
      return;
    }
    const std::string port = ":" + std::to_string(target->port());
    if (const auto& address = target->address()) {
      networks.push_back(address->is_v6 ? "[" + address->to_string() + "/128]" + port
                                        : address->to_string() + "/32" + port);
    } else {
      domains.push_back(target->host() + port);
    }
  };
  for (const Grant& grant : grants_.permanent.grants) {
    if (gate::counts_permanent(grant, rules_.session, now_)) {
      add(grant);
    }
  }
  for (const Grant& grant : grants_.session.grants) {
    if (gate::counts_session(grant, rules_.session, now_)) {
      add(grant);
    }
  }
}

/// The owner's list with what was granted. A grant that no list can hold (a name of one label, say)
/// is left out: the box reaches less then.
std::optional<EgressPolicy> PlanMaker::egress() const {
  std::vector<std::string> domains;
  std::vector<std::string> networks;
  add_targets(domains, networks);
  std::optional<EgressPolicy> policy = rules_.egress;
  for (auto* wanted : {&domains, &networks}) {
    for (const std::string& entry : *wanted) {
      std::vector<std::string> names =
          policy ? policy->allowed_domains() : std::vector<std::string>();
      std::vector<std::string> blocks =
          policy ? policy->allowed_networks() : std::vector<std::string>();
      (wanted == &domains ? names : blocks).push_back(entry);
      auto wider = EgressPolicy::create(names, blocks);
      if (wider) {
        policy = policy && policy->strict_tls() ? wider->with_strict_tls() : std::move(*wider);
      }
    }
  }
  return policy;
}

Result<BoxPlan> PlanMaker::make(const BoxChoices& choices) {
  Status status = add_roots();
  if (status) {
    status = add_grants(grants_.permanent.grants, GateBranch::kPermanentGrant);
  }
  if (status) {
    status = add_grants(grants_.session.grants, GateBranch::kSessionGrant);
  }
  if (!status) {
    return status.error();
  }
  auto around = ground();
  if (!around) {
    return around.error();
  }
  BoxPlan plan{.names = names(),
               .tree = rules_.session.tree,
               .home = rules_.session.home,
               .scratch = rules_.session.scratch,
               .staged = choices.staged,
               .sockets = sockets_,
               .variables = variables(choices.host_variables),
               .egress = egress(),
               .allow_nested = choices.allow_nested};
  std::ranges::sort(plan.sockets);
  gate::PlaceFinder finder(rules_, eyes_, std::move(*around), starts_);
  finder.keep_sockets(plan.sockets);
  auto places = finder.find();
  if (!places) {
    return places.error();
  }
  plan.places = std::move(*places);
  return plan;
}

}  // namespace

const char* name_of(BoxAccess access) {
  switch (access) {
    case BoxAccess::kHide:
      return "hide";
    case BoxAccess::kReadOnly:
      return "read_only";
    case BoxAccess::kReadWrite:
      return "read_write";
    case BoxAccess::kPin:
      return "pin";
    case BoxAccess::kAbsent:
      return "absent";
  }
  return "hide";
}

Result<BoxPlan> PermissionGate::plan_box(const GateGrants& grants, const FileEyes& eyes,
                                         WallTime now, const BoxChoices& choices) const {
  if (mode_ == PermissionMode::kOff) {
    return Error{ErrorCode::kConflict, "the permission mode is off, so there is nothing to enforce",
                 "mode_off"};
  }
  if (!rules_->session.box_is_active) {
    return Error{ErrorCode::kConflict, "the session has no box; begin one that has", "no_box"};
  }
  return PlanMaker(*rules_, *grants.compiled_, eyes, now).make(choices);
}

}  // namespace sandboxkit
