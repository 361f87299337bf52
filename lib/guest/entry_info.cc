#include "guest/entry_info.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/paths.h"
#include "guest/small_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

constexpr mode_t kPermissionBits = 07777;

const char* type_name(mode_t mode) {
  if (S_ISREG(mode)) {
    return "FILE_TYPE_FILE";
  }
  if (S_ISDIR(mode)) {
    return "FILE_TYPE_DIRECTORY";
  }
  return S_ISLNK(mode) ? "FILE_TYPE_SYMLINK" : "FILE_TYPE_UNSPECIFIED";
}

/// `-rw-r--r--`, with the letters that Go prints: `d` for a directory, `L` for a link.
std::string permission_text(mode_t mode, bool link) {
  std::string text = link ? "L" : S_ISDIR(mode) ? "d" : "-";
  constexpr std::string_view kLetters = "rwxrwxrwx";
  for (std::size_t bit = 0; bit < kLetters.size(); ++bit) {
    text.push_back((mode >> (8 - bit)) & 1 ? kLetters[bit] : '-');
  }
  return text;
}

std::string link_target(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (real != nullptr) {
    return real.get();
  }
  std::string text(kMaxPathBytes, '\0');
  const ssize_t length = ::readlink(path.c_str(), text.data(), text.size());
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text.starts_with('/') ? text : parent_of(path) + "/" + text;
}

std::string modified(const struct stat& status) {
  using namespace std::chrono;  // NOLINT(google-build-using-namespace): unit names only
  return to_rfc3339(WallTime{duration_cast<milliseconds>(seconds{status.st_mtim.tv_sec} +
                                                         nanoseconds{status.st_mtim.tv_nsec})});
}

class Lister {
 public:
  Lister(const Accounts& accounts, std::size_t max_entries)
      : accounts_(accounts), max_entries_(max_entries) {}

  Status list(const std::string& path, int depth) {
    auto names = names_in(path);
    if (!names) {
      return names.error();
    }
    std::ranges::sort(*names);
    for (const std::string& name : *names) {
      const std::string child = (path == "/" ? "" : path) + "/" + name;
      auto info = entry_info(child, accounts_);
      if (!info) {
        continue;  // removed meanwhile
      }
      const bool folder = info->text("type") == "FILE_TYPE_DIRECTORY";
      const bool link = info->find("symlinkTarget") != nullptr;
      found_.push_back(std::move(*info));
      if (found_.size() > max_entries_) {
        return too_many();
      }
      if (depth > 1 && folder && !link) {
        const Status listed = list(child, depth - 1);
        // A folder that we may not read is shown without entries, as `find` goes on.
        if (!listed && listed.error().code == ErrorCode::kResourceExhausted) {
          return listed;
        }
      }
    }
    return {};
  }

  json::Array take() { return std::move(found_); }

 private:
  Result<std::vector<std::string>> names_in(const std::string& path) const {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (directory == nullptr) {
      return file_error(errno, path);
    }
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(directory.get())) {
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
        names.emplace_back(entry->d_name);
      }
      if (names.size() + found_.size() > max_entries_) {
        return too_many();
      }
    }
    return names;
  }

  Error too_many() const {
    return {ErrorCode::kResourceExhausted,
            "more than " + std::to_string(max_entries_) +
                " entries: list a folder below, or a smaller depth",
            "too_many_entries", "path"};
  }

  const Accounts& accounts_;
  const std::size_t max_entries_;
  json::Array found_;
};

}  // namespace

Result<json::Value> entry_info(const std::string& path, const Accounts& accounts) {
  struct stat own {};
  if (::lstat(path.c_str(), &own) != 0) {
    return file_error(errno, path);
  }
  const bool link = S_ISLNK(own.st_mode);
  struct stat shown = own;
  if (link && ::stat(path.c_str(), &shown) != 0) {
    shown = own;
  }
  json::Object info{{"name", name_of_path(path)},
                    {"type", type_name(shown.st_mode)},
                    {"path", path},
                    {"size", std::to_string(shown.st_size)},
                    {"mode", static_cast<std::int64_t>(shown.st_mode & kPermissionBits)},
                    {"permissions", permission_text(shown.st_mode, link)},
                    {"owner", accounts.user_name(own.st_uid)},
                    {"group", accounts.group_name(own.st_gid)},
                    {"modifiedTime", modified(shown)}};
  if (link) {
    info.emplace_back("symlinkTarget", link_target(path));
  }
  return json::Value(std::move(info));
}

Result<json::Array> list_entries(const std::string& path, int depth, const Accounts& accounts,
                                 std::size_t max_entries) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return file_error(errno, path);
  }
  if (!S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "path '" + path + "' is not a directory",
                 "not_a_directory", "path"};
  }
  Lister lister(accounts, max_entries);
  if (const Status listed = lister.list(path, depth); !listed) {
    return listed.error();
  }
  return lister.take();
}

}  // namespace sandboxkit::guest
