#include "egress/line_log.h"

#include "io/fd.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace sandboxkit::egress {
namespace {

constexpr io::EventLoop::Duration kGather{20};
constexpr io::EventLoop::Duration kRetry{100};

}  // namespace

LineLog::LineLog(io::EventLoop& loop, int fd) : loop_(loop), fd_(fd) {
  // A descriptor that could block the loop is not written to at all.
  broken_ = !io::set_nonblocking(fd, true);
}

LineLog::~LineLog() { loop_.cancel(timer_); }

void LineLog::write(const json::Value& line) {
  std::string text = json::dump(line);
  text.push_back('\n');
  if (broken_ || buffer_.size() + text.size() > kMaxBufferedBytes) {
    ++dropped_;
    return;
  }
  buffer_ += text;
  if (timer_ == 0) {
    timer_ = loop_.run_after(kGather, [this] { flush(); });
  }
}

void LineLog::flush() {
  timer_ = 0;
  while (!buffer_.empty()) {
    const ssize_t written = ::write(fd_, buffer_.data(), buffer_.size());
    if (written > 0) {
      buffer_.erase(0, static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0 && errno == EAGAIN) {
      timer_ = loop_.run_after(kRetry, [this] { flush(); });
      return;
    }
    // Nobody reads any more, or the disk is full: the log ends, the wall stands.
    broken_ = true;
    dropped_ += static_cast<std::uint64_t>(std::count(buffer_.begin(), buffer_.end(), '\n'));
    buffer_.clear();
  }
}

}  // namespace sandboxkit::egress
