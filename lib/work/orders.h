#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/driver.h"
#include "sandboxkit/events.h"

#include "base/metrics.h"
#include "io/event_loop.h"
#include "wire/messages.h"
#include "work/lanes.h"
#include "work/ledger.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::work {

struct OrdersConfig {
  /// The workspace that this worker serves; "" serves every one.
  std::string tenant;
  std::int64_t max_sandboxes = 100;
  std::chrono::milliseconds orphan_grace{60'000};
  /// How long an end that nobody asked for is reported.
  std::chrono::milliseconds report_ended{std::chrono::hours(24)};
};

/// Makes the controller's orders true, once each, and ends what is past its time.
///
/// The journal is written before the driver acts, so that an order that is sent again, or a restart
/// at any point, has no second effect. Promises:
/// - two generations of a sandbox never run at once, and an older one never comes back;
/// - a sandbox of another tenant is never touched;
/// - a remove stops a create that is under way;
/// - a create that failed leaves the journal as it was.
/// Thread-safety: the loop's thread, but for `adopt` (before the loop runs).
class Orders {
 public:
  Orders(OrdersConfig config, io::EventLoop& loop, Driver& driver, Ledger& ledger, Lanes& lanes,
         ThreadPool& others, Clock& clock, EventSink& events);

  /// Settles the journal with what the engine has. Blocking.
  Status adopt();

  /// Errors: kPermissionDenied `foreign_tenant`, kConflict `generation_conflict`,
  /// `sandbox_not_running`, kUnavailable `overloaded`, `no_capacity`, and the driver's own.
  void deliver(const wire::Delivery& delivery, std::function<void(JobResult)> done);

  /// The row of a sandbox that runs, for a request that names it with its generation. A sandbox
  /// that only the engine knew is taken into the journal by being named. Errors: kNotFound,
  /// kConflict `generation_conflict`, `sandbox_not_running` with the reason.
  Result<store::JournalRow> find_running(const SandboxId& sandbox, std::int64_t generation);

  /// Ends what is past its time, and goes on with removes that failed. Once a second.
  void sweep();
  /// Compares journal and engine, from time to time.
  void reconcile();
  void driver_event(const DriverEvent& event);

  std::vector<SandboxReport> inventory() const;
  /// How long the driver took for each create. Any thread.
  const Histogram& create_times() const { return create_times_; }
  /// The controller read the inventory. What it does not order away from there on is explained:
  /// sandboxes that a lost journal forgot are taken back instead of being removed.
  void inventory_read();

  /// Called when a sandbox is no longer running (`sandbox`), for whatever reason.
  void on_ended(std::function<void(const std::string& sandbox)> handler) {
    on_ended_ = std::move(handler);
  }

 private:
  struct Orphan {
    SandboxReport report;
    WallTime seen{};
    std::optional<WallTime> told{};  ///< When the controller first read an inventory with it.
  };
  Status check_tenant(const wire::Delivery& delivery) const;
  JobResult create(const wire::Delivery& delivery, const std::stop_token& stop);
  std::optional<JobResult> settle_before_create(const wire::Delivery& delivery);
  JobResult remove(const wire::Delivery& delivery);
  JobResult renew(const wire::Delivery& delivery);
  JobResult narrow(const wire::Delivery& delivery);
  JobResult lend(const wire::Delivery& delivery);
  /// The row that an order about a running sandbox is for.
  Result<store::JournalRow> row_to_change(const wire::Delivery& delivery) const;
  void note_structures(const std::vector<SandboxReport>& reports);
  /// Removes what there is of the row's sandbox and notes how it ended.
  JobResult end(store::JournalRow row, const std::string& reason, const wire::Trace& trace = {});
  JobResult end_if_same(const store::JournalRow& row, const std::string& reason);
  void add_end(const store::JournalRow& row, const std::string& reason);
  void compare(const std::vector<SandboxReport>& reports, WallTime listed_from);
  void compare_row(const store::JournalRow& row, const SandboxReport* report, WallTime listed_from);
  void compare_report(const SandboxReport& report);
  /// Removes what the engine still has of a sandbox that is over.
  void remove_rest(const std::string& sandbox);
  void name_orphan(const std::string& sandbox);
  /// What a create left half made when its engine died is no sandbox that ended: the create that
  /// comes again clears it away.
  void forget_ruin(const std::string& sandbox);
  void purge();
  Status adopt_row(store::JournalRow row, const SandboxReport* report);
  void tell(Severity severity, const char* name, const std::string& sandbox,
            const std::string& message, const wire::Trace& trace = {});
  void ended(const std::string& sandbox);
  static SandboxState state_of(const store::JournalRow& row);

  const OrdersConfig config_;
  io::EventLoop& loop_;
  Driver& driver_;
  Ledger& ledger_;
  Lanes& lanes_;
  ThreadPool& others_;
  Clock& clock_;
  EventSink& events_;
  std::function<void(const std::string&)> on_ended_;
  std::map<std::string, Orphan> orphans_;
  std::map<std::string, WallTime> retry_at_;       // Removes that failed.
  std::map<std::string, std::string> structures_;  // As the driver's last list told.
  bool reconciling_ = false;
  Histogram create_times_{kMicrosecondBounds};
};

}  // namespace sandboxkit::work
