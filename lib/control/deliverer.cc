#include "control/deliverer.h"

#include "base/fault_point.h"
#include "control/rows.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInventoryTimeout{20'000};
constexpr milliseconds kInventoryRetry{1'000};
constexpr int kMaxInventoryFailures = 3;
constexpr milliseconds kOrderTimeout{60'000};
/// A worker that is asked for a create may use all of `create_wait`; its answer comes after it.
constexpr milliseconds kCreateGrace{10'000};
constexpr milliseconds kBusyRetry{250};

}  // namespace

void Deliverer::on_pool(std::function<void()> work, std::function<void()> failed) {
  if (!context_.pool.post(std::move(work))) {
    failed();
  }
}

Deliverer::Lane* Deliverer::lane_of(const std::string& worker, std::uint64_t epoch) {
  const auto found = lanes_.find(worker);
  return found == lanes_.end() || found->second.epoch != epoch || stopped_ ? nullptr
                                                                           : &found->second;
}

void Deliverer::tell(const store::SandboxRow& row) {
  waiters_.tell(row.id, row);
  if (row.state != "running") {
    waiters_.tell(Waiters::renew_key(row.id), row);
    waiters_.tell(Waiters::narrow_key(row.id), row);
  }
}

void Deliverer::attached(const std::string& worker, std::uint64_t epoch) {
  Lane lane;
  lane.epoch = epoch;
  lanes_[worker] = std::move(lane);
  take_inventory(worker, epoch);
}

void Deliverer::detached(const std::string& worker, std::uint64_t epoch) {
  if (lane_of(worker, epoch) != nullptr) {
    lanes_.erase(worker);
  }
}

void Deliverer::check_inventory(const std::string& worker) {
  context_.loop.post([this, worker] {
    const auto found = lanes_.find(worker);
    if (found != lanes_.end() && found->second.ready) {
      take_inventory(worker, found->second.epoch);
    }
  });
}

void Deliverer::take_inventory(const std::string& worker, std::uint64_t epoch) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr || lane->taking_inventory) {
    return;
  }
  lane->taking_inventory = true;
  on_pool(
      [this, worker, epoch] {
        // Read before the worker is asked: a row that runs later is no evidence of a loss.
        std::vector<store::SandboxRow> before;
        const Status read = context_.store.read([&](store::Tx& tx) -> Status {
          auto rows = tx.sandboxes_of_worker(worker);
          if (!rows) {
            return rows.error();
          }
          before = std::move(*rows);
          return {};
        });
        context_.loop.post([this, worker, epoch, read, before = std::move(before)]() mutable {
          if (read) {
            ask_inventory(worker, epoch, std::move(before));
          } else {
            inventory_settled(worker, epoch, std::nullopt);
          }
        });
      },
      [this, worker, epoch] { inventory_settled(worker, epoch, std::nullopt); });
}

void Deliverer::ask_inventory(const std::string& worker, std::uint64_t epoch,
                              std::vector<store::SandboxRow> before) {
  if (lane_of(worker, epoch) == nullptr) {
    return;
  }
  fleet_.call({worker, "GET", "/v1/inventory", {}, kInventoryTimeout},
              [this, worker, epoch, before = std::move(before)](Result<WorkerAnswer> answer) {
                if (!answer || answer->status != 200) {
                  inventory_settled(worker, epoch, std::nullopt);
                  return;
                }
                on_pool(
                    [this, worker, epoch, before, body = std::move(answer->body)] {
                      settle_inventory_answer(worker, epoch, before, body);
                    },
                    [this, worker, epoch] { inventory_settled(worker, epoch, std::nullopt); });
              });
}

void Deliverer::settle_inventory_answer(const std::string& worker, std::uint64_t epoch,
                                        const std::vector<store::SandboxRow>& before,
                                        const std::string& body) {
  std::optional<ReportOutcome> outcome;
  const auto value = json::parse(body, wire::kInventoryLimits);
  const auto reports =
      value ? wire::inventory_from_json(*value) : Result<std::vector<SandboxReport>>(value.error());
  if (reports) {
    const Status written = context_.store.write([&](store::Tx& tx) -> Status {
      auto settled =
          settle_inventory(tx, context_.config, worker, *reports, before, context_.clock.now());
      if (!settled) {
        return settled.error();
      }
      outcome = std::move(*settled);
      return {};
    });
    if (!written) {
      outcome.reset();
    }
    SANDBOXKIT_FAULT_POINT("control.inventory.settled");
  } else {
    context_.events.tell(
        {Severity::kWarning, "inventory_refused", reports.error().message, {{"worker", worker}}});
  }
  if (outcome) {
    for (const store::SandboxRow& row : outcome->changed) {
      tell(row);
    }
  }
  context_.loop.post([this, worker, epoch, outcome = std::move(outcome)]() mutable {
    inventory_settled(worker, epoch, std::move(outcome));
  });
}

