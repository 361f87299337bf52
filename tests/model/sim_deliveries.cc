// The steps of lib/control/deliverer.cc, without its threads and tunnels.
#include "tests/model/sim_controller.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::model {
namespace {

using control::Order;
using control::Verdict;

constexpr milliseconds kInventoryTimeout{20'000};
constexpr milliseconds kInventoryRetry{1'000};
constexpr int kMaxInventoryFailures = 3;
constexpr milliseconds kOrderTimeout{60'000};
constexpr milliseconds kCreateGrace{10'000};

Error late() {
  return Error{ErrorCode::kDeadlineExceeded, "the worker did not answer in time",
               "worker_unreachable"};
}

}  // namespace

SimController::Lane* SimController::lane_of(const std::string& worker, std::uint64_t epoch) {
  const auto found = lanes_.find(worker);
  return found == lanes_.end() || found->second.epoch != epoch ? nullptr : &found->second;
}

std::uint64_t SimController::open_call(const std::string& worker, std::uint64_t epoch,
                                       std::function<void(const Error&)> fail,
                                       milliseconds timeout) {
  const std::uint64_t call = ++last_call_;
  calls_.emplace(call, Call{worker, epoch, fail});
  task(timeout, [this, call, fail = std::move(fail)] {
    if (close_call(call)) {
      fail(late());
    }
  });
  return call;
}

void SimController::check_inventory(const std::string& worker) {
  const auto found = lanes_.find(worker);
  if (found != lanes_.end() && found->second.ready) {
    take_inventory(worker, found->second.epoch);
  }
}

void SimController::take_inventory(const std::string& worker, std::uint64_t epoch) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr || lane->taking_inventory) {
    return;
  }
  lane->taking_inventory = true;
  on_pool([this, worker, epoch] {
    std::vector<store::SandboxRow> before;
    const Status read = store_.read([&](store::Tx& tx) -> Status {
      auto rows = tx.sandboxes_of_worker(worker);
      if (!rows) {
        return rows.error();
      }
      before = std::move(*rows);
      return {};
    });
    if (!read) {
      return inventory_settled(worker, epoch, std::nullopt);
    }
    if (lane_of(worker, epoch) == nullptr) {
      return;
    }
    const auto call = open_call(
        worker, epoch,
        [this, worker, epoch](const Error&) { inventory_settled(worker, epoch, std::nullopt); },
        kInventoryTimeout);
    wires_.ask_inventory(
        worker, epoch,
        [this, worker, epoch, call, before](Result<std::vector<SandboxReport>> reports) {
          task(milliseconds(0), [this, worker, epoch, call, before, reports] {
            if (!close_call(call)) {
              return;
            }
            if (!reports) {
              return inventory_settled(worker, epoch, std::nullopt);
            }
            on_pool([this, worker, epoch, before, reports] {
              settle_inventory(worker, epoch, before, *reports);
            });
          });
        });
  });
}

void SimController::settle_inventory(const std::string& worker, std::uint64_t epoch,
                                     const std::vector<store::SandboxRow>& before,
                                     const std::vector<SandboxReport>& reports) {
  std::optional<control::ReportOutcome> outcome;
  const Status written = store_.write([&](store::Tx& tx) -> Status {
    auto settled =
        control::settle_inventory(tx, config_, worker, reports, before, scene_.clock.now());
    if (!settled) {
      return settled.error();
    }
    outcome = std::move(*settled);
    return {};
  });
  if (!written) {
    outcome.reset();
  }
  scene_.say({worker}, "the inventory of " + worker + " is settled, " +
                           std::to_string(reports.size()) + " reports");
  if (outcome) {
    for (const store::SandboxRow& row : outcome->changed) {
      tell(row);
    }
  }
  task(milliseconds(0), [this, worker, epoch, outcome = std::move(outcome)] {
    inventory_settled(worker, epoch, outcome);
  });
}

void SimController::inventory_settled(const std::string& worker, std::uint64_t epoch,
                                      std::optional<control::ReportOutcome> outcome) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr) {
    return;
  }
  lane->taking_inventory = false;
  if (!outcome) {
    if (++lane->inventory_failures >= kMaxInventoryFailures) {
      wires_.hang_up(worker);
      closed(worker, epoch);
      return;
    }
    task(kInventoryRetry, [this, worker, epoch] { take_inventory(worker, epoch); });
    return;
  }
  lane->inventory_failures = 0;
  if (!lane->ready) {
    lane->ready = true;
    roster_->set_online(worker, true);
  }
  for (const wire::Delivery& stray : outcome->strays) {
    send(worker, epoch, control::stray_order(stray));
  }
  pump(worker);
}

void SimController::pump(const std::string& worker) {
  const auto found = lanes_.find(worker);
  if (found == lanes_.end() || !found->second.ready) {
    return;
  }
  Lane& lane = found->second;
  if (lane.reading) {
    lane.again = true;
    return;
  }
  lane.reading = true;
  lane.again = false;
  on_pool([this, worker, epoch = lane.epoch] { read_queue(worker, epoch); });
}

void SimController::read_queue(const std::string& worker, std::uint64_t epoch) {
  control::Due due;
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    auto found = control::read_due(tx, worker, scene_.clock.now());
    if (!found) {
      return found.error();
    }
    due = std::move(*found);
    return {};
  });
  if (!read) {
    throw Violation("the queue of a worker can be read", {worker}, read.error().message);
  }
  if (!due.stale.empty()) {
    const Status written =
        store_.write([&](store::Tx& tx) { return control::finish_stale(tx, due); });
    if (!written) {
      throw Violation("the store works", {worker}, written.error().message);
    }
  }
  task(milliseconds(0),
       [this, worker, epoch, due = std::move(due)] { dispatch(worker, epoch, due); });
}

