#pragma once

#include "sandboxkit/agent_session.h"
#include "sandboxkit/gate_policy.h"
#include "sandboxkit/grant_store.h"
#include "sandboxkit/local_driver.h"
#include "sandboxkit/result.h"

#include "agent/grant_log.h"
#include "local/box_trail.h"

#include <memory>
#include <string>

namespace sandboxkit::local {

struct HostPlaces {
  std::string tree;
  std::string home;
  /// Of the gate, and of whoever runs the session: closed for every operation.
  std::string gate_dir;
  std::string state_dir;
};

/// A session on this machine: canonical places, which object the tree is, our own programs, and
/// where programs are looked for (`path` is a PATH).
/// Errors: kInvalidArgument naming `work_tree` or `home` for what is no directory.
Result<GateSession> host_session(const HostPlaces& places, const std::string& path);

/// The kept grants of the gate's folder, with what they need; later members use earlier ones.
struct HostGrants {
  std::unique_ptr<agent::GrantLog> log{};
  std::unique_ptr<GrantStore> store{};
  std::unique_ptr<GrantSource> source{};
};

/// What sessions of one machine begin with.
struct HostParts {
  GateSession session;
  GatePolicy policy;
  HostGrants grants{};
  std::unique_ptr<BoxTrail> trail{};
};

/// The session, the owner's policy and the kept grants that a driver's options name.
/// Errors: as below, and as GrantStore::open.
Result<HostParts> host_parts(const LocalDriverConfig& config, const std::string& path,
                             const Clock& clock);

/// The shipped lists with what the file adds; without a file the shipped lists.
/// Errors: kInvalidArgument, field `policy_file`: one that cannot be read counts for nothing.
Result<GatePolicy> host_policy(const std::string& file);

}  // namespace sandboxkit::local