void Deliverer::inventory_settled(const std::string& worker, std::uint64_t epoch,
                                  std::optional<ReportOutcome> outcome) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr) {
    return;
  }
  lane->taking_inventory = false;
  if (!outcome) {
    if (++lane->inventory_failures >= kMaxInventoryFailures) {
      fleet_.detach(worker);  // It dials again, and we begin from the start.
      return;
    }
    context_.loop.run_after(kInventoryRetry,
                            [this, worker, epoch] { take_inventory(worker, epoch); });
    return;
  }
  lane->inventory_failures = 0;
  if (!lane->ready) {
    lane->ready = true;
    fleet_.set_ready(worker);
  }
  for (const wire::Delivery& stray : outcome->strays) {
    send(worker, epoch, stray_order(stray));
  }
  pump(worker);
}

void Deliverer::wake(const std::string& worker) {
  context_.loop.post([this, worker] { pump(worker); });
}

void Deliverer::wake_later(const std::string& worker, milliseconds delay) {
  context_.loop.run_after(delay, [this, worker] { pump(worker); });
}

void Deliverer::pump(const std::string& worker) {
  const auto found = lanes_.find(worker);
  if (found == lanes_.end() || !found->second.ready || !claims_ || stopped_) {
    return;
  }
  Lane& lane = found->second;
  if (lane.reading) {
    lane.again = true;
    return;
  }
  lane.reading = true;
  lane.again = false;
  on_pool(
      [this, worker, epoch = lane.epoch] {
        auto due = read_queue(worker);
        context_.loop.post([this, worker, epoch, due = std::move(due)]() mutable {
          if (due) {
            dispatch(worker, epoch, std::move(*due));
          } else if (Lane* standing = lane_of(worker, epoch)) {
            standing->reading = false;
            wake_later(worker, kBusyRetry);
          }
        });
      },
      [this, worker] {
        if (const auto standing = lanes_.find(worker); standing != lanes_.end()) {
          standing->second.reading = false;
        }
        wake_later(worker, kBusyRetry);
      });
}

Result<Due> Deliverer::read_queue(const std::string& worker) {
  Due due;
  const Status read = context_.store.read([&](store::Tx& tx) -> Status {
    auto found = read_due(tx, worker, context_.clock.now(), context_.secrets_key);
    if (!found) {
      return found.error();
    }
    due = std::move(*found);
    return {};
  });
  if (!read) {
    return read.error();
  }
  if (!due.stale.empty() || !due.sealed.empty()) {
    std::vector<store::SandboxRow> ended;
    const Status written = context_.store.write([&](store::Tx& tx) -> Status {
      ended.clear();
      if (auto finished = finish_stale(tx, due); !finished) {
        return finished;
      }
      auto failed = fail_sealed(tx, worker, due, context_.clock.now());
      if (!failed) {
        return failed.error();
      }
      ended = std::move(*failed);
      return {};
    });
    if (!written) {
      return written.error();
    }
    for (const store::SandboxRow& row : ended) {
      tell(row);
    }
  }
  return due;
}

bool Deliverer::may_send(const Lane& lane, const Order& order) const {
  if (lane.under_way.contains(order.seq)) {
    return false;
  }
  if (order.kind == wire::DeliveryKind::kCreate && lane.creating >= lane.max_creating) {
    return false;
  }
  return std::ranges::none_of(lane.under_way, [&](const auto& each) {
    const Order& other = each.second;
    // A remove overtakes whatever is under way for its sandbox but another remove.
    return other.sandbox == order.sandbox &&
           (order.kind != wire::DeliveryKind::kRemove || other.kind == wire::DeliveryKind::kRemove);
  });
}

void Deliverer::dispatch(const std::string& worker, std::uint64_t epoch, Due due) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr) {
    return;
  }
  lane->reading = false;
  lane->max_creating = due.max_creating;
  if (!claims_) {
    return;
  }
  std::map<std::string, std::int64_t> starting;
  for (const auto& [seq, order] : lane->under_way) {
    starting[order.tenant] += order.kind == wire::DeliveryKind::kCreate ? 1 : 0;
  }
  put_in_turn(due.orders, std::move(starting));
  for (const Order& order : due.orders) {
    if (!may_send(*lane, order)) {
      continue;
    }
    lane->under_way.emplace(order.seq, order);
    context_.metrics.orders_sent.add();
    lane->creating += order.kind == wire::DeliveryKind::kCreate ? 1 : 0;
    send(worker, epoch, order);
    lane = lane_of(worker, epoch);  // A send that fails at once may end the lane.
    if (lane == nullptr) {
      return;
    }
  }
  if (lane->again) {
    pump(worker);
  }
}

