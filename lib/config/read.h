#pragma once

#include "config/problem.h"
#include "config/table.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit::config {

/// Weakest first.
enum class Strength : std::uint8_t { kDefault, kFile, kFlag, kEnvironment };

/// A file as its reader found it.
struct FileText {
  std::string name;
  std::string text;
  /// Group or others may read it: then it must hold no secret.
  bool open_to_others = false;
};

/// A flag or variable with its value, as given.
struct Given {
  std::string name;
  std::string value;
};

struct Sources {
  std::optional<FileText> file{};
  /// There is a file, but it could not be read: nobody knows what it holds.
  bool file_is_unread = false;
  std::vector<Given> flags{};
  /// Of the whole environment; what is not ours is stepped over.
  std::vector<Given> environment{};
};

struct Origin {
  Strength strength = Strength::kDefault;
  /// `FILE:LINE`, `--flag`, `env NAME`; `default` where nobody gave one.
  std::string where = "default";
};

struct Reading {
  std::vector<Problem> problems{};
  /// By key, all that gave a value, weakest first: the last one counts.
  std::map<std::string, std::vector<Origin>> given{};
  /// Options that do not count because a stronger one says the same: by key, that one's origin.
  std::map<std::string, Origin> unused{};

  Origin origin_of(const std::string& key) const;
};

/// Reads file, flags and environment, in that order of rising strength, into what the table's
/// options are bound to. With any problem the bound values are not to be used.
///
/// Pure: no file is opened, no variable asked for. Never throws but std::bad_alloc.
Reading read(const Table& table, const Sources& sources);

}  // namespace sandboxkit::config
