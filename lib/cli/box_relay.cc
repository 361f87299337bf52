#include "cli/box_relay.h"

#include "cli/terminal.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kPiece = 16 * 1024;
constexpr std::size_t kMaxPending = 64 * 1024;
constexpr char kEndOfFile = 4;

sigset_t heard_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, number);
  }
  return set;
}

bool asks_for_end(int number) { return number == SIGTERM || number == SIGHUP || number == SIGINT; }

class Relay {
 public:
  explicit Relay(Box& box) : box_(box), terminal_(box.terminal()) {
    const sigset_t set = heard_signals();
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (terminal_ >= 0) {
      raw_.emplace(kStandardInput);
      fcntl(terminal_, F_SETFL, fcntl(terminal_, F_GETFL) | O_NONBLOCK);
    }
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() { close(signals_); }

  Result<BoxEnd> run() {
    while (true) {
      std::array<pollfd, 4> ready{{{signals_, POLLIN, 0},
                                   {box_.end_descriptor(), POLLIN, 0},
                                   {listens() ? kStandardInput : -1, POLLIN, 0},
                                   {terminal_, POLLIN, 0}}};
      if (!pending_.empty()) {
        ready[3].events |= POLLOUT;
      }
      if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) {
        return Error{ErrorCode::kInternal, "the box cannot be waited for"};
      }
      pass_signals();
      if (ready[2].revents != 0) {
        read_keys();
      }
      if (ready[3].revents != 0) {
        pass_terminal();
      }
      if (ready[1].revents != 0) {
        return end();
      }
    }
  }

 private:
  bool listens() const { return terminal_ >= 0 && !input_ended_ && pending_.size() < kMaxPending; }

  void pass_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGWINCH) {
        resize();
        continue;
      }
      const bool again = asks_for_end(number) && ends_asked_++ > 0;
      // One that is gone needs no signal; its end is read next.
      static_cast<void>(box_.signal(again ? SIGKILL : number).has_value());
    }
  }

  void resize() {
    if (terminal_ >= 0) {
      const WindowSize size = window_size(kStandardInput);
      static_cast<void>(box_.resize({static_cast<std::uint16_t>(size.columns),
                                     static_cast<std::uint16_t>(size.rows)})
                            .has_value());
    }
  }

  void read_keys() {
    std::array<char, kPiece> buffer{};
    const ssize_t got = read(kStandardInput, buffer.data(), buffer.size());
    if (got > 0) {
      pending_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      input_ended_ = true;
      pending_.push_back(kEndOfFile);
    }
  }

  void pass_terminal() {
    if (!pending_.empty()) {
      const ssize_t written = write(terminal_, pending_.data(), pending_.size());
      if (written > 0) {
        pending_.erase(0, static_cast<std::size_t>(written));
      }
    }
    pass_output();
  }

  /// False when there is no more now.
  bool pass_output() {
    std::array<char, kPiece> buffer{};
    const ssize_t got = read(terminal_, buffer.data(), buffer.size());
    if (got > 0) {
      write_all(kStandardOutput, {buffer.data(), static_cast<std::size_t>(got)});
      return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      terminal_ = -1;  // The last process let it go.
    }
    return false;
  }

  Result<BoxEnd> end() {
    while (terminal_ >= 0 && pass_output()) {
    }
    const auto ended = box_.wait(std::nullopt);
    if (!ended) {
      return ended.error();
    }
    return ended->value_or(BoxEnd{1, 0});
  }

  Box& box_;
  int terminal_;
  int signals_ = -1;
  std::optional<RawMode> raw_;
  std::string pending_;
  bool input_ended_ = false;
  int ends_asked_ = 0;
};

}  // namespace

void hold_signals() {
  const sigset_t set = heard_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<BoxEnd> relay_box(Box& box) { return Relay(box).run(); }

}  // namespace sandboxkit::cli
