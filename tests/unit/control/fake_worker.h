#pragma once

#include "io/event_loop.h"
#include "net/tunnel.h"
#include "wire/messages.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sandboxkit::control {

/// A worker as the controller meets it: it joins, sends heartbeats, dials its tunnel, and answers
/// orders from memory. It has a thread of its own; every function may be called from the test's.
class FakeWorker {
 public:
  struct Options {
    std::string url;
    std::string join_token;
    std::string name = "w1";
    std::int64_t max_sandboxes = 100;
    std::int64_t max_starting = 8;
    std::vector<std::string> capabilities{"egress", "secrets"};
  };
  /// What it holds of a sandbox.
  struct Sandbox {
    SandboxId id;
    TenantId tenant;
    std::int64_t generation = 1;
    SandboxState state = SandboxState::kRunning;
    WallTime expires{};
    std::string reason{};
    std::string policy_hash{};
    std::vector<LentSecret> secrets{};
    std::string structure{};
    std::vector<DeniedEgress> denied{};
  };

  explicit FakeWorker(Options options);
  ~FakeWorker();

  /// Joins, sends a heartbeat and connects; true when the controller says that it is connected.
  bool start();
  /// Sends a heartbeat with what it holds.
  int heartbeat();
  void connect();
  /// Cuts the tunnel, as a crash would. What it holds stays.
  void disconnect();

  /// Orders of a kind are kept unanswered from now on, until `release`.
  void hold(wire::DeliveryKind kind);
  /// The question for its inventory is kept unanswered from now on, until `release`.
  void hold_inventories();
  void release();
  /// Creates are refused with this error body from now on.
  void refuse_creates(int status, const std::string& error, const std::string& message);
  /// Its heartbeats say this from now on; empty: it is well.
  void complain(const std::string& problem);
  /// Its heartbeats offer these from now on.
  void offer(const std::vector<std::string>& capabilities);
  /// The sandbox ended by itself: the next heartbeat or inventory says so.
  void end(const std::string& id, const std::string& reason);
  void forget(const std::string& id);
  /// Cuts every stream that is open to a sandbox.
  void cut_streams();

  bool holds(const std::string& id) const;
  /// What it has of a sandbox, whose proxy is told in `change`.
  std::optional<Sandbox> sandbox(const std::string& id) const;
  void change(const std::string& id, const std::function<void(Sandbox&)>& change);
  /// For `wait_until`.
  bool connected() const;
  /// Orders that came, as `kind sandbox`.
  std::vector<std::string> orders() const;
  /// The trace of each of them.
  std::vector<wire::Trace> traces() const;
  std::size_t held() const;
  std::size_t gone_streams() const;  ///< Streams that the controller reset.
  std::size_t inventories() const;   ///< How often it was asked for its inventory.
  std::vector<std::string> guest_calls() const;
  std::optional<WallTime> expiry_of(const std::string& id) const;
  /// Waits, without a sleep, until the fact holds; false after ten seconds.
  bool wait_until(const std::function<bool()>& fact) const;

  const std::string& id() const { return identity_->worker.str(); }
  const std::string& credential() const { return identity_->credential; }

 private:
  using Exchange = std::shared_ptr<net::TunnelExchange>;
  void run(std::function<void()> work);  ///< On the loop's thread, waited for.
  void take(const Exchange& exchange);
  void take_inventory(const Exchange& exchange);
  void answer_inventory(const Exchange& exchange);
  void take_order(const Exchange& exchange, const wire::Delivery& delivery);
  void take_guest(const Exchange& exchange);
  void perform(const Exchange& exchange, const wire::Delivery& delivery);
  void tell_changed();
  std::string inventory() const;
  wire::WorkerFacts facts() const;
  template <typename F>
  auto locked(F&& body) const;

  struct Held {
    Exchange exchange;
    wire::Delivery delivery;
  };
  struct Refusal {
    int status;
    std::string body;
  };

  Options options_;
  std::optional<wire::JoinAnswer> identity_;
  io::EventLoop loop_;
  std::shared_ptr<net::TunnelServer> server_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::map<std::string, Sandbox> sandboxes_;
  std::vector<std::string> orders_;
  std::vector<wire::Trace> traces_;
  std::vector<std::string> guest_calls_;
  std::vector<Held> held_;
  std::set<wire::DeliveryKind> holding_;
  std::vector<Exchange> held_inventories_;
  bool holding_inventories_ = false;
  std::optional<Refusal> refusal_;
  std::string problem_;
  std::vector<Exchange> streams_;
  bool connected_ = false;
  std::size_t gone_streams_ = 0;
  std::size_t inventories_ = 0;
  std::thread thread_;
};

}  // namespace sandboxkit::control
