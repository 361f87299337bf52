// The first process of a box: sets everything up, gives up every right, starts the command, reaps.
// Between clone and exec it takes no lock and no memory.

#include "box/broker.h"
#include "box/kernel_calls.h"
#include "box/launch.h"
#include "box/set_up.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <arpa/inet.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace sandboxkit::box {
namespace {

constexpr const char* kHostName = "box";
constexpr int kBacklog = 128;
constexpr int kMaxCapability = 63;
constexpr int kNoSuchCommand = 127;

/// What passes between host and box after the set-up.
struct Ends {
  int report;
  int control;
  int listener = -1;
  int terminal = -1;  ///< The command's side.
};

/// The broker has set up what both share; it gets our mounts, and nothing of it stays here.
void tell_broker(const Launch& launch) {
  const Handle mounts(open_place(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY, 0));
  if (!mounts || !send_descriptor(launch.broker_box, kMountsMessage, mounts.get())) {
    fail_inside(launch, Stage::kPrivate, errno);
  }
  for (const int fd : {launch.broker, launch.broker_own, launch.broker_box}) {
    syscall(SYS_close, fd);
  }
}

void bring_loopback_up(const Launch& launch, Ends& ends) {
  const Handle socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!socket || ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
    fail_inside(launch, Stage::kNetwork, errno);
  }
  if (launch.listener_port == 0) {
    return;
  }
  ends.listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(launch.listener_port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (ends.listener < 0 ||
      bind(ends.listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(ends.listener, kBacklog) != 0) {
    fail_inside(launch, Stage::kNetwork, errno);
  }
}

/// A terminal that only this box knows: its master goes to the host.
void open_terminal(const Launch& launch, Ends& ends) {
  const Handle master(
      open_place(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY, RESOLVE_NO_SYMLINKS));
  int locked = 0;
  winsize size{};
  size.ws_col = launch.columns;
  size.ws_row = launch.rows;
  if (!master || ioctl(master.get(), TIOCSPTLCK, &locked) != 0 ||
      ioctl(master.get(), TIOCSWINSZ, &size) != 0) {
    fail_inside(launch, Stage::kTerminal, errno);
  }
  ends.terminal = ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends.terminal < 0 || !send_descriptor(ends.control, kTerminalMessage, master.get())) {
    fail_inside(launch, Stage::kTerminal, errno);
  }
}

void give_up_rights(const Launch& launch) {
  for (int capability = 0; capability <= kMaxCapability; ++capability) {
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 &&
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      fail_inside(launch, Stage::kRights, errno);
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  // Our memory holds what the caller's did: nobody in the box looks into it.
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
      syscall(SYS_capset, &header, none.data()) != 0 ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    fail_inside(launch, Stage::kRights, errno);
  }
}

void filter_calls(Launch& launch) {
  sock_fprog program{};
  program.len = static_cast<unsigned short>(launch.filter.size());
  program.filter = launch.filter.data();
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    fail_inside(launch, Stage::kFilter, errno);
  }
}

/// Tries each candidate as execvp would.
int execute(const Launch& launch) {
  bool forbidden = false;
  for (const char* candidate : launch.candidates) {
    if (candidate == nullptr) {
      break;
    }
    execve(candidate, launch.argv.data(), launch.environment.data());
    if (errno == EACCES) {
      forbidden = true;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return errno;
    }
  }
  return forbidden ? EACCES : ENOENT;
}

[[noreturn]] void become_command(const Launch& launch, const Ends& ends) {
  setsid();
  if (ends.terminal >= 0) {
    if (ioctl(ends.terminal, TIOCSCTTY, 0) != 0) {
      fail_inside(launch, Stage::kTerminal, errno);
    }
    for (int target = STDIN_FILENO; target <= STDERR_FILENO; ++target) {
      if (dup2(ends.terminal, target) < 0) {
        fail_inside(launch, Stage::kTerminal, errno);
      }
    }
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int error_number = execute(launch);
  fail_inside(launch, Stage::kExec, error_number);
}

/// Takes every process that ended; true when the command was one of them.
bool reap(pid_t command, int& status) {
  bool ended = false;
  int one = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (pid == command) {
      status = one;
      ended = true;
    }
  }
  return ended;
}

[[noreturn]] void watch(const Ends& ends, pid_t command) {
  sigset_t all;
  sigfillset(&all);
  const int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  std::array<pollfd, 2> ready{{{signals, POLLIN, 0}, {ends.control, POLLIN, 0}}};
  int status = 0;
  for (bool ended = false; !ended;) {
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) {
      _exit(kNoSuchCommand);
    }
    if ((ready[1].revents & (POLLHUP | POLLERR | POLLIN)) != 0) {
      _exit(kNoSuchCommand);  // Whoever holds the box is gone, and with us goes every process.
    }
    signalfd_siginfo info{};
    while (read(signals, &info, sizeof info) == sizeof info) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number != SIGCHLD && kill(-command, number) != 0) {
        kill(command, number);  // It has no group of its own yet.
      }
    }
    ended = reap(command, status);
  }
  EndMessage message{};
  message.wait_status = status;
  send(ends.control, &message, sizeof message, MSG_NOSIGNAL);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : kNoSuchCommand);
}

}  // namespace

void run_inside(Launch& launch) {
  if (!launch.has_broker()) {
    reset_signals();
    take_descriptors(launch);
    map_user(launch);
  } else {
    tell_broker(launch);
  }
  Ends ends{launch.report, launch.control};
  if (sethostname(kHostName, std::strlen(kHostName)) != 0) {
    fail_inside(launch, Stage::kRights, errno);
  }
  bring_loopback_up(launch, ends);
  build_mounts(launch);
  if (ends.listener >= 0 && !send_descriptor(ends.control, kListenerMessage, ends.listener)) {
    fail_inside(launch, Stage::kNetwork, errno);
  }
  if (launch.terminal) {
    open_terminal(launch, ends);
  }
  if (chdir(launch.cwd.c_str()) != 0) {
    fail_inside(launch, Stage::kDirectory, errno);
  }
  give_up_rights(launch);
  restrict_writes(launch);
  filter_calls(launch);
  const auto command = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (command < 0) {
    fail_inside(launch, Stage::kFork, errno);
  }
  if (command == 0) {
    become_command(launch, ends);
  }
  // The command alone holds its pipes, so that a reader sees when it closes them.
  close_range(0, static_cast<unsigned>(kAboveAll - 1));
  syscall(SYS_close, ends.report);
  watch(ends, command);
}

}  // namespace sandboxkit::box
