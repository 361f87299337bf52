#include "control/roster.h"

#include <functional>
#include <utility>

namespace sandboxkit::control {
namespace {

bool is_heard(WorkerState state) {
  return state != WorkerState::kUnreachable && state != WorkerState::kLost;
}

}  // namespace

Roster::Roster(const ControllerConfig& config, Clock& clock, store::Store& store)
    : config_(config),
      clock_(clock),
      store_(store),
      started_(clock.now()),
      scheduler_(config.placement),
      index_(config.placement),
      queueing_index_(config.placement) {}

Status Roster::load() {
  {
    const std::lock_guard lock(mutex_);
    const Status read = store_.read([&](store::Tx& tx) -> Status {
      auto rows = tx.all_workers();
      if (!rows) {
        return rows.error();
      }
      for (const store::WorkerRow& row : *rows) {
        stale_.insert(row.id);
      }
      return {};
    });
    if (!read) {
      return read;
    }
  }
  return refresh();
}

void Roster::changed(const std::string& worker) {
  const std::lock_guard lock(mutex_);
  if (!worker.empty()) {
    ++entries_[worker].version;
    stale_.insert(worker);
  }
}

void Roster::set_online(const std::string& worker, bool online) {
  const std::lock_guard lock(mutex_);
  entries_[worker].online = online;
  stale_.insert(worker);
}

void Roster::heard(const std::string& worker) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[worker];
  entry.heard = clock_.now();
  if (!is_heard(entry.line.state)) {
    stale_.insert(worker);
  }
}

Hearing Roster::hearing_of(const Entry* entry) const {
  Hearing hearing{.now = clock_.now(),
                  .controller_started = started_,
                  .unreachable_after = config_.unreachable_after,
                  .lost_after = config_.lost_after};
  if (entry != nullptr) {
    hearing.online = entry->online;
    hearing.heard = entry->heard;
  }
  return hearing;
}

Hearing Roster::hearing(const std::string& worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(worker);
  return hearing_of(found == entries_.end() ? nullptr : &found->second);
}

Status Roster::read_into(std::vector<Reading>& readings, const std::set<std::string>& workers) {
  return store_.read([&](store::Tx& tx) -> Status {
    readings.clear();
    for (const std::string& worker : workers) {
      auto row = tx.worker(worker);
      auto use = tx.use_of_worker(worker);
      if (!row || !use) {
        return row ? use.error() : row.error();
      }
      readings.push_back({worker, std::move(*row), *use});
    }
    return {};
  });
}

Status Roster::refresh() {
  const std::lock_guard one_at_a_time(refreshing_);
  std::set<std::string> workers;
  {
    const std::lock_guard lock(mutex_);
    workers.swap(stale_);
  }
  if (workers.empty()) {
    return {};
  }
  std::vector<Reading> readings;
  const Status read = read_into(readings, workers);
  const std::lock_guard lock(mutex_);
  if (!read) {
    stale_.merge(workers);
    return read;
  }
  for (const Reading& reading : readings) {
    take(reading);
  }
  return {};
}

void Roster::take(const Reading& reading) {
  Entry& entry = entries_[reading.worker];
  if (!reading.row) {
    if (const auto id = WorkerId::parse(reading.worker)) {
      index_.erase(*id);
      queueing_index_.erase(*id);
    }
    entries_.erase(reading.worker);
    return;
  }
  auto view = scheduler_view(*reading.row, reading.use, hearing_of(&entry));
  if (!view) {
    return;  // A row that cannot be read gets no work; whoever lists workers is told.
  }
  entry.known = true;
  entry.line.worker = reading.worker;
  entry.line.drain_until = reading.row->drain_until;
  put_view(*view);
}

void Roster::put_view(const WorkerView& view) {
  Line& line = entries_[view.id.str()].line;
  line.state = view.state;
  line.sandboxes = view.sandboxes;
  line.starting = view.starting;
  index_.put(view);
  WorkerView queueing = view;
  queueing.starting = 0;
  queueing_index_.put(std::move(queueing));
}

void Roster::put(const WorkerView& view) {
  const std::lock_guard lock(mutex_);
  put_view(view);
}

Decision Roster::schedule(const PlacementRequest& request, std::uint64_t seed,
                          Queueing queueing) const {
  const std::lock_guard lock(mutex_);
  return scheduler_.schedule(request, queueing == Queueing::kNever ? index_ : queueing_index_,
                             seed);
}

void Roster::tick() {
  const std::lock_guard lock(mutex_);
  const WallTime now = clock_.now();
  for (const auto& [worker, entry] : entries_) {
    const auto silence = now - std::max(started_, entry.heard.value_or(WallTime{}));
    const bool fell_silent = is_heard(entry.line.state) && silence > config_.unreachable_after;
    const bool was_lost = entry.line.state == WorkerState::kUnreachable && !entry.online &&
                          silence > config_.lost_after;
    if (entry.known && (fell_silent || was_lost)) {
      stale_.insert(worker);
    }
  }
}

std::vector<Roster::Line> Roster::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  lines.reserve(entries_.size());
  for (const auto& [worker, entry] : entries_) {
    if (entry.known) {
      lines.push_back(entry.line);
    }
  }
  return lines;
}

Roster::Note Roster::note_of(const std::string& worker, std::string_view heartbeat) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(worker);
  return {std::hash<std::string_view>{}(heartbeat),
          found == entries_.end() ? 0 : found->second.version};
}

bool Roster::is_settled(const std::string& worker, const Note& note) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(worker);
  return found != entries_.end() && found->second.quiet &&
         found->second.quiet->digest == note.digest && found->second.quiet->version == note.version;
}

void Roster::settled(const std::string& worker, const Note& note) {
  const std::lock_guard lock(mutex_);
  // Anything else that was written since the note was taken makes the versions differ.
  entries_[worker].quiet = Note{note.digest, note.version + 1};
}

}  // namespace sandboxkit::control
