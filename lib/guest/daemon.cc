#include "guest/daemon.h"

#include "base/text.h"
#include "guest/guest.h"
#include "guest/reaper.h"
#include "io/guest_link.h"
#include "io/socket.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

constexpr mode_t kUmask = 022;
constexpr std::uint64_t kMaxPort = 65'535;

/// Descriptors 0 to 2 must be somebody's, or a pipe of ours would take their place.
void open_standard_descriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

/// Root in the sandbox must not read our memory or trace us: we hold the way to the host.
void harden() {
  ::prctl(PR_SET_DUMPABLE, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::umask(kUmask);
  ::signal(SIGHUP, SIG_IGN);
}

std::vector<std::string> environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
  }
  return entries;
}

io::Fd stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return io::Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

/// The worker asked for a sandbox without an interface: somebody who changed that before this
/// moment must not get one that runs. Interfaces that are down are the kernel's own.
Status check_alone() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return io::error_from_errno("getifaddrs", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0) {
      return Error{ErrorCode::kConflict, "this network namespace has the interface " +
                                             quoted(entry->ifa_name) + " besides loopback"};
    }
  }
  return {};
}

Result<io::Fd> open_listener(std::string_view text) {
  if (const Status alone = check_alone(); !alone) {
    return alone.error();
  }
  const auto colon = text.rfind(':');
  const auto port = colon != std::string_view::npos
                        ? parse_decimal(text.substr(colon + 1), kMaxPort)
                        : std::nullopt;
  if (!port) {
    return Error{ErrorCode::kInvalidArgument, quoted(text) + " is no `address:port`"};
  }
  return io::listen_tcp(std::string(text.substr(0, colon)), static_cast<std::uint16_t>(*port));
}

}  // namespace

int run_daemon(const DaemonOptions& options) {
  open_standard_descriptors();
  harden();
  prepare_signals();
  const io::Fd signals = stop_signals();
  io::Fd listener;
  if (!options.proxy_listener.empty()) {
    auto opened = open_listener(options.proxy_listener);
    if (!opened) {
      std::fprintf(stderr, "sandboxkit-guest: %s\n", opened.error().message.c_str());
      return EXIT_FAILURE;
    }
    listener = std::move(*opened);
  }

  io::EventLoop loop;
  Guest guest(loop, {.container_env = environment()});
  loop.add(signals.get(), EPOLLIN, [&](std::uint32_t) {
    loop.remove(signals.get());
    guest.stop([&loop] { loop.stop(); });
  });
  std::shared_ptr<io::GuestDialer> dialer;
  if (options.serve_fd >= 0) {
    guest.serve(io::Fd(options.serve_fd), [&] { guest.stop([&loop] { loop.stop(); }); });
  } else if (options.link_fd >= 0) {
    io::Fd link(options.link_fd);
    // The way to the worker is ours alone, and no process's that is started here.
    if (::fcntl(link.get(), F_SETFD, FD_CLOEXEC) != 0 || !io::set_nonblocking(link.get(), true)) {
      std::fputs("sandboxkit-guest: --link-fd is no open descriptor\n", stderr);
      return EXIT_FAILURE;
    }
    dialer = io::GuestDialer::adopt(
        loop, std::move(link), [&guest](io::Fd connection) { guest.serve(std::move(connection)); },
        [&] { guest.stop([&loop] { loop.stop(); }); });
  } else {
    dialer = io::GuestDialer::start(
        loop, options.socket_path,
        [&guest](io::Fd connection) { guest.serve(std::move(connection)); }, listener.get());
  }
  loop.run();
  if (dialer) {
    dialer->stop();
  }
  // The processes of a sandbox end with it; nothing here is worth an orderly end.
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace sandboxkit::guest
