#pragma once

#include "sandboxkit/agent_session.h"
#include "sandboxkit/box.h"
#include "sandboxkit/local_driver.h"

#include "base/thread_pool.h"
#include "docker/helper_link.h"
#include "docker/proxy_process.h"
#include "io/child_process.h"
#include "io/guest_link.h"
#include "local/box_trail.h"
#include "local/gate_front.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::local {

/// How a box's wall is made, as reports name it: loopback alone, and a proxy outside. The isolation
/// card knows it.
inline constexpr const char* kLocalStructure = "local-box";

/// What all sandboxes of one driver work with; lives as long as they.
struct LocalHost {
  const LocalDriverConfig& config;
  const Clock& clock;
  docker::LinkHub& hub;
  ThreadPool& pool;
  PromptHandler& prompts;
  GrantSource& grants;
  /// Of every session here; each gets its own name.
  GateSession session;
  GatePolicy policy;
  /// Empty and null in mode `off`.
  SessionBox box{};
  BoxTrail* trail = nullptr;
};

/// Where boxes keep their journal, below a driver's folder.
std::string boxes_folder(const std::string& state_dir);

/// What a box was made with: its answers hold as long as it.
struct BoxedRules {
  PermissionGate gate;
  GateGrants grants;
  BoxPlan plan;
};

/// One sandbox of agent mode: a session of the gate, a box with a guest in it, its proxy, and the
/// front that judges what is asked of the guest. All of it ends with this object.
///
/// Thread-safety: any thread but the hub's own.
class LocalSandbox : public std::enable_shared_from_this<LocalSandbox> {
 public:
  using Ended = std::function<void(const std::string& reason)>;

  /// All or nothing. `on_end` is called once, on the hub's thread, when it ends by itself.
  static Result<std::shared_ptr<LocalSandbox>> start(LocalHost& host, const SandboxOrder& order,
                                                     std::stop_token stop, Ended on_end);
  ~LocalSandbox();
  LocalSandbox(const LocalSandbox&) = delete;
  LocalSandbox& operator=(const LocalSandbox&) = delete;

  /// A connection to the front, which speaks HTTP/1.1.
  Result<io::Fd> connect();
  SandboxReport report() const;
  /// Null without a wall.
  const std::shared_ptr<docker::ProxyProcess>& proxy() const { return proxy_; }
  const std::string& egress_folder() const { return egress_folder_; }
  void narrowed_to(const std::string& policy_hash);
  /// Sums over every process of the box.
  SandboxStats stats() const;

 private:
  LocalSandbox(LocalHost& host, const SandboxOrder& order);
  /// The gate that is asked and the gate that the box is planned by are made of the same.
  GateSession session_of_box() const;
  GatePolicy policy_of_box() const;
  Status start_session();
  Status start_box(int control);
  Status start_plain(int control);
  Status start_proxy(const std::stop_token& stop);
  Status start_guest(io::Fd control, const std::stop_token& stop);
  std::vector<std::string> environment(bool walled) const;
  void watch_end(Ended on_end);
  void ended(const Ended& on_end);
  BoxOf box_of() const;
  void look_through_tree(std::int64_t began_ns);

  LocalHost& host_;
  const SandboxOrder order_;
  std::string egress_folder_;
  std::shared_ptr<AgentSession> session_;    // Shared with calls that it is asked about.
  std::shared_ptr<const BoxedRules> boxed_;  // Shared with calls that are judged.
  std::unique_ptr<Box> box_;
  io::Child child_;  ///< In mode `off`, in place of the box.
  std::shared_ptr<docker::ProxyProcess> proxy_;
  std::shared_ptr<io::GuestLink> link_;
  std::shared_ptr<GateFront> front_;
  std::chrono::steady_clock::time_point deadline_;
  mutable std::mutex mutex_;
  std::string policy_hash_;
  std::string end_reason_;
};

}  // namespace sandboxkit::local
