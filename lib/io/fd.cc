#include "io/fd.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

ErrorCode code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
      return ErrorCode::kResourceExhausted;
    case EEXIST:
    case ENOTEMPTY:
    case EBUSY:
      return ErrorCode::kConflict;
    case EINVAL:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return ErrorCode::kInvalidArgument;
    case EFBIG:
    case E2BIG:
      return ErrorCode::kTooLarge;
    case ETIMEDOUT:
      return ErrorCode::kDeadlineExceeded;
    case ECANCELED:
      return ErrorCode::kCancelled;
    case EAGAIN:
    case EPIPE:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRINUSE:
    case EADDRNOTAVAIL:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

void Fd::reset(int fd) {
  // Linux frees the number even when close is interrupted: a second close could hit a stranger.
  if (fd_ >= 0) {
    ::close(fd_);
  }
  fd_ = fd;
}

Error error_from_errno(const char* what, int error_number) {
  const char* text = ::strerrordesc_np(error_number);
  return Error{code_of_errno(error_number),
               std::string(what) + ": " + (text != nullptr ? text : "unknown error")};
}

Status set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) {
    return error_from_errno("fcntl", errno);
  }
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (wanted != flags && ::fcntl(fd, F_SETFL, wanted) != 0) {
    return error_from_errno("fcntl", errno);
  }
  return {};
}

}  // namespace sandboxkit::io
