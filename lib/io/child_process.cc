#include "io/child_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

constexpr int kFirstDescriptor = STDERR_FILENO + 1;
/// Copies of ours stand above all of the child's, so that none overwrites another.
constexpr int kAboveAll = 64;

class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t set;
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&attributes_, &set);
    sigfillset(&set);
    posix_spawnattr_setsigdefault(&attributes_, &set);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

/// Puts `ours` at `place` of the child by a copy that the caller keeps until the spawn.
Status place_descriptor(Actions& actions, std::vector<Fd>& copies, int ours, int place) {
  Fd copy(fcntl(ours, F_DUPFD_CLOEXEC, kAboveAll));
  if (!copy) {
    return error_from_errno("fcntl", errno);
  }
  const int failed = posix_spawn_file_actions_adddup2(actions.get(), copy.get(), place);
  copies.push_back(std::move(copy));
  return failed == 0 ? Status() : Status(error_from_errno("posix_spawn", failed));
}

/// As the kernel takes lists: with a null at the end.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<Child> spawn(const SpawnOrder& order) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return error_from_errno("pipe", errno);
  }
  Fd errors(ends[0]);
  const Fd child_errors(ends[1]);
  Actions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(actions.get(), STDIN_FILENO, STDOUT_FILENO);
  std::vector<Fd> copies;
  Status placed = place_descriptor(actions, copies, child_errors.get(), STDERR_FILENO);
  int place = kFirstDescriptor;
  for (const int descriptor : order.descriptors) {
    placed = placed ? place_descriptor(actions, copies, descriptor, place++) : placed;
  }
  if (!placed) {
    return placed.error();
  }
  posix_spawn_file_actions_addclosefrom_np(actions.get(), place);

  std::vector<std::string> words{order.program};
  words.insert(words.end(), order.arguments.begin(), order.arguments.end());
  std::vector<std::string> variables = order.environment;
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> environment = pointers_to(variables);
  const Attributes attributes;
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, order.program.c_str(), actions.get(), attributes.get(),
                                 argv.data(), environment.data());
  if (failed != 0) {
    return error_from_errno(("start " + order.program).c_str(), failed);
  }
  // Not reaped before this, so the pid is still its own.
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    const int error_number = errno;
    kill(pid, SIGKILL);
    return error_from_errno("pidfd_open", error_number);
  }
  return Child{pid, std::move(pidfd), std::move(errors)};
}

}  // namespace sandboxkit::io
