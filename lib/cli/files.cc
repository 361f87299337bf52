#include "cli/files.h"

#include "base/text.h"
#include "cli/terminal.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::cli {

void Descriptor::reset() {
  if (fd_ >= 0) {
    close(fd_);
    fd_ = -1;
  }
}

Error file_error(const std::string& what, const std::string& path, int error_number) {
  const ErrorCode code = error_number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal;
  return Error{code, what + " " + sandboxkit::quoted(path) + ": " + std::strerror(error_number)};
}

Result<std::size_t> read_some(int fd, std::span<char> out) {
  while (true) {
    const ssize_t got = read(fd, out.data(), out.size());
    if (got >= 0) {
      return static_cast<std::size_t>(got);
    }
    if (errno != EINTR) {
      return Error{ErrorCode::kInternal, std::string("cannot read: ") + std::strerror(errno)};
    }
  }
}

Result<std::string> read_all(int fd, std::size_t max_bytes) {
  std::string text;
  std::array<char, 64 * 1024> buffer{};
  while (true) {
    const auto got = read_some(fd, buffer);
    if (!got) {
      return got.error();
    }
    if (*got == 0) {
      return text;
    }
    text.append(buffer.data(), *got);
    if (text.size() > max_bytes) {
      return Error{ErrorCode::kTooLarge,
                   "input is larger than " + std::to_string(max_bytes) + " bytes"};
    }
  }
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  if (path == "-") {
    return read_all(kStandardInput, max_bytes);
  }
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return file_error("cannot open", path, errno);
  }
  auto text = read_all(file.get(), max_bytes);
  if (!text) {
    return Error{text.error().code, sandboxkit::quoted(path) + ": " + text.error().message};
  }
  return text;
}

Status write_file_atomically(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string part = path + ".part";
  Descriptor file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file || fchmod(file.get(), mode) != 0) {
    return file_error("cannot write", part, errno);
  }
  const bool written = write_all(file.get(), bytes);
  file.reset();
  if (!written || std::rename(part.c_str(), path.c_str()) != 0) {
    const int problem = errno;
    unlink(part.c_str());
    return file_error("cannot write", path, problem);
  }
  return {};
}

}  // namespace sandboxkit::cli
