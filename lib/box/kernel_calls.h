#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Calls of the kernel that need no library, no lock and no memory: they are made between clone and
/// exec. Each returns a negative number with errno set, as the system's own.
namespace sandboxkit::box {

/// Links of text and links of the kernel are both refused: a path is what it says, or it is none.
inline constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

inline int open_place(int directory, const char* path, std::uint64_t flags, std::uint64_t resolve,
                      std::uint64_t mode = 0) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = resolve;
  return static_cast<int>(syscall(SYS_openat2, directory, path, &how, sizeof how));
}

/// A copy of the mount at `fd`, with what is mounted below it when it is a directory.
inline int clone_mount(int fd, const char* path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  return static_cast<int>(syscall(SYS_open_tree, fd, path, flags));
}

inline int set_mount(int fd, std::uint64_t set, std::uint64_t clear, bool recursive) {
  mount_attr attributes{};
  attributes.attr_set = set;
  attributes.attr_clr = clear;
  const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  return static_cast<int>(
      syscall(SYS_mount_setattr, fd, "", flags, &attributes, sizeof attributes));
}

/// Puts a mount that has no place yet onto the object that `target` holds.
inline int attach_mount(int mount, int target) {
  return static_cast<int>(syscall(SYS_move_mount, mount, "", target, "",
                                  MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

inline int open_filesystem(const char* type) {
  return static_cast<int>(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

inline int configure(int context, const char* key, const char* value) {
  return static_cast<int>(syscall(SYS_fsconfig, context,
                                  value != nullptr ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key,
                                  value, 0));
}

/// The mount of a configured file system.
inline int make_mount(int context, unsigned attributes) {
  if (syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, attributes));
}

inline int close_range(unsigned first, unsigned last) {
  return first > last ? 0 : static_cast<int>(syscall(SYS_close_range, first, last, 0U));
}

/// Closes itself, as io::Fd, in a process that may not call into libraries.
class Handle {
 public:
  explicit Handle(int fd) : fd_(fd) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (fd_ >= 0) {
      const int error_number = errno;
      syscall(SYS_close, fd_);
      errno = error_number;
    }
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

}  // namespace sandboxkit::box
