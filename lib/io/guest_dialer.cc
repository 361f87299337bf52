#include "io/descriptor_message.h"
#include "io/guest_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace sandboxkit::io {
namespace {

constexpr EventLoop::Duration kFirstWait{50};
constexpr EventLoop::Duration kLongestWait{1000};
constexpr int kMessagesAtOnce = 32;

/// Connects without waiting: a full backlog is a reason to come again, not to block the loop.
Fd dial(const std::string& path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return {};
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  return fd;
}

class Dialer final : public GuestDialer, public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(EventLoop& loop, std::string path, std::function<void(Fd)> on_connection, int listener)
      : loop_(loop),
        path_(std::move(path)),
        on_connection_(std::move(on_connection)),
        listener_(listener) {}
  ~Dialer() override { stop(); }

  void try_now() {
    control_ = dial(path_);
    if (!control_ || !announce()) {
      control_.reset();
      return try_later();
    }
    watch();
  }

  void stand(Fd control, std::function<void()> on_lost) {
    control_ = std::move(control);
    on_lost_ = std::move(on_lost);
    if (!announce()) {
      control_.reset();
      return try_later();
    }
    watch();
  }

  bool connected() const override { return static_cast<bool>(control_); }

  void stop() override {
    stopped_ = true;
    loop_.cancel(timer_);
    drop();
  }

 private:
  bool announce() {
    return (listener_ < 0 || send_message(control_.get(), 'L', listener_) == 0) &&
           send_message(control_.get(), 'R', -1) == 0;
  }

  void watch() {
    loop_.add(control_.get(), EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
      if (const auto self = weak.lock()) {
        self->read_control();
      }
    });
  }

  void try_later() {
    if (stopped_) {
      return;
    }
    if (on_lost_) {
      return on_lost_();  // There is nobody to dial.
    }
    timer_ = loop_.run_after(wait_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->try_now();
      }
    });
    // Grows slowly: in a sandbox's first second the host may not know yet whom to expect.
    wait_ = std::min(wait_ + wait_ / 4, kLongestWait);
  }

  void drop() {
    if (control_) {
      loop_.remove(control_.get());
      control_.reset();
    }
  }

  void read_control() {
    for (int i = 0; i < kMessagesAtOnce && control_; ++i) {
      DescriptorMessage message = receive_message(control_.get());
      if (message.got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
      }
      if (!message.is('C', 1)) {
        drop();
        return try_later();
      }
      wait_ = kFirstWait;
      on_connection_(std::move(message.descriptors[0]));
    }
  }

  EventLoop& loop_;
  const std::string path_;
  const std::function<void(Fd)> on_connection_;
  const int listener_;
  std::function<void()> on_lost_;
  Fd control_;
  EventLoop::Duration wait_ = kFirstWait;
  EventLoop::TimerId timer_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::shared_ptr<GuestDialer> GuestDialer::start(EventLoop& loop, std::string socket_path,
                                                std::function<void(Fd)> on_connection,
                                                int listener) {
  auto dialer =
      std::make_shared<Dialer>(loop, std::move(socket_path), std::move(on_connection), listener);
  dialer->try_now();
  return dialer;
}

std::shared_ptr<GuestDialer> GuestDialer::adopt(EventLoop& loop, Fd control,
                                                std::function<void(Fd)> on_connection,
                                                std::function<void()> on_lost) {
  auto dialer = std::make_shared<Dialer>(loop, "", std::move(on_connection), -1);
  dialer->stand(std::move(control), std::move(on_lost));
  return dialer;
}

}  // namespace sandboxkit::io
