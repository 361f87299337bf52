#include "box/start.h"

#include "box/broker.h"
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
constexpr unsigned long kBrokersNamespaces = CLONE_NEWUSER | CLONE_NEWNS;
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
  const unsigned long namespaces = launch.has_broker() ? kBrokersNamespaces : kNamespaces;
  const auto pid = static_cast<pid_t>(
      syscall(SYS_clone, namespaces | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr));
  if (pid == 0 && launch.has_broker()) {
    run_broker(launch);
  }
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
Status take_descriptors_of(const Launch& launch, Started& started) {
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

struct Pair {
  io::Fd ours{};
  io::Fd theirs{};
};

Result<Pair> pair_of_sockets() {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return unavailable("socketpair", errno);
  }
  return Pair{io::Fd(ends[0]), io::Fd(ends[1])};
}

/// The broker's sibling is our child: it tells which, or ends.
Status take_first_process(Started& started) {
  pollfd told{started.broker.get(), POLLIN, 0};
  poll(&told, 1, kEndWaitMs);
  io::DescriptorMessage message = io::receive_message(started.broker.get());
  if (!message.is(kFirstProcessMessage, 1)) {
    return Error{ErrorCode::kInternal, "the broker told of no box", "box_unavailable"};
  }
  started.pidfd = std::move(message.descriptors[0]);
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

void end_process(const io::Fd& pidfd) {
  if (!pidfd) {
    return;
  }
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  pollfd ended{pidfd.get(), POLLIN, 0};
  poll(&ended, 1, kEndWaitMs);
  siginfo_t info{};
  waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED | WNOHANG);
}

Result<Started> start_process(Launch& launch, milliseconds limit, const std::string& program,
                              bool with_broker) {
  const auto deadline = steady_clock::now() + limit;
  std::array<int, 2> pipe_ends{-1, -1};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return unavailable("pipe", errno);
  }
  const io::Fd report(pipe_ends[0]);
  io::Fd their_report(pipe_ends[1]);
  auto control = pair_of_sockets();
  auto broker = with_broker ? pair_of_sockets() : Result<Pair>(Pair{});
  auto between = with_broker ? pair_of_sockets() : Result<Pair>(Pair{});
  if (!control || !broker || !between) {
    return unavailable("socketpair", EMFILE);
  }
  Started started;
  started.control = std::move(control->ours);
  started.broker = std::move(broker->ours);
  launch.report = their_report.get();
  launch.control = control->theirs.get();
  launch.broker = broker->theirs.get();
  launch.broker_own = between->ours.get();
  launch.broker_box = between->theirs.get();
  int pidfd = -1;
  started.pid = clone_process(launch, pidfd);
  if (started.pid < 0) {
    return unavailable(
        "the kernel gives no namespaces (user.max_user_namespaces, AppArmor's "
        "restriction, or a container around us)",
        errno);
  }
  (with_broker ? started.broker_pidfd : started.pidfd) = io::Fd(pidfd);
  their_report.reset();
  *control = Pair{};
  *broker = Pair{};
  *between = Pair{};
  Status begun = await_start(launch, report.get(), deadline, program);
  if (begun && with_broker) {
    begun = take_first_process(started);
  }
  if (begun) {
    begun = take_descriptors_of(launch, started);
  }
  if (!begun) {
    if (with_broker && !started.pidfd) {
      // One that never was has no end to be waited for.
      static_cast<void>(take_first_process(started).has_value());
    }
    end_process(started.pidfd);
    end_process(started.broker_pidfd);
    return begun.error();
  }
  return started;
}

}  // namespace sandboxkit::box
