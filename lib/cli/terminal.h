#pragma once

#include "sandboxkit/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termios.h>

namespace sandboxkit::cli {

inline constexpr int kStandardInput = 0;
inline constexpr int kStandardOutput = 1;
inline constexpr int kStandardError = 2;

bool is_terminal(int fd);

struct WindowSize {
  unsigned columns = 80;
  unsigned rows = 24;
};
/// The terminal's size, or 80 x 24.
WindowSize window_size(int fd);

/// For a table on standard output: its width on a terminal, 0 (no limit) elsewhere.
std::size_t table_width();

/// Writes all of it, whatever the descriptor's mode; false when nobody reads any more.
bool write_all(int fd, std::string_view bytes);

/// Prints a line on standard output.
void print_line(std::string_view text);

/// A terminal that passes every key on; put back when this goes away.
class RawMode {
 public:
  explicit RawMode(int fd);
  ~RawMode() { restore(); }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  /// From any thread, more than once.
  void restore();

 private:
  int fd_;
  std::optional<termios> before_;
};

/// A line on standard error that says how far long work is; silent where that is no terminal.
class Progress {
 public:
  /// `total` 0: unknown.
  Progress(std::string label, std::uint64_t total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::uint64_t bytes);
  /// Takes the line away.
  void clear();

 private:
  void draw();
  std::string label_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  bool shown_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point last_drawn_{};
};

/// The text of a progress line: `src  12.0 MiB / 1 GiB  1%  48.0 MiB/s`.
std::string progress_text(std::string_view label, std::uint64_t done, std::uint64_t total,
                          std::chrono::milliseconds elapsed);

}  // namespace sandboxkit::cli
