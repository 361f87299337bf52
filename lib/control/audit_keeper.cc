#include "control/audit_keeper.h"

#include "json/value.h"

#include <utility>
#include <vector>

namespace sandboxkit::control {
namespace {

constexpr std::chrono::hours kPruneInterval{1};
constexpr int kForbidden = 403;

}  // namespace

void AuditKeeper::start() {
  if (!stopped_) {
    context_.loop.run_after(kWindow, [this] { tick(); });
  }
}

void AuditKeeper::tick() {
  if (stopped_) {
    return;
  }
  const bool taken = context_.pool.post([this] {
    pass();
    context_.loop.post([this] { start(); });
  });
  if (!taken) {
    start();
  }
}

void AuditKeeper::pass() {
  flush();
  prune();
}

void AuditKeeper::note(const Caller& caller, policy::Action action,
                       const net::ApiResponse& answer) {
  if (answer.status == kForbidden) {
    const auto body = json::parse(answer.body);
    note(caller, action, body ? body->text("error") : std::string("forbidden"));
  }
}

void AuditKeeper::note(const Caller& caller, policy::Action action, const std::string& refusal) {
  store::AuditRow row;
  row.time = context_.clock.now();
  row.tenant = caller.tenant;
  row.actor = caller.credential;
  row.action = policy::name_of(action);
  row.outcome = refusal;
  row.address = caller.address;
  row.request = caller.trace.request_id;
  const std::string key = caller.credential + " " + refusal;
  const bool first = counts_.with([&](auto& counts) {
    if (const auto counted = counts.find(key); counted != counts.end()) {
      ++counted->second.more;
      return false;
    }
    if (counts.size() < kMaxCounted) {
      counts.emplace(key, Count{row});
      return true;
    }
    auto& rest = counts[{}];
    rest.row = {0, row.time, {}, "system", "audit.refusals", {}, "refused"};
    ++rest.more;
    return false;
  });
  if (!first) {
    return;
  }
  // The caller's answer does not wait for it.
  const bool taken = context_.pool.post([this, row] {
    const Status ignored = context_.store.write([&](store::Tx& tx) { return tx.insert(row); });
    static_cast<void>(ignored);
  });
  if (!taken) {
    counts_.with([&](auto& counts) { ++counts[key].more; });
  }
}

void AuditKeeper::flush() {
  const auto counts = counts_.with([](auto& all) { return std::exchange(all, {}); });
  std::vector<store::AuditRow> rows;
  for (const auto& [key, count] : counts) {
    if (count.more > 0) {
      rows.push_back(count.row);
      rows.back().time = context_.clock.now();
      rows.back().request.clear();  // It stands for several.
      rows.back().outcome += ", " + std::to_string(count.more) + " more within a minute";
    }
  }
  if (rows.empty()) {
    return;
  }
  const Status ignored = context_.store.write([&](store::Tx& tx) -> Status {
    for (const store::AuditRow& row : rows) {
      if (auto inserted = tx.insert(row); !inserted) {
        return inserted;
      }
    }
    return {};
  });
  static_cast<void>(ignored);
}

void AuditKeeper::prune() {
  const WallTime now = context_.clock.now();
  if (context_.config.audit_retention < std::chrono::seconds{0} || now < next_prune_) {
    return;
  }
  std::int64_t removed = 0;
  const Status ignored = context_.store.write([&](store::Tx& tx) -> Status {
    auto pruned = tx.prune_audit(now - context_.config.audit_retention);
    removed = pruned.value_or(0);
    return pruned ? Status{} : Status(pruned.error());
  });
  static_cast<void>(ignored);
  // There may be more than one call removes: it goes on with the next minute.
  next_prune_ = removed > 0 ? now : now + kPruneInterval;
}

}  // namespace sandboxkit::control
