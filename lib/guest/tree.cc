#include "guest/tree.h"

#include "guest/bounds.h"
#include "guest/small_file.h"
#include "io/fd.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

/// By descriptors all the way down, so that a folder that is swapped for a link leads nowhere else.
int remove_entries(int parent, const char* name, int depth) {
  if (depth > kMaxTreeDepth) {
    return ELOOP;
  }
  io::Fd fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Directory directory(fd ? ::fdopendir(fd.get()) : nullptr, ::closedir);
  if (directory == nullptr) {
    return errno;
  }
  const int self = fd.release();  // closed with the directory
  while (const dirent* entry = ::readdir(directory.get())) {
    const char* child = entry->d_name;
    if (std::strcmp(child, ".") == 0 || std::strcmp(child, "..") == 0) {
      continue;
    }
    if (::unlinkat(self, child, 0) == 0 || errno == ENOENT) {
      continue;
    }
    if (errno != EISDIR && errno != EPERM) {
      return errno;
    }
    if (const int failed = remove_entries(self, child, depth + 1); failed != 0) {
      return failed;
    }
    if (::unlinkat(self, child, AT_REMOVEDIR) != 0) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

Status remove_path(const std::string& path, bool recursive) {
  if (path == "/") {
    return Error{ErrorCode::kInvalidArgument, "the root directory cannot be removed", {}, "path"};
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    return file_error(errno, path);
  }
  if (!S_ISDIR(status.st_mode)) {
    return ::unlink(path.c_str()) == 0 ? Status() : file_error(errno, path);
  }
  if (recursive) {
    const int failed = remove_entries(AT_FDCWD, path.c_str(), 0);
    if (failed != 0) {
      return file_error(failed, path);
    }
  }
  return ::rmdir(path.c_str()) == 0 ? Status() : file_error(errno, path);
}

}  // namespace sandboxkit::guest
