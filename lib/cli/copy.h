#pragma once

#include "sandboxkit/result.h"

#include <optional>
#include <string>

namespace sandboxkit::cli {

/// One side of `cp`.
struct Place {
  /// Empty: on this machine.
  std::string sandbox{};
  /// `-` on this machine: standard input or output.
  std::string path{};
};

/// `SANDBOX:PATH`, where no `/` stands before the colon; anything else is a local path.
Place parse_place(const std::string& text);

/// The last component of a path, "" for `/`, `.` and `..`.
std::string base_name(const std::string& path);

/// A file's or a directory's place inside of a directory.
std::string join_path(const std::string& directory, const std::string& name);

}  // namespace sandboxkit::cli
