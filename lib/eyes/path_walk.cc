#include "eyes/path_walk.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace sandboxkit::eyes {
namespace {

int open_at(int directory, const char* name, std::uint64_t flags, std::uint64_t resolve) {
  open_how how{};
  how.flags = flags;
  how.resolve = resolve;
  const long fd = syscall(SYS_openat2, directory, name, &how, sizeof(how));
  return fd < 0 ? -errno : static_cast<int>(fd);
}

/// A link of /proc that is no text: only the kernel knows where it leads.
bool is_magic(int directory, int link, const std::string& name) {
  struct statfs system {};
  if (fstatfs(link, &system) != 0 || system.f_type != PROC_SUPER_MAGIC) {
    return false;
  }
  const int followed = open_at(directory, name.c_str(), O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
  if (followed >= 0) {
    close(followed);
  }
  return followed == -ELOOP;
}

Error failed(int error_number) { return io::error_from_errno("look", error_number); }

FileType type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileType::kFile;
    case S_IFDIR:
      return FileType::kDirectory;
    case S_IFLNK:
      return FileType::kLink;
    case S_IFSOCK:
      return FileType::kSocket;
    default:
      return FileType::kOther;
  }
}

}  // namespace

FileFacts facts_of(const struct stat& status) {
  constexpr mode_t kModeBits = 07777;
  return FileFacts{.identity = {status.st_dev, status.st_ino},
                   .type = type_of(status.st_mode),
                   .owner = status.st_uid,
                   .mode = status.st_mode & kModeBits,
                   .link_count = status.st_nlink};
}

int open_step(int directory, const char* name) {
  return open_at(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC,
                 RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
}

void PathWalk::push_parts(std::string_view path) {
  const auto parts = split(path, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!part->empty() && *part != ".") {
      left_.emplace_back(*part);
    }
  }
}

Status PathWalk::restart() {
  levels_.clear();
  const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    return failed(errno);
  }
  return enter(io::Fd(root), "", {});
}

Status PathWalk::enter(io::Fd fd, const std::string& name, const FileFacts& facts) {
  if (levels_.size() > kMaxDirectories) {
    return Error{ErrorCode::kTooLarge,
                 "the path has more than " + std::to_string(kMaxDirectories) + " directories"};
  }
  Level level{std::move(fd), name, facts};
  if (name.empty()) {
    struct stat status {};
    if (fstat(level.fd.get(), &status) != 0) {
      return failed(errno);
    }
    level.facts = facts_of(status);
  }
  levels_.push_back(std::move(level));
  return {};
}

std::string PathWalk::place() const {
  std::string path;
  for (const Level& level : levels_) {
    path += level.name.empty() ? "" : "/" + level.name;
  }
  return path;
}

Status PathWalk::note_missing(const std::string& name) {
  if (levels_.back().facts.type != FileType::kDirectory) {
    return failed(ENOTDIR);
  }
  is_missing_ = true;
  missing_ = "/" + name;
  for (; !left_.empty(); left_.pop_back()) {
    if (left_.back() == "..") {
      return Error{ErrorCode::kNotFound, "the path leaves a directory that does not exist"};
    }
    missing_ += "/" + left_.back();
  }
  return {};
}

Status PathWalk::follow_link(int fd, const std::string& name) {
  if (is_magic(levels_.back().fd.get(), fd, name)) {
    return Error{ErrorCode::kPermissionDenied, "the path goes through a link of the kernel",
                 "magic_link"};
  }
  if (++links_ > kMaxLinks) {
    return failed(ELOOP);
  }
  std::array<char, PATH_MAX> target{};
  const ssize_t size = readlinkat(fd, "", target.data(), target.size());
  if (size <= 0 || static_cast<std::size_t>(size) == target.size()) {
    return failed(size < 0 ? errno : ENAMETOOLONG);
  }
  const std::string path = place() + "/" + name;
  if (left_.empty() && asked_left_ == 0 && !seen_.asked_link) {
    seen_.asked_link = path;
  }
  seen_.links.push_back(path);
  const std::string_view text(target.data(), static_cast<std::size_t>(size));
  push_parts(text);
  return text.front() == '/' ? restart() : Status();
}

Status PathWalk::step(const std::string& name) {
  if (name == "..") {
    if (levels_.size() > 1) {
      levels_.pop_back();
    }
    return {};
  }
  const int opened = open_step(levels_.back().fd.get(), name.c_str());
  if (opened == -ENOENT) {
    return note_missing(name);
  }
  if (opened < 0) {
    return failed(-opened);
  }
  io::Fd fd(opened);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) {
    return failed(errno);
  }
  const bool keeps = left_.empty() && last_ == LastLink::kKeep;
  if (S_ISLNK(status.st_mode) && !keeps) {
    return follow_link(fd.get(), name);
  }
  if (!left_.empty() && !S_ISDIR(status.st_mode)) {
    return failed(ENOTDIR);
  }
  return enter(std::move(fd), name, facts_of(status));
}

Result<SeenPath> PathWalk::follow(const std::string& path) {
  push_parts(path);
  asked_left_ = left_.size();
  if (auto status = restart(); !status) {
    return status.error();
  }
  while (!left_.empty() && !is_missing_) {
    const std::string name = std::move(left_.back());
    left_.pop_back();
    asked_left_ = std::min(asked_left_, left_.size());
    if (auto status = step(name); !status) {
      return status.error();
    }
  }
  seen_.canonical = place() + missing_;
  if (seen_.canonical.empty()) {
    seen_.canonical = "/";
  }
  const std::size_t above = levels_.size() - (is_missing_ ? 0 : 1);
  for (std::size_t i = 0; i < above; ++i) {
    seen_.above.push_back(levels_[i].facts.identity);
  }
  if (!is_missing_) {
    seen_.file = levels_.back().facts;
  }
  return std::move(seen_);
}

}  // namespace sandboxkit::eyes
