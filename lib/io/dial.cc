#include "base/text.h"
#include "io/socket.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

constexpr int kTcpBacklog = 1024;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> tcp_address(const std::string& text, std::uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
    return address;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof *v6;
    return address;
  }
  return Error{ErrorCode::kInvalidArgument, quoted(text) + " is no IPv4 or IPv6 address",
               "invalid_address"};
}

Result<Address> unix_address(const std::string& path) {
  Address address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof local->sun_path) {
    return Error{ErrorCode::kInvalidArgument,
                 "the path of a unix socket has 1 to " +
                     std::to_string(sizeof local->sun_path - 1) + " bytes: " + quoted(path),
                 "invalid_address"};
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof *local;
  return address;
}

Error unavailable(const std::string& what, int error_number) {
  Error error = error_from_errno(what.c_str(), error_number);
  error.code = ErrorCode::kUnavailable;
  return error;
}

/// One connect that is under way; the watch and the timer own it.
struct Dial {
  EventLoop& loop;
  Fd fd;
  std::string where{};
  std::function<void(Result<Fd>)> on_done{};
  EventLoop::TimerId timer = 0;

  void finish(int error_number) {
    if (!on_done) {
      return;
    }
    loop.cancel(timer);
    loop.remove(fd.get());
    const auto done = std::exchange(on_done, nullptr);
    if (error_number != 0) {
      fd.reset();
      return done(unavailable("connect " + where, error_number));
    }
    done(std::move(fd));
  }
};

}  // namespace

Result<Fd> listen_tcp(const std::string& address, std::uint16_t port) {
  const auto where = tcp_address(address, port);
  if (!where) {
    return where.error();
  }
  Fd fd(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return error_from_errno("socket", errno);
  }
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), where->get(), where->size) != 0 || ::listen(fd.get(), kTcpBacklog) != 0) {
    return unavailable("listen on " + quoted(address) + " port " + std::to_string(port), errno);
  }
  return fd;
}

Result<std::uint16_t> local_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return error_from_errno("getsockname", errno);
  }
  if (storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return Error{ErrorCode::kInvalidArgument, "the socket has no port"};
}

Result<Fd> listen_unix(const std::string& path, unsigned mode, int backlog) {
  // Bound by way of its open folder, because an address holds 107 bytes and a folder may lie
  // deeper.
  const std::size_t slash = path.rfind('/');
  const std::string folder_path = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd folder(::open(folder_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    return error_from_errno(("listen on " + quoted(path)).c_str(), errno);
  }
  const auto where = unix_address("/proc/self/fd/" + std::to_string(folder.get()) + "/" +
                                  (slash == std::string::npos ? path : path.substr(slash + 1)));
  if (!where) {
    return where.error();
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return Error{ErrorCode::kConflict, quoted(path) + " is there and is no socket"};
    }
    ::unlink(path.c_str());
  }
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return error_from_errno("socket", errno);
  }
  // The mode is set before anybody can connect: until `listen` every dial is refused.
  if (::bind(fd.get(), where->get(), where->size) != 0 || ::chmod(path.c_str(), mode) != 0 ||
      ::listen(fd.get(), backlog) != 0) {
    return error_from_errno(("listen on " + quoted(path)).c_str(), errno);
  }
  return fd;
}

Result<Fd> connect_unix(const std::string& path) {
  const auto where = unix_address(path);
  if (!where) {
    return where.error();
  }
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) {
    return error_from_errno("socket", errno);
  }
  if (::connect(fd.get(), where->get(), where->size) != 0) {
    return error_from_errno(("connect " + quoted(path)).c_str(), errno);
  }
  return fd;
}

void connect_tcp(EventLoop& loop, const std::string& address, std::uint16_t port,
                 EventLoop::Duration timeout, std::function<void(Result<Fd>)> on_done) {
  const auto fail = [&](const Error& error) { loop.post([on_done, error] { on_done(error); }); };
  const auto where = tcp_address(address, port);
  if (!where) {
    return fail(where.error());
  }
  const std::string name = quoted(address) + " port " + std::to_string(port);
  Fd fd(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fail(error_from_errno("socket", errno));
  }
  if (::connect(fd.get(), where->get(), where->size) != 0 && errno != EINPROGRESS) {
    return fail(unavailable("connect " + name, errno));
  }
  const int number = fd.get();
  auto dial = std::shared_ptr<Dial>(new Dial{loop, std::move(fd), name, std::move(on_done)});
  loop.add(number, EPOLLOUT, [dial, number](std::uint32_t) {
    const auto hold = dial;
    int error_number = 0;
    socklen_t size = sizeof error_number;
    ::getsockopt(number, SOL_SOCKET, SO_ERROR, &error_number, &size);
    hold->finish(error_number);
  });
  dial->timer = loop.run_after(timeout, [dial] { dial->finish(ETIMEDOUT); });
}

}  // namespace sandboxkit::io
