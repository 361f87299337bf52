#include "sandboxkit/agent_session.h"

#include "agent/core.h"
#include "agent/state_folder.h"
#include "base/random.h"
#include "base/text.h"
#include "eyes/hold.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace sandboxkit {
namespace {

constexpr std::size_t kMaxNameBytes = 256;
constexpr const char* kPartialBox = "partial";

Error invalid(const char* field, const std::string& message, const char* reason = "") {
  return Error{ErrorCode::kInvalidArgument, std::string(field) + " " + message, reason, field};
}

Status check_name(const char* field, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes || !is_utf8(name)) {
    return invalid(field, "must be 1 to " + std::to_string(kMaxNameBytes) + " bytes of UTF-8");
  }
  return {};
}

/// Source: the table of modes, 4.3: strict needs a whole box.
Status check_mode(PermissionMode mode, const AgentSessionOptions& options) {
  const bool has_box = options.session.box_is_active && options.box.strength != kPartialBox;
  if (mode == PermissionMode::kStrict && !has_box) {
    return invalid("mode", "`strict` needs a box that encloses everything, and there is none",
                   "no_box");
  }
  return {};
}

/// The tree and the owner's roots, none of which may hold the gate's own folder.
std::vector<std::string> roots_of(const AgentSessionOptions& options) {
  std::vector<std::string> roots{options.session.tree};
  for (const GateRoot& root : options.policy.roots) {
    roots.push_back(root.path.starts_with("~/") ? options.session.home + root.path.substr(1)
                                                : root.path);
  }
  return roots;
}

Status check(const AgentSessionOptions& options) {
  for (const auto& [field, name] :
       {std::pair("session", options.session.session), std::pair("agent", options.session.agent)}) {
    if (auto status = check_name(field, name); !status) {
      return status;
    }
  }
  if (options.ask_timeout.count() <= 0 || options.ask_timeout > kMaxAskTimeout) {
    return invalid("ask_timeout", "must be more than nothing, and an hour at most");
  }
  if (auto status = check_mode(options.mode, options); !status) {
    return status;
  }
  const auto gate = PermissionGate::create(options.session, options.policy, options.mode);
  if (!gate) {
    return gate.error();
  }
  for (const GrantedUse& use : options.granted) {
    if (auto status = gate->check_new(use); !status) {
      return status;
    }
  }
  return {};
}

}  // namespace

agent::Core::Core(AgentSessionOptions given, const AgentSessionParts& with,
                  std::unique_ptr<audit::Writer> log)
    : options(std::move(given)),
      parts(with),
      writer(std::move(log)),
      trail(*writer, options),
      grants(with.grants),
      state(State{.desk = gate::Desk(options.session.session, true),
                  .mode = options.mode,
                  .tree = options.session.tree_identity}) {}

AgentSession::AgentSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AgentSession::~AgentSession() {
  if (impl_->is_first) {
    end();
  }
}

namespace {

/// Makes the folder, and closes it for the agent under the name that the kernel has for it.
Status close_state_folder(AgentSessionOptions& options) {
  const auto folder = agent::open_state_folder(options.state_folder, roots_of(options));
  if (!folder) {
    return folder.error();
  }
  options.state_folder = eyes::name_of_held(*folder);
  options.session.state_dirs.push_back(options.state_folder);
  return {};
}

Status open_store(agent::Core& core) {
  if (core.grants != nullptr) {
    return {};
  }
  core.grant_log.emplace(core.options.state_folder, *core.writer);
  auto store =
      GrantStore::open({.folder = core.options.state_folder, .roots = roots_of(core.options)},
                       *core.grant_log, core.parts.clock);
  if (!store) {
    return store.error();
  }
  core.store = std::move(*store);
  core.stored.emplace(*core.store);
  core.grants = &*core.stored;
  return {};
}

Status note_start(agent::Core& core) {
  const agent::Actor actor{core.options.session.agent, core.options.mode};
  if (core.options.mode != PermissionMode::kOff) {
    if (auto noted = core.trail.policy_loaded(actor); !noted) {
      return noted;
    }
  }
  return core.trail.mode_set(actor);
}

Status give_first_grants(agent::Core& core) {
  const auto& uses = core.options.granted;
  if (uses.empty()) {
    return {};
  }
  const std::string& agent = core.options.session.agent;
  const auto noted = core.trail.given({agent, core.options.mode},
                                      {.id = "start", .uses = uses, .reason = "start", .by = ""});
  if (!noted) {
    return noted;
  }
  const WallTime now = core.parts.clock.now();
  return core.state.with(
      [&](agent::Core::State& state) { return state.desk.give(agent, uses, now); });
}

}  // namespace

