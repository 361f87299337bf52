#include "control/state_dir.h"

#include "base/text.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::control {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kSecretMode = 0600;

Error state_dir_error(const std::string& path, int error_number) {
  Error error = io::error_from_errno(("state_dir " + quoted(path)).c_str(), error_number);
  error.field = "state_dir";
  return error;
}

Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return io::error_from_errno("write", errno);
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0 ? Status{} : Status(io::error_from_errno("fsync", errno));
}

}  // namespace

Result<io::Fd> open_state_dir(const std::string& path) {
  if (path.empty()) {
    return Error{ErrorCode::kInvalidArgument, "state_dir is required", {}, "state_dir"};
  }
  if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return state_dir_error(path, errno);
  }
  io::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fchmod(folder.get(), kFolderMode) != 0) {
    return state_dir_error(path, errno);
  }
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "state_dir " + quoted(path) + " is used by another controller",
                 {},
                 "state_dir"};
  }
  return folder;
}

Status write_secret_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  ::unlink(part.c_str());
  {
    const io::Fd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kSecretMode));
    if (!file) {
      return io::error_from_errno(part.c_str(), errno);
    }
    if (auto written = write_all(file.get(), text); !written) {
      return written;
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    return io::error_from_errno(path.c_str(), errno);
  }
  return {};
}

}  // namespace sandboxkit::control
