#include "box/tree.h"

#include "box/kernel_calls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <string_view>

#include <dirent.h>

namespace sandboxkit::box {
namespace {

constexpr int kMaxLevels = 256;

Status remove_levels(int directory, const std::string& name, int level) {
  if (unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) {
    return {};
  }
  if (errno != EISDIR && errno != EPERM) {
    return io::error_from_errno("remove", errno);
  }
  if (level > kMaxLevels) {
    return Error{ErrorCode::kTooLarge, "directories are nested too deep to be removed"};
  }
  io::Fd below(open_place(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, kNoLinks));
  if (!below && errno == EACCES && fchmodat(directory, name.c_str(), S_IRWXU, 0) == 0) {
    below =
        io::Fd(open_place(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, kNoLinks));
  }
  if (!below || fchmod(below.get(), S_IRWXU) != 0) {
    return io::error_from_errno("remove", errno);
  }
  const auto names = names_in(below.get());
  if (!names) {
    return names.error();
  }
  for (const std::string& entry : *names) {
    if (Status removed = remove_levels(below.get(), entry, level + 1); !removed) {
      return removed;
    }
  }
  if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0) {
    return io::error_from_errno("remove", errno);
  }
  return {};
}

}  // namespace

std::int64_t changed_ns(const struct stat& status) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return status.st_ctim.tv_sec * kSecond + status.st_ctim.tv_nsec;
}

Result<std::vector<std::string>> names_in(int directory) {
  struct Close {
    void operator()(DIR* open) const { closedir(open); }
  };
  const int copy = open_place(directory, ".", O_RDONLY | O_DIRECTORY, kNoLinks);
  const std::unique_ptr<DIR, Close> open(copy < 0 ? nullptr : fdopendir(copy));
  if (!open) {
    return io::error_from_errno("read a directory", errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return io::error_from_errno("read a directory", errno);
  }
  std::ranges::sort(names);
  return names;
}

io::Fd open_below(int root, const std::string& path) {
  return io::Fd(open_place(root, path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY,
                           kNoLinks | RESOLVE_BENEATH));
}

io::Fd open_canonical(const std::string& path) {
  return io::Fd(open_place(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY, kNoLinks));
}

std::pair<std::string, std::string> parted(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos
             ? std::pair<std::string, std::string>("", path)
             : std::pair<std::string, std::string>(path.substr(0, slash), path.substr(slash + 1));
}

std::string link_text(int directory, const std::string& name) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = readlinkat(directory, name.c_str(), text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

Status remove_all(int directory, const std::string& name) {
  return remove_levels(directory, name, 0);
}

}  // namespace sandboxkit::box
