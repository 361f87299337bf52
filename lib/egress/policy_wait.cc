#include "egress/policy_wait.h"

#include "io/fd.h"

#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

/// How often we look without being told: the kernel bounds the watchers of all containers together.
constexpr int kLookMs = 50;
constexpr int kForever = -1;

/// Forgets what the watcher told; the file itself is looked at.
void drain(int watcher) {
  std::array<char, 4096> events{};
  while (::read(watcher, events.data(), events.size()) > 0) {
  }
}

}  // namespace

Result<bool> wait_for_file(const std::string& folder, const std::string& name, int stop_fd) {
  const std::string path = folder + "/" + name;
  io::Fd watcher(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (watcher && ::inotify_add_watch(watcher.get(), folder.c_str(), IN_MOVED_TO) < 0) {
    watcher = io::Fd();
  }
  // Watched first, then looked: a file that comes in between is seen twice, never missed.
  while (::access(path.c_str(), R_OK) != 0) {
    if (errno != ENOENT) {
      return io::error_from_errno("cannot look for the policy", errno);
    }
    std::array<pollfd, 2> wait{pollfd{stop_fd, POLLIN, 0}, pollfd{watcher.get(), POLLIN, 0}};
    if (::poll(wait.data(), wait.size(), watcher ? kForever : kLookMs) < 0 && errno != EINTR) {
      return io::error_from_errno("cannot wait for the policy", errno);
    }
    if (wait[0].revents != 0) {
      return false;
    }
    drain(watcher.get());
  }
  return true;
}

}  // namespace sandboxkit::egress
