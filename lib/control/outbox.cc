#include "control/outbox.h"

#include "control/lifecycle.h"
#include "control/rows.h"
#include "control/secrets.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstBackoff{200};
constexpr milliseconds kLastBackoff{30'000};

/// Statuses that say "not now": the order may go through later. 499: the worker stopped the create,
/// for a remove or for its own end; where a row still waits for it, it was no remove of ours.
bool is_passing(int status) {
  return status == 429 || status == 499 || status == 502 || status == 503 || status == 504;
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
  return end_sandbox(tx, row, state_when_removed(row), row.reason, now);
}

/// A newer narrowing may be on its way: then the older one's answer says nothing of it.
Result<bool> settle_narrowing(store::Tx& tx, store::SandboxRow& row, const Order& order) {
  if (row.narrowing_hash != order.policy_hash || row.narrowing_state == "in_force") {
    return false;
  }
  row.narrowing_state = "in_force";
  return tx.update_sandbox(row, row.state);
}

Result<bool> settle_row(store::Tx& tx, const Order& order, store::SandboxRow& row, Verdict verdict,
                        const std::string& failure, WallTime now) {
  switch (order.kind) {
    case wire::DeliveryKind::kCreate:
      return settle_create(tx, row, verdict, failure, now);
    case wire::DeliveryKind::kRemove:
      return verdict == Verdict::kDone ? settle_remove(tx, row, now) : Result<bool>(false);
    case wire::DeliveryKind::kRenew:
      return false;  // The row holds the new end already; the worker's report tells if it ended.
    case wire::DeliveryKind::kNarrow:
      // One that failed stays pending; the next inventory orders it again.
      return verdict == Verdict::kDone ? settle_narrowing(tx, row, order) : Result<bool>(false);
    case wire::DeliveryKind::kLend:
      return false;
  }
  return false;
}

/// A remove that many attempts did not bring about is given up only when no row waits for it: the
/// worker ends what it has of such a sandbox by itself, and its reports tell what it keeps.
Result<bool> is_still_needed(store::Tx& tx, const std::string& worker, const Order& order) {
  if (order.kind != wire::DeliveryKind::kRemove || order.attempts + 1 < kMaxAttempts) {
    return true;
  }
  auto row = tx.sandbox_of_worker(worker, order.sandbox);
  if (!row) {
    return row.error();
  }
  return *row && (*row)->generation == order.generation && (*row)->state == "stopping";
}

enum class Turn : std::uint8_t { kNow, kLater, kNever };

Turn turn_of(wire::DeliveryKind kind, const store::SandboxRow& row) {
  switch (kind) {
    case wire::DeliveryKind::kCreate:
      return is_waiting_to_run(row.state) ? Turn::kNow : Turn::kNever;
    case wire::DeliveryKind::kRemove:
      return Turn::kNow;
    case wire::DeliveryKind::kRenew:
      return row.state == "running" ? Turn::kNow : Turn::kNever;
    case wire::DeliveryKind::kNarrow:
    case wire::DeliveryKind::kLend:
      // What is being made first runs, with the policy and the secrets of its create.
      return row.state == "running"                           ? Turn::kNow
             : is_ended(row.state) || row.state == "stopping" ? Turn::kNever
                                                              : Turn::kLater;
  }
  return Turn::kNever;
}

Error unreadable(const store::SandboxRow& row, const char* what) {
  return Error{ErrorCode::kInternal,
               std::string("the stored ") + what + " of `" + row.id + "` cannot be read"};
}

/// What the message holds besides its head.
Status fill(store::Tx& tx, const store::SandboxRow& row, const store::SecretsKey* key,
            wire::Delivery& message) {
  if (message.kind == wire::DeliveryKind::kCreate) {
    const auto text = json::parse(row.spec);
    auto spec = text ? wire::spec_from_json(*text) : Result<SandboxSpec>(text.error());
    if (!spec) {
      return unreadable(row, "spec");
    }
    auto secrets = open_secrets(tx, row, key);
    if (!secrets) {
      return secrets.error();
    }
    spec->secrets = std::move(*secrets);
    message.spec = std::move(*spec);
  }
  if (message.kind == wire::DeliveryKind::kNarrow) {
    auto policy = stored_policy(row.narrowing);
    if (!policy) {
      return unreadable(row, "narrowing");
    }
    message.egress = std::move(*policy);
    message.policy_hash = row.narrowing_hash;
  }
  if (message.kind == wire::DeliveryKind::kLend) {
    auto secrets = open_secrets(tx, row, key);
    if (!secrets) {
      return secrets.error();
    }
    message.secrets = std::move(*secrets);
  }
  return {};
}

Status make_order(store::Tx& tx, const store::DeliveryRow& delivery, const store::SecretsKey* key,
                  Due& due) {
  auto found = tx.sandbox_of_worker(delivery.worker, delivery.sandbox);
  if (!found) {
    return found.error();
  }
  const auto kind = wire::delivery_kind_from(delivery.kind);
  if (!*found || !kind || (*found)->generation != delivery.generation) {
    due.stale.push_back(delivery.seq);
    return {};
  }
  const store::SandboxRow& row = **found;
  const Turn turn = turn_of(*kind, row);
  const auto sandbox = SandboxId::parse(row.id);
  const auto tenant = TenantId::parse(row.tenant);
  if (turn == Turn::kNever || !sandbox || !tenant) {
    due.stale.push_back(delivery.seq);
    return {};
  }
  if (turn == Turn::kLater) {
    return {};
  }
  wire::Delivery message{delivery.seq,   *kind,       *sandbox,       *tenant,
                         row.generation, row.expires, row.policy_hash};
  const Status filled = fill(tx, row, key, message);
  const bool sealed = !filled && reason_of(filled.error()) == kSecretsUnavailable;
  if (!filled && !sealed) {
    return filled;
  }
  (sealed ? due.sealed : due.orders)
      .push_back({delivery.seq, *kind, row.id, row.tenant, row.generation, delivery.attempts,
                  row.created, row.expires, delivery.trace,
                  sealed ? std::string() : json::dump(wire::to_json(message)),
                  message.policy_hash});
  return {};
}

}  // namespace

