#include "work/orders.h"

#include "base/fault_point.h"
#include "base/text.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sandboxkit::work {
namespace {

Error foreign_tenant() {
  return Error{ErrorCode::kPermissionDenied, "the order is for another workspace's sandbox",
               "foreign_tenant"};
}

Error generation_conflict(std::int64_t known, std::int64_t asked) {
  return Error{ErrorCode::kConflict,
               "generation " + std::to_string(asked) + " was asked for, the worker knows " +
                   std::to_string(known),
               "generation_conflict"};
}

Error not_running(const std::string& reason) {
  return Error{ErrorCode::kConflict,
               "the sandbox does not run" + (reason.empty() ? "" : ": " + reason),
               "sandbox_not_running"};
}

SandboxOrder order_of(const wire::Delivery& delivery) {
  return SandboxOrder{delivery.sandbox, delivery.tenant,     delivery.generation,
                      *delivery.spec,   delivery.expires_at, delivery.policy_hash};
}

}  // namespace

Orders::Orders(OrdersConfig config, io::EventLoop& loop, Driver& driver, Ledger& ledger,
               Lanes& lanes, ThreadPool& others, Clock& clock, EventSink& events)
    : config_(std::move(config)),
      loop_(loop),
      driver_(driver),
      ledger_(ledger),
      lanes_(lanes),
      others_(others),
      clock_(clock),
      events_(events) {}

void Orders::tell(Severity severity, const char* name, const std::string& sandbox,
                  const std::string& message, const wire::Trace& trace) {
  Event event{severity, name, message, {{"sandbox", sandbox}}};
  wire::add_trace(event.fields, trace);
  events_.tell(event);
}

void Orders::ended(const std::string& sandbox) {
  loop_.post([this, sandbox] {
    if (on_ended_) {
      on_ended_(sandbox);
    }
  });
}

Status Orders::check_tenant(const wire::Delivery& delivery) const {
  const auto row = ledger_.get(delivery.sandbox.str());
  const bool ours = config_.tenant.empty() || delivery.tenant.str() == config_.tenant;
  if (!ours || (row && row->tenant != delivery.tenant.str())) {
    return foreign_tenant();
  }
  return {};
}

void Orders::deliver(const wire::Delivery& delivery, std::function<void(JobResult)> done) {
  if (delivery.kind == wire::DeliveryKind::kCreate) {
    forget_ruin(delivery.sandbox.str());
  }
  name_orphan(delivery.sandbox.str());
  if (auto allowed = check_tenant(delivery); !allowed) {
    tell(Severity::kWarning, "order_refused", delivery.sandbox.str(), allowed.error().message,
         delivery.trace);
    return done(allowed.error());
  }
  SANDBOXKIT_FAULT_POINT("work.order.received");
  Job job;
  job.done = std::move(done);
  switch (delivery.kind) {
    case wire::DeliveryKind::kCreate:
      if (!delivery.spec) {
        return job.done(Error{ErrorCode::kInvalidArgument, "a create needs a spec", "", "spec"});
      }
      job.kind = Job::Kind::kCreate;
      job.work = [this, delivery](const std::stop_token& stop) { return create(delivery, stop); };
      break;
    case wire::DeliveryKind::kRemove:
      job.kind = Job::Kind::kRemove;
      job.work = [this, delivery](const std::stop_token&) { return remove(delivery); };
      break;
    case wire::DeliveryKind::kRenew:
      job.work = [this, delivery](const std::stop_token&) { return renew(delivery); };
      break;
    case wire::DeliveryKind::kNarrow:
      if (!delivery.egress) {
        return job.done(
            Error{ErrorCode::kInvalidArgument, "a narrowing needs a policy", "", "egress"});
      }
      job.work = [this, delivery](const std::stop_token&) { return narrow(delivery); };
      break;
    case wire::DeliveryKind::kLend:
      job.work = [this, delivery](const std::stop_token&) { return lend(delivery); };
      break;
  }
  lanes_.add(delivery.sandbox.str(), std::move(job));
}

std::optional<JobResult> Orders::settle_before_create(const wire::Delivery& delivery) {
  const auto row = ledger_.get(delivery.sandbox.str());
  if (row && row->generation > delivery.generation) {
    return generation_conflict(row->generation, delivery.generation);
  }
  if (row && row->generation == delivery.generation && row->state != kCreating) {
    return row->state == kRunning ? JobResult(SandboxState::kRunning)
                                  : JobResult(not_running(row->reason));
  }
  if (row && row->generation < delivery.generation && row->state != kEnded) {
    if (auto gone = end(*row, "replaced by a newer generation", delivery.trace); !gone) {
      return gone;
    }
  }
  if (clock_.now() >= delivery.expires_at) {
    return Error{ErrorCode::kConflict, "the sandbox's time was over before it was made",
                 "sandbox_expired"};
  }
  if (ledger_.live() >= config_.max_sandboxes) {
    return Error{
        ErrorCode::kUnavailable,
        "the worker runs its maximum of " + std::to_string(config_.max_sandboxes) + " sandboxes",
        "no_capacity"};
  }
  return std::nullopt;
}

