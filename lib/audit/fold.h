#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::audit {

/// Counts what is said again within a second of the first time. Pure: time comes in, and never goes
/// back.
class Fold {
 public:
  using Time = std::chrono::microseconds;
  static constexpr std::chrono::seconds kWindow{1};
  /// What comes above is written line by line.
  static constexpr std::size_t kMaxFolded = 1024;
  static constexpr std::size_t kMaxFoldedBytes = 4096;

  struct Repeats {
    std::string what{};
    std::uint64_t count = 0;
  };

  /// True when it was counted; false when it is to be written.
  bool take(const std::string& what, Time now);
  /// The counts whose second is over, in the order of their first time.
  std::vector<Repeats> due(Time now);
  /// All that is counted.
  std::vector<Repeats> drain();
  /// When the next second is over; nullopt: nothing is open.
  std::optional<Time> next() const;

 private:
  struct Open {
    Time until{};
    std::uint64_t more = 0;
  };
  using Opens = std::map<std::string, Open>;
  Opens open_;
  std::deque<Opens::iterator> order_;
};

}  // namespace sandboxkit::audit
