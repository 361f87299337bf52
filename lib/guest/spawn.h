#pragma once

#include "sandboxkit/result.h"

#include "guest/users.h"
#include "io/fd.h"

#include <string>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::guest {

struct TerminalSize {
  unsigned columns = 80;
  unsigned rows = 24;
};

struct SpawnPlan {
  std::vector<std::string> argv;
  std::vector<std::string> env;  ///< `NAME=value`; its PATH is where a bare command is looked up.
  std::string cwd;
  User user;
  bool change_user;         ///< Set for root only: `user` is entered with its groups.
  bool open_stdin = false;  ///< Else /dev/null.
  bool terminal = false;    ///< One pseudo-terminal in place of three pipes.
  TerminalSize size{};
};

/// A started process: leader of its own session and process group. Descriptors are non-blocking and
/// close-on-exec; `input` is empty when stdin is closed, `terminal` holds the master side.
struct Spawned {
  pid_t pid;
  io::Fd input{};
  io::Fd output{};
  io::Fd error_output{};
  io::Fd terminal{};
};

/// Starts a process the way posix_spawn does: the child borrows our memory until it executes, so
/// the cost does not grow with ours, and it tells precisely which step failed. Errors:
/// kInvalidArgument `command_not_found`, `cwd_not_found` "cwd '<p>' does not exist";
/// kPermissionDenied; kResourceExhausted when the sandbox has no process or descriptor left.
/// Blocking: until the child executes its program (about a millisecond).
Result<Spawned> spawn(const SpawnPlan& plan);

Status resize_terminal(int master, TerminalSize size);

}  // namespace sandboxkit::guest
