#pragma once

#include "sandboxkit/result.h"

#include "base/random.h"
#include "io/fd.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <signal.h>

namespace sandboxkit::audit {

/// A file by its folder's descriptor and its name there.
struct Place {
  int folder;
  std::string name;
};

/// The log's folder: made with mode 0700 when it is not there.
/// Errors: kInvalidArgument `bad_audit_folder` for a link, another user's folder, or one that
/// others may use; else what the system says.
Result<io::Fd> open_audit_folder(const std::string& path);
/// Opens a folder to read it, whoever owns it.
Result<io::Fd> open_folder_to_read(const std::string& path);

/// Whole or not at all, on the disk when it returns, with mode 0600.
/// Errors: kConflict when there is a file of that name.
Status create_file_once(const Place& place, std::string_view text, Random& random);
/// The same in place of what is there: a reader sees the old file or the new one.
Status replace_file(const Place& place, std::string_view text);
Result<std::string> read_small_file(const Place& place, std::size_t max_bytes);
/// A plain file, opened to be read; never a link, never waits.
Result<io::Fd> open_to_read(const Place& place);

/// While it lives, a write past the limit of a file's size is an error of this thread and no
/// signal.
class NoSizeSignal {
 public:
  NoSizeSignal();
  ~NoSizeSignal();
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t before_{};
};

/// One segment while it is written. `size` is what the file holds as far as this writer knows.
class SegmentFile {
 public:
  /// Errors: kConflict when it is there already.
  static Result<SegmentFile> create(const Place& place);

  /// A failed write may leave a part of `bytes` behind: `cut` removes it.
  Status append(std::string_view bytes);
  Status sync();
  Status cut(std::uint64_t size);
  std::uint64_t size() const { return size_; }

 private:
  explicit SegmentFile(io::Fd file) : file_(std::move(file)) {}
  io::Fd file_;
  std::uint64_t size_ = 0;
};

}  // namespace sandboxkit::audit
