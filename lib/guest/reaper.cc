#include "guest/reaper.h"

#include "base/check.h"

#include <array>
#include <csignal>

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

sigset_t child_signal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  return set;
}

}  // namespace

void prepare_signals() {
  const sigset_t set = child_signal();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Reaper::Reaper(io::EventLoop& loop) : loop_(loop) {
  const sigset_t set = child_signal();
  signals_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  SANDBOXKIT_CHECK(static_cast<bool>(signals_), "a guest that cannot see its children is no use");
  loop_.add(signals_.get(), EPOLLIN, [this](std::uint32_t) { collect(); });
}

Reaper::~Reaper() { loop_.remove(signals_.get()); }

void Reaper::watch(pid_t pid, std::function<void(ExitStatus)> on_exit) {
  watched_[pid] = std::move(on_exit);
}

void Reaper::collect() {
  std::array<signalfd_siginfo, 8> dropped{};
  while (::read(signals_.get(), dropped.data(), sizeof(dropped)) > 0) {
  }
  int status = 0;
  // One signal may stand for many children.
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    ++reaped_;
    const auto found = watched_.find(pid);
    if (found == watched_.end()) {
      continue;
    }
    const auto on_exit = std::move(found->second);
    watched_.erase(found);
    if (WIFSIGNALED(status)) {
      on_exit({0, WTERMSIG(status), WCOREDUMP(status) != 0});
    } else {
      on_exit({WEXITSTATUS(status), 0, false});
    }
  }
}

}  // namespace sandboxkit::guest
