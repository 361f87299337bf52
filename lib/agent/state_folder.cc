#include "agent/state_folder.h"

#include "sandboxkit/grant_store.h"
#include "sandboxkit/system_eyes.h"

#include "agent/grant_file.h"
#include "base/text.h"
#include "gate/path_text.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::agent {
namespace {

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;
constexpr mode_t kForOthers = 077;
constexpr mode_t kPermissions = 07777;
constexpr std::chrono::milliseconds kLockPause{10};
constexpr std::size_t kPieceBytes = 64 * 1024;

Error bad_folder(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, "the gate's folder " + quoted(path) + " " + why,
               "bad_gate_folder", "folder"};
}

Error failed(const std::string& name, int error_number) {
  return io::error_from_errno(("file " + quoted(name) + " of the gate").c_str(), error_number);
}

Status make_folders(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), kPrivateFolder) != 0 && errno != EEXIST) {
      return bad_folder(path, io::error_from_errno("cannot be made", errno).message);
    }
    if (end == std::string::npos) {
      return {};
    }
  }
}

/// A root by its path, and by its object: another name of it is no way out.
Status check_outside(const std::string& path, const std::vector<std::string>& roots) {
  const auto here = system_eyes().look({.cwd = "/", .path = path});
  if (!here || !here->file) {
    return bad_folder(path, "cannot be looked at");
  }
  for (const std::string& root : roots) {
    const auto seen = system_eyes().look({.cwd = "/", .path = root});
    if (!seen) {
      return bad_folder(path, "cannot be told from the root " + quoted(root));
    }
    const bool lies_in =
        gate::covers(root, here->canonical) || gate::covers(seen->canonical, here->canonical) ||
        (seen->file && (std::ranges::count(here->above, seen->file->identity) > 0 ||
                        here->file->identity == seen->file->identity));
    const bool holds = gate::covers(here->canonical, seen->canonical) ||
                       std::ranges::count(seen->above, here->file->identity) > 0;
    if (lies_in || holds) {
      return bad_folder(path, (lies_in ? "lies in the root " : "holds the root ") + quoted(root) +
                                  ", where an agent writes; XDG_STATE_HOME moves it");
    }
  }
  return {};
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Status check_private(const struct stat& facts, std::size_t max_bytes) {
  if (!S_ISREG(facts.st_mode)) {
    return grants_ignored("type", "it is no plain file");
  }
  if (facts.st_uid != ::geteuid()) {
    return grants_ignored("owner", "it belongs to another user");
  }
  if ((facts.st_mode & kPermissions) != kPrivateFile) {
    return grants_ignored("mode", "its mode is not 0600: others may have written it");
  }
  if (facts.st_size < 0 || static_cast<std::uint64_t>(facts.st_size) > max_bytes) {
    return grants_ignored("size", "it is larger than " + std::to_string(max_bytes) + " bytes");
  }
  return {};
}

}  // namespace

Result<io::Fd> open_state_folder(const std::string& path, const std::vector<std::string>& roots) {
  if (!gate::is_plain_absolute(path) || path == "/") {
    return bad_folder(path, "must be an absolute, plain path");
  }
  if (auto status = make_folders(path); !status) {
    return status.error();
  }
  io::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts {};
  if (!folder || ::fstat(folder.get(), &facts) != 0) {
    const bool is_link = errno == ELOOP || errno == ENOTDIR;
    return bad_folder(path, is_link ? "is a link or no folder"
                                    : io::error_from_errno("cannot be opened", errno).message);
  }
  if (facts.st_uid != ::geteuid()) {
    return bad_folder(path, "belongs to another user");
  }
  if ((facts.st_mode & kForOthers) != 0) {
    return bad_folder(path, "may be used by others than its owner; make its mode 0700");
  }
  if (auto status = check_outside(path, roots); !status) {
    return status.error();
  }
  return folder;
}

std::optional<FileStamp> stamp_of(int folder, const std::string& name) {
  struct stat facts {};
  if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    return std::nullopt;
  }
  return FileStamp{facts.st_dev, facts.st_ino, facts.st_size, nanoseconds(facts.st_mtim),
                   nanoseconds(facts.st_ctim)};
}

Result<std::string> read_private_file(int folder, const std::string& name, std::size_t max_bytes) {
  const io::Fd file(
      ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    if (errno == ENOENT) {
      return Error{ErrorCode::kNotFound, quoted(name) + " is not there", {}, "file"};
    }
    return grants_ignored(errno == ELOOP ? "type" : "file",
                          io::error_from_errno("it cannot be opened", errno).message);
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) {
    return grants_ignored("file", io::error_from_errno("it cannot be read", errno).message);
  }
  if (auto status = check_private(facts, max_bytes); !status) {
    return status.error();
  }
  std::string text;
  while (text.size() <= max_bytes) {
    const std::size_t before = text.size();
    text.resize(before + kPieceBytes);
    const ssize_t got = ::read(file.get(), text.data() + before, kPieceBytes);
    if (got < 0) {
      return grants_ignored("file", io::error_from_errno("it cannot be read", errno).message);
    }
    text.resize(before + static_cast<std::size_t>(got));
    if (got == 0) {
      return text;
    }
  }
  return grants_ignored("size", "it grew while it was read");
}

Status write_private_file(int folder, const std::string& name, std::string_view text) {
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) {
    return failed(name, errno);
  }
  const io::Fd file(::openat(folder, name.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kPrivateFile));
  // The mode is what the file is trusted by: no umask may have changed it.
  if (!file || ::fchmod(file.get(), kPrivateFile) != 0) {
    return failed(name, errno);
  }
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      return failed(name, written == 0 ? ENOSPC : errno);
    }
  }
  return ::fsync(file.get()) == 0 ? Status() : Status(failed(name, errno));
}

Result<io::Fd> lock_file(int folder, const std::string& name) {
  io::Fd file(::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                       kPrivateFile));
  if (!file) {
    return failed(name, errno);
  }
  const auto give_up = std::chrono::steady_clock::now() + GrantStore::kLockWait;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return failed(name, errno);
    }
    if (std::chrono::steady_clock::now() >= give_up) {
      return Error{ErrorCode::kUnavailable,
                   "another process is changing grants for too long: it holds " + quoted(name),
                   "grants_locked"};
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return file;
}

}  // namespace sandboxkit::agent
