// What a work tree tries to say to the gate.

#include "sandboxkit/grant_store.h"
#include "sandboxkit/system_eyes.h"

#include "base/text.h"
#include "gate/path_text.h"
#include "io/fd.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

constexpr const char* kOurs[] = {"/.sandboxkit/policy.json", "/.sandboxkit/grants.json"};
constexpr std::size_t kMaxPointerBytes = 4096;
constexpr std::string_view kPointer = "gitdir:";

/// What stands in a `.git` that is a file; empty where it is none.
std::string pointer_text(const std::string& path) {
  const io::Fd file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return {};
  }
  std::array<char, kMaxPointerBytes> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

void warn_of_pointer(const std::string& tree, std::vector<std::string>& warnings) {
  const std::string git = tree + "/.git";
  struct stat facts {};
  if (::lstat(git.c_str(), &facts) != 0 || S_ISDIR(facts.st_mode)) {
    return;
  }
  const std::string text = pointer_text(git);
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  const std::string target =
      line.starts_with(kPointer) ? std::string(trim(line.substr(kPointer.size()))) : std::string();
  const auto seen = target.empty() ? system_eyes().look({.cwd = "/", .path = git})
                                   : system_eyes().look({.cwd = tree, .path = target});
  if (seen && gate::covers(tree, seen->canonical) && !(target.empty() && S_ISREG(facts.st_mode))) {
    return;
  }
  const std::string where = seen && seen->canonical != git ? seen->canonical : target;
  warnings.push_back(quoted(git) + " points to " + (where.empty() ? "nothing" : quoted(where)) +
                     ": that is no part of the tree, and nothing there is allowed by it");
}

}  // namespace

std::vector<std::string> warnings_of_tree(const std::string& tree) {
  std::vector<std::string> warnings;
  for (const char* name : kOurs) {
    struct stat facts {};
    if (::lstat((tree + name).c_str(), &facts) == 0) {
      warnings.push_back(quoted(tree + name) +
                         " is ignored: the gate reads no policy and no grants from a work tree");
    }
  }
  warn_of_pointer(tree, warnings);
  return warnings;
}

}  // namespace sandboxkit
