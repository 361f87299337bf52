#pragma once

#include "tests/model/sim_clock.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace sandboxkit::model {

/// An invariant does not hold. `subjects`: the sandbox, worker or workspace that it is about.
struct Violation : std::runtime_error {
  Violation(std::string the_invariant, std::set<std::string> the_subjects, const std::string& text)
      : std::runtime_error(text),
        invariant(std::move(the_invariant)),
        subjects(std::move(the_subjects)) {}
  std::string invariant;
  std::set<std::string> subjects;
};

/// What the model itself saw happen to one sandbox: what its row says is measured by this.
struct Fate {
  std::string tenant{};
  std::string idempotency_key{};
  std::set<std::string> deleted_by{};  ///< Credentials that asked for its end.
  std::set<std::string> refusals{};    ///< What its worker answered to its create.
  std::set<std::string> ends{};        ///< Why its worker ended it.
  bool tolerant = false;               ///< It may be placed on a worker that is set apart.
  std::set<std::int64_t> ran{};        ///< Generations that an engine ran.
  bool acknowledged = false;           ///< A caller was told its id.
  bool gone_acknowledged = false;      ///< A caller was told that it is gone.
};

/// The last things that happened, with what they are about.
class Trace {
 public:
  static constexpr std::size_t kKept = 20'000;

  void add(WallTime time, std::set<std::string> subjects, std::string text) {
    if (lines_.size() == kKept) {
      lines_.pop_front();
    }
    lines_.push_back({time, operation_, std::move(subjects), std::move(text)});
  }
  void set_operation(std::int64_t operation) { operation_ = operation; }
  std::int64_t operation() const { return operation_; }

  struct Line {
    WallTime time{};
    std::int64_t operation = 0;
    std::set<std::string> subjects{};
    std::string text{};
  };
  const std::deque<Line>& lines() const { return lines_; }

 private:
  std::int64_t operation_ = 0;
  std::deque<Line> lines_;
};

/// What all parts of one simulated world share.
struct Scene {
  explicit Scene(std::uint64_t seed) : dice(seed) {}

  SimClock clock;
  Dice dice;
  Agenda agenda{clock};
  Trace trace;
  std::map<std::string, Fate> fates;
  /// No faults happen by themselves while this stands.
  bool quiet = false;

  /// How often what happened: a run in which hardly anything happens proves nothing.
  std::map<std::string, std::int64_t> counts;

  bool mishap(std::int64_t of_a_thousand) { return dice.chance(of_a_thousand) && !quiet; }
  void say(std::set<std::string> subjects, std::string text) {
    trace.add(clock.now(), std::move(subjects), std::move(text));
  }
};

}  // namespace sandboxkit::model
