#include "sandboxkit/system_eyes.h"

#include "eyes/path_walk.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

constexpr int kTries = 8;
constexpr std::size_t kMaxEntries = 200'000;
constexpr int kMaxLevels = 128;

/// What the kernel finds for a whole path at once: nullopt when there is nothing.
Result<std::optional<FileIdentity>> find_at_once(const std::string& path, LastLink last) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | (last == LastLink::kKeep ? O_NOFOLLOW : 0);
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const io::Fd fd(
      static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how))));
  if (!fd) {
    return errno == ENOENT
               ? Result<std::optional<FileIdentity>>(std::nullopt)
               : Result<std::optional<FileIdentity>>(io::error_from_errno("look", errno));
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) {
    return io::error_from_errno("look", errno);
  }
  return std::optional(eyes::facts_of(status).identity);
}

class DirectoryWalk {
 public:
  DirectoryWalk(bool skip_unreadable, const WalkVisitor& visit)
      : skip_unreadable_(skip_unreadable), visit_(visit) {}

  Status run(const std::string& directory) {
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_NO_MAGICLINKS;
    io::Fd fd(
        static_cast<int>(syscall(SYS_openat2, AT_FDCWD, directory.c_str(), &how, sizeof(how))));
    if (!fd) {
      return what_is_closed(errno);
    }
    return read(std::move(fd), directory == "/" ? "" : directory, 0);
  }

 private:
  struct Close {
    void operator()(DIR* directory) const { closedir(directory); }
  };

  /// What is gone or no directory shows nothing.
  Status what_is_closed(int error_number) const {
    const bool is_nothing =
        error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP;
    const bool is_closed = error_number == EACCES || error_number == EPERM;
    if (is_nothing || (is_closed && skip_unreadable_)) {
      return {};
    }
    return io::error_from_errno("look through a directory", error_number);
  }

  Status read(io::Fd fd, const std::string& path, int level) {
    if (level > kMaxLevels) {
      return Error{ErrorCode::kTooLarge, "directories are nested too deep to be looked through"};
    }
    const std::unique_ptr<DIR, Close> directory(fdopendir(fd.get()));
    if (!directory) {
      return io::error_from_errno("look through a directory", errno);
    }
    fd.release();
    while (!stopped_) {
      errno = 0;
      const dirent* entry = readdir(directory.get());
      if (entry == nullptr) {
        return errno == 0 ? Status() : what_is_closed(errno);
      }
      const std::string name = entry->d_name;
      if (name == "." || name == "..") {
        continue;
      }
      if (auto status = meet(dirfd(directory.get()), name, path, level); !status) {
        return status;
      }
    }
    return {};
  }

  Status meet(int directory, const std::string& name, const std::string& path, int level) {
    if (++entries_ > kMaxEntries) {
      return Error{ErrorCode::kResourceExhausted, "more than " + std::to_string(kMaxEntries) +
                                                      " entries are to be looked through"};
    }
    struct stat status {};
    if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return what_is_closed(errno);
    }
    const std::string here = path + "/" + name;
    const WalkStep step = visit_(here, eyes::facts_of(status));
    stopped_ = step == WalkStep::kStop;
    if (step != WalkStep::kInto || !S_ISDIR(status.st_mode)) {
      return {};
    }
    io::Fd below(openat(directory, name.c_str(),
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    return below ? read(std::move(below), here, level + 1) : what_is_closed(errno);
  }

  bool skip_unreadable_;
  const WalkVisitor& visit_;
  std::size_t entries_ = 0;
  bool stopped_ = false;
};

class SystemEyes final : public FileEyes {
 public:
  Result<SeenPath> look(const LookAt& at) const override {
    const std::string path = at.path.starts_with('/') ? at.path : at.cwd + "/" + at.path;
    // A final slash or dot asks for the directory behind a link.
    const bool wants_directory = path.ends_with('/') || path.ends_with("/.");
    const LastLink last = wants_directory ? LastLink::kFollow : at.last;
    for (int i = 0; i < kTries; ++i) {
      auto seen = eyes::PathWalk(last).follow(path);
      if (!seen) {
        return seen;
      }
      const auto found = find_at_once(path, last);
      if (!found) {
        // Links that one step takes for text and the kernel for its own are the kernel's.
        return found.error();
      }
      const auto walked = seen->file ? std::optional(seen->file->identity) : std::nullopt;
      if (walked == *found) {
        return seen;
      }
    }
    return Error{ErrorCode::kUnavailable, "the path changes while it is looked at"};
  }

  Status walk(const WalkFrom& from, const WalkVisitor& visit) const override {
    return DirectoryWalk(from.skip_unreadable, visit).run(from.directory);
  }
};

}  // namespace

const FileEyes& system_eyes() {
  static const SystemEyes kEyes;
  return kEyes;
}

}  // namespace sandboxkit
