#include "cli/terminal.h"

#include "cli/text.h"

#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::chrono::milliseconds kRedrawEvery{100};
/// Quick work does not flash a line.
constexpr std::chrono::milliseconds kShowAfter{400};

}  // namespace

bool is_terminal(int fd) { return isatty(fd) == 1; }

WindowSize window_size(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

std::size_t table_width() {
  return is_terminal(kStandardOutput) ? window_size(kStandardOutput).columns : 0;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd waiting{fd, POLLOUT, 0};
      poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void print_line(std::string_view text) {
  std::string line(text);
  line += '\n';
  write_all(kStandardOutput, line);
}

RawMode::RawMode(int fd) : fd_(fd) {
  termios settings{};
  if (tcgetattr(fd, &settings) != 0) {
    return;
  }
  before_ = settings;
  cfmakeraw(&settings);
  tcsetattr(fd, TCSADRAIN, &settings);
}

void RawMode::restore() {
  if (before_) {
    tcsetattr(fd_, TCSADRAIN, &*before_);
  }
}

Progress::Progress(std::string label, std::uint64_t total)
    : label_(std::move(label)),
      total_(total),
      shown_(is_terminal(kStandardError)),
      started_(std::chrono::steady_clock::now()) {}

void Progress::add(std::uint64_t bytes) {
  done_ += bytes;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - started_ >= kShowAfter && now - last_drawn_ >= kRedrawEvery) {
    last_drawn_ = now;
    draw();
  }
}

void Progress::draw() {
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  write_all(kStandardError, "\r\x1b[K" + progress_text(label_, done_, total_, elapsed));
  drawn_ = true;
}

void Progress::clear() {
  if (std::exchange(drawn_, false)) {
    write_all(kStandardError, "\r\x1b[K");
  }
}

std::string progress_text(std::string_view label, std::uint64_t done, std::uint64_t total,
                          std::chrono::milliseconds elapsed) {
  std::string text = printable(label) + "  " + human_bytes(done);
  if (total > 0) {
    text += " / " + human_bytes(total) + "  " + std::to_string(done * 100 / total) + "%";
  }
  const auto milliseconds = static_cast<std::uint64_t>(elapsed.count());
  if (milliseconds > 0) {
    text += "  " + human_bytes(done * 1000 / milliseconds) + "/s";
  }
  return text;
}

}  // namespace sandboxkit::cli