Result<std::unique_ptr<AgentSession>> AgentSession::start(AgentSessionOptions options,
                                                          const AgentSessionParts& parts) {
  if (auto status = sandboxkit::check(options); !status) {
    return status.error();
  }
  if (auto status = close_state_folder(options); !status) {
    return status.error();
  }
  auto writer = audit::Writer::open(agent::audit_options(options.state_folder),
                                    {parts.clock, audit::system_ticks(), system_random()});
  if (!writer) {
    return writer.error();
  }
  auto core = std::make_shared<agent::Core>(std::move(options), parts, std::move(*writer));
  for (const auto& step : {open_store, note_start, give_first_grants}) {
    if (auto status = step(*core); !status) {
      return status.error();
    }
  }
  std::string agent = core->options.session.agent;
  return std::unique_ptr<AgentSession>(
      new AgentSession(std::make_unique<Impl>(std::move(core), std::move(agent), true)));
}

GateOutcome AgentSession::check(const GateRequest& request, std::stop_token stop) {
  return impl_->judge({.request = request, .eyes = impl_->core->parts.eyes}, std::move(stop));
}

Result<std::unique_ptr<AgentSession>> AgentSession::start_sub_agent(const std::string& agent) {
  if (auto status = check_name("agent", agent); !status) {
    return status.error();
  }
  const auto added = impl_->core->state.with([&](agent::Core::State& state) -> Status {
    const bool is_first = agent == impl_->core->options.session.agent;
    return is_first ? Error{ErrorCode::kConflict,
                            "the session has an agent of this name already",
                            {},
                            "agent"}
                    : state.desk.add_agent(agent, impl_->agent);
  });
  if (!added) {
    return added.error();
  }
  return std::unique_ptr<AgentSession>(
      new AgentSession(std::make_unique<Impl>(impl_->core, agent, false)));
}

Status AgentSession::set_mode(PermissionMode mode) {
  agent::Core& core = *impl_->core;
  const PermissionMode before =
      core.state.with([](const agent::Core::State& state) { return state.mode; });
  if (mode < before) {
    return Error{ErrorCode::kConflict,
                 std::string("the mode cannot go from ") + name_of(before) + " down to " +
                     name_of(mode) + " while the session runs; start another session",
                 "mode_down", "mode"};
  }
  if (mode == before) {
    return {};
  }
  if (auto status = check_mode(mode, core.options); !status) {
    return status;
  }
  const agent::Actor actor{impl_->agent, mode};
  if (before == PermissionMode::kOff) {
    // From here on the policy counts.
    if (auto noted = core.trail.policy_loaded(actor); !noted) {
      return noted;
    }
  }
  if (auto noted = core.trail.mode_set(actor); !noted) {
    return noted;
  }
  core.state.with([&](agent::Core::State& state) {
    // Somebody else may have gone further up meanwhile.
    state.mode = std::max(state.mode, mode);
    state.desk.forget_grants();
  });
  return {};
}

void AgentSession::end() {
  impl_->core->state.with([](agent::Core::State& state) { state.desk.stop("session_ended"); });
  impl_->core->ended.request_stop();
}

AgentSessionStatus AgentSession::status() const {
  const agent::Core& core = *impl_->core;
  const audit::WriterState log = core.writer->state();
  AgentSessionStatus status{
      .audit_writable = log.writable, .audit_problem = log.problem, .audit_lost = log.lost};
  core.state.with([&](const agent::Core::State& state) {
    status.mode = state.mode;
    status.stopped = state.desk.stopped();
    status.grants_problem = state.grants_problem;
    status.session_grants = state.desk.grant_count();
  });
  status.active = status.mode != PermissionMode::kOff;
  status.unboxed = status.active && !core.options.session.box_is_active;
  return status;
}

OpenedFile& OpenedFile::operator=(OpenedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OpenedFile::~OpenedFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

}  // namespace sandboxkit
