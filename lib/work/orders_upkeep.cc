// What the worker does without being asked: restarts, times that are over, ends that nobody
// ordered.
#include "base/fault_point.h"
#include "work/orders.h"

#include <map>
#include <memory>
#include <utility>

namespace sandboxkit::work {
namespace {

constexpr std::chrono::milliseconds kRetryRemove{5'000};
/// A controller that read the inventory orders removes well within this.
constexpr std::chrono::milliseconds kTimeToOrder{30'000};

bool runs(const SandboxReport& report) {
  return report.state == SandboxState::kRunning || report.state == SandboxState::kPaused;
}

std::string reason_in(const SandboxReport& report) {
  return report.reason.empty() ? name_of(report.state) : report.reason;
}

}  // namespace

Status Orders::adopt() {
  auto reports = driver_.adopt();
  if (!reports) {
    return reports.error();
  }
  note_structures(*reports);
  std::map<std::string, const SandboxReport*> by_id;
  for (const SandboxReport& report : *reports) {
    by_id[report.sandbox.str()] = &report;
  }
  for (store::JournalRow& row : ledger_.all()) {
    const auto found = by_id.find(row.sandbox);
    const SandboxReport* report = found == by_id.end() ? nullptr : found->second;
    if (found != by_id.end()) {
      by_id.erase(found);
    }
    if (auto adopted = adopt_row(std::move(row), report); !adopted) {
      return adopted;
    }
  }
  for (const auto& [id, report] : by_id) {
    orphans_.insert_or_assign(id, Orphan{*report, clock_.now()});
  }
  return {};
}

Status Orders::adopt_row(store::JournalRow row, const SandboxReport* report) {
  const bool kept = report != nullptr && runs(*report) && report->generation == row.generation;
  if (row.state == kRunning && !kept) {
    // A remove that fails now is tried again by the sweep.
    const JobResult tried = end(row, report != nullptr ? reason_in(*report) : kReasonLost);
    return {};
  }
  if (row.state == kCreating && kept) {
    row.state = kRunning;
    row.updated = clock_.now();
    return ledger_.put(row);
  }
  if (row.state == kCreating) {
    // The order was never answered, so it comes again: until then nothing of it may stay. What the
    // engine keeps now is in the way of nothing: the create that comes again takes it down first,
    // a remove takes it down as well, and its own time ends it when neither comes.
    const auto id = SandboxId::parse(row.sandbox);
    if (!id || !driver_.remove(*id)) {
      return {};
    }
    SANDBOXKIT_FAULT_POINT("work.adopt.undone");
    return ledger_.erase(row.sandbox);
  }
  return {};  // What is removing goes on in the sweep; what is ended is looked at by reconcile.
}

void Orders::name_orphan(const std::string& sandbox) {
  const auto found = orphans_.find(sandbox);
  if (found == orphans_.end()) {
    return;
  }
  const SandboxReport& report = found->second.report;
  store::JournalRow row{sandbox, report.tenant.str(), report.generation, kRunning};
  row.state = runs(report) ? kRunning : kRemoving;
  row.reason = runs(report) ? "" : reason_in(report);
  row.policy_hash = report.policy_hash;
  row.expires = report.expires_at;
  row.updated = clock_.now();
  // A write on the loop's thread: only after a journal was lost, once for each sandbox.
  if (ledger_.put(row)) {
    tell(Severity::kWarning, "orphan_adopted", sandbox, "the journal did not know this sandbox");
    orphans_.erase(found);
  }
}

void Orders::forget_ruin(const std::string& sandbox) {
  const auto found = orphans_.find(sandbox);
  if (found != orphans_.end() && found->second.report.state == SandboxState::kError) {
    orphans_.erase(found);
  }
}

void Orders::add_end(const store::JournalRow& row, const std::string& reason) {
  Job job;
  job.work = [this, row, reason](const std::stop_token&) { return end_if_same(row, reason); };
  job.done = [this, id = row.sandbox](const JobResult& result) {
    if (result) {
      retry_at_.erase(id);
    } else {
      retry_at_[id] = clock_.now() + kRetryRemove;
    }
  };
  lanes_.add(row.sandbox, std::move(job));
}

JobResult Orders::end_if_same(const store::JournalRow& row, const std::string& reason) {
  const auto now = ledger_.get(row.sandbox);
  const bool same = now && now->generation == row.generation && now->state == row.state;
  const bool renewed =
      now && reason == kReasonTimeout && now->state == kRunning && now->expires > clock_.now();
  if (!same || renewed) {
    return SandboxState::kStopped;
  }
  if (reason == kReasonTimeout) {
    SANDBOXKIT_FAULT_POINT("work.expiry.begun");
  }
  return end(*now, reason);
}

void Orders::sweep() {
  const WallTime now = clock_.now();
  for (const store::JournalRow& row : ledger_.all()) {
    if (lanes_.busy(row.sandbox)) {
      continue;
    }
    // One that is being made and has no job is what a restart left.
    if ((row.state == kRunning || row.state == kCreating) && row.expires <= now) {
      add_end(row, kReasonTimeout);
    }
    const auto retry = retry_at_.find(row.sandbox);
    if (row.state == kRemoving && (retry == retry_at_.end() || retry->second <= now)) {
      add_end(row, row.reason);
    }
  }
}

void Orders::driver_event(const DriverEvent& event) {
  const auto row = ledger_.get(event.sandbox.str());
  if (row && row->generation == event.generation && row->state == kRunning) {
    add_end(*row, event.reason.empty() ? name_of(event.state) : event.reason);
  }
}

void Orders::reconcile() {
  if (reconciling_) {
    return;
  }
  const WallTime from = clock_.now();
  reconciling_ = others_.submit([this, from] {
    // Shared, because it travels back in a std::function.
    auto reports = std::make_shared<Result<std::vector<SandboxReport>>>(driver_.list());
    loop_.post([this, from, reports] {
      reconciling_ = false;
      if (!*reports) {
        return events_.tell(
            Event{Severity::kWarning, "reconcile_failed", reports->error().message});
      }
      compare(**reports, from);
    });
  });
}

void Orders::compare(const std::vector<SandboxReport>& reports, WallTime listed_from) {
  note_structures(reports);
  std::map<std::string, const SandboxReport*> by_id;
  for (const SandboxReport& report : reports) {
    by_id[report.sandbox.str()] = &report;
  }
  for (const store::JournalRow& row : ledger_.all()) {
    const auto found = by_id.find(row.sandbox);
    compare_row(row, found == by_id.end() ? nullptr : found->second, listed_from);
  }
  std::erase_if(orphans_, [&](const auto& orphan) { return !by_id.contains(orphan.first); });
  for (const SandboxReport& report : reports) {
    compare_report(report);
  }
  purge();
}

void Orders::compare_row(const store::JournalRow& row, const SandboxReport* report,
                         WallTime listed_from) {
  // What changed since the engine was asked is not judged by that answer.
  if (lanes_.busy(row.sandbox) || row.updated >= listed_from) {
    return;
  }
  if (row.state == kRunning && (report == nullptr || report->generation != row.generation)) {
    return add_end(row, kReasonLost);
  }
  if (row.state == kRunning && !runs(*report)) {
    return add_end(row, reason_in(*report));
  }
  if (row.state == kEnded && report != nullptr) {
    remove_rest(row.sandbox);
  }
}

void Orders::compare_report(const SandboxReport& report) {
  const std::string& id = report.sandbox.str();
  if (ledger_.get(id) || lanes_.busy(id)) {
    orphans_.erase(id);
    return;
  }
  const WallTime now = clock_.now();
  const auto found = orphans_.find(id);
  if (found == orphans_.end()) {
    orphans_.insert_or_assign(id, Orphan{report, now});
    return;
  }
  found->second.report = report;
  if (now - found->second.seen < config_.orphan_grace) {
    return;
  }
  if (found->second.told && runs(report)) {
    if (now - *found->second.told >= kTimeToOrder) {
      name_orphan(id);
    }
    return;
  }
  tell(Severity::kWarning, "orphan_removed", id, "neither journal nor controller knows it");
  orphans_.erase(found);
  remove_rest(id);
}

void Orders::remove_rest(const std::string& sandbox) {
  Job job;
  job.work = [this, sandbox](const std::stop_token&) -> JobResult {
    const auto id = SandboxId::parse(sandbox);
    const auto row = ledger_.get(sandbox);
    if (!id || (row && row->state != kEnded)) {
      return SandboxState::kStopped;  // It was made (again) since.
    }
    if (auto removed = driver_.remove(*id); !removed) {
      return removed.error();
    }
    return SandboxState::kStopped;
  };
  lanes_.add(sandbox, std::move(job));
}

void Orders::purge() {
  const WallTime oldest = clock_.now() - config_.report_ended;
  for (const store::JournalRow& row : ledger_.all()) {
    if (row.state == kEnded && row.updated < oldest && !lanes_.busy(row.sandbox)) {
      Job job;
      job.work = [this, id = row.sandbox](const std::stop_token&) -> JobResult {
        const auto now = ledger_.get(id);
        const Status erased = now && now->state == kEnded ? ledger_.erase(id) : Status();
        return erased ? JobResult(SandboxState::kDeleted) : JobResult(erased.error());
      };
      lanes_.add(row.sandbox, std::move(job));
    }
  }
}

}  // namespace sandboxkit::work
