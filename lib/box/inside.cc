// The first process of a box: sets everything up, gives up every right, starts the command, reaps.
// Between clone and exec it takes no lock and no memory.

#include "box/kernel_calls.h"
#include "box/launch.h"

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

void write_all_of(const Launch& launch, const char* path, const char* text, std::size_t size) {
  const Handle file(open_place(AT_FDCWD, path, O_WRONLY, 0));
  if (!file || write(file.get(), text, size) != static_cast<ssize_t>(size)) {
    fail_inside(launch, Stage::kUser, errno);
  }
}

void map_user(const Launch& launch) {
  write_all_of(launch, "/proc/self/setgroups", "deny", 4);
  write_all_of(launch, "/proc/self/uid_map", launch.uid_map.c_str(), launch.uid_map.size());
  write_all_of(launch, "/proc/self/gid_map", launch.gid_map.c_str(), launch.gid_map.size());
}

/// The command's descriptors get their numbers, and everything else of the host is closed: what a
/// caller left open does not reach into the box.
void take_descriptors(Launch& launch) {
  const auto above = [&](int fd) {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, kAboveAll);
    if (copy < 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
    return copy;
  };
  launch.report = above(launch.report);
  launch.control = above(launch.control);
  for (Descriptor& one : launch.descriptors) {
    one.ours = above(one.ours);
  }
  for (const Descriptor& one : launch.descriptors) {
    if (dup2(one.ours, one.theirs) < 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
  }
  unsigned next = 0;
  for (const Descriptor& one : launch.descriptors) {
    const auto kept = static_cast<unsigned>(one.theirs);
    if (kept > next && close_range(next, kept - 1) != 0) {
      fail_inside(launch, Stage::kDescriptors, errno);
    }
    next = kept + 1;
  }
  const auto low = static_cast<unsigned>(std::min(launch.report, launch.control));
  const auto high = static_cast<unsigned>(std::max(launch.report, launch.control));
  if (close_range(next, low - 1) != 0 || close_range(low + 1, high - 1) != 0 ||
      close_range(high + 1, ~0U) != 0) {
    fail_inside(launch, Stage::kDescriptors, errno);
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

bool send_descriptor(int socket, char byte, int descriptor) {
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
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

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    sigaction(signal, &standard, nullptr);
  }
}

}  // namespace

void fail_inside(const Launch& launch, Stage stage, int error_number, std::size_t index) {
  const Failure failure{stage, error_number, static_cast<std::uint32_t>(index)};
  // A pipe takes so little at once or not at all; without a reader there is nobody to tell.
  if (write(launch.report, &failure, sizeof failure) != sizeof failure) {
    _exit(kNoSuchCommand);
  }
  _exit(kNoSuchCommand);
}

void run_inside(Launch& launch) {
  reset_signals();
  take_descriptors(launch);
  Ends ends{launch.report, launch.control};
  map_user(launch);
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
