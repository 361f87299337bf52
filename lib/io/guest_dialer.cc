#include "io/guest_link.h"

#include <algorithm>
#include <array>
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
/// More than one, so that a message with two descriptors is seen and not silently cut.
constexpr std::size_t kDescriptorsTaken = 4;

/// One message of the host. `got` is what recvmsg returned.
struct Message {
  ssize_t got = -1;
  char byte = 0;
  std::array<Fd, kDescriptorsTaken> descriptors{};
  std::size_t count = 0;
  bool truncated = false;
};

Message receive(int control) {
  Message out;
  iovec piece{&out.byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsTaken)> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  out.got = ::recvmsg(control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (out.got < 0) {
    return out;
  }
  out.truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t here = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here && out.count < out.descriptors.size(); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(h) + i * sizeof(int), sizeof descriptor);
      out.descriptors[out.count++] = Fd(descriptor);
    }
  }
  return out;
}

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
  Dialer(EventLoop& loop, std::string path, std::function<void(Fd)> on_connection)
      : loop_(loop), path_(std::move(path)), on_connection_(std::move(on_connection)) {}
  ~Dialer() override { stop(); }

  void try_now() {
    control_ = dial(path_);
    const char ready = 'R';
    if (control_ && ::send(control_.get(), &ready, 1, MSG_NOSIGNAL) != 1) {
      control_.reset();
    }
    if (!control_) {
      return try_later();
    }
    loop_.add(control_.get(), EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
      if (const auto self = weak.lock()) {
        self->read_control();
      }
    });
  }

  bool connected() const override { return static_cast<bool>(control_); }

  void stop() override {
    stopped_ = true;
    loop_.cancel(timer_);
    drop();
  }

 private:
  void try_later() {
    if (stopped_) {
      return;
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
      Message message = receive(control_.get());
      if (message.got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
      }
      const bool good =
          message.got == 1 && message.byte == 'C' && message.count == 1 && !message.truncated;
      if (!good) {
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
  Fd control_;
  EventLoop::Duration wait_ = kFirstWait;
  EventLoop::TimerId timer_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::shared_ptr<GuestDialer> GuestDialer::start(EventLoop& loop, std::string socket_path,
                                                std::function<void(Fd)> on_connection) {
  auto dialer = std::make_shared<Dialer>(loop, std::move(socket_path), std::move(on_connection));
  dialer->try_now();
  return dialer;
}

}  // namespace sandboxkit::io
