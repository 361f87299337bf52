#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/egress.h"

#include "json/value.h"

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sandboxkit::egress {

/// What was refused, counted: an owner reads it to widen the next sandbox. Bounded: the entry that
/// was not refused for the longest time gives way.
/// Thread-safety: one thread at a time.
class DeniedLog {
 public:
  static constexpr std::size_t kMaxEntries = 1000;

  void add(const EgressTarget& target, std::string_view reason, WallTime now);

  /// `{"denied": [{host, port, reason, count, first, last}]}`, the newest first.
  json::Value to_json() const;
  std::uint64_t total() const { return total_; }
  /// Entries that gave way.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Entry {
    std::string key;
    std::string host;
    std::uint16_t port;
    std::string reason;
    std::uint64_t count;
    WallTime first;
    WallTime last;
  };
  std::list<Entry> entries_;  // the newest in front
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::uint64_t total_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace sandboxkit::egress