bool SimController::may_send(const Lane& lane, const Order& order) const {
  if (lane.under_way.contains(order.seq)) {
    return false;
  }
  if (order.kind == wire::DeliveryKind::kCreate && lane.creating >= lane.max_creating) {
    return false;
  }
  return std::ranges::none_of(lane.under_way, [&](const auto& each) {
    const Order& other = each.second;
    return other.sandbox == order.sandbox &&
           (order.kind != wire::DeliveryKind::kRemove || other.kind == wire::DeliveryKind::kRemove);
  });
}

void SimController::dispatch(const std::string& worker, std::uint64_t epoch,
                             const control::Due& due) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr) {
    return;
  }
  lane->reading = false;
  lane->max_creating = due.max_creating;
  for (const Order& order : due.orders) {
    if (!may_send(*lane, order)) {
      continue;
    }
    lane->under_way.emplace(order.seq, order);
    lane->creating += order.kind == wire::DeliveryKind::kCreate ? 1 : 0;
    send(worker, epoch, order);
    lane = lane_of(worker, epoch);
    if (lane == nullptr) {
      return;
    }
  }
  if (lane->again) {
    pump(worker);
  }
}

void SimController::send(const std::string& worker, std::uint64_t epoch, const Order& order) {
  const milliseconds timeout = order.kind == wire::DeliveryKind::kCreate
                                   ? config_.create_wait + kCreateGrace
                                   : kOrderTimeout;
  const auto call = open_call(
      worker, epoch,
      [this, worker, epoch, order](const Error& error) { answered(worker, epoch, order, error); },
      timeout);
  wires_.send_order(worker, epoch, order.body,
                    [this, worker, epoch, order, call](Result<control::WorkerAnswer> answer) {
                      task(milliseconds(0), [this, worker, epoch, order, call, answer] {
                        if (close_call(call)) {
                          answered(worker, epoch, order, answer);
                        }
                      });
                    });
}

void SimController::answered(const std::string& worker, std::uint64_t epoch, const Order& order,
                             const Result<control::WorkerAnswer>& answer) {
  Lane* lane = lane_of(worker, epoch);
  if (lane == nullptr || order.seq == 0) {
    return;
  }
  if (!answer && answer.error().reason != "stream_reset" &&
      answer.error().code == ErrorCode::kUnavailable) {
    const auto found = lane->under_way.find(order.seq);
    if (found != lane->under_way.end()) {
      lane->creating -= order.kind == wire::DeliveryKind::kCreate ? 1 : 0;
      lane->under_way.erase(found);
    }
    return;
  }
  const Verdict verdict =
      control::judge_answer(order, answer, scene_.clock.now(), config_.create_wait);
  const std::string failure =
      verdict == Verdict::kDone ? std::string() : control::failure_text(answer);
  scene_.say({worker, order.sandbox}, std::string(wire::name_of(order.kind)) + " " + order.sandbox +
                                          " seq " + std::to_string(order.seq) +
                                          " answered: " + (failure.empty() ? "done" : failure));
  on_pool([this, worker, epoch, order, verdict, failure] {
    settle(worker, epoch, order, verdict, failure);
  });
  if (scene_.mishap(10)) {
    // The same answer again, late.
    task(scene_.dice.time(0, 20'000), [this, worker, epoch, order, verdict, failure] {
      settle(worker, epoch, order, verdict, failure);
    });
  }
}

void SimController::settle(const std::string& worker, std::uint64_t epoch, const Order& order,
                           Verdict verdict, const std::string& failure) {
  const milliseconds delay = control::backoff(order.attempts);
  std::optional<store::SandboxRow> changed;
  const Status written = store_.write([&](store::Tx& tx) -> Status {
    auto settled = control::settle_order(tx, worker, order, verdict, failure, scene_.clock.now());
    if (!settled) {
      return settled.error();
    }
    changed = std::move(*settled);
    return {};
  });
  if (written && changed) {
    tell(*changed);
    if (order.kind == wire::DeliveryKind::kRenew && verdict == Verdict::kDone) {
      store::SandboxRow acknowledged = *changed;
      acknowledged.expires = order.expires;
      tell(order.sandbox + "/renew", acknowledged);
    }
  }
  if (order.kind == wire::DeliveryKind::kRenew && verdict == Verdict::kFailed) {
    check_inventory(worker);
  }
  task(milliseconds(0), [this, worker, epoch, seq = order.seq, written, verdict, delay] {
    if (!written) {
      task(delay, [this, worker, epoch, seq] { order_settled(worker, epoch, seq); });
      return;
    }
    if (verdict == Verdict::kRetry) {
      task(delay + milliseconds{1}, [this, worker] { pump(worker); });
    }
    order_settled(worker, epoch, seq);
  });
}

void SimController::order_settled(const std::string& worker, std::uint64_t epoch,
                                  std::int64_t seq) {
  if (Lane* lane = lane_of(worker, epoch)) {
    const auto found = lane->under_way.find(seq);
    if (found != lane->under_way.end()) {
      lane->creating -= found->second.kind == wire::DeliveryKind::kCreate ? 1 : 0;
      lane->under_way.erase(found);
    }
  }
  pump(worker);
}

}  // namespace sandboxkit::model
