#pragma once

#include "sandboxkit/result.h"

#include <utility>

namespace sandboxkit::io {

/// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset(std::exchange(other.fd_, -1));
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// An Error from errno: `what: strerror`, with a code that fits (ENOENT, EACCES, ENOSPC, ...).
Error error_from_errno(const char* what, int error_number);

Status set_nonblocking(int fd, bool on);

}  // namespace sandboxkit::io