milliseconds backoff(std::int64_t attempts) {
  const auto shift = std::min<std::int64_t>(std::max<std::int64_t>(attempts, 0), 10);
  return std::min(kLastBackoff, kFirstBackoff * (std::int64_t{1} << shift));
}

void put_in_turn(std::vector<Order>& orders, std::map<std::string, std::int64_t> starting) {
  std::map<std::int64_t, std::int64_t> turn;  // By seq; 0: at once.
  for (const Order& order : orders) {
    const bool waits = order.kind == wire::DeliveryKind::kCreate;
    turn[order.seq] = waits ? ++starting[order.tenant] : 0;
  }
  std::stable_sort(orders.begin(), orders.end(),
                   [&](const Order& a, const Order& b) { return turn[a.seq] < turn[b.seq]; });
}

Result<Due> read_due(store::Tx& tx, const std::string& worker, WallTime now,
                     const store::SecretsKey* key) {
  Due due;
  auto row = tx.worker(worker);
  if (!row) {
    return row.error();
  }
  due.max_creating = *row ? std::max<std::int64_t>((*row)->max_starting, 1) : 1;
  auto deliveries = tx.due_deliveries(worker, now, kMaxDue);
  if (!deliveries) {
    return deliveries.error();
  }
  for (const store::DeliveryRow& delivery : *deliveries) {
    if (auto made = make_order(tx, delivery, key, due); !made) {
      return made.error();
    }
  }
  return due;
}

Status finish_stale(store::Tx& tx, const Due& due) {
  for (const std::int64_t seq : due.stale) {
    if (auto finished = tx.finish_delivery(seq, "done"); !finished) {
      return finished;
    }
  }
  return {};
}

Result<std::vector<store::SandboxRow>> fail_sealed(store::Tx& tx, const std::string& worker,
                                                   const Due& due, WallTime now) {
  std::vector<store::SandboxRow> changed;
  for (const Order& order : due.sealed) {
    auto row = settle_order(tx, worker, order, Verdict::kFailed,
                            std::string(kSecretsUnavailable) +
                                ": its secrets do not open with this controller's "
                                "`secrets_key_file`",
                            now);
    if (!row) {
      return row.error();
    }
    if (*row) {
      changed.push_back(std::move(**row));
    }
  }
  return changed;
}

Order stray_order(const wire::Delivery& stray) {
  return Order{.kind = stray.kind,
               .sandbox = stray.sandbox.str(),
               .generation = stray.generation,
               .body = json::dump(wire::to_json(stray))};
}

Verdict judge_answer(const Order& order, const Result<WorkerAnswer>& answer, WallTime now,
                     milliseconds create_wait) {
  if (answer && answer->status >= 200 && answer->status < 300) {
    return Verdict::kDone;
  }
  if (order.kind == wire::DeliveryKind::kRemove) {
    // Whatever keeps the worker from it now, the sandbox has to go; the row waits for that.
    return Verdict::kRetry;
  }
  if (answer && !is_passing(answer->status)) {
    return Verdict::kFailed;
  }
  const bool given_up = order.kind == wire::DeliveryKind::kCreate
                            ? now - order.created > create_wait
                            : order.attempts + 1 >= kMaxAttempts;
  return given_up ? Verdict::kGivenUp : Verdict::kRetry;
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

Result<std::optional<store::SandboxRow>> settle_order(store::Tx& tx, const std::string& worker,
                                                      const Order& order, Verdict verdict,
                                                      const std::string& failure, WallTime now) {
  std::optional<store::SandboxRow> current;
  if (verdict == Verdict::kRetry) {
    auto needed = is_still_needed(tx, worker, order);
    if (!needed) {
      return needed.error();
    }
    if (!*needed) {
      verdict = Verdict::kGivenUp;
    }
  }
  if (verdict == Verdict::kRetry) {
    auto queued = tx.retry_delivery(order.seq, now + backoff(order.attempts));
    return queued ? Result<std::optional<store::SandboxRow>>(std::move(current)) : queued.error();
  }
  auto row = tx.sandbox_of_worker(worker, order.sandbox);
  if (!row) {
    return row.error();
  }
  if (*row && (*row)->generation == order.generation) {
    auto done = settle_row(tx, order, **row, verdict, failure, now);
    if (!done) {
      return done.error();
    }
    current = std::move(**row);
  }
  auto finished = tx.finish_delivery(order.seq, verdict == Verdict::kDone ? "done" : "failed");
  return finished ? Result<std::optional<store::SandboxRow>>(std::move(current)) : finished.error();
}

}  // namespace sandboxkit::control
