#pragma once

#include "sandboxkit/agent_session.h"

#include "agent/grant_log.h"
#include "agent/kept_grants.h"
#include "agent/trail.h"
#include "audit/writer.h"
#include "base/guarded.h"
#include "gate/desk.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

namespace sandboxkit::agent {

/// Where everybody who waits for one prompt gets what it came to.
class Ticket {
 public:
  void settle(gate::Settlement settlement);
  /// Nothing when `stop` came first.
  std::optional<gate::Settlement> wait(std::stop_token stop);

 private:
  std::mutex mutex_;
  std::condition_variable_any settled_;
  std::optional<gate::Settlement> settlement_;
};

/// What the agents of one session share.
struct Core {
  struct State {
    gate::Desk desk;
    PermissionMode mode;
    /// The work tree as it was seen last.
    FileIdentity tree;
    std::map<std::string, std::shared_ptr<Ticket>> tickets{};
    std::uint64_t requests = 0;
    std::string grants_problem{};
  };

  Core(AgentSessionOptions given, const AgentSessionParts& with,
       std::unique_ptr<audit::Writer> log);

  const AgentSessionOptions options;
  const AgentSessionParts parts;
  const std::unique_ptr<audit::Writer> writer;
  Trail trail;
  /// The store in the state folder; absent where the embedder has another source.
  std::optional<GrantLog> grant_log;
  std::unique_ptr<GrantStore> store;
  std::optional<StoredGrants> stored;
  /// Set before the session is anybody's.
  GrantSource* grants;
  Guarded<State> state;
  std::stop_source ended;
};

}  // namespace sandboxkit::agent

namespace sandboxkit {

/// One agent of a session. Thread-safety: any thread.
struct AgentSession::Impl {
  Impl(std::shared_ptr<agent::Core> shared, std::string name, bool first)
      : core(std::move(shared)), agent(std::move(name)), is_first(first) {}

  struct Judging {
    const GateRequest& request;
    const FileEyes& eyes;
    std::optional<FileIdentity> object{};
  };
  /// The whole way: decide, ask, write down.
  GateOutcome judge(const Judging& judging, std::stop_token stop);

  // Shared: the agents of a session end in any order.
  const std::shared_ptr<agent::Core> core;
  const std::string agent;
  const bool is_first;

  /// The gate and grants as they are now.
  struct Bench {
    std::shared_ptr<const PermissionGate> gate;
    GateGrants grants;
    GateSession session;
    PermissionMode mode;
    std::uint64_t generation;
    ProtectedObjects objects;
  };
  /// Errors: `tree_gone`; what the gate says of its session.
  Result<Bench> bench(WallTime now);

 private:
  struct Compiled {
    std::optional<PermissionMode> mode{};
    FileIdentity tree{};
    std::shared_ptr<const PermissionGate> gate{};
    std::shared_ptr<const std::vector<PermanentGrant>> permanent{};
    std::uint64_t generation = 0;
    GateGrants grants{};
    std::string problem{};
    ProtectedObjects objects{};
    std::optional<std::chrono::steady_clock::time_point> objects_seen{};
  };
  struct Present {
    std::shared_ptr<const std::vector<PermanentGrant>> permanent;
    std::vector<SessionGrant> session;
    std::uint64_t generation;
  };
  Result<FileIdentity> see_tree();
  Status renew_gate(Compiled& compiled, const GateSession& session, PermissionMode mode) const;
  static void renew_grants(Compiled& compiled, const Present& present);
  void see_objects(Bench& bench);

  Guarded<Compiled> compiled_;
};

}  // namespace sandboxkit
