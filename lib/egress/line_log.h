#pragma once

#include "io/event_loop.h"
#include "json/value.h"

#include <cstdint>
#include <string>

namespace sandboxkit::egress {

/// JSON lines to a descriptor, off the request path: lines are gathered and written when the loop
/// is done with what is ready. A reader that does not keep up and a full disk cost lines, which are
/// counted, and never time.
///
/// With a spare descriptor both are files that take turns: one that reached kMaxFileBytes is left
/// and the other one emptied, so that the last lines are always there and the disk use is bounded.
/// Thread-safety: the loop's thread.
/// Ownership: borrows the loop and the descriptors, which are made non-blocking.
class LineLog {
 public:
  static constexpr std::size_t kMaxBufferedBytes = 256 * 1024;
  static constexpr std::size_t kMaxFileBytes = 4 * 1024 * 1024;

  LineLog(io::EventLoop& loop, int fd, int spare_fd = -1);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void write(const json::Value& line);
  /// Lines that were given up.
  std::uint64_t dropped() const { return dropped_; }

 private:
  void flush();
  void change_files();
  void give_up();

  io::EventLoop& loop_;
  int fd_;
  int spare_fd_;
  std::string buffer_;
  bool broken_ = false;
  bool torn_ = false;                 // The last line that was written lacks its end.
  io::EventLoop::TimerId timer_ = 0;  // 0: nothing waits to be written
  std::uint64_t dropped_ = 0;
};

}  // namespace sandboxkit::egress
