#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

namespace sandboxkit::cli {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_;
};

/// Errors: kTooLarge, kUnavailable.
Result<std::string> read_all(int fd, std::size_t max_bytes);
/// A file by path, `-` being standard input. Errors: kNotFound, kTooLarge, kUnavailable.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);
/// Some bytes, 0 at the end.
Result<std::size_t> read_some(int fd, std::span<char> out);

/// Writes beside and renames, so that readers see the old or the new file.
Status write_file_atomically(const std::string& path, std::string_view bytes, mode_t mode);

Error file_error(const std::string& what, const std::string& path, int error_number);

}  // namespace sandboxkit::cli
