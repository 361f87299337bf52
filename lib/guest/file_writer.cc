#include "guest/file_writer.h"

#include "base/random.h"
#include "guest/bounds.h"
#include "guest/paths.h"
#include "guest/small_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

constexpr mode_t kNewFileMode = 0644;
constexpr mode_t kNewFolderMode = 0755;
constexpr mode_t kModeBits = 0777;  // set-id bits do not survive an upload
constexpr std::size_t kRandomNameCharacters = 16;

/// Where links lead; the path itself when nothing is there yet.
std::string follow_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? path : std::string(real.get());
}

Status give_to(int fd, const User& user, bool change_owner, const std::string& path) {
  if (change_owner && ::fchown(fd, user.uid, user.gid) != 0) {
    return file_error(errno, path);
  }
  return {};
}

Status make_folder(const std::string& path, const User& user, bool change_owner) {
  if (::mkdir(path.c_str(), kNewFolderMode) != 0) {
    return file_error(errno, path);
  }
  // Not what the process's umask left of it.
  if (::chmod(path.c_str(), kNewFolderMode) != 0 ||
      (change_owner && ::lchown(path.c_str(), user.uid, user.gid) != 0)) {
    return file_error(errno, path);
  }
  return {};
}

}  // namespace

Status make_folders(const std::string& path, const User& user, bool change_owner) {
  std::vector<std::string> missing;
  struct stat status {};
  std::string folder = path;
  while (::stat(folder.c_str(), &status) != 0) {
    if (errno != ENOENT || folder == "/") {
      return file_error(errno, folder);
    }
    missing.push_back(folder);
    folder = parent_of(folder);
  }
  if (!S_ISDIR(status.st_mode)) {
    return file_error(ENOTDIR, path);
  }
  for (auto each = missing.rbegin(); each != missing.rend(); ++each) {
    if (Status made = make_folder(*each, user, change_owner); !made) {
      return made;
    }
  }
  return {};
}

Result<std::unique_ptr<FileWriter>> FileWriter::open(const std::string& path, const User& user,
                                                     bool change_owner) {
  if (Status made = make_folders(parent_of(path), user, change_owner); !made) {
    return made.error();
  }
  std::unique_ptr<FileWriter> writer(new FileWriter(path, follow_links(path)));
  if (Status opened = writer->open_temporary(user, change_owner); !opened) {
    return opened.error();
  }
  return writer;
}

Status FileWriter::open_temporary(const User& user, bool change_owner) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    return file_error(EISDIR, path_);
  }
  if (exists && !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "path '" + path_ + "' is not a regular file",
                 "not_a_regular_file", "path"};
  }
  const std::string name =
      ".sandboxkit-upload-" + system_random().text(kRandomNameCharacters, kBase36);
  const std::string folder = parent_of(target_);
  const std::string temporary = (folder == "/" ? "" : folder) + "/" + name;
  fd_.reset(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_) {
    const int why = errno;
    const bool closed_folder = why == EACCES || why == EPERM || why == EROFS;
    if (!exists || !closed_folder) {
      return file_error(why, path_);
    }
    fd_.reset(::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    return fd_ ? Status() : file_error(errno, path_);
  }
  temporary_ = temporary;
  if (Status given = give_to(fd_.get(), user, change_owner, path_); !given) {
    return given;
  }
  const mode_t mode = exists ? status.st_mode & kModeBits : kNewFileMode;
  return ::fchmod(fd_.get(), mode) == 0 ? Status() : file_error(errno, path_);
}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

Status FileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return file_error(errno, path_);
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status FileWriter::commit() {
  if (temporary_.empty()) {
    fd_.reset();
    return {};
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    // A file that is mounted (the engine mounts /etc/hosts) cannot be replaced, only rewritten.
    return errno == EBUSY ? copy_into_target() : file_error(errno, path_);
  }
  temporary_.clear();
  fd_.reset();
  return {};
}

Status FileWriter::copy_into_target() {
  const io::Fd from(::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC));
  const io::Fd to(::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!from || !to) {
    return file_error(errno, path_);
  }
  while (true) {
    const ssize_t moved = ::sendfile(to.get(), from.get(), nullptr, kFileTurnBytes);
    if (moved == 0) {
      return {};
    }
    if (moved < 0 && errno != EINTR) {
      return file_error(errno, path_);
    }
  }
}

}  // namespace sandboxkit::guest
