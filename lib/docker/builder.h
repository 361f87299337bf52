#pragma once

#include "docker/engine_client.h"
#include "docker/helper_link.h"
#include "docker/observed.h"
#include "docker/plan.h"
#include "docker/proxy_process.h"

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

namespace sandboxkit::docker {

/// What a plan that ran has made.
struct Built {
  Ids ids;
  std::shared_ptr<HelperLink> guest{};  // Shared: a caller may use it while the sandbox goes.
  std::shared_ptr<HelperLink> egress{};
  std::shared_ptr<ProxyProcess> proxy{};  ///< `egress` once more, when it is a process of ours.
  pid_t sidecar_pid = 0;
};

/// When to give up.
struct BuildLimits {
  std::stop_token stop;
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds call_timeout;
};

/// Runs a plan step by step. It does not undo: what a failed run leaves is found by its labels and
/// taken down in the reverse order by the caller, which is the same code that removes a sandbox.
///
/// Errors: the failed step's; kCancelled; kDeadlineExceeded `create_timeout`; kUnavailable
/// `guest_unavailable` with the helper's last words when its container ended.
Result<Built> run_plan(EngineClient& engine, LinkHub& hub, const Plan& plan, Built start,
                       const BuildLimits& limits);

/// Opens the way to a guest whose listening socket the proxy gets.
Result<std::shared_ptr<HelperLink>> open_guest_of_proxy(LinkHub& hub,
                                                        const std::string& socket_path,
                                                        const std::shared_ptr<ProxyProcess>& proxy);

/// Reads the container's state. Errors: as EngineClient::call.
Result<ContainerState> inspect_state(EngineClient& engine, const std::string& container);

}  // namespace sandboxkit::docker
