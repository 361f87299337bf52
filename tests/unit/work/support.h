#pragma once

#include "sandboxkit/events.h"

#include "io/event_loop.h"
#include "net/tunnel.h"
#include "store/journal.h"
#include "tests/support/fake_driver.h"
#include "wire/messages.h"
#include "work/guest_proxy.h"
#include "work/lanes.h"
#include "work/ledger.h"
#include "work/orders.h"
#include "work/routes.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit::work::testing {

using sandboxkit::testing::FakeDriver;

/// A journal that outlives the worker, as a file does, and can fail.
class MemoryJournal final : public store::Journal {
 public:
  std::map<std::string, store::JournalRow> rows;
  bool full = false;

  Status put(const store::JournalRow& row) override {
    const std::lock_guard lock(mutex_);
    if (full) {
      return Error{ErrorCode::kUnavailable, "the disk is full", "store_unavailable"};
    }
    rows.insert_or_assign(row.sandbox, row);
    return {};
  }
  Result<std::optional<store::JournalRow>> get(const std::string& sandbox) override {
    const std::lock_guard lock(mutex_);
    const auto found = rows.find(sandbox);
    return found == rows.end() ? std::nullopt : std::optional(found->second);
  }
  Result<std::vector<store::JournalRow>> all() override {
    const std::lock_guard lock(mutex_);
    std::vector<store::JournalRow> out;
    for (const auto& entry : rows) {
      out.push_back(entry.second);
    }
    return out;
  }
  Status erase(const std::string& sandbox) override {
    const std::lock_guard lock(mutex_);
    rows.erase(sandbox);
    return {};
  }

 private:
  std::mutex mutex_;
};

class FakeClock final : public Clock {
 public:
  WallTime now() const override { return WallTime(std::chrono::milliseconds(now_ms)); }
  void advance(std::chrono::milliseconds by) { now_ms += by.count(); }
  std::atomic<std::int64_t> now_ms{1'000'000'000};
};

/// Keeps what was told. Thread-safety: any thread.
class Quiet final : public EventSink {
 public:
  void tell(const Event& event) override {
    const std::lock_guard lock(mutex_);
    told_.push_back(event);
  }
  std::vector<Event> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Event> told_;
};

/// The worker without a network: orders, lanes, proxy and routes over a fake driver. Destroying it
/// and making another one over the same journal and driver is a crash and a restart.
struct Bench {
  MemoryJournal& journal;
  FakeDriver& driver;
  FakeClock& clock;
  Quiet events;
  io::EventLoop loop;
  Ledger ledger{journal};
  ThreadPool creates{2, 16};
  ThreadPool others{2, 64};
  Lanes lanes{loop, creates, others};
  Orders orders;
  GuestProxy guests{loop, driver};
  Routes routes{loop, orders, guests, driver, others};
  std::vector<std::string> ended;

  Bench(MemoryJournal& the_journal, FakeDriver& the_driver, FakeClock& the_clock,
        OrdersConfig config = {.tenant = "acme"})
      : journal(the_journal),
        driver(the_driver),
        clock(the_clock),
        orders(std::move(config), loop, driver, ledger, lanes, others, clock, events) {
    orders.on_ended([this](const std::string& sandbox) { ended.push_back(sandbox); });
    driver.on_event([this](const DriverEvent& event) {
      loop.post([this, event] { orders.driver_event(event); });
    });
  }
  ~Bench() {
    lanes.stop_creates();
    creates.stop();
    others.stop();
    driver.on_event(nullptr);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  bool start() { return ledger.load() && orders.adopt(); }

  bool until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      loop.run_once(io::EventLoop::Duration{50});
    }
    return true;
  }
  void settle() {
    for (int i = 0; i < 20; ++i) {
      loop.run_once(io::EventLoop::Duration{0});
    }
  }

  /// Delivers and waits for the answer.
  JobResult deliver(const wire::Delivery& delivery) {
    std::optional<JobResult> result;
    orders.deliver(delivery, [&](JobResult got) { result = std::move(got); });
    if (!until([&] { return result.has_value(); })) {
      return Error{ErrorCode::kDeadlineExceeded, "the delivery was not answered"};
    }
    return *result;
  }
  /// `running`, or the reason of the error.
  std::string outcome(const wire::Delivery& delivery) {
    const JobResult result = deliver(delivery);
    return result ? name_of(*result) : reason_of(result.error());
  }
  std::string state(const std::string& sandbox) const {
    const auto row = ledger.get(sandbox);
    return row ? row->state + (row->reason.empty() ? "" : ":" + row->reason) : "absent";
  }
};

template <typename T>
T id(const std::string& text) {
  return *T::parse(text);
}

inline SandboxSpec spec() {
  return SandboxSpec{.image = "sandboxkit/base",
                     .egress = Egress::walled(EgressPolicy::deny_all())};
}

inline wire::Delivery order(wire::DeliveryKind kind, const std::string& sandbox,
                            std::int64_t generation, const FakeClock& clock,
                            const std::string& tenant = "acme") {
  wire::Delivery delivery{.kind = kind,
                          .sandbox = id<SandboxId>(sandbox),
                          .tenant = id<TenantId>(tenant),
                          .generation = generation};
  delivery.expires_at = clock.now() + std::chrono::hours(1);
  if (kind == wire::DeliveryKind::kCreate) {
    delivery.spec = spec();
    delivery.policy_hash = "0123abcd";
  }
  return delivery;
}

}  // namespace sandboxkit::work::testing
