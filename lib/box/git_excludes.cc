#include "box/git_excludes.h"

#include "base/text.h"
#include "io/fd.h"

#include <cerrno>
#include <functional>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::box {
namespace {

Error failed(const std::string& what) { return io::error_from_errno(what.c_str(), errno); }

/// Whole or not at all: another box may have the file open.
Status write_whole(const std::string& path, const std::string& text) {
  std::string pattern = path + ".XXXXXX";
  const io::Fd file(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!file) {
    return failed("make " + quoted(pattern));
  }
  const bool written =
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::rename(pattern.c_str(), path.c_str()) == 0;
  if (!written) {
    const Error error = failed("write " + quoted(path));
    ::unlink(pattern.c_str());
    return error;
  }
  return {};
}

}  // namespace

Result<std::map<std::string, std::string>> hide_from_git(BoxPlan& plan,
                                                         const std::string& state_dir) {
  std::string names;
  for (const BoxPlace& place : plan.places) {
    const bool is_noise = place.access == BoxAccess::kAbsent || place.access == BoxAccess::kHide;
    if (is_noise && place.path.starts_with(plan.tree + "/") &&
        !has_control_characters(place.path)) {
      names += place.path.substr(plan.tree.size()) + "\n";
    }
  }
  const std::string path =
      state_dir + "/held-" + std::to_string(std::hash<std::string>()(names)) + ".gitignore";
  if (const Status written = write_whole(path, names); !written) {
    return written.error();
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return failed("look at " + quoted(path));
  }
  plan.places.push_back({.path = path,
                         .access = BoxAccess::kReadOnly,
                         .identity = {status.st_dev, status.st_ino},
                         .type = FileType::kFile});
  return std::map<std::string, std::string>{{"GIT_CONFIG_COUNT", "1"},
                                            {"GIT_CONFIG_KEY_0", "core.excludesFile"},
                                            {"GIT_CONFIG_VALUE_0", path}};
}

}  // namespace sandboxkit::box