JobResult Orders::create(const wire::Delivery& delivery, const std::stop_token& stop) {
  if (stop.stop_requested()) {
    return Error{ErrorCode::kCancelled, "the create was stopped before it was begun"};
  }
  if (auto settled = settle_before_create(delivery)) {
    return std::move(*settled);
  }
  const std::string& id = delivery.sandbox.str();
  const auto before = ledger_.get(id);
  store::JournalRow row{id, delivery.tenant.str(), delivery.generation, kCreating};
  row.policy_hash = delivery.policy_hash;
  row.expires = delivery.expires_at;
  row.updated = clock_.now();
  if (auto written = ledger_.put(row); !written) {
    return written.error();
  }
  SANDBOXKIT_FAULT_POINT("work.create.journaled");
  const auto begun = std::chrono::steady_clock::now();
  const Status made = driver_.create(order_of(delivery), stop);
  const auto taken = std::chrono::steady_clock::now() - begun;
  create_times_.observe(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(taken).count()));
  if (!made) {
    const bool older = before && before->generation < delivery.generation;
    const Status undone = older ? ledger_.put(*before) : ledger_.erase(id);
    tell(Severity::kWarning, "create_failed", id, made.error().message, delivery.trace);
    return undone ? made.error() : undone.error();
  }
  SANDBOXKIT_FAULT_POINT("work.create.made");
  row.state = kRunning;
  row.updated = clock_.now();
  if (auto written = ledger_.put(row); !written) {
    // Nobody would know of it after a restart.
    [[maybe_unused]] const Status removed = driver_.remove(delivery.sandbox);
    return written.error();
  }
  SANDBOXKIT_FAULT_POINT("work.create.running");
  tell(Severity::kInfo, "sandbox_started", id, "", delivery.trace);
  return SandboxState::kRunning;
}

JobResult Orders::remove(const wire::Delivery& delivery) {
  const std::string& id = delivery.sandbox.str();
  auto row = ledger_.get(id);
  if (row && row->generation > delivery.generation) {
    return generation_conflict(row->generation, delivery.generation);
  }
  if (row && row->state == kEnded && row->generation == delivery.generation) {
    row->reason = kReasonRemoved;  // The controller knows how it ended: no need to tell it again.
    const Status written = ledger_.put(*row);
    return written ? JobResult(SandboxState::kStopped) : JobResult(written.error());
  }
  if (!row) {
    // The engine is asked as well, and the row keeps a create that comes late from reviving it.
    row = store::JournalRow{id, delivery.tenant.str(), delivery.generation, kRemoving};
  }
  row->generation = delivery.generation;
  return end(std::move(*row), kReasonRemoved, delivery.trace);
}

Result<store::JournalRow> Orders::row_to_change(const wire::Delivery& delivery) const {
  auto row = ledger_.get(delivery.sandbox.str());
  if (!row) {
    return Error{ErrorCode::kNotFound, "the worker does not know this sandbox",
                 "sandbox_not_found"};
  }
  if (row->generation != delivery.generation) {
    return generation_conflict(row->generation, delivery.generation);
  }
  if (row->state != kRunning) {
    return not_running(row->reason);
  }
  return std::move(*row);
}

JobResult Orders::renew(const wire::Delivery& delivery) {
  auto row = row_to_change(delivery);
  if (!row) {
    return row.error();
  }
  row->expires = delivery.expires_at;
  if (auto written = ledger_.put(*row); !written) {
    return written.error();
  }
  SANDBOXKIT_FAULT_POINT("work.renew.journaled");
  return SandboxState::kRunning;
}

/// The driver first: what it has done is durable there, and until the journal says so as well the
/// order comes again.
JobResult Orders::narrow(const wire::Delivery& delivery) {
  auto row = row_to_change(delivery);
  if (!row) {
    return row.error();
  }
  auto narrowed = driver_.narrow(delivery.sandbox, *delivery.egress, delivery.policy_hash);
  if (!narrowed) {
    tell(Severity::kWarning, "narrow_failed", row->sandbox, narrowed.error().message,
         delivery.trace);
    return narrowed.error();
  }
  row->policy_hash = delivery.policy_hash;
  if (auto written = ledger_.put(*row); !written) {
    return written.error();
  }
  tell(Severity::kInfo, "egress_narrowed", row->sandbox, "", delivery.trace);
  return SandboxState::kRunning;
}

