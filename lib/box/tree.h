#pragma once

#include "sandboxkit/result.h"

#include "io/fd.h"

#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace sandboxkit::box {

/// Nanoseconds since 1970 of a file's last change of whatever kind; no program can set it.
std::int64_t changed_ns(const struct stat& status);

/// The names in a directory, sorted. Errors: what keeps it from being read.
Result<std::vector<std::string>> names_in(int directory);

/// A directory below `root` by a relative path ("" is the root), through no link and not out of it.
io::Fd open_below(int root, const std::string& path);

/// A canonical directory, through no link.
io::Fd open_canonical(const std::string& path);

/// A relative path's folder and last name.
std::pair<std::string, std::string> parted(const std::string& path);

/// The text of a link; empty when it cannot be read.
std::string link_text(int directory, const std::string& name);

/// Removes an entry with all below it, whatever its permissions; no link is followed.
Status remove_all(int directory, const std::string& name);

}  // namespace sandboxkit::box
