#pragma once

#include "control/context.h"
#include "control/fleet.h"
#include "control/lifecycle.h"
#include "control/outbox.h"
#include "control/waiters.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::control {

/// Carries the store's queued orders to the workers and their answers back.
///
/// At least once, in order for each sandbox; a remove does not wait for a create that is under way.
/// After a connect the inventory comes first. What is under way is known here alone, so after a
/// crash everything that is queued is sent again, which has no second effect.
/// A create ends with `create_wait`; a remove is tried until it is done, a renewal `kMaxAttempts`
/// times, after which the next inventory decides.
/// Thread-safety: `wake` and `check_inventory` from any thread; the rest on the loop's thread.
class Deliverer {
 public:
  Deliverer(Context& context, Fleet& fleet, Waiters& waiters)
      : context_(context), fleet_(fleet), waiters_(waiters) {}

  void attached(const std::string& worker, std::uint64_t epoch);
  void detached(const std::string& worker, std::uint64_t epoch);
  /// Sends what is queued for a worker, soon.
  void wake(const std::string& worker);
  /// Asks a worker for its inventory and settles what differs.
  void check_inventory(const std::string& worker);
  /// Sends no more orders.
  void stop() { stopped_ = true; }
  /// Orders that were sent and not answered. The loop's thread.
  std::size_t under_way() const;
  /// Begins no order any more; answers to those under way are still settled.
  void stop_claiming() { claims_ = false; }

  /// Tells a changed row to the calls that wait for it. Any thread.
  void tell(const store::SandboxRow& row);

 private:
  /// What is under way to one worker.
  struct Lane {
    std::uint64_t epoch = 0;
    bool ready = false;
    bool reading = false;
    bool again = false;
    bool taking_inventory = false;
    int inventory_failures = 0;
    std::int64_t creating = 0;
    std::int64_t max_creating = 1;
    std::map<std::int64_t, Order> under_way;
  };
  Lane* lane_of(const std::string& worker, std::uint64_t epoch);
  /// Runs `work` on the pool; when the pool is full, `failed` on the loop instead.
  void on_pool(std::function<void()> work, std::function<void()> failed);

  void take_inventory(const std::string& worker, std::uint64_t epoch);
  void ask_inventory(const std::string& worker, std::uint64_t epoch,
                     std::vector<store::SandboxRow> before);
  void settle_inventory_answer(const std::string& worker, std::uint64_t epoch,
                               const std::vector<store::SandboxRow>& before,
                               const std::string& body);
  void inventory_settled(const std::string& worker, std::uint64_t epoch,
                         std::optional<ReportOutcome> outcome);

  void pump(const std::string& worker);
  Result<Due> read_queue(const std::string& worker);
  void dispatch(const std::string& worker, std::uint64_t epoch, Due due);
  bool may_send(const Lane& lane, const Order& order) const;
  void send(const std::string& worker, std::uint64_t epoch, const Order& order);
  void answered(const std::string& worker, std::uint64_t epoch, const Order& order,
                const Result<WorkerAnswer>& answer);
  void settle(const std::string& worker, std::uint64_t epoch, const Order& order, Verdict verdict,
              const std::string& failure);
  void forget_order(const std::string& worker, std::uint64_t epoch, std::int64_t seq);
  void settled(const std::string& worker, std::uint64_t epoch, std::int64_t seq);
  void wake_later(const std::string& worker, std::chrono::milliseconds delay);

  Context& context_;
  Fleet& fleet_;
  Waiters& waiters_;
  bool stopped_ = false;
  bool claims_ = true;
  std::map<std::string, Lane> lanes_;
};

}  // namespace sandboxkit::control