/// Secrets are handed on and kept by nobody here: no journal, no event.
JobResult Orders::lend(const wire::Delivery& delivery) {
  const auto row = row_to_change(delivery);
  if (!row) {
    return row.error();
  }
  if (auto lent = driver_.lend(delivery.sandbox, delivery.secrets); !lent) {
    tell(Severity::kWarning, "lend_failed", row->sandbox, lent.error().message, delivery.trace);
    return lent.error();
  }
  return SandboxState::kRunning;
}

JobResult Orders::end(store::JournalRow row, const std::string& reason, const wire::Trace& trace) {
  row.state = kRemoving;
  row.reason = reason;
  row.updated = clock_.now();
  if (auto written = ledger_.put(row); !written) {
    return written.error();
  }
  SANDBOXKIT_FAULT_POINT("work.remove.journaled");
  ended(row.sandbox);
  const auto id = SandboxId::parse(row.sandbox);
  if (!id) {
    return id.error();
  }
  if (auto removed = driver_.remove(*id); !removed) {
    tell(Severity::kWarning, "remove_failed", row.sandbox, removed.error().message, trace);
    return removed.error();
  }
  SANDBOXKIT_FAULT_POINT("work.remove.removed");
  row.state = kEnded;
  row.updated = clock_.now();
  if (auto written = ledger_.put(row); !written) {
    return written.error();
  }
  SANDBOXKIT_FAULT_POINT("work.remove.ended");
  tell(Severity::kInfo, "sandbox_ended", row.sandbox, reason, trace);
  ended(row.sandbox);
  return SandboxState::kStopped;
}

Result<store::JournalRow> Orders::find_running(const SandboxId& sandbox, std::int64_t generation) {
  name_orphan(sandbox.str());
  auto row = ledger_.get(sandbox.str());
  if (!row) {
    return Error{ErrorCode::kNotFound, "the worker does not know this sandbox",
                 "sandbox_not_found"};
  }
  if (row->generation != generation) {
    return generation_conflict(row->generation, generation);
  }
  if (row->state != kRunning) {
    return not_running(row->reason);
  }
  return std::move(*row);
}

std::vector<SandboxReport> Orders::inventory() const {
  std::vector<SandboxReport> reports;
  const WallTime oldest = clock_.now() - config_.report_ended;
  for (const store::JournalRow& row : ledger_.all()) {
    // What was removed by order is settled: the controller has that answer.
    const bool settled = row.state == kEnded && row.reason == kReasonRemoved;
    const auto sandbox = SandboxId::parse(row.sandbox);
    const auto tenant = TenantId::parse(row.tenant);
    const bool stale = row.state == kEnded && row.updated < oldest;
    if (settled || stale || !sandbox || !tenant) {
      continue;
    }
    const auto known = structures_.find(row.sandbox);
    reports.push_back(
        SandboxReport{.sandbox = *sandbox,
                      .tenant = *tenant,
                      .generation = row.generation,
                      .state = state_of(row),
                      .expires_at = row.expires,
                      .policy_hash = row.policy_hash,
                      .structure = known == structures_.end() ? std::string() : known->second,
                      .reason = row.reason});
  }
  for (const auto& [id, orphan] : orphans_) {
    reports.push_back(orphan.report);
  }
  if (reports.size() > wire::kMaxReportedSandboxes) {
    // Those that run come first; ends that do not fit are told once others are purged.
    std::stable_partition(reports.begin(), reports.end(),
                          [](const SandboxReport& r) { return r.state == SandboxState::kRunning; });
    reports.erase(reports.begin() + wire::kMaxReportedSandboxes, reports.end());
  }
  return reports;
}

void Orders::note_structures(const std::vector<SandboxReport>& reports) {
  structures_.clear();
  for (const SandboxReport& report : reports) {
    structures_[report.sandbox.str()] = report.structure;
  }
}

void Orders::inventory_read() {
  for (auto& [id, orphan] : orphans_) {
    orphan.told = orphan.told.value_or(clock_.now());
  }
}

SandboxState Orders::state_of(const store::JournalRow& row) {
  if (row.state == kCreating) {
    return SandboxState::kStarting;
  }
  if (row.state == kRunning) {
    return SandboxState::kRunning;
  }
  if (row.state == kRemoving) {
    return SandboxState::kStopping;
  }
  return row.reason == kReasonLost ? SandboxState::kLost : SandboxState::kStopped;
}

}  // namespace sandboxkit::work
