#include "guest/spawn.h"

#include "base/text.h"
#include "guest/bounds.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// The child runs on a stack of its own inside of our memory, which AddressSanitizer cannot follow.
#define SANDBOXKIT_CHILD __attribute__((no_sanitize("address", "undefined")))

namespace sandboxkit::guest {
namespace {

constexpr std::size_t kChildStackBytes = 64 * 1024;

enum class Step : std::uint8_t { kNone, kTerminal, kStdio, kUser, kCwd, kExec };

/// All that the child needs, laid out before it exists: it may not allocate, and it shares our
/// memory, so that it can also say here what failed.
struct Child {
  const char* const* candidates;
  char* const* argv;
  char** script_argv;  // argv behind `/bin/sh <file>`
  char* const* env;
  const char* cwd;
  int stdio[3];
  bool terminal;
  const User* user;  // nullptr: stay who we are
  Step failed = Step::kNone;
  int error_number = 0;
};

/// Raw calls: glibc's setxid wrappers would signal threads that the child does not have.
SANDBOXKIT_CHILD bool enter_user(const User& user) {
  return ::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
         ::syscall(SYS_setresgid, user.gid, user.gid, user.gid) == 0 &&
         ::syscall(SYS_setresuid, user.uid, user.uid, user.uid) == 0;
}

SANDBOXKIT_CHILD void default_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    ::sigaction(signal, &standard, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Tries each candidate as execvp would: a missing one passes on to the next, a forbidden one is
/// remembered, a file without a known format is a shell script.
SANDBOXKIT_CHILD int execute(const Child& child) {
  bool forbidden = false;
  for (const char* const* candidate = child.candidates; *candidate != nullptr; ++candidate) {
    ::execve(*candidate, child.argv, child.env);
    if (errno == ENOEXEC) {
      child.script_argv[1] = const_cast<char*>(*candidate);
      ::execve(child.script_argv[0], child.script_argv, child.env);
    }
    if (errno == EACCES) {
      forbidden = true;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return errno;
    }
  }
  return forbidden ? EACCES : ENOENT;
}

SANDBOXKIT_CHILD int child_main(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const auto fail = [&](Step step, int error_number) {
    child.failed = step;
    child.error_number = error_number;
    ::_exit(127);
  };
  ::setsid();
  if (child.terminal && ::ioctl(child.stdio[0], TIOCSCTTY, 0) != 0) {
    fail(Step::kTerminal, errno);
  }
  for (int target = 0; target < 3; ++target) {
    if (::dup2(child.stdio[target], target) < 0) {
      fail(Step::kStdio, errno);
    }
  }
  // Everything of ours is close-on-exec; this is the second lock. Old kernels lack the call.
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
  // Nobody can trace us while we are the user and still share PID 1's memory: that is not dumpable.
  if (child.user != nullptr && !enter_user(*child.user)) {
    fail(Step::kUser, errno);
  }
  if (::chdir(child.cwd) != 0) {
    fail(Step::kCwd, errno);
  }
  default_signals();
  fail(Step::kExec, execute(child));
  return 127;
}

std::vector<std::string> candidates_for(const SpawnPlan& plan) {
  const std::string& command = plan.argv.front();
  if (command.find('/') != std::string::npos) {
    return {command};
  }
  std::string_view path = kDefaultPath;
  for (const std::string& entry : plan.env) {
    if (entry.starts_with("PATH=")) {
      path = std::string_view(entry).substr(5);
    }
  }
  std::vector<std::string> found;
  for (const std::string_view folder : split(path, ':')) {
    found.push_back((folder.empty() ? "." : std::string(folder)) + "/" + command);
  }
  return found;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

Error describe(const SpawnPlan& plan, Step step, int error_number) {
  const std::string why = std::strerror(error_number);
  const std::string command = plan.argv.front();
  switch (step) {
    case Step::kCwd:
      if (error_number == ENOENT) {
        return {ErrorCode::kInvalidArgument, "cwd '" + plan.cwd + "' does not exist",
                "cwd_not_found", "cwd"};
      }
      if (error_number == ENOTDIR) {
        return {ErrorCode::kInvalidArgument, "cwd '" + plan.cwd + "' is not a directory",
                "not_a_directory", "cwd"};
      }
      return {ErrorCode::kPermissionDenied, "cwd '" + plan.cwd + "': " + why, "permission_denied",
              "cwd"};
    case Step::kExec:
      if (error_number == ENOENT) {
        return {ErrorCode::kInvalidArgument, "command not found: " + quoted(command),
                "command_not_found", "command"};
      }
      if (error_number == EACCES || error_number == EPERM) {
        return {ErrorCode::kPermissionDenied,
                "command " + quoted(command) + " cannot be executed: " + why,
                "command_not_executable", "command"};
      }
      if (error_number == E2BIG) {
        return {ErrorCode::kTooLarge, "arguments and environment are too large",
                "arguments_too_large", "command"};
      }
      return {ErrorCode::kInvalidArgument,
              "command " + quoted(command) + " cannot be executed: " + why,
              "command_not_executable", "command"};
    case Step::kUser:
      return {ErrorCode::kPermissionDenied, "cannot become user '" + plan.user.name + "': " + why,
              "permission_denied", "user"};
    case Step::kNone:
    case Step::kTerminal:
    case Step::kStdio:
      break;
  }
  return {ErrorCode::kInternal, "cannot start " + quoted(command) + ": " + why};
}

Error no_resources(const char* what, int error_number) {
  return {ErrorCode::kResourceExhausted, std::string(what) + ": " + std::strerror(error_number),
          "resource_exhausted"};
}

/// The descriptors that the child gets, and ours.
struct Stdio {
  io::Fd child[3];
  Spawned ours{};
};

Status open_pipe(io::Fd& read_end, io::Fd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return no_resources("no pipe", errno);
  }
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return {};
}

Status open_terminal(const SpawnPlan& plan, Stdio& stdio) {
  io::Fd master(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  int locked = 0;
  if (!master || ::ioctl(master.get(), TIOCSPTLCK, &locked) != 0) {
    return no_resources("no pseudo-terminal", errno);
  }
  // By the master itself, not by a path below /dev, which the sandbox may have replaced.
  io::Fd slave(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave) {
    return no_resources("no pseudo-terminal", errno);
  }
  if (plan.change_user && ::fchown(slave.get(), plan.user.uid, static_cast<gid_t>(-1)) != 0) {
    return no_resources("no pseudo-terminal for the user", errno);
  }
  if (Status sized = resize_terminal(master.get(), plan.size); !sized) {
    return sized;
  }
  for (io::Fd& end : stdio.child) {
    end.reset(::fcntl(slave.get(), F_DUPFD_CLOEXEC, 3));
    if (!end) {
      return no_resources("no descriptor", errno);
    }
  }
  stdio.ours.terminal = std::move(master);
  return {};
}

Status open_pipes(const SpawnPlan& plan, Stdio& stdio) {
  Status opened = open_pipe(stdio.ours.output, stdio.child[1]);
  if (opened) {
    opened = open_pipe(stdio.ours.error_output, stdio.child[2]);
  }
  if (opened && plan.open_stdin) {
    opened = open_pipe(stdio.child[0], stdio.ours.input);
  } else if (opened) {
    stdio.child[0].reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  if (!opened) {
    return opened;
  }
  if (!stdio.child[0]) {
    return no_resources("/dev/null", errno);
  }
  for (const io::Fd* end : {&stdio.ours.input, &stdio.ours.output, &stdio.ours.error_output}) {
    if (*end) {
      if (Status set = io::set_nonblocking(end->get(), true); !set) {
        return set;
      }
    }
  }
  return {};
}

/// Signals stay blocked around the clone: no handler of ours may run in the child. A child that
/// became another user may have made our shared memory dumpable (fs.suid_dumpable); that is undone.
pid_t clone_child(Child& child) {
  const auto stack = std::make_unique<char[]>(kChildStackBytes);
  auto top = reinterpret_cast<std::uintptr_t>(stack.get()) + kChildStackBytes;
  top -= top % 16;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const int dumpable = ::prctl(PR_GET_DUMPABLE);
  const pid_t pid =
      ::clone(child_main, reinterpret_cast<void*>(top), CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
  const int error_number = errno;
  if (dumpable == 0) {
    ::prctl(PR_SET_DUMPABLE, 0);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return pid;
}

}  // namespace

Status resize_terminal(int master, TerminalSize size) {
  struct winsize window {};
  window.ws_col = static_cast<unsigned short>(size.columns);
  window.ws_row = static_cast<unsigned short>(size.rows);
  if (::ioctl(master, TIOCSWINSZ, &window) != 0) {
    return io::error_from_errno("terminal size", errno);
  }
  return {};
}

Result<Spawned> spawn(const SpawnPlan& plan) {
  Stdio stdio;
  const Status opened = plan.terminal ? open_terminal(plan, stdio) : open_pipes(plan, stdio);
  if (!opened) {
    return opened.error();
  }
  const auto candidates = candidates_for(plan);
  const auto candidate_pointers = pointers_to(candidates);
  const auto argv = pointers_to(plan.argv);
  const auto env = pointers_to(plan.env);
  std::string shell = "/bin/sh";
  std::vector<char*> script_argv{shell.data(), nullptr};
  script_argv.insert(script_argv.end(), argv.begin() + 1, argv.end());

  Child child{.candidates = candidate_pointers.data(),
              .argv = argv.data(),
              .script_argv = script_argv.data(),
              .env = env.data(),
              .cwd = plan.cwd.c_str(),
              .stdio = {stdio.child[0].get(), stdio.child[1].get(), stdio.child[2].get()},
              .terminal = plan.terminal,
              .user = plan.change_user ? &plan.user : nullptr};
  const pid_t pid = clone_child(child);
  if (pid < 0) {
    return no_resources("the sandbox cannot start another process", errno);
  }
  if (child.failed != Step::kNone) {
    return describe(plan, child.failed, child.error_number);  // the reaper takes what is left
  }
  stdio.ours.pid = pid;
  return std::move(stdio.ours);
}

}  // namespace sandboxkit::guest
