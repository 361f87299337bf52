// Grants into a box that runs. Between clone and exit: no lock, no memory.

#include "box/broker.h"

#include "box/kernel_calls.h"
#include "box/point.h"
#include "box/set_up.h"

#include <cerrno>
#include <csignal>

#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace sandboxkit::box {
namespace {

constexpr unsigned long kRest = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                CLONE_NEWUTS | CLONE_PARENT | CLONE_PIDFD | SIGCHLD;
constexpr mode_t kEmptyFolder = 0555;
constexpr unsigned kSafe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

/// The two mount namespaces between which a broker goes.
struct Views {
  int host;
  int box;
};

BrokerAnswer failed() { return {errno, errno == ELOOP || errno == ENOENT}; }

/// The host's object that was judged; negative: `answer` says why.
int open_judged(const BrokerOrder& order, BrokerAnswer& answer) {
  const Handle root(open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0));
  const int place = open_place(root.get(), order.path.data(), O_PATH | O_NOFOLLOW, kNoLinks);
  struct stat status {};
  if (place < 0 || fstat(place, &status) != 0) {
    answer = failed();
    return -1;
  }
  const bool is_type = order.type == FileType::kDirectory ? S_ISDIR(status.st_mode)
                       : order.type == FileType::kFile    ? S_ISREG(status.st_mode)
                                                          : S_ISLNK(status.st_mode);
  if (status.st_dev != order.identity.device || status.st_ino != order.identity.inode || !is_type) {
    answer = {ESTALE, true};
    syscall(SYS_close, place);
    return -1;
  }
  return place;
}

/// A copy of what is at `place`, with what protects names below it.
int copy(const BrokerOrder& order, int place) {
  const bool is_directory = order.type == FileType::kDirectory;
  const int mount = clone_mount(place, "", is_directory);
  const unsigned closed =
      order.access == BoxAccess::kReadOnly ? static_cast<unsigned>(MOUNT_ATTR_RDONLY) : 0U;
  if (mount >= 0 && set_mount(mount, kSafe | closed, 0, is_directory) != 0) {
    const int error_number = errno;
    syscall(SYS_close, mount);
    errno = error_number;
    return -1;
  }
  return mount;
}

/// An empty directory, or a file that nobody may read.
int nothing(FileType type) {
  const Handle context(open_filesystem("tmpfs"));
  const Handle target(open_place(AT_FDCWD, "/dev", O_PATH | O_DIRECTORY, 0));
  const Handle memory(context ? make_mount(context.get(), kSafe) : -1);
  // Older kernels copy no mount that has no place; nobody else sees this one.
  if (!memory || !target || attach_mount(memory.get(), target.get()) != 0 ||
      mkdirat(memory.get(), "d", kEmptyFolder) != 0) {
    return -1;
  }
  const Handle file(openat(memory.get(), "f", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0));
  const Handle empty(open_place(memory.get(), type == FileType::kDirectory ? "d" : "f",
                                O_PATH | O_NOFOLLOW, kNoLinks));
  const int mount = empty ? clone_mount(empty.get(), "", false) : -1;
  return mount >= 0 && set_mount(mount, MOUNT_ATTR_RDONLY, 0, false) == 0 ? mount : -1;
}

BrokerAnswer protect(const BrokerOrder& order) {
  BrokerAnswer answer;
  const Handle place(open_judged(order, answer));
  if (!place) {
    return answer;
  }
  const Handle mount(order.access == BoxAccess::kHide ? nothing(order.type)
                                                      : copy(order, place.get()));
  return mount && attach_mount(mount.get(), place.get()) == 0 ? BrokerAnswer{} : failed();
}

/// In the box's mount namespace.
BrokerAnswer put(const BrokerOrder& order, int mount) {
  const Handle root(open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0));
  // An area that nothing covers, and so of the file system of all areas.
  const Handle memory(open_place(root.get(), "dev/shm", O_PATH | O_DIRECTORY, kNoLinks));
  const Handle target(make_point(root.get(), order.path.data(), order.type, memory.get()));
  return target && attach_mount(mount, target.get()) == 0 ? BrokerAnswer{} : failed();
}

BrokerAnswer take_back(const BrokerOrder& order) {
  const Handle root(open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0));
  const Handle place(open_place(root.get(), order.path.data(), O_PATH | O_NOFOLLOW, kNoLinks));
  return place && set_mount(place.get(), MOUNT_ATTR_RDONLY, 0, false) == 0 ? BrokerAnswer{}
                                                                           : failed();
}

BrokerAnswer carry_out(const BrokerOrder& order, const Views& views) {
  if (order.act == BrokerAct::kProtect) {
    return protect(order);
  }
  BrokerAnswer answer;
  const bool gives = order.act == BrokerAct::kGive;
  const Handle place(gives ? open_judged(order, answer) : -1);
  if (gives && !place) {
    return answer;
  }
  const Handle mount(gives ? copy(order, place.get()) : -1);
  if ((gives && !mount) || setns(views.box, CLONE_NEWNS) != 0) {
    return failed();
  }
  answer = gives ? put(order, mount.get()) : take_back(order);
  // Without its own view it could take the box's files for the host's.
  if (setns(views.host, CLONE_NEWNS) != 0) {
    _exit(1);
  }
  return answer;
}

[[noreturn]] void serve(int socket, const Views& views) {
  BrokerOrder order;
  while (recv(socket, &order, sizeof order, 0) == sizeof order) {
    order.path.back() = '\0';
    const BrokerAnswer answer = carry_out(order, views);
    if (send(socket, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) {
      break;
    }
  }
  _exit(0);
}

}  // namespace

void run_broker(Launch& launch) {
  reset_signals();
  take_descriptors(launch);
  map_user(launch);
  // What somebody mounts on the host later is not for boxes.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    fail_inside(launch, Stage::kPrivate, errno);
  }
  const int host = open_place(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY, 0);
  int pidfd = -1;
  const long pid = syscall(SYS_clone, kRest, nullptr, &pidfd, nullptr, nullptr);
  if (pid == 0) {
    run_inside(launch);
  }
  if (pid < 0 || host < 0) {
    fail_inside(launch, Stage::kFork, errno);
  }
  syscall(SYS_close, launch.broker_box);  // The box's alone, so that its end is seen here.
  const int box = receive_descriptor(launch.broker_own, kMountsMessage);
  const Views views{fcntl(host, F_DUPFD_CLOEXEC, kAboveAll),
                    fcntl(box, F_DUPFD_CLOEXEC, kAboveAll)};
  if (views.host < 0 || views.box < 0 ||
      !send_descriptor(launch.broker, kFirstProcessMessage, pidfd)) {
    fail_inside(launch, Stage::kFork, errno);
  }
  // The box alone holds its report and its control socket, and the command its descriptors.
  for (const int fd : {launch.report, launch.control, launch.broker_own}) {
    syscall(SYS_close, fd);
  }
  close_range(0, static_cast<unsigned>(kAboveAll - 1));
  serve(launch.broker, views);
}

}  // namespace sandboxkit::box
