// What a simulated worker does without being asked.
#include "json/value.h"
#include "tests/model/sim_worker.h"
#include "work/ledger.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::model {
namespace {

using work::kCreating;
using work::kEnded;
using work::kReasonLost;
using work::kReasonRemoved;
using work::kReasonTimeout;
using work::kRemoving;
using work::kRunning;

constexpr milliseconds kSweep{1'000};
constexpr milliseconds kReconcile{30'000};
constexpr milliseconds kOrphanGrace{60'000};
constexpr milliseconds kRetryRemove{5'000};
constexpr milliseconds kTimeToOrder{30'000};
constexpr std::chrono::hours kReportEnded{24};

bool runs(const SandboxReport& report) { return report.state == SandboxState::kRunning; }

SandboxState state_of(const store::JournalRow& row) {
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

SandboxReport report_of(const std::string& sandbox, const EngineObject& object) {
  return {.sandbox = *SandboxId::parse(sandbox),
          .tenant = *TenantId::parse(object.tenant),
          .generation = object.generation,
          .state = object.running ? SandboxState::kRunning : SandboxState::kStopped,
          .expires_at = object.expires,
          .policy_hash = object.policy_hash,
          .reason = object.reason};
}

}  // namespace

void SimWorker::start() {
  up_ = true;
  up_since_ = scene_.clock.now();
  ++incarnation_;
  adopt();
  every(kSweep, [this] { sweep(); });
  every(kReconcile, [this] { reconcile(); });
  restarted_();
}

void SimWorker::stop() {
  up_ = false;
  ++incarnation_;
  lanes_.clear();
  orphans_.clear();
  retry_at_.clear();
  scene_.say({setup_.id}, "the process of " + setup_.id + " ended");
}

void SimWorker::restart() {
  stop();
  scene_.agenda.after(scene_.dice.time(200, 5'000), [this, incarnation = incarnation_] {
    if (!up_ && incarnation == incarnation_) {
      start();
    }
  });
}

void SimWorker::lose_journal() {
  journal_.clear();
  scene_.say({setup_.id}, setup_.id + " lost its journal");
}

void SimWorker::kill_object(const std::string& sandbox, bool vanish) {
  const auto found = engine_.find(sandbox);
  if (found == engine_.end()) {
    return;
  }
  scene_.say({sandbox, setup_.id}, sandbox + (vanish ? " vanished" : " died"));
  scene_.fates[sandbox].ends.insert(vanish ? kReasonLost : "exit 137");
  if (vanish) {
    engine_.erase(found);
    return;
  }
  found->second.running = false;
  found->second.reason = "exit 137";
  const store::JournalRow* row = row_of(sandbox);
  if (up_ && row != nullptr && row->state == kRunning) {
    add_end(*row, "exit 137");
  }
}

std::map<std::string, SandboxReport> SimWorker::list() const {
  std::map<std::string, SandboxReport> reports;
  for (const auto& [sandbox, object] : engine_) {
    reports.emplace(sandbox, report_of(sandbox, object));
  }
  return reports;
}

void SimWorker::adopt() {
  auto reports = list();
  const auto journal = journal_;
  for (const auto& [sandbox, row] : journal) {
    const auto found = reports.find(sandbox);
    adopt_row(row, found == reports.end() ? nullptr : &found->second);
    if (found != reports.end()) {
      reports.erase(found);
    }
  }
  for (const auto& [sandbox, report] : reports) {
    orphans_.insert_or_assign(sandbox, Orphan{report, scene_.clock.now()});
  }
}

void SimWorker::adopt_row(const store::JournalRow& row, const SandboxReport* report) {
  const bool kept = report != nullptr && runs(*report) && report->generation == row.generation;
  store::JournalRow next = row;
  if (row.state == kRunning && !kept) {
    const std::string reason = report != nullptr ? report->reason : kReasonLost;
    next.reason = reason;
    next.state = kRemoving;
    put(next);
    if (!remove_object(row.sandbox, reason)) {
      scene_.fates[row.sandbox].ends.insert(reason);
      next.state = kEnded;
      put(next);
    }
  } else if (row.state == kCreating && kept) {
    next.state = kRunning;
    put(next);
  } else if (row.state == kCreating) {
    if (!remove_object(row.sandbox, "never finished")) {
      journal_.erase(row.sandbox);
    }
  }
}

void SimWorker::name_orphan(const std::string& sandbox) {
  const auto found = orphans_.find(sandbox);
  if (found == orphans_.end()) {
    return;
  }
  const SandboxReport& report = found->second.report;
  store::JournalRow row{sandbox, report.tenant.str(), report.generation, kRunning};
  row.state = runs(report) ? kRunning : kRemoving;
  row.reason = report.reason;
  row.policy_hash = report.policy_hash;
  row.expires = report.expires_at;
  put(std::move(row));
  scene_.say({sandbox, setup_.id}, setup_.id + " took back " + sandbox);
  orphans_.erase(found);
}

void SimWorker::add_end(const store::JournalRow& row, const std::string& reason) {
  Job job;
  job.run = [this, row, reason] {
    const store::JournalRow* now = row_of(row.sandbox);
    const bool same =
        now != nullptr && now->generation == row.generation && now->state == row.state;
    const bool renewed = now != nullptr && reason == kReasonTimeout && now->state == kRunning &&
                         now->expires > scene_.clock.now();
    if (!same || renewed) {
      return finish(row.sandbox, SandboxState::kStopped);
    }
    end(*now, reason, [this, id = row.sandbox](const Answer& answer) { finish(id, answer); });
  };
  job.done = [this, id = row.sandbox](const Answer& answer) {
    if (answer) {
      retry_at_.erase(id);
    } else {
      retry_at_[id] = scene_.clock.now() + kRetryRemove;
    }
  };
  add(row.sandbox, std::move(job));
}

void SimWorker::sweep() {
  const WallTime now = scene_.clock.now();
  const auto journal = journal_;
  for (const auto& [sandbox, row] : journal) {
    if (row.state == kEnded || lanes_.contains(sandbox)) {
      continue;
    }
    if ((row.state == kRunning || row.state == kCreating) && row.expires <= now) {
      add_end(row, kReasonTimeout);
    }
    const auto retry = retry_at_.find(sandbox);
    if (row.state == kRemoving && (retry == retry_at_.end() || retry->second <= now)) {
      add_end(row, row.reason);
    }
  }
}

void SimWorker::reconcile() {
  const auto reports = list();
  const auto journal = journal_;
  for (const auto& [sandbox, row] : journal) {
    const auto found = reports.find(sandbox);
    compare_row(row, found == reports.end() ? nullptr : &found->second);
  }
  std::erase_if(orphans_, [&](const auto& orphan) { return !reports.contains(orphan.first); });
  for (const auto& [sandbox, report] : reports) {
    compare_report(report);
  }
  const WallTime oldest = scene_.clock.now() - kReportEnded;
  std::erase_if(journal_, [&](const auto& each) {
    return each.second.state == kEnded && each.second.updated < oldest &&
           !lanes_.contains(each.first);
  });
}

void SimWorker::compare_row(const store::JournalRow& row, const SandboxReport* report) {
  if (lanes_.contains(row.sandbox)) {
    return;
  }
  if (row.state == kRunning && (report == nullptr || report->generation != row.generation)) {
    return add_end(row, kReasonLost);
  }
  if (row.state == kRunning && !runs(*report)) {
    return add_end(row, report->reason);
  }
  if (row.state == kEnded && report != nullptr) {
    remove_rest(row.sandbox);
  }
}

void SimWorker::compare_report(const SandboxReport& report) {
  const std::string& id = report.sandbox.str();
  if (journal_.contains(id) || lanes_.contains(id)) {
    orphans_.erase(id);
    return;
  }
  const WallTime now = scene_.clock.now();
  const auto found = orphans_.find(id);
  if (found == orphans_.end()) {
    orphans_.insert_or_assign(id, Orphan{report, now});
    return;
  }
  found->second.report = report;
  if (now - found->second.seen < kOrphanGrace) {
    return;
  }
  if (found->second.told && runs(report)) {
    if (now - *found->second.told >= kTimeToOrder) {
      name_orphan(id);
    }
    return;
  }
  orphans_.erase(found);
  remove_rest(id);
}

void SimWorker::remove_rest(const std::string& sandbox) {
  Job job;
  job.run = [this, sandbox] {
    const store::JournalRow* row = row_of(sandbox);
    if (row == nullptr || row->state == kEnded) {
      if (!remove_object(sandbox, "nobody knows it")) {
        scene_.fates[sandbox].ends.insert(kReasonLost);
      }
    }
    finish(sandbox, SandboxState::kStopped);
  };
  add(sandbox, std::move(job));
}

std::vector<SandboxReport> SimWorker::inventory() const {
  std::vector<SandboxReport> reports;
  const WallTime oldest = scene_.clock.now() - kReportEnded;
  for (const auto& [sandbox, row] : journal_) {
    const bool settled = row.state == kEnded && row.reason == kReasonRemoved;
    if (!settled && (row.state != kEnded || row.updated >= oldest)) {
      reports.push_back({.sandbox = *SandboxId::parse(sandbox),
                         .tenant = *TenantId::parse(row.tenant),
                         .generation = row.generation,
                         .state = state_of(row),
                         .expires_at = row.expires,
                         .policy_hash = row.policy_hash,
                         .reason = row.reason});
    }
  }
  for (const auto& [sandbox, orphan] : orphans_) {
    reports.push_back(orphan.report);
  }
  return reports;
}

void SimWorker::inventory_read() {
  for (auto& [sandbox, orphan] : orphans_) {
    orphan.told = orphan.told.value_or(scene_.clock.now());
  }
}

std::string SimWorker::heartbeat_body() const {
  wire::Heartbeat body{.facts = {.driver = {"model 1"}}};
  body.facts.driver.runtimes = {"runc"};
  body.facts.driver.arch = "amd64";
  body.facts.driver.cpu_cores = setup_.cpu_cores;
  body.facts.driver.memory_mb = setup_.memory_mb;
  body.facts.driver.images.assign(setup_.images.begin(), setup_.images.end());
  body.facts.max_sandboxes = setup_.max_sandboxes;
  body.facts.max_starting = setup_.max_starting;
  for (const SandboxReport& each : inventory()) {
    body.sandboxes.push_back(
        {each.sandbox, each.generation, each.state, each.expires_at, each.reason});
  }
  return json::dump(wire::to_json(body));
}

}  // namespace sandboxkit::model
