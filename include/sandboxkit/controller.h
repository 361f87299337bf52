#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/events.h"
#include "sandboxkit/placement.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sandboxkit {

struct ControllerConfig {
  /// A folder that the controller owns (mode 0700): its store lies there.
  std::string state_dir;
  /// One port for API, gateway and tunnels. 0: the kernel picks one.
  std::string listen_address = "127.0.0.1";
  std::uint16_t port = 7070;
  PlacementPolicy placement{};
  /// Sandboxes of one workspace that may exist at once.
  std::int64_t max_sandboxes_per_workspace = 100;
  /// What they may reserve together; negative: no limit.
  double max_cpu_cores_per_workspace = -1;
  std::int64_t max_memory_mb_per_workspace = -1;
  /// How long a create waits for its sandbox to run before it answers with an error.
  std::chrono::milliseconds create_wait{90'000};
  /// A worker without a heartbeat for this long gets no new work; its sandboxes are lost later.
  std::chrono::milliseconds unreachable_after{30'000};
  std::chrono::milliseconds lost_after{120'000};
  /// Threads for short API calls, and how many calls may wait for one.
  std::size_t api_threads = 8;
  std::size_t api_queue = 1024;
  /// How long a worker's credential counts, and how long after its end it may still be renewed. A
  /// worker renews its own from half of its life on.
  std::chrono::seconds worker_credential_ttl{std::chrono::hours{24 * 30}};
  std::chrono::seconds worker_renewal_window{std::chrono::hours{24 * 7}};
  /// Lines of the audit log are kept this long; negative: for ever.
  std::chrono::seconds audit_retention{std::chrono::hours{24 * 400}};
  /// File of 32 random bytes, mode 0600, that lent secrets are sealed with in the store. Empty: a
  /// create that lends secrets is refused.
  std::string secrets_key_file{};
  std::size_t max_connections = 20'000;
  std::size_t max_body_bytes = 1 << 20;
  /// Where `/metrics`, `/healthz` and `/readyz` are served, without a credential. Empty: nowhere.
  /// Any address but a loopback one is warned about: who reaches it sees what the deployment does.
  std::string metrics_address{};
  std::uint16_t metrics_port = 0;
  /// How long a stop waits for calls and streams that are under way; all is over after it.
  std::chrono::milliseconds shutdown_grace{10'000};
  /// Calls a second of one credential in the long run, and at once; 0: no limit.
  std::int64_t rate_limit_per_key = 50;
  std::int64_t rate_limit_burst = 200;
  /// Wrong credentials a minute from one address (IPv6: one /64) before it is refused unlooked. 0
  /// turns it off: behind a reverse proxy all callers share the proxy's address.
  std::int64_t failed_auth_per_minute = 20;
};

/// The control plane: API, gateway, tunnels, store, scheduler.
///
/// Thread-safety: `stop` and `port` from any thread; the rest from the owner's.
class SANDBOXKIT_API Controller {
 public:
  /// Opens the store and the port. On an empty store it makes the operator credential and writes it
  /// to `state_dir/operator.key` (mode 0600).
  /// Errors: kInvalidArgument naming the option; kUnavailable when store or port cannot be had.
  static Result<std::unique_ptr<Controller>> create(ControllerConfig config, Clock& clock,
                                                    EventSink& events);
  ~Controller();

  std::uint16_t port() const;
  /// Of the metrics; 0 when they are off.
  std::uint16_t metrics_port() const;
  /// Serves until `stop`, and after it until what is under way is done, at most `shutdown_grace`:
  /// nothing new is accepted or ordered, calls and streams may end, the workers are told, the rest
  /// is answered 503. A create that is refused so goes on after the next start. Blocking.
  Status run();
  void stop();

 private:
  struct Impl;
  explicit Controller(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
