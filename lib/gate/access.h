#pragma once

#include "sandboxkit/file_eyes.h"
#include "sandboxkit/gate_request.h"

#include "gate/pattern.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit::gate {

/// What lies below a directory that goes away, is moved, or comes.
struct Below {
  PathName name;
  bool is_directory;
};

/// Whether rules and grants are narrowed by an index before they are compared, or all of them are.
/// The answers are the same: the second is the plain reading that tests compare with.
enum class Narrowing : std::uint8_t { kIndexed, kNone };

/// One thing that really happens to one object, taken apart from an item. The object is known by
/// all of its names: as it was asked, canonical, each link on the way, other hard links.
struct Access {
  GateOperation operation;
  /// What the item asked for, of which `operation` is a part (a rename deletes and creates).
  GateOperation asked;
  /// As it was asked: made absolute and plain where it is a path.
  std::string requested;
  /// The asker's own spelling, where `requested` is another.
  std::string spelled{};
  SeenPath seen{};
  /// `seen.canonical`, and the other names that denials look at as well.
  PathName canonical{""};
  std::vector<PathName> other_names{};
  std::vector<Below> below{};
  /// After it, the name is a link to somewhere else.
  bool makes_link = false;
  /// Of an exec: the words, the program's name first; empty when they are not known.
  std::vector<std::string> words{};
  bool is_opaque = false;
  /// It was found in the session's program folders, and not by a path.
  bool is_found_by_name = false;
};

}  // namespace sandboxkit::gate
