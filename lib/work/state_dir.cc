#include "work/state_dir.h"

#include "base/text.h"
#include "io/fd.h"

#include <array>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::work {
namespace {

constexpr std::size_t kMaxFileBytes = 64 * 1024;

Error bad_folder(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument,
               "the state folder " + sandboxkit::quoted(path) + " " + why, "", "state_dir"};
}

Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return io::error_from_errno("write", errno);
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
  return {};
}

}  // namespace

Status make_state_dir(const std::string& path) {
  if (path.empty() || path.front() != '/') {
    return bad_folder(path, "must be an absolute path");
  }
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  struct stat status {};
  if (problem || ::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return bad_folder(path, "cannot be made");
  }
  if (status.st_uid != ::geteuid() || ::chmod(path.c_str(), 0700) != 0) {
    return bad_folder(path, "belongs to another user");
  }
  return {};
}

Result<std::optional<std::string>> read_private_file(const std::string& path) {
  const io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == ENOENT) {
    return std::optional<std::string>();
  }
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return io::error_from_errno(sandboxkit::quoted(path).c_str(), errno);
  }
  if ((status.st_mode & 077) != 0) {
    return Error{ErrorCode::kPermissionDenied,
                 sandboxkit::quoted(path) +
                     " can be read by others; its credential may be known: remove it, "
                     "remove the worker at the controller, and join again",
                 "exposed_credential"};
  }
  std::string text(kMaxFileBytes, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) {
    return io::error_from_errno(sandboxkit::quoted(path).c_str(), errno);
  }
  text.resize(static_cast<std::size_t>(got));
  return std::optional(std::move(text));
}

Status write_private_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  io::Fd file(::open(fresh.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!file) {
    return io::error_from_errno(sandboxkit::quoted(fresh).c_str(), errno);
  }
  if (auto written = write_all(file.get(), text); !written) {
    return written;
  }
  if (::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return io::error_from_errno(sandboxkit::quoted(path).c_str(), errno);
  }
  // The name itself is on the disk only when its folder is.
  const std::string folder = std::filesystem::path(path).parent_path();
  const io::Fd parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent || ::fsync(parent.get()) != 0) {
    return io::error_from_errno(sandboxkit::quoted(folder).c_str(), errno);
  }
  return {};
}

}  // namespace sandboxkit::work
