#pragma once

#include "sandboxkit/driver.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace sandboxkit::testing {

/// A driver in memory: sandboxes are rows, guests are socket pairs that the test serves.
/// Thread-safety: any thread, like every driver.
class FakeDriver final : public Driver {
 private:
  template <typename F>
  auto locked(F&& body) const {
    const std::lock_guard lock(mutex_);
    return std::forward<F>(body)();
  }

 public:
  // What a test sets before or between calls.

  /// Serves the guest's end of each connection; called on the thread that asked for it.
  std::function<void(const SandboxId&, int)> serve_guest;
  DriverCapabilities capabilities{.engine = "fake 1",
                                  .capabilities = {"egress"},
                                  .runtimes = {"runc"},
                                  .arch = "amd64",
                                  .cpu_cores = 4,
                                  .memory_mb = 4096,
                                  .images = {"sandboxkit/base"}};

  void fail_creates(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    create_error_ = std::move(error);
  }
  void fail_probes(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    probe_error_ = std::move(error);
  }
  void fail_removes(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    remove_error_ = std::move(error);
  }
  /// Creates wait until `release_creates` (or their stop token).
  void hold_creates() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release_creates() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  /// Puts a sandbox into the engine behind the worker's back.
  void plant(SandboxReport report) {
    const std::lock_guard lock(mutex_);
    std::string id = report.sandbox.str();
    engine_.insert_or_assign(std::move(id), std::move(report));
  }
  void lose(const std::string& sandbox) {
    const std::lock_guard lock(mutex_);
    engine_.erase(sandbox);
  }
  /// A sandbox ends by itself.
  void tell(const DriverEvent& event) {
    const auto handler = locked([&] { return on_event_; });
    if (handler) {
      handler(event);
    }
  }

  // What happened, in order: `create i1/1`, `remove i1`, ...
  std::vector<std::string> calls() const {
    return locked([&] { return calls_; });
  }
  std::size_t count(const std::string& call) const {
    return locked([&] { return static_cast<std::size_t>(std::ranges::count(calls_, call)); });
  }
  bool has(const std::string& sandbox) const {
    return locked([&] { return engine_.contains(sandbox); });
  }
  std::size_t creates_under_way() const {
    return locked([&] { return under_way_; });
  }

  Result<DriverCapabilities> probe() override {
    return locked([&]() -> Result<DriverCapabilities> {
      return probe_error_ ? Result<DriverCapabilities>(*probe_error_) : capabilities;
    });
  }

  Status create(const SandboxOrder& order, std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    calls_.push_back("create " + order.sandbox.str() + "/" + std::to_string(order.generation));
    ++under_way_;
    changed_.wait(lock, stop, [&] { return !held_; });
    --under_way_;
    if (stop.stop_requested()) {
      return Error{ErrorCode::kCancelled, "the create was stopped"};
    }
    if (create_error_) {
      return *create_error_;
    }
    engine_.insert_or_assign(
        order.sandbox.str(),
        SandboxReport{order.sandbox, order.tenant, order.generation, SandboxState::kRunning,
                      order.expires_at, order.policy_hash});
    policies_.erase(order.sandbox.str());
    if (const EgressPolicy* policy = order.spec.egress.policy()) {
      policies_.insert_or_assign(order.sandbox.str(), *policy);
    }
    lent_[order.sandbox.str()] = order.spec.secrets;
    return {};
  }

  Status remove(const SandboxId& sandbox) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back("remove " + sandbox.str());
    if (remove_error_) {
      return *remove_error_;
    }
    engine_.erase(sandbox.str());
    return {};
  }

  Result<std::vector<SandboxReport>> list() override {
    const std::lock_guard lock(mutex_);
    std::vector<SandboxReport> reports;
    for (const auto& entry : engine_) {
      reports.push_back(entry.second);
    }
    return reports;
  }
  Result<std::vector<SandboxReport>> adopt() override { return list(); }

  Result<SandboxStats> stats(const SandboxId&) override { return SandboxStats{1.5, 1024, 2048, 3}; }

  Result<int> connect_guest(const SandboxId& sandbox) override {
    if (!has(sandbox.str()) || !serve_guest) {
      return Error{ErrorCode::kUnavailable, "no guest", "guest_unavailable"};
    }
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return Error{ErrorCode::kInternal, "socketpair failed"};
    }
    serve_guest(sandbox, ends[1]);
    return ends[0];
  }

  Result<std::vector<DeniedEgress>> denied(const SandboxId&) override {
    return std::vector<DeniedEgress>{{"example.org", 443, "not_in_allow_list", 2, {}, {}}};
  }

  Status narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                const std::string& policy_hash) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back("narrow " + sandbox.str() + " " + policy_hash);
    const auto found = engine_.find(sandbox.str());
    if (found == engine_.end()) {
      return Error{ErrorCode::kNotFound, "no such sandbox", "sandbox_not_found"};
    }
    const auto policy_now = policies_.find(sandbox.str());
    if (policy_now == policies_.end()) {
      return Error{ErrorCode::kConflict, "it is not walled", "cannot_retrofit"};
    }
    if (!policy.narrows(policy_now->second)) {
      return Error{ErrorCode::kConflict, "it allows more", "policy_widens"};
    }
    policy_now->second = policy;
    found->second.policy_hash = policy_hash;
    return {};
  }

  Status lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back("lend " + sandbox.str());
    if (!engine_.contains(sandbox.str())) {
      return Error{ErrorCode::kNotFound, "no such sandbox", "sandbox_not_found"};
    }
    lent_[sandbox.str()].assign(secrets.begin(), secrets.end());
    return {};
  }
  /// What the sandbox's proxy has; a restart of the machine would lose it.
  std::vector<LentSecret> lent(const std::string& sandbox) const {
    return locked([&] {
      const auto found = lent_.find(sandbox);
      return found == lent_.end() ? std::vector<LentSecret>() : found->second;
    });
  }

  void on_event(std::function<void(const DriverEvent&)> handler) override {
    const std::lock_guard lock(mutex_);
    on_event_ = std::move(handler);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool held_ = false;
  std::size_t under_way_ = 0;
  std::optional<Error> probe_error_;
  std::optional<Error> create_error_;
  std::optional<Error> remove_error_;
  std::map<std::string, SandboxReport> engine_;
  std::map<std::string, EgressPolicy> policies_;
  std::map<std::string, std::vector<LentSecret>> lent_;
  std::vector<std::string> calls_;
  std::function<void(const DriverEvent&)> on_event_;
};

}  // namespace sandboxkit::testing
