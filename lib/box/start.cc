#include "box/start.h"

#include "box/kernel_calls.h"
#include "io/descriptor_message.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <linux/landlock.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace sandboxkit::box {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr unsigned long kNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr int kEndWaitMs = 5'000;

Error unavailable(const char* what, int error_number) {
  Error error = io::error_from_errno(what, error_number);
  error.code = ErrorCode::kUnavailable;
  error.reason = "box_unavailable";
  return error;
}

/// A copy of this process in namespaces of its own. Our handlers must not run in it, so signals
/// stay blocked there until the command starts.
pid_t clone_process(Launch& launch, int& pidfd) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const auto pid = static_cast<pid_t>(
      syscall(SYS_clone, kNamespaces | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr));
  if (pid == 0) {
    run_inside(launch);
  }
  const int error_number = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return pid;
}

int left_ms(steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

/// Waits for the report's end, which is the command's begin.
Status await_start(const Launch& launch, int report, steady_clock::time_point deadline,
                   const std::string& program) {
  pollfd ready{report, POLLIN, 0};
  int got = 0;
  do {
    got = poll(&ready, 1, left_ms(deadline));
  } while (got < 0 && errno == EINTR);
  if (got == 0) {
    return Error{ErrorCode::kDeadlineExceeded, "the box was not set up in time", "box_unavailable"};
  }
  Failure failure{};
  const ssize_t size = read(report, &failure, sizeof failure);
  if (size == 0) {
    return {};
  }
  if (size != sizeof failure) {
    return describe(Failure{}, launch.layout, program, launch.cwd);
  }
  return describe(failure, launch.layout, program, launch.cwd);
}

/// What the box sent before its command started.
Status take_descriptors(const Launch& launch, Started& started) {
  const int expected = (launch.listener_port != 0 ? 1 : 0) + (launch.terminal ? 1 : 0);
  for (int i = 0; i < expected; ++i) {
    io::DescriptorMessage message = io::receive_message(started.control.get());
    if (message.is(kListenerMessage, 1)) {
      started.listener = std::move(message.descriptors[0]);
    } else if (message.is(kTerminalMessage, 1)) {
      started.terminal = std::move(message.descriptors[0]);
    } else {
      return Error{ErrorCode::kInternal, "the box sent no descriptor", "box_unavailable"};
    }
  }
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

void end_process(const io::Fd& pidfd) {
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  pollfd ended{pidfd.get(), POLLIN, 0};
  poll(&ended, 1, kEndWaitMs);
  siginfo_t info{};
  waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED | WNOHANG);
}

Result<Started> start_process(Launch& launch, milliseconds limit, const std::string& program) {
  const auto deadline = steady_clock::now() + limit;
  std::array<int, 2> pipe_ends{-1, -1};
  std::array<int, 2> socket_ends{-1, -1};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return unavailable("pipe", errno);
  }
  const io::Fd report(pipe_ends[0]);
  io::Fd their_report(pipe_ends[1]);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socket_ends.data()) != 0) {
    return unavailable("socketpair", errno);
  }
  Started started;
  started.control = io::Fd(socket_ends[0]);
  io::Fd their_control(socket_ends[1]);
  launch.report = their_report.get();
  launch.control = their_control.get();
  int pidfd = -1;
  started.pid = clone_process(launch, pidfd);
  if (started.pid < 0) {
    return unavailable(
        "the kernel gives no namespaces (user.max_user_namespaces, AppArmor's "
        "restriction, or a container around us)",
        errno);
  }
  started.pidfd = io::Fd(pidfd);
  their_report.reset();
  their_control.reset();
  Status begun = await_start(launch, report.get(), deadline, program);
  if (begun) {
    begun = take_descriptors(launch, started);
  }
  if (!begun) {
    end_process(started.pidfd);
    return begun.error();
  }
  return started;
}

}  // namespace sandboxkit::box
