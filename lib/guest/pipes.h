#pragma once

#include "sandboxkit/result.h"

#include "io/event_loop.h"
#include "io/fd.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::guest {

/// Reads a child's pipe or terminal, with pauses. Never blocks, one piece per turn of the loop.
class PipeReader {
 public:
  struct Handlers {
    std::function<void(std::string_view)> on_data;
    std::function<void()> on_end;  ///< Once: end of file, or what `end_soon` allowed is read.
  };
  PipeReader(io::EventLoop& loop, io::Fd fd, Handlers handlers);
  ~PipeReader();
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;

  void pause();
  void resume();
  /// The process is gone, but others may hold its pipe open for good (`server &`): reads what is in
  /// the pipe now, then ends.
  void end_after_what_is_there();
  void end_now();
  bool ended() const { return !fd_; }

 private:
  void ready();
  void watch(bool on);
  io::EventLoop& loop_;
  io::Fd fd_;
  Handlers handlers_;
  bool watched_ = false;
  bool limited_ = false;
  std::size_t left_ = 0;
};

/// Writes to a child's stdin or terminal from a bounded buffer.
class PipeWriter {
 public:
  PipeWriter(io::EventLoop& loop, io::Fd fd);
  ~PipeWriter();
  PipeWriter(const PipeWriter&) = delete;
  PipeWriter& operator=(const PipeWriter&) = delete;

  /// Takes all of `bytes`; `on_room` comes once the buffer is low again (at once when it is), also
  /// when the reader has gone.
  /// Errors: kResourceExhausted past kMaxStdinBuffered; kConflict when closed.
  Status write(std::string_view bytes, std::function<void()> on_room);
  /// End of file for the reader, after what is buffered.
  void close_after_flush();
  void close_now();
  bool is_open() const { return static_cast<bool>(fd_) && !closing_; }

 private:
  void flush();
  void tell_room();
  void watch(bool on);
  io::EventLoop& loop_;
  io::Fd fd_;
  std::string buffer_;
  std::function<void()> on_room_;
  bool watched_ = false;
  bool closing_ = false;
};

}  // namespace sandboxkit::guest
