#include "io/guest_link.h"

#include "base/guarded.h"
#include "io/acceptor.h"
#include "io/descriptor_message.h"
#include "io/socket.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

/// The helper's user is the image's choice, so anybody may dial: the kernel says who it was, and
/// the folder of the socket is closed to other users of the host.
constexpr unsigned kSocketMode = 0666;
constexpr int kBacklog = 16;
/// A helper that dialled says that it is ready well within this.
constexpr EventLoop::Duration kReadyTimeout{10'000};
constexpr char kReadyByte = 'R';
constexpr char kConnectionByte = 'C';
constexpr char kListenerByte = 'L';
/// A good helper says two things; who says more is cut off at the third.
constexpr int kMessagesAtOnce = 3;

Error unavailable(const char* message) {
  return Error{ErrorCode::kUnavailable, message, "guest_unavailable"};
}

class Link final : public GuestLink, public std::enable_shared_from_this<Link> {
 public:
  Link(EventLoop& loop, std::string path, std::function<pid_t()> expected_pid,
       ListenerTaker take_listener)
      : loop_(loop),
        path_(std::move(path)),
        expected_pid_(std::move(expected_pid)),
        take_listener_(std::move(take_listener)) {}
  ~Link() override {
    on_change_ = nullptr;  // Who lets go of the link knows that it is down.
    close();
  }

  void begin(Fd listener) {
    acceptor_ = Acceptor::start(loop_, std::move(listener), [weak = weak_from_this()](Fd dialler) {
      if (const auto self = weak.lock()) {
        self->take(std::move(dialler));
      }
    });
  }

  bool ready() const override {
    return state_.with([](const State& state) { return state.ready; });
  }

  Result<Fd> connect() override {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return error_from_errno("socketpair", errno);
    }
    Fd ours(ends[0]);
    const Fd theirs(ends[1]);
    // The send does not wait, so it may happen under the lock that keeps the descriptor open.
    const int error_number = state_.with([&](const State& state) {
      return state.ready ? send_message(state.control.get(), kConnectionByte, theirs.get())
                         : ENOTCONN;
    });
    if (error_number == ENOTCONN) {
      return unavailable("the helper has not dialled");
    }
    if (error_number != 0) {
      return unavailable("the helper does not take connections now");
    }
    return ours;
  }

  void on_change(std::function<void(bool)> handler) override { on_change_ = std::move(handler); }
  std::uint64_t refused_dials() const override { return refused_; }

  void close() override {
    if (acceptor_) {
      acceptor_->close();
      acceptor_ = nullptr;
      ::unlink(path_.c_str());
    }
    drop();
  }

  void stand(Fd control) {
    control_ = control.get();
    state_.with([&](State& state) { state.control = std::move(control); });
    loop_.add(control_, EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
      if (const auto self = weak.lock()) {
        self->read_control();
      }
    });
    ready_timer_ = loop_.run_after(kReadyTimeout, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->drop();
      }
    });
  }

 private:
  struct State {
    Fd control;
    bool ready = false;
  };

  void take(Fd dialler) {
    if (control_ >= 0 || !is_expected(dialler.get())) {
      ++refused_;
      return;
    }
    acceptor_->pause();
    stand(std::move(dialler));
  }

  bool is_expected(int dialler) const {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(dialler, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      return false;
    }
    const pid_t expected = expected_pid_();
    return expected > 0 && peer.pid == expected;
  }

  void read_control() {
    for (int i = 0; i < kMessagesAtOnce && control_ >= 0; ++i) {
      DescriptorMessage message = receive_message(control_);
      if (message.got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
      }
      if (!take(message)) {
        return drop();
      }
    }
  }

  /// False: the link ends.
  bool take(DescriptorMessage& message) {
    if (message.is(kListenerByte, 1)) {
      const bool in_time = take_listener_ && !has_listener_ && !ready();
      has_listener_ = true;
      return in_time && take_listener_(std::move(message.descriptors[0]));
    }
    if (!message.is(kReadyByte, 0) || ready() || (take_listener_ && !has_listener_)) {
      return false;
    }
    loop_.cancel(ready_timer_);
    state_.with([](State& state) { state.ready = true; });
    tell(true);
    return true;
  }

  void drop() {
    if (control_ < 0) {
      return;
    }
    loop_.cancel(ready_timer_);
    has_listener_ = false;
    loop_.remove(std::exchange(control_, -1));
    State old = state_.with([](State& state) { return std::exchange(state, State{}); });
    if (acceptor_) {
      acceptor_->resume();
    }
    if (old.ready) {
      tell(false);
    }
  }

  void tell(bool up) {
    if (const auto handler = on_change_) {
      handler(up);
    }
  }

  EventLoop& loop_;
  const std::string path_;
  const std::function<pid_t()> expected_pid_;
  const ListenerTaker take_listener_;
  bool has_listener_ = false;           // Of the link that stands.
  std::shared_ptr<Acceptor> acceptor_;  // Null once closed, and in an adopted link.
  int control_ = -1;                    // The loop's view of state_.control.
  Guarded<State> state_;
  EventLoop::TimerId ready_timer_ = 0;
  std::function<void(bool)> on_change_;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace

Result<std::shared_ptr<GuestLink>> GuestLink::listen(EventLoop& loop,
                                                     const std::string& socket_path,
                                                     std::function<pid_t()> expected_pid,
                                                     ListenerTaker take_listener) {
  auto listener = listen_unix(socket_path, kSocketMode, kBacklog);
  if (!listener) {
    return listener.error();
  }
  auto link =
      std::make_shared<Link>(loop, socket_path, std::move(expected_pid), std::move(take_listener));
  link->begin(std::move(*listener));
  return std::shared_ptr<GuestLink>(std::move(link));
}

std::shared_ptr<GuestLink> GuestLink::adopt(EventLoop& loop, Fd control) {
  auto link = std::make_shared<Link>(loop, "", nullptr, nullptr);
  link->stand(std::move(control));
  return link;
}

}  // namespace sandboxkit::io
