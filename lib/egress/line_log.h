#pragma once

#include "io/event_loop.h"
#include "json/value.h"

#include <cstdint>
#include <string>

namespace sandboxkit::egress {

/// JSON lines to a descriptor, off the request path: lines are gathered and written when the loop
/// is done with what is ready. A reader that does not keep up costs lines, which are counted, and
/// never time.
/// Thread-safety: the loop's thread.
/// Ownership: borrows the loop and the descriptor, which is made non-blocking.
class LineLog {
 public:
  static constexpr std::size_t kMaxBufferedBytes = 256 * 1024;

  LineLog(io::EventLoop& loop, int fd);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void write(const json::Value& line);
  /// Lines that were given up.
  std::uint64_t dropped() const { return dropped_; }

 private:
  void flush();

  io::EventLoop& loop_;
  const int fd_;
  std::string buffer_;
  bool broken_ = false;
  io::EventLoop::TimerId timer_ = 0;  // 0: nothing waits to be written
  std::uint64_t dropped_ = 0;
};

}  // namespace sandboxkit::egress
