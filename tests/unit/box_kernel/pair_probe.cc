// Tries file operations from inside of a box. Standard input has a device's number and then one
// operation after another, each as three texts that end with a NUL: its name, its path, and the
// second path of a move. For each a line says whether it came to the host's object: one on that
// device. What worked is undone, so that every operation meets the same tree.

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::uint64_t host_device = 0;

std::optional<std::string> next_text() {
  std::string text;
  int c = 0;
  while ((c = std::getchar()) != EOF && c != 0) {
    text.push_back(static_cast<char>(c));
  }
  return c == EOF ? std::nullopt : std::optional(text);
}

/// A file that nobody may open stands in for a hidden one.
bool is_hosts(const struct stat& status) {
  return status.st_dev == host_device && (status.st_mode & 07777) != 0;
}

bool is_hosts(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && is_hosts(status);
}

bool opens(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const bool is_there = fd >= 0 && fstat(fd, &status) == 0 && is_hosts(status);
  if (fd >= 0) {
    close(fd);
  }
  return is_there;
}

/// Directories that are missing above a path, made and taken away again.
class Ways {
 public:
  explicit Ways(const std::string& path) {
    for (std::size_t i = path.find('/', 1); i != std::string::npos; i = path.find('/', i + 1)) {
      const std::string directory = path.substr(0, i);
      if (mkdir(directory.c_str(), 0755) == 0) {
        made_.push_back(directory);
      }
    }
  }
  ~Ways() {
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      rmdir(made->c_str());
    }
  }
  Ways(const Ways&) = delete;
  Ways& operator=(const Ways&) = delete;

 private:
  std::vector<std::string> made_{};
};

bool creates(const std::string& path) {
  const Ways ways(path);
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) {
    return errno == EEXIST && opens(path, O_WRONLY);
  }
  struct stat status {};
  const bool is_there = fstat(fd, &status) == 0 && is_hosts(status);
  close(fd);
  unlink(path.c_str());
  return is_there;
}

/// A name in a directory that stays open: what moves may be on the way of the path itself.
class Name {
 public:
  explicit Name(const std::string& path) {
    const auto slash = path.rfind('/');
    directory_ = open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    name_ = path.substr(slash + 1);
  }
  ~Name() {
    if (directory_ >= 0) {
      close(directory_);
    }
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;

  Name& beside(const char* ending) {
    name_ += ending;
    return *this;
  }
  bool exists() const {
    struct stat status {};
    return fstatat(directory_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }
  bool goes_to(const Name& other, unsigned flags) const {
    return renameat2(directory_, name_.c_str(), other.directory_, other.name_.c_str(), flags) == 0;
  }

 private:
  int directory_;
  std::string name_;
};

/// There and back.
bool swaps(const Name& from, const Name& to) {
  const unsigned flags = to.exists() ? RENAME_EXCHANGE : 0U;
  if (!from.goes_to(to, flags)) {
    return false;
  }
  if (!to.goes_to(from, flags)) {
    std::abort();  // The next operations would meet another tree.
  }
  return true;
}

/// A mount point can be neither renamed nor removed, so a rename tells of both.
bool removes(const std::string& path) {
  return is_hosts(path) && swaps(Name(path), Name(path).beside(".aside"));
}

bool changes_mode(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && is_hosts(status) &&
         chmod(path.c_str(), status.st_mode & 07777) == 0;
}

bool moves(const std::string& from, const std::string& to) {
  const Ways ways(to);
  return is_hosts(from) && swaps(Name(from), Name(to));
}

bool links(const std::string& from, const std::string& to) {
  const Ways ways(to);
  return link(from.c_str(), to.c_str()) == 0 && is_hosts(to) && unlink(to.c_str()) == 0;
}

bool makes_link(const std::string& path, const std::string& text) {
  const Ways ways(path);
  return symlink(text.c_str(), path.c_str()) == 0 && is_hosts(path) && unlink(path.c_str()) == 0;
}

bool tries(const std::string& operation, const std::string& path, const std::string& to) {
  if (operation == "read" || operation == "list" || operation == "stat") {
    return opens(path, operation == "stat" ? O_PATH : O_RDONLY);
  }
  if (operation == "write" || operation == "create") {
    return creates(path);
  }
  if (operation == "delete") {
    return removes(path);
  }
  if (operation == "meta") {
    return changes_mode(path);
  }
  if (operation == "rename") {
    return moves(path, to);
  }
  if (operation == "link") {
    return links(path, to);
  }
  return operation == "symlink" && makes_link(path, to);
}

}  // namespace

int main() {
  const auto device = next_text();
  host_device = device ? std::strtoull(device->c_str(), nullptr, 10) : 0;
  while (const auto operation = next_text()) {
    const auto path = next_text();
    const auto to = next_text();
    if (!path || !to) {
      return EXIT_FAILURE;
    }
    std::puts(tries(*operation, *path, *to) ? "1" : "0");
  }
  return std::fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
