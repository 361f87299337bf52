// The second layer: what mounts and the filter already deny is denied once more, by other code of
// the kernel. Runs between clone and exec.

#include "box/kernel_calls.h"
#include "box/launch.h"

#include <cerrno>

#include <linux/landlock.h>
#include <sys/stat.h>

namespace sandboxkit::box {
namespace {

// Newer than the headers of Debian 12.
constexpr std::uint64_t kTruncate = 1ULL << 14;
constexpr std::uint64_t kAbstractSockets = 1ULL << 0;
constexpr std::uint64_t kSignals = 1ULL << 1;
constexpr int kAbiRefer = 2;
constexpr int kAbiTruncate = 3;
constexpr int kAbiScopes = 6;

struct RulesetV6 {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};

std::uint64_t changes(int abi) {
  std::uint64_t rights = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                         LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                         LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                         LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                         LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (abi >= kAbiRefer) {
    rights |= LANDLOCK_ACCESS_FS_REFER;
  }
  return abi >= kAbiTruncate ? rights | kTruncate : rights;
}

constexpr std::uint64_t kOfFiles = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

bool allow(int ruleset, const char* path, std::uint64_t rights) {
  const Handle place(open_place(AT_FDCWD, path, O_PATH, RESOLVE_NO_MAGICLINKS));
  if (!place) {
    return errno == ENOENT;  // A place that this machine lacks.
  }
  struct stat about {};
  if (fstat(place.get(), &about) != 0) {
    return false;
  }
  landlock_path_beneath_attr rule{};
  rule.parent_fd = place.get();
  rule.allowed_access = S_ISDIR(about.st_mode) ? rights : rights & kOfFiles;
  return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

}  // namespace

void restrict_writes(const Launch& launch) {
  // Nested sandboxes mount, which Landlock forbids whatever the rules say.
  if (launch.landlock_abi == 0 || launch.allow_nested) {
    return;
  }
  // What is granted later has no rule, and none can be added: then only what leads out is closed.
  const std::uint64_t rights = launch.has_broker() ? 0 : changes(launch.landlock_abi);
  if (rights == 0 && launch.landlock_abi < kAbiScopes) {
    return;
  }
  RulesetV6 attributes{rights, 0, 0};
  std::size_t size = sizeof attributes.handled_access_fs;
  if (launch.landlock_abi >= kAbiScopes) {
    attributes.scoped = kAbstractSockets | kSignals;
    size = sizeof attributes;
  }
  const Handle ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  bool done = static_cast<bool>(ruleset);
  for (std::size_t i = 0; rights != 0 && i < launch.layout.writable.size(); ++i) {
    const std::string& path = launch.layout.writable[i];
    done = done && allow(ruleset.get(), path.c_str(), rights);
  }
  // Devices, and what a process says to the kernel about itself.
  done = done && (rights == 0 || (allow(ruleset.get(), "/dev", rights & kOfFiles) &&
                                  allow(ruleset.get(), "/proc", rights & kOfFiles)));
  if (!done || syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    fail_inside(launch, Stage::kLandlock, errno);
  }
}

}  // namespace sandboxkit::box
