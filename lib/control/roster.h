#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/controller.h"
#include "sandboxkit/fleet_index.h"
#include "sandboxkit/placement.h"

#include "control/rows.h"
#include "store/store.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit::control {

/// What the controller knows of its workers without asking the store: whether each is connected,
/// when it was last heard, and the scheduler's index of the fleet.
///
/// Hints that are fast: what is decided by them is checked again on the rows, inside of the
/// transaction that acts on it. The store tells what changed (`Store::on_change`), and `refresh`
/// reads it. Thread-safety: any thread.
class Roster {
 public:
  Roster(const ControllerConfig& config, Clock& clock, store::Store& store);

  /// Reads the whole fleet; once, before anything else.
  Status load();

  /// A worker's row or one of its sandboxes' was written.
  void changed(const std::string& worker);
  void set_online(const std::string& worker, bool online);
  void heard(const std::string& worker);
  Hearing hearing(const std::string& worker) const;

  /// Reads what changed since the last call. Blocking, so outside of a write. Errors: the store's.
  Status refresh();

  enum class Queueing : std::uint8_t {
    kNever,
    kForStartSlot,  ///< A worker whose start slots are taken fits: the order waits in its queue.
  };
  Decision schedule(const PlacementRequest& request, std::uint64_t seed, Queueing queueing) const;
  /// What the rows say now, and what the running transaction takes: ahead of `refresh`, so that
  /// transactions of one commit see each other.
  void put(const WorkerView& view);

  /// Marks those that fell silent, so that the next `refresh` sees them as unreachable or lost.
  void tick();
  struct Line {
    std::string worker;
    WorkerState state = WorkerState::kUnreachable;
    std::int64_t sandboxes = 0;
    std::int64_t starting = 0;
    std::optional<WallTime> drain_until{};
  };
  std::vector<Line> lines() const;

  /// A heartbeat that says what the one before said, of a worker whose rows did not change since
  /// that one was settled without effect, has none either: no parsing, no reading, no disk.
  struct Note {
    std::uint64_t digest = 0;
    std::uint64_t version = 0;
  };
  Note note_of(const std::string& worker, std::string_view heartbeat) const;
  bool is_settled(const std::string& worker, const Note& note) const;
  /// `note` was taken before the heartbeat's own write, which changed the rows once.
  void settled(const std::string& worker, const Note& note);

 private:
  struct Entry {
    bool online = false;
    std::optional<WallTime> heard{};
    std::uint64_t version = 0;  ///< Rises with each change of its rows.
    std::optional<Note> quiet{};
    bool known = false;  ///< It has a row, which was read.
    Line line{};
  };
  /// One worker as it was read.
  struct Reading {
    std::string worker;
    std::optional<store::WorkerRow> row;
    store::Tx::Use use{};
  };

  Hearing hearing_of(const Entry* entry) const;
  Status read_into(std::vector<Reading>& readings, const std::set<std::string>& workers);
  void take(const Reading& reading);
  void put_view(const WorkerView& view);

  const ControllerConfig& config_;
  Clock& clock_;
  store::Store& store_;
  const WallTime started_;
  const Scheduler scheduler_;

  std::mutex refreshing_;  ///< One at a time: an older reading must not replace a newer one.
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> stale_;
  FleetIndex index_;
  /// The same fleet with all start slots free.
  FleetIndex queueing_index_;
};

}  // namespace sandboxkit::control
