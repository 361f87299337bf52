#include "box/journal.h"

#include "base/random.h"
#include "base/text.h"
#include "box/kernel_calls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace sandboxkit::box {
namespace {

constexpr mode_t kOwnFolder = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr mode_t kPlaceholderMode = 0444;
constexpr mode_t kPermissions = 07777;
constexpr std::size_t kNameLength = 16;
constexpr const char* kJournals = "journal";
constexpr const char* kLockFile = "lock";

Error failed(const std::string& what) {
  Error error = io::error_from_errno(what.c_str(), errno);
  error.reason = "box_state";
  return error;
}

/// A path's folder and last name.
std::pair<std::string, std::string> parted(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

io::Fd open_folder(const std::string& path) {
  return io::Fd(open_place(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY, kNoLinks));
}

bool is_placeholder(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_size == 0 && status.st_uid == geteuid() &&
         (status.st_mode & kPermissions) == kPlaceholderMode;
}

/// Takes an empty file of ours away, and nothing else.
void remove_placeholder(const std::string& path) {
  const auto [folder, name] = parted(path);
  const io::Fd parent = open_folder(folder);
  struct stat status {};
  if (parent && fstatat(parent.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      is_placeholder(status)) {
    unlinkat(parent.get(), name.c_str(), 0);
  }
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 16384> buffer{};
  for (ssize_t got = 0;
       text.size() <= Placeholders::kMaxJournalBytes &&
       (got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// Paths are ended by NUL, which none of them holds.
std::vector<std::string> paths_in(int fd) {
  std::vector<std::string> paths;
  const std::string text = read_all(fd);
  for (const std::string_view path : split(text, '\0')) {
    if (path.starts_with('/')) {
      paths.emplace_back(path);
    }
  }
  return paths;
}

void for_each_journal(int folder, const std::function<void(const std::string&)>& visit) {
  struct Close {
    void operator()(DIR* directory) const { closedir(directory); }
  };
  const int copy = open_place(folder, ".", O_RDONLY | O_DIRECTORY, kNoLinks);
  const std::unique_ptr<DIR, Close> directory(copy < 0 ? nullptr : fdopendir(copy));
  if (!directory) {
    return;
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.' && std::string_view(entry->d_name) != kLockFile) {
      names.emplace_back(entry->d_name);
    }
  }
  for (const std::string& name : names) {
    visit(name);
  }
}

io::Fd open_journal(int folder, const std::string& name) {
  return io::Fd(open_place(folder, name.c_str(), O_RDWR | O_NOFOLLOW, kNoLinks));
}

/// Whether its owner is gone; the lock is ours then.
bool is_dead(const io::Fd& journal) {
  return journal && flock(journal.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Whether a run that lives holds the path as well.
bool is_shared(int folder, const std::string& path, const std::string& own) {
  bool shared = false;
  for_each_journal(folder, [&](const std::string& name) {
    const io::Fd journal = name == own ? io::Fd() : open_journal(folder, name);
    if (journal && !shared && !is_dead(journal)) {
      const auto paths = paths_in(journal.get());
      shared = std::find(paths.begin(), paths.end(), path) != paths.end();
    }
  });
  return shared;
}

void clean_dead(int folder) {
  for_each_journal(folder, [&](const std::string& name) {
    const io::Fd journal = open_journal(folder, name);
    if (!is_dead(journal)) {
      return;
    }
    for (const std::string& path : paths_in(journal.get())) {
      if (!is_shared(folder, path, name)) {
        remove_placeholder(path);
      }
    }
    unlinkat(folder, name.c_str(), 0);
  });
}

/// Makings and clean-ups of all runs come one after the other.
io::Fd lock_folder(int folder) {
  io::Fd lock(openat(folder, kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  if (lock && flock(lock.get(), LOCK_EX) != 0) {
    lock.reset();
  }
  return lock;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Result<io::Fd> open_state(const std::string& path) {
  if (path.empty() || path.front() != '/') {
    return Error{ErrorCode::kInvalidArgument, quoted(path) + " is no absolute path", "",
                 "state_dir"};
  }
  const auto [parent, name] = parted(path);
  const io::Fd above = open_folder(parent);
  if (!above) {
    return failed("state folder " + quoted(parent));
  }
  if (mkdirat(above.get(), name.c_str(), kOwnFolder) != 0 && errno != EEXIST) {
    return failed("state folder " + quoted(path));
  }
  io::Fd folder(open_place(above.get(), name.c_str(), O_RDONLY | O_DIRECTORY, kNoLinks));
  struct stat status {};
  if (!folder || fstat(folder.get(), &status) != 0) {
    return failed("state folder " + quoted(path));
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{ErrorCode::kPermissionDenied,
                 "state folder " + quoted(path) + " must be yours alone (chmod 700)", "box_state",
                 "state_dir"};
  }
  return folder;
}

Result<Placeholders> Placeholders::make(const std::string& state_dir,
                                        const std::vector<std::string>& paths) {
  const auto state = open_state(state_dir);
  if (!state) {
    return state.error();
  }
  auto folder = open_state(state_dir + "/" + kJournals);
  if (!folder) {
    return folder.error();
  }
  const io::Fd lock = lock_folder(folder->get());
  if (!lock) {
    return failed("lock of the journals");
  }
  clean_dead(folder->get());
  if (paths.empty()) {
    return Placeholders(*std::move(folder), io::Fd(), "");
  }
  const std::string name = system_random().text(kNameLength, kBase36);
  io::Fd journal(openat(folder->get(), name.c_str(),
                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  if (!journal || flock(journal.get(), LOCK_EX | LOCK_NB) != 0) {
    return failed("journal of placeholders");
  }
  std::string text;
  for (const std::string& path : paths) {
    text.append(path).push_back('\0');
  }
  Placeholders out(*std::move(folder), std::move(journal), name);
  if (text.size() > kMaxJournalBytes || !write_all(out.lock_.get(), text)) {
    return failed("journal of placeholders");
  }
  for (const std::string& path : paths) {
    if (Status held = out.hold(path); !held) {
      // The folder's lock is ours: what was made goes without taking it again.
      for (const std::string& made : std::exchange(out.paths_, {})) {
        if (!is_shared(out.folder_.get(), made, name)) {
          remove_placeholder(made);
        }
      }
      unlinkat(out.folder_.get(), name.c_str(), 0);
      out.name_.clear();
      return held.error();
    }
  }
  return out;
}

Status Placeholders::hold(const std::string& path) {
  const auto [folder, name] = parted(path);
  const io::Fd parent = open_folder(folder);
  if (!parent) {
    return failed("folder of " + quoted(path));
  }
  io::Fd file(openat(parent.get(), name.c_str(),
                     O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPlaceholderMode));
  if (file) {
    paths_.push_back(path);
    // Whatever the umask is: the mode is how a placeholder is known again.
    if (fchmod(file.get(), kPlaceholderMode) != 0) {
      return failed("placeholder " + quoted(path));
    }
  } else if (errno == EEXIST && is_shared(folder_.get(), path, name_)) {
    paths_.push_back(path);
    file = io::Fd(open_place(parent.get(), name.c_str(), O_PATH | O_NOFOLLOW, kNoLinks));
  } else if (errno == EEXIST) {
    return Error{ErrorCode::kConflict,
                 quoted(path) + " should not be there, and is: ask the gate again",
                 "box_place_changed"};
  }
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !is_placeholder(status)) {
    return failed("placeholder " + quoted(path));
  }
  identities_.push_back({status.st_dev, status.st_ino});
  return {};
}

void Placeholders::clear() {
  if (name_.empty()) {
    return;
  }
  const io::Fd lock = lock_folder(folder_.get());
  for (const std::string& path : paths_) {
    if (!is_shared(folder_.get(), path, name_)) {
      remove_placeholder(path);
    }
  }
  unlinkat(folder_.get(), name_.c_str(), 0);
  name_.clear();
}

}  // namespace sandboxkit::box
