#include "cli/child.h"

#include "cli/terminal.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace sandboxkit::cli {
namespace {

/// Our blocked signals and our ignored SIGPIPE are not the program's.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& argv, Pipe pipe) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error{ErrorCode::kUnavailable, std::string("no pipe: ") + std::strerror(errno)};
  }
  Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const bool to_input = pipe == Pipe::kToInput;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_input ? reading.get() : writing.get(),
                                   to_input ? kStandardInput : kStandardOutput);
  std::vector<char*> pointers;
  for (const std::string& argument : argv) {
    pointers.push_back(const_cast<char*>(argument.c_str()));  // execve does not write to them
  }
  pointers.push_back(nullptr);
  const SpawnAttributes attributes;
  pid_t pid = -1;
  const int problem =
      posix_spawnp(&pid, pointers[0], &actions, attributes.get(), pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    return Error{ErrorCode::kUnavailable,
                 "cannot start `" + argv[0] + "`: " + std::strerror(problem)};
  }
  return Child(argv[0], to_input ? std::move(writing) : std::move(reading), pid);
}

Status Child::finish() {
  pipe_.reset();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) {
      return Error{ErrorCode::kInternal, "`" + name_ + "` got lost"};
    }
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Error{ErrorCode::kInternal, "`" + name_ + "` failed"};
  }
  return {};
}

}  // namespace sandboxkit::cli
