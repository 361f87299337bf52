#include "audit/files.h"

#include "base/text.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::audit {
namespace {

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;
constexpr mode_t kForOthers = 077;
constexpr std::size_t kSuffixChars = 8;
constexpr std::string_view kReplacementSuffix = ".new";

Error failed(const std::string& name, int error_number) {
  return io::error_from_errno(("audit file " + quoted(name)).c_str(), error_number);
}

Error bad_folder(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, "the audit folder " + quoted(path) + " " + why,
               "bad_audit_folder", "folder"};
}

Status write_whole(int file, const std::string& name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      return failed(name, written == 0 ? ENOSPC : errno);
    }
  }
  return {};
}

/// A file with these bytes on the disk.
Status write_file(const Place& place, int flags, std::string_view text) {
  const io::Fd file(::openat(place.folder, place.name.c_str(),
                             O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, kPrivateFile));
  if (!file) {
    return failed(place.name, errno);
  }
  Status written = write_whole(file.get(), place.name, text);
  if (written && ::fdatasync(file.get()) != 0) {
    written = failed(place.name, errno);
  }
  return written;
}

Result<io::Fd> open_folder(const std::string& path) {
  io::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder) {
    const Error error = io::error_from_errno("cannot be opened", errno);
    return Error{error.code, bad_folder(path, error.message).message, "bad_audit_folder", "folder"};
  }
  return folder;
}

}  // namespace

Result<io::Fd> open_audit_folder(const std::string& path) {
  if (::mkdir(path.c_str(), kPrivateFolder) != 0 && errno != EEXIST) {
    const Error error = io::error_from_errno("cannot be made", errno);
    return Error{error.code, bad_folder(path, error.message).message, "bad_audit_folder", "folder"};
  }
  auto folder = open_folder(path);
  if (!folder) {
    return folder;
  }
  struct stat facts {};
  if (::fstat(folder->get(), &facts) != 0) {
    return failed(path, errno);
  }
  if (facts.st_uid != ::geteuid()) {
    return bad_folder(path, "belongs to another user");
  }
  if ((facts.st_mode & kForOthers) != 0) {
    return bad_folder(path, "may be used by others than its owner; make its mode 0700");
  }
  return folder;
}

Result<io::Fd> open_folder_to_read(const std::string& path) { return open_folder(path); }

Status create_file_once(const Place& place, std::string_view text, Random& random) {
  const Place beside{place.folder, place.name + std::string(kReplacementSuffix) + "-" +
                                       random.text(kSuffixChars, kBase36)};
  Status made = write_file(beside, O_EXCL, text);
  if (made &&
      ::linkat(place.folder, beside.name.c_str(), place.folder, place.name.c_str(), 0) != 0) {
    made = failed(place.name, errno);
  }
  ::unlinkat(place.folder, beside.name.c_str(), 0);
  return made;
}

Status replace_file(const Place& place, std::string_view text) {
  const Place beside{place.folder, place.name + std::string(kReplacementSuffix)};
  Status made = write_file(beside, O_TRUNC, text);
  if (made &&
      ::renameat(place.folder, beside.name.c_str(), place.folder, place.name.c_str()) != 0) {
    made = failed(place.name, errno);
  }
  if (!made) {
    ::unlinkat(place.folder, beside.name.c_str(), 0);
  }
  return made;
}

Result<io::Fd> open_to_read(const Place& place) {
  io::Fd file(::openat(place.folder, place.name.c_str(),
                       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) {
    return failed(place.name, errno);
  }
  if (!S_ISREG(facts.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "audit file " + quoted(place.name) + " is no file"};
  }
  return file;
}

Result<std::string> read_small_file(const Place& place, std::size_t max_bytes) {
  const auto file = open_to_read(place);
  if (!file) {
    return file.error();
  }
  std::string text(max_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file->get(), text.data() + size, text.size() - size);
    if (got < 0) {
      return failed(place.name, errno);
    }
    if (got == 0) {
      text.resize(size);
      return text;
    }
    size += static_cast<std::size_t>(got);
  }
  return Error{ErrorCode::kTooLarge, "audit file " + quoted(place.name) + " is too large"};
}

NoSizeSignal::NoSizeSignal() {
  sigset_t size_signal;
  sigemptyset(&size_signal);
  sigaddset(&size_signal, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &size_signal, &before_);
}

NoSizeSignal::~NoSizeSignal() {
  sigset_t size_signal;
  sigemptyset(&size_signal);
  sigaddset(&size_signal, SIGXFSZ);
  const timespec now{};
  while (sigismember(&before_, SIGXFSZ) == 0 && sigtimedwait(&size_signal, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Result<SegmentFile> SegmentFile::create(const Place& place) {
  io::Fd file(::openat(place.folder, place.name.c_str(),
                       O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                       kPrivateFile));
  if (!file || ::fsync(place.folder) != 0) {
    return failed(place.name, errno);
  }
  return SegmentFile(std::move(file));
}

Status SegmentFile::append(std::string_view bytes) {
  if (auto written = write_whole(file_.get(), "segment", bytes); !written) {
    return written;
  }
  size_ += bytes.size();
  return {};
}

Status SegmentFile::sync() {
  return ::fdatasync(file_.get()) == 0 ? Status() : Status(failed("segment", errno));
}

Status SegmentFile::cut(std::uint64_t size) {
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) {
    return failed("segment", errno);
  }
  size_ = size;
  return {};
}

}  // namespace sandboxkit::audit
