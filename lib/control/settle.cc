#include "control/deliverer.h"
#include "control/rows.h"

#include <string>
#include <utility>

/// What a worker's answer to an order does to the rows.
namespace sandboxkit::control {
namespace {

/// Statuses that say "not now": the order may go through later.
bool is_passing(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

Result<bool> settle_create(store::Tx& tx, store::SandboxRow& row, Verdict verdict,
                           const std::string& failure, WallTime now) {
  if (!is_waiting_to_run(row.state)) {
    return false;  // It was deleted, or lost, while it was made.
  }
  if (verdict == Verdict::kGivenUp) {
    // Nobody knows what the worker has of it by now.
    return begin_removal(tx, row, std::string(kCreateTimeout) + ": " + failure, now);
  }
  if (verdict == Verdict::kFailed) {
    return end_sandbox(tx, row, "error", failure, now);
  }
  const std::string before = row.state;
  row.state = "running";
  row.started = now;
  return tx.update_sandbox(row, before);
}

Result<bool> settle_remove(store::Tx& tx, store::SandboxRow& row, WallTime now) {
  if (row.state != "stopping") {
    return false;
  }
  const bool timed_out = row.reason.starts_with(kCreateTimeout);
  return end_sandbox(tx, row, timed_out ? "error" : "deleted", row.reason, now);
}

Result<bool> settle_row(store::Tx& tx, wire::DeliveryKind kind, store::SandboxRow& row,
                        Verdict verdict, const std::string& failure, WallTime now) {
  switch (kind) {
    case wire::DeliveryKind::kCreate:
      return settle_create(tx, row, verdict, failure, now);
    case wire::DeliveryKind::kRemove:
      return verdict == Verdict::kDone ? settle_remove(tx, row, now) : Result<bool>(false);
    case wire::DeliveryKind::kRenew:
      return false;  // The row holds the new end already; the worker's report tells if it ended.
  }
  return false;
}

}  // namespace

Verdict judge_answer(const Result<WorkerAnswer>& answer) {
  if (!answer) {
    return Verdict::kRetry;
  }
  if (answer->status >= 200 && answer->status < 300) {
    return Verdict::kDone;
  }
  return is_passing(answer->status) ? Verdict::kRetry : Verdict::kFailed;
}

std::string failure_text(const Result<WorkerAnswer>& answer) {
  if (!answer) {
    return reason_of(answer.error()) + ": " + answer.error().message;
  }
  const auto body = json::parse(answer->body);
  const std::string name = body ? body->text("error") : std::string();
  const std::string message = body ? body->text("message") : std::string();
  std::string text = (name.empty() ? "internal" : name) + ": " +
                     (message.empty() ? "the worker refused the order" : message);
  if (text.size() > wire::kMaxReasonBytes) {
    text.resize(wire::kMaxReasonBytes);
  }
  return text;
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
  Verdict verdict = judge_answer(answer);
  const WallTime now = context_.clock.now();
  const bool given_up = order.kind == wire::DeliveryKind::kCreate
                            ? now - order.created > context_.config.create_wait
                            : order.attempts + 1 >= kMaxAttempts;
  if (verdict == Verdict::kRetry && given_up) {
    verdict = Verdict::kGivenUp;
  }
  const std::string failure = verdict == Verdict::kDone ? std::string() : failure_text(answer);
  if (verdict != Verdict::kDone) {
    context_.events.tell(
        {Severity::kWarning,
         "order_refused",
         failure,
         {{"worker", worker}, {"sandbox", order.sandbox}, {"kind", wire::name_of(order.kind)}}});
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
    changed.reset();
    if (verdict == Verdict::kRetry) {
      return tx.retry_delivery(order.seq, now + delay);
    }
    auto row = tx.sandbox_of_worker(worker, order.sandbox);
    if (!row) {
      return row.error();
    }
    if (*row && (*row)->generation == order.generation) {
      auto done = settle_row(tx, order.kind, **row, verdict, failure, now);
      if (!done) {
        return done.error();
      }
      changed = std::move(**row);
    }
    return tx.finish_delivery(order.seq, verdict == Verdict::kDone ? "done" : "failed");
  });
  if (written && changed) {
    tell(*changed);
    if (order.kind == wire::DeliveryKind::kRenew && verdict == Verdict::kDone) {
      store::SandboxRow acknowledged = *changed;
      acknowledged.expires = order.expires;
      waiters_.tell(Waiters::renew_key(order.sandbox), acknowledged);
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
