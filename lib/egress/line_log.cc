#include "egress/line_log.h"

#include "io/fd.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

constexpr io::EventLoop::Duration kGather{20};
constexpr io::EventLoop::Duration kRetry{100};

}  // namespace

LineLog::LineLog(io::EventLoop& loop, int fd, int spare_fd)
    : loop_(loop), fd_(fd), spare_fd_(spare_fd) {
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
  if (spare_fd_ >= 0) {
    change_files();
  }
  while (!buffer_.empty()) {
    const ssize_t written = ::write(fd_, buffer_.data(), buffer_.size());
    if (written > 0) {
      torn_ = buffer_[static_cast<std::size_t>(written) - 1] != '\n';
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
    // A full disk may have room again. Where nobody reads any more the log ends; the wall stands.
    broken_ = written == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG);
    give_up();
  }
}

void LineLog::give_up() {
  dropped_ += static_cast<std::uint64_t>(std::count(buffer_.begin(), buffer_.end(), '\n'));
  buffer_.clear();
}

void LineLog::change_files() {
  struct stat about {};
  if (::fstat(fd_, &about) == 0 && static_cast<std::size_t>(about.st_size) < kMaxFileBytes) {
    if (torn_) {
      buffer_.insert(0, "\n");
    }
    return;
  }
  std::swap(fd_, spare_fd_);
  torn_ = false;
  if (::ftruncate(fd_, 0) != 0) {
    // It cannot be emptied, so it may not grow.
    broken_ = true;
    give_up();
  }
}

}  // namespace sandboxkit::egress
