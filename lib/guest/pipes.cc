#include "guest/pipes.h"

#include "guest/bounds.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sandboxkit::guest {

PipeReader::PipeReader(io::EventLoop& loop, io::Fd fd, Handlers handlers)
    : loop_(loop), fd_(std::move(fd)), handlers_(std::move(handlers)) {
  watch(true);
}

PipeReader::~PipeReader() { watch(false); }

void PipeReader::watch(bool on) {
  if (on == watched_ || !fd_) {
    return;
  }
  watched_ = on;
  // A paused descriptor leaves the loop: epoll reports a hang-up even to who asked for nothing.
  if (on) {
    loop_.add(fd_.get(), EPOLLIN, [this](std::uint32_t) { ready(); });
  } else {
    loop_.remove(fd_.get());
  }
}

void PipeReader::pause() { watch(false); }
void PipeReader::resume() { watch(true); }

void PipeReader::ready() {
  std::array<char, kPipeReadBytes> piece;
  const std::size_t room = limited_ ? std::min(left_, piece.size()) : piece.size();
  const ssize_t got = ::read(fd_.get(), piece.data(), room);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got <= 0) {  // a terminal whose other side is closed reads as EIO
    end_now();
    return;
  }
  const auto bytes = static_cast<std::size_t>(got);
  left_ -= limited_ ? bytes : 0;
  const bool last = limited_ && left_ == 0;
  if (last) {
    watch(false);
  }
  handlers_.on_data({piece.data(), bytes});
  if (last) {
    end_now();
  }
}

void PipeReader::end_after_what_is_there() {
  if (!fd_) {
    return;
  }
  int waiting = 0;
  limited_ = true;
  left_ = ::ioctl(fd_.get(), FIONREAD, &waiting) == 0 && waiting > 0
              ? static_cast<std::size_t>(waiting)
              : 0;
  if (left_ == 0) {
    end_now();
  }
}

void PipeReader::end_now() {
  if (!fd_) {
    return;
  }
  watch(false);
  fd_.reset();
  const auto on_end = std::move(handlers_.on_end);
  on_end();
}

PipeWriter::PipeWriter(io::EventLoop& loop, io::Fd fd) : loop_(loop), fd_(std::move(fd)) {}

PipeWriter::~PipeWriter() { watch(false); }

void PipeWriter::watch(bool on) {
  if (on == watched_ || !fd_) {
    return;
  }
  watched_ = on;
  if (on) {
    loop_.add(fd_.get(), EPOLLOUT, [this](std::uint32_t) { flush(); });
  } else {
    loop_.remove(fd_.get());
  }
}

Status PipeWriter::write(std::string_view bytes, std::function<void()> on_room) {
  if (!is_open()) {
    return Error{ErrorCode::kConflict, "stdin is closed", "stdin_closed"};
  }
  if (on_room_ != nullptr || buffer_.size() + bytes.size() > kMaxStdinBuffered) {
    return Error{ErrorCode::kResourceExhausted,
                 "the process has not read what was sent before; wait for that answer first",
                 "stdin_full"};
  }
  buffer_.append(bytes);
  on_room_ = std::move(on_room);
  flush();
  return {};
}

void PipeWriter::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t put = ::write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0 && errno != EAGAIN) {  // nobody reads any more: the bytes have no taker
      close_now();
      return;
    }
    if (put < 0) {
      break;
    }
    done += static_cast<std::size_t>(put);
  }
  buffer_.erase(0, done);
  if (buffer_.empty() && closing_) {
    close_now();
    return;
  }
  watch(!buffer_.empty());
  if (buffer_.size() <= kStdinLowWater) {
    tell_room();
  }
}

void PipeWriter::tell_room() {
  if (const auto on_room = std::exchange(on_room_, nullptr)) {
    on_room();
  }
}

void PipeWriter::close_after_flush() {
  closing_ = true;
  if (fd_ && buffer_.empty()) {
    close_now();
  }
}

void PipeWriter::close_now() {
  watch(false);
  fd_.reset();
  buffer_ = {};
  tell_room();
}

}  // namespace sandboxkit::guest
