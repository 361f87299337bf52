#include "sandboxkit/box.h"

#include "box/filter.h"
#include "box/kernel_calls.h"
#include "box/start.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace sandboxkit {
namespace {

constexpr int kProbeLimitMs = 5'000;
constexpr std::size_t kParts = 4;

/// One errno for each part, 0 when it works.
struct Answers {
  std::array<int, kParts> errors{};
};

enum Part : std::size_t { kUser, kMounts, kProc, kOverlay };

/// As the kernel reads them; made before the process that writes them.
struct Maps {
  std::string user;
  std::string group;
};

bool tell(const char* path, const char* text, std::size_t size) {
  const box::Handle file(box::open_place(AT_FDCWD, path, O_WRONLY, 0));
  return file && write(file.get(), text, size) == static_cast<ssize_t>(size);
}

bool map_user(const Maps& maps) {
  return tell("/proc/self/setgroups", "deny", 4) &&
         tell("/proc/self/uid_map", maps.user.data(), maps.user.size()) &&
         tell("/proc/self/gid_map", maps.group.data(), maps.group.size());
}

bool make_overlay() {
  using box::configure;
  const box::Handle context(box::open_filesystem("tmpfs"));
  const box::Handle memory(context ? box::make_mount(context.get(), MOUNT_ATTR_NOSUID) : -1);
  const box::Handle target(box::open_place(AT_FDCWD, "/dev", O_PATH | O_DIRECTORY, 0));
  if (!memory || !target || box::attach_mount(memory.get(), target.get()) != 0) {
    return false;
  }
  for (const char* name : {"l", "u", "w"}) {
    if (mkdirat(memory.get(), name, S_IRWXU) != 0) {
      return false;
    }
  }
  const box::Handle overlay(box::open_filesystem("overlay"));
  return overlay && configure(overlay.get(), "userxattr", nullptr) == 0 &&
         configure(overlay.get(), "lowerdir", "/dev/l") == 0 &&
         configure(overlay.get(), "upperdir", "/dev/u") == 0 &&
         configure(overlay.get(), "workdir", "/dev/w") == 0 &&
         box::Handle(box::make_mount(overlay.get(), MOUNT_ATTR_NOSUID));
}

/// In a process of its own, between clone and exit: as run_inside.
Answers try_parts(const Maps& maps) {
  Answers out;
  const auto note = [&](Part part, bool works) { out.errors[part] = works ? 0 : errno; };
  note(kUser, map_user(maps));
  const box::Handle root(box::open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0));
  const box::Handle copy(box::clone_mount(root.get(), "", true));
  note(kMounts, mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 && copy &&
                    box::set_mount(copy.get(), MOUNT_ATTR_RDONLY, 0, true) == 0);
  const box::Handle context(box::open_filesystem("proc"));
  note(kProc,
       context && box::Handle(box::make_mount(
                      context.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)));
  note(kOverlay, make_overlay());
  return out;
}

/// False when the kernel gives no namespaces; errno says why.
bool ask(Answers& answers) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return false;
  }
  const io::Fd reading(ends[0]);
  io::Fd writing(ends[1]);
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  const Maps maps{uid + " " + uid + " 1", gid + " " + gid + " 1"};
  int pidfd = -1;
  const long pid = syscall(SYS_clone,
                           CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                               CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD | SIGCHLD,
                           nullptr, &pidfd, nullptr, nullptr);
  if (pid == 0) {
    const Answers told = try_parts(maps);
    _exit(write(ends[1], &told, sizeof told) == sizeof told ? 0 : 1);
  }
  if (pid < 0) {
    return false;
  }
  const io::Fd process(pidfd);
  writing.reset();
  pollfd ready{reading.get(), POLLIN, 0};
  const bool told = poll(&ready, 1, kProbeLimitMs) == 1 &&
                    read(reading.get(), &answers, sizeof answers) == sizeof answers;
  box::end_process(process);
  errno = told ? 0 : ETIMEDOUT;
  return told;
}

void say(BoxKernel& kernel, bool works, const char* what, int error_number) {
  if (!works) {
    kernel.problems.push_back(std::string(what) + ": " + strerror(error_number));
  }
}

}  // namespace

BoxKernel probe_box() {
  BoxKernel out;
  const box::Handle place(box::open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, box::kNoLinks));
  out.openat2 = static_cast<bool>(place);
  say(out, out.openat2, "openat2 (Linux 5.6)", errno);
  const auto filter = box::make_filter({});
  out.seccomp = filter.has_value() && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
  say(out, out.seccomp, "filters of system calls", filter ? errno : ENOSYS);
  out.landlock_abi = box::landlock_abi();
  say(out, out.landlock_abi > 0, "Landlock, the second layer (Linux 5.13)", errno);
  Answers answers;
  out.user_namespaces = ask(answers);
  say(out, out.user_namespaces,
      "user namespaces (user.max_user_namespaces, AppArmor, a container around us)", errno);
  if (out.user_namespaces) {
    out.user_namespaces = answers.errors[kUser] == 0;
    out.mount_descriptors = answers.errors[kMounts] == 0;
    out.own_proc = answers.errors[kProc] == 0;
    out.overlay = answers.errors[kOverlay] == 0;
    say(out, out.user_namespaces, "the map of users", answers.errors[kUser]);
    say(out, out.mount_descriptors, "mounts by descriptors (Linux 5.12)", answers.errors[kMounts]);
    say(out, out.own_proc, "a /proc of its own (are places in it masked?)", answers.errors[kProc]);
    say(out, out.overlay, "overlays, for staged trees (Linux 5.11)", answers.errors[kOverlay]);
  }
  return out;
}

}  // namespace sandboxkit
