#include "agent/host_programs.h"

#include "base/text.h"
#include "gate/path_text.h"
#include "gate/pattern.h"

#include <array>
#include <climits>

#include <unistd.h>

namespace sandboxkit::agent {
namespace {

constexpr std::string_view kDefaultPath =
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

}  // namespace

std::vector<std::string> own_files() {
  std::array<char, PATH_MAX> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (size <= 0) {
    return {};
  }
  const std::string folder(gate::parent_of(std::string_view(self.data())));
  const std::string prefix = gate::escape_pattern(std::string(gate::parent_of(folder)));
  return {gate::escape_pattern(folder) + "/sandboxkit*", prefix + "/libexec/sandboxkit",
          prefix + "/lib/**/libsandboxkit*"};
}

std::vector<std::string> program_dirs(const std::string& tree, std::string_view path) {
  std::vector<std::string> folders;
  for (const std::string_view folder : split(path.empty() ? kDefaultPath : path, ':')) {
    if (folder.starts_with('/') && !gate::covers(tree, folder)) {
      folders.push_back(gate::plain_path("/", folder));
    }
  }
  return folders;
}

std::vector<std::string> roots_of(const GateSession& session, const GatePolicy& policy) {
  std::vector<std::string> roots{session.tree};
  for (const GateRoot& root : policy.roots) {
    roots.push_back(root.path.starts_with("~/") ? session.home + root.path.substr(1) : root.path);
  }
  return roots;
}

}  // namespace sandboxkit::agent
