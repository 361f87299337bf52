#pragma once

#include "sandboxkit/export.h"
#include "sandboxkit/result.h"

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit {

/// Which file it is, whatever it is called.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

enum class FileType : std::uint8_t { kFile, kDirectory, kLink, kSocket, kOther };

struct FileFacts {
  FileIdentity identity{};
  FileType type = FileType::kOther;
  std::uint32_t owner = 0;
  /// Permission bits with setuid, setgid and sticky: 07777.
  std::uint32_t mode = 0;
  /// How many names the file has.
  std::uint64_t link_count = 1;
};

/// A path after somebody looked: one name without links, and what led there.
struct SeenPath {
  std::string canonical{};
  /// Every link on the way, as a canonical path, in the order in which they were met.
  std::vector<std::string> links{};
  /// Where the last component of the asked path is itself a link that was followed: its path.
  std::optional<std::string> asked_link{};
  /// Empty when it does not exist; then `canonical` is the nearest existing directory and the plain
  /// names that are missing.
  std::optional<FileFacts> file{};
  /// The existing directories above it, the root first.
  std::vector<FileIdentity> above{};
};

/// Whether an operation acts on what a link points at, or on the link itself.
enum class LastLink : std::uint8_t { kFollow, kKeep };

struct LookAt {
  /// Absolute.
  std::string cwd;
  std::string path;
  LastLink last = LastLink::kFollow;
};

enum class WalkStep : std::uint8_t { kInto, kPast, kStop };

/// What a walk meets: the canonical path and the facts of one entry.
using WalkVisitor = std::function<WalkStep(const std::string& path, const FileFacts& facts)>;

struct WalkFrom {
  /// Canonical.
  std::string directory;
  /// A directory that we may not read is passed over, which is right where the agent could not
  /// read it either; else it is an error.
  bool skip_unreadable = false;
};

/// Looks at the file system for the gate, which itself never does.
/// Thread-safety: any thread.
class SANDBOXKIT_API FileEyes {
 public:
  virtual ~FileEyes() = default;

  /// Errors: whatever keeps it from being certain; the gate denies then. Reason `magic_link` for a
  /// way through a link of the kernel that is no text (`/proc/self/root`).
  virtual Result<SeenPath> look(const LookAt& at) const = 0;

  /// Shows everything below a directory and follows no link. A directory that is not there shows
  /// nothing. Errors: what could not be looked through to its end; the gate denies then.
  virtual Status walk(const WalkFrom& from, const WalkVisitor& visit) const = 0;
};

}  // namespace sandboxkit
