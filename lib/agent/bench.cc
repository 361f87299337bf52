// What a request is judged by: the gate of the present mode and tree, and the present grants.

#include "agent/core.h"

#include <utility>

namespace sandboxkit {
namespace {

/// How old what was seen of denied places may be. See ProtectedObjects for what that can miss.
constexpr std::chrono::seconds kObjectsLife{1};

GateSession session_for(const agent::Core& core, const std::string& agent, FileIdentity tree) {
  GateSession session = core.options.session;
  session.agent = agent;
  session.tree_identity = tree;
  return session;
}

}  // namespace

/// Grants are for the tree that was there: another object under its path has none of them.
Result<FileIdentity> AgentSession::Impl::see_tree() {
  const std::string& path = core->options.session.tree;
  const auto seen = core->parts.eyes.look({.cwd = "/", .path = path});
  if (!seen || !seen->file || seen->file->type != FileType::kDirectory || seen->canonical != path) {
    return Error{ErrorCode::kUnavailable, "the work tree is gone", "tree_gone"};
  }
  const FileIdentity now = seen->file->identity;
  const auto lost = core->state.with([&](agent::Core::State& state) {
    const bool is_other = state.tree != now;
    state.tree = now;
    return is_other ? state.desk.forget_grants() : std::vector<std::string>();
  });
  if (!lost.empty()) {
    // What they allowed is over either way; a log that fails shows in every later call.
    static_cast<void>(core->trail.taken_back(
        {agent, core->state.with([](const agent::Core::State& state) { return state.mode; })},
        "tree_replaced"));
  }
  return now;
}

Status AgentSession::Impl::renew_gate(Compiled& compiled, const GateSession& session,
                                      PermissionMode mode) const {
  if (compiled.mode == mode && compiled.tree == session.tree_identity) {
    return {};
  }
  auto gate = PermissionGate::create(session, core->options.policy, mode);
  if (!gate) {
    return gate.error();
  }
  compiled = {};
  compiled.gate = std::make_shared<const PermissionGate>(std::move(*gate));
  compiled.mode = mode;
  compiled.tree = session.tree_identity;
  return {};
}

void AgentSession::Impl::renew_grants(Compiled& compiled, const Present& present) {
  if (compiled.permanent == present.permanent && compiled.generation == present.generation) {
    return;
  }
  auto grants = compiled.gate->compile(*present.permanent, present.session);
  compiled.problem.clear();
  if (!grants) {
    // One that cannot be read makes them all count for nothing.
    compiled.problem = grants.error().message;
    grants = compiled.gate->compile({}, present.session);
  }
  compiled.grants = grants ? std::move(*grants) : GateGrants();
  compiled.permanent = present.permanent;
  compiled.generation = present.generation;
}

/// What denials name is looked at once in a while and not for each request.
void AgentSession::Impl::see_objects(Bench& bench) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_fresh = compiled_.with([&](const Compiled& compiled) {
    bench.objects = compiled.objects;
    return compiled.gate == bench.gate && compiled.objects_seen &&
           now - *compiled.objects_seen < kObjectsLife;
  });
  if (is_fresh) {
    return;
  }
  bench.objects = bench.gate->look_at_protected(core->parts.eyes);
  compiled_.with([&](Compiled& compiled) {
    if (compiled.gate == bench.gate) {
      compiled.objects = bench.objects;
      compiled.objects_seen = now;
    }
  });
}

Result<AgentSession::Impl::Bench> AgentSession::Impl::bench(WallTime now) {
  const PermissionMode mode =
      core->state.with([](const agent::Core::State& state) { return state.mode; });
  FileIdentity tree = core->options.session.tree_identity;
  if (mode != PermissionMode::kOff) {
    const auto seen = see_tree();
    if (!seen) {
      return seen.error();
    }
    tree = *seen;
  }
  const GateSession session = session_for(*core, agent, tree);
  const GrantSnapshot snapshot = core->grants->snapshot();
  const Present present = core->state.with([&](const agent::Core::State& state) {
    return Present{snapshot.grants, state.desk.grants_of(agent, now), state.desk.generation()};
  });
  std::string problem = snapshot.problem;
  auto bench = compiled_.with([&](Compiled& compiled) -> Result<Bench> {
    if (auto status = renew_gate(compiled, session, mode); !status) {
      return status.error();
    }
    renew_grants(compiled, present);
    problem = problem.empty() ? compiled.problem : problem;
    return Bench{compiled.gate, compiled.grants, session, mode, present.generation, {}};
  });
  core->state.with([&](agent::Core::State& state) { state.grants_problem = problem; });
  if (bench && mode != PermissionMode::kOff) {
    see_objects(*bench);
  }
  return bench;
}

}  // namespace sandboxkit
