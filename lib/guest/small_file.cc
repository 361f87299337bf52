#include "guest/small_file.h"

#include "io/fd.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {

Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes) {
  const io::Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return file_error(errno, path);
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "'" + path + "' is not a regular file"};
  }
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return file_error(errno, path);
    }
    if (got == 0) {
      return text;
    }
    if (text.size() + static_cast<std::size_t>(got) > max_bytes) {
      return Error{ErrorCode::kTooLarge, "'" + path + "' is larger than it may be"};
    }
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

Error file_error(int error_number, const std::string& path) {
  const std::string shown = "'" + path + "'";
  switch (error_number) {
    case ENOENT:
      return {ErrorCode::kNotFound, "path " + shown + " does not exist", "file_not_found", "path"};
    case ENOTDIR:
      return {ErrorCode::kInvalidArgument, "a parent of " + shown + " is not a directory",
              "not_a_directory", "path"};
    case EISDIR:
      return {ErrorCode::kInvalidArgument, "path " + shown + " is a directory", "is_a_directory",
              "path"};
    case EACCES:
    case EPERM:
      return {ErrorCode::kPermissionDenied, "permission denied for " + shown, "permission_denied",
              "path"};
    case EROFS:
      return {ErrorCode::kPermissionDenied, "the file system of " + shown + " is read-only",
              "permission_denied", "path"};
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return {ErrorCode::kResourceExhausted, "no space left for " + shown, "no_space", "path"};
    case EEXIST:
      return {ErrorCode::kConflict, "path " + shown + " exists already", "already_exists", "path"};
    case ENOTEMPTY:
      return {ErrorCode::kConflict, "directory " + shown + " is not empty", "directory_not_empty",
              "path"};
    case EBUSY:
    case ETXTBSY:
      return {ErrorCode::kConflict, "path " + shown + " is in use", "busy", "path"};
    case ENAMETOOLONG:
    case ELOOP:
    case EINVAL:
    case ENXIO:
      return {ErrorCode::kInvalidArgument, "path " + shown + ": " + std::strerror(error_number),
              "invalid_argument", "path"};
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return {ErrorCode::kUnavailable, shown + ": " + std::strerror(error_number)};
    default:
      return {ErrorCode::kInternal, shown + ": " + std::strerror(error_number)};
  }
}

}  // namespace sandboxkit::guest