void Deliverer::send(const std::string& worker, std::uint64_t epoch, const Order& order) {
  const milliseconds timeout = order.kind == wire::DeliveryKind::kCreate
                                   ? context_.config.create_wait + kCreateGrace
                                   : kOrderTimeout;
  SANDBOXKIT_FAULT_POINT("control.order.before_send");
  fleet_.call(
      {worker, "POST", "/v1/deliveries", order.body, timeout, wire::trace_from_text(order.trace)},
      [this, worker, epoch, order](const Result<WorkerAnswer>& answer) {
        answered(worker, epoch, order, answer);
      });
  SANDBOXKIT_FAULT_POINT("control.order.sent");
}

std::size_t Deliverer::under_way() const {
  std::size_t count = 0;
  for (const auto& [worker, lane] : lanes_) {
    count += lane.under_way.size();
  }
  return count;
}

void Deliverer::forget_order(const std::string& worker, std::uint64_t epoch, std::int64_t seq) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr) {
    return;
  }
  const auto found = lane->under_way.find(seq);
  if (found != lane->under_way.end()) {
    lane->creating -= found->second.kind == wire::DeliveryKind::kCreate ? 1 : 0;
    lane->under_way.erase(found);
  }
}

void Deliverer::settled(const std::string& worker, std::uint64_t epoch, std::int64_t seq) {
  forget_order(worker, epoch, seq);
  pump(worker);
}

void Deliverer::answered(const std::string& worker, std::uint64_t epoch, const Order& order,
                         const Result<WorkerAnswer>& answer) {
  if (lane_of(worker, epoch) == nullptr || order.seq == 0) {
    return;  // The tunnel is gone: the order is still queued, and is sent again at the next
             // connect.
  }
  if (!answer && answer.error().reason != "stream_reset" &&
      answer.error().code == ErrorCode::kUnavailable) {
    // The tunnel ends: that is no attempt. The order is sent again at the next connect.
    return forget_order(worker, epoch, order.seq);
  }
  SANDBOXKIT_FAULT_POINT("control.order.answered");
  const Verdict verdict =
      judge_answer(order, answer, context_.clock.now(), context_.config.create_wait);
  context_.metrics.orders_retried.add(verdict == Verdict::kRetry ? 1 : 0);
  context_.metrics.orders_given_up.add(verdict == Verdict::kGivenUp ? 1 : 0);
  const std::string failure = verdict == Verdict::kDone ? std::string() : failure_text(answer);
  if (verdict != Verdict::kDone) {
    Event event{
        Severity::kWarning,
        "order_refused",
        failure,
        {{"worker", worker}, {"sandbox", order.sandbox}, {"kind", wire::name_of(order.kind)}}};
    wire::add_trace(event.fields, wire::trace_from_text(order.trace));
    context_.events.tell(event);
  }
  on_pool([this, worker, epoch, order, verdict,
           failure] { settle(worker, epoch, order, verdict, failure); },
          [this, worker, epoch, seq = order.seq] { settled(worker, epoch, seq); });
}

void Deliverer::settle(const std::string& worker, std::uint64_t epoch, const Order& order,
                       Verdict verdict, const std::string& failure) {
  const WallTime now = context_.clock.now();
  const std::chrono::milliseconds delay = backoff(order.attempts);
  std::optional<store::SandboxRow> changed;
  const Status written = context_.store.write([&](store::Tx& tx) -> Status {
    auto settled = settle_order(tx, worker, order, verdict, failure, now);
    if (!settled) {
      return settled.error();
    }
    changed = std::move(*settled);
    SANDBOXKIT_FAULT_POINT("control.settle.before_commit");
    return {};
  });
  SANDBOXKIT_FAULT_POINT("control.settle.committed");
  if (written && changed) {
    tell(*changed);
    if (order.kind == wire::DeliveryKind::kRenew && verdict == Verdict::kDone) {
      store::SandboxRow acknowledged = *changed;
      acknowledged.expires = order.expires;
      waiters_.tell(Waiters::renew_key(order.sandbox), acknowledged);
    }
    if (order.kind == wire::DeliveryKind::kNarrow) {
      waiters_.tell(Waiters::narrow_key(order.sandbox), *changed);
    }
  }
  if (order.kind == wire::DeliveryKind::kRenew && verdict == Verdict::kFailed) {
    check_inventory(worker);  // It ended before the renewal came: the inventory says how.
  }
  context_.loop.post([this, worker, epoch, seq = order.seq, written, verdict, delay] {
    if (!written) {
      context_.loop.run_after(delay, [this, worker, epoch, seq] { settled(worker, epoch, seq); });
      return;
    }
    if (verdict == Verdict::kRetry) {
      wake_later(worker, delay + std::chrono::milliseconds{1});
    }
    settled(worker, epoch, seq);
  });
}

}  // namespace sandboxkit::control
