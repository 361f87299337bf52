#pragma once

#include "sandboxkit/file_eyes.h"
#include "sandboxkit/result.h"

#include "io/fd.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::agent {

/// The gate's own folder, made with mode 0700 where it is not there.
/// Errors: kInvalidArgument `bad_gate_folder`.
Result<io::Fd> open_state_folder(const std::string& path, const std::vector<std::string>& roots);

/// Which version of a file it is: another one whenever somebody wrote or replaced it.
struct FileStamp {
  dev_t device;
  ino_t inode;
  off_t size;
  std::int64_t modified_ns;
  std::int64_t changed_ns;
  bool operator==(const FileStamp&) const = default;
};
std::optional<FileStamp> stamp_of(int folder, const std::string& name);

/// One private file, read through one descriptor: a plain file of this user with mode 0600.
/// Errors: kNotFound, field `file`, when it is not there; else `grants_ignored` with the field of
/// `GrantsView::problem`.
Result<std::string> read_private_file(int folder, const std::string& name, std::size_t max_bytes);

/// A new file of that name with mode 0600, on the disk. What is there before goes.
Status write_private_file(int folder, const std::string& name, std::string_view text);

/// Held by one process, and one call in it, at a time; given back with it.
/// Errors: kUnavailable when another holds it for longer than the store waits.
Result<io::Fd> lock_file(int folder, const std::string& name);

}  // namespace sandboxkit::agent
