#include "box/point.h"

#include "box/kernel_calls.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>

namespace sandboxkit::box {
namespace {

constexpr mode_t kFolderMode = 0755;
constexpr mode_t kPlainFile = 0600;
constexpr std::size_t kNameBytes = 256;

int make(int parent, const char* name, FileType type) {
  if (type == FileType::kDirectory) {
    return mkdirat(parent, name, kFolderMode);
  }
  const int made =
      openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPlainFile);
  if (made >= 0) {
    syscall(SYS_close, made);
  }
  return made < 0 ? -1 : 0;
}

bool is_same_system(int a, int b) {
  struct stat one {};
  struct stat other {};
  return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev;
}

/// Through a copy of the area's mount that takes changes; the area itself stays closed.
int make_in_closed(int parent, const char* name, FileType type, int memory) {
  if (memory < 0 || !is_same_system(parent, memory)) {
    errno = EROFS;
    return -1;
  }
  const Handle open(clone_mount(parent, "", false));
  if (!open || set_mount(open.get(), 0, MOUNT_ATTR_RDONLY, false) != 0) {
    return -1;
  }
  return make(open.get(), name, type);
}

int enter(int parent, const char* name, FileType type, int memory) {
  const int there = open_place(parent, name, O_PATH | O_NOFOLLOW, kNoLinks);
  if (there >= 0 || errno != ENOENT) {
    return there;
  }
  int made = make(parent, name, type);
  if (made != 0 && errno == EROFS) {
    made = make_in_closed(parent, name, type, memory);
  }
  return made == 0 ? open_place(parent, name, O_PATH | O_NOFOLLOW, kNoLinks) : -1;
}

}  // namespace

int make_point(int root, const char* path, FileType type, int memory) {
  int parent = dup(root);
  std::array<char, kNameBytes> name{};
  while (parent >= 0) {
    const char* end = std::strchr(path, '/');
    const std::size_t size =
        end != nullptr ? static_cast<std::size_t>(end - path) : std::strlen(path);
    if (size >= name.size()) {
      syscall(SYS_close, parent);
      errno = ENAMETOOLONG;
      return -1;
    }
    std::memcpy(name.data(), path, size);
    name[size] = '\0';
    const bool is_last = end == nullptr;
    const int next = enter(parent, name.data(), is_last ? type : FileType::kDirectory, memory);
    const int error_number = errno;
    syscall(SYS_close, parent);
    errno = error_number;
    if (is_last) {
      return next;
    }
    parent = next;
    path = end + 1;
  }
  return -1;
}

}  // namespace sandboxkit::box
