#pragma once

#include "sandboxkit/result.h"

#include "guest/users.h"
#include "io/fd.h"

#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace sandboxkit::guest {

/// Replaces a file as a whole: bytes go into a temporary file beside the target, `commit` renames
/// it. Without a commit the target stays as it was and the temporary file is removed.
///
/// A target that is a symbolic link is followed. Missing folders are made (0755, the user's). A new
/// file has mode 0644, an existing one keeps its own; both belong to the user when we are root.
/// A file that may be written in a folder that may not is written in place: it is the one case that
/// is not atomic.
/// Errors: as `file_error`.
class FileWriter {
 public:
  static Result<std::unique_ptr<FileWriter>> open(const std::string& path, const User& user,
                                                  bool change_owner);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  Status write(std::string_view bytes);
  Status commit();
  const std::string& path() const { return path_; }

 private:
  FileWriter(std::string path, std::string target)
      : path_(std::move(path)), target_(std::move(target)) {}
  Status open_temporary(const User& user, bool change_owner);
  Status copy_into_target();

  const std::string path_;    // as the caller named it
  const std::string target_;  // where links lead
  std::string temporary_;     // empty: written in place
  io::Fd fd_;
};

/// Makes the missing folders of `path`, itself included.
/// Errors: as `file_error`.
Status make_folders(const std::string& path, const User& user, bool change_owner);

}  // namespace sandboxkit::guest
