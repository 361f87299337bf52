#pragma once

#include "sandboxkit/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

/// A plain path, taken apart once and matched by many patterns.
struct PathName {
  explicit PathName(std::string plain);
  std::string text;
  std::vector<std::string> exact{};
  std::vector<std::string> folded{};
};

/// What a pattern may begin with. An empty one is not known, and its pattern matches nothing.
struct Anchors {
  std::string home{};
  std::string tree{};
  std::string scratch{};
};

/// Denials fold, whatever allows is exact.
enum class Matching : std::uint8_t { kFolded, kExact };

/// One pattern of the gate's only dialect. Source: design of the gate, 4.4.
class PathPattern {
 public:
  static constexpr std::size_t kMaxBytes = 1024;
  /// The component that stands for any number of them.
  static constexpr std::string_view kAnyDepth = "**";

  /// Errors: kInvalidArgument, the message naming the fix.
  static Result<PathPattern> compile(std::string_view text, const Anchors& anchors,
                                     Matching matching);

  /// The path or a directory above it.
  bool matches(const PathName& name) const;
  /// The path itself alone.
  bool matches_whole(const PathName& name) const;
  /// Whether what it names may lie below this path, as far as its text says: false where it begins
  /// with `**`, since that may be anywhere.
  bool reaches_below(const PathName& directory) const;

  /// Like it, and with a `**` at the front wherever it may begin: whether a way to what it names
  /// may go through this path.
  bool leads_through(const PathName& name) const;

  const std::string& text() const { return text_; }
  /// The pattern as one path, its wildcards being letters.
  std::string whole_text() const;
  /// A name at any depth.
  bool is_bare_name() const { return is_bare_name_; }
  /// No wildcard: `path()` is the one place.
  bool is_literal() const { return is_literal_; }
  /// The components before the first wildcard; empty where it may begin anywhere.
  const std::string& path() const { return path_; }
  /// Its components, folded where it folds.
  const std::vector<std::string>& parts() const { return parts_; }
  /// Whether a component matches itself alone.
  static bool is_text(std::string_view part);

 private:
  PathPattern() = default;
  const std::vector<std::string>& parts_of(const PathName& name) const;

  std::string text_;
  std::vector<std::string> parts_;
  std::string path_;
  Matching matching_ = Matching::kExact;
  bool is_bare_name_ = false;
  bool is_literal_ = true;
};

/// The pattern of a path that is text, whatever letters it has.
std::string escape_pattern(std::string_view path);

/// `*` in a name that is no path: a variable's.
bool matches_name(std::string_view pattern, std::string_view name);

}  // namespace sandboxkit::gate
