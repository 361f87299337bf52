#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::cli {

/// `text` with control characters, terminal escapes and direction overrides as `\xNN`, so that a
/// name cannot paint on the terminal.
std::string printable(std::string_view text);

/// `90`, `90s`, `10m`, `2h`, `1d`, `1h30m`: seconds where no unit stands.
Result<std::chrono::seconds> parse_duration(std::string_view text);
/// `512`, `512m`, `2g`, `1.5g`: MiB where no unit stands.
Result<std::int64_t> parse_memory_mb(std::string_view text);

/// `45s`, `12m`, `3h`, `5d`: the largest unit that leaves two, rounded.
std::string short_duration(std::chrono::seconds duration);
/// `2`, `0.5`: no more digits than it needs, at most two after the point.
std::string plain_number(double number);
/// `512 MiB`, `1.5 GiB`.
std::string human_bytes(std::uint64_t bytes);
/// `12m ago`, `in 3h`, or "" for a text that is no time.
std::string relative_time(std::string_view rfc3339, WallTime now);

/// Columns for people: aligned, cut to the terminal's width where that is known.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  /// Cells are made printable; a row has as many cells as there are titles.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.size() <= 1; }
  /// `width` 0: as wide as it needs.
  std::string text(std::size_t width) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sandboxkit::cli
