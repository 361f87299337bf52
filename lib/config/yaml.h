#pragma once

#include "config/problem.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::config {

/// A part of a file, with the line on which it begins.
struct YamlNode {
  enum class Kind : unsigned char { kEmpty, kScalar, kList, kMap };
  Kind kind = Kind::kEmpty;
  int line = 1;
  /// Of a map's member.
  std::string key{};
  int key_line = 1;
  /// Of a scalar, as it stands: what `yes`, `010` or `1e3` mean is for the option to say.
  std::string text{};
  /// The scalar had quotes (or is a block), so it is text and never a number.
  bool quoted = false;
  /// Of a list its values, of a map its members.
  std::vector<YamlNode> items{};
};

struct Document {
  YamlNode root{};
  /// False when the reading stopped at what it cannot step over; `root` is empty then.
  bool whole = true;
  std::vector<Problem> problems{};
};

inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDepth = 8;
inline constexpr std::size_t kMaxNodes = 10'000;
inline constexpr std::size_t kMaxProblems = 100;

/// Reads the part of YAML that a configuration needs: one document of maps, lists and scalars.
///
/// Anchors, aliases, tags, keys that are no plain words, and a key that stands twice in one map are
/// refused: each has more than one reading, or grows without a limit.
/// `name` is the file as problems call it. Never throws but std::bad_alloc.
Document parse_yaml(std::string_view text, const std::string& name);

}  // namespace sandboxkit::config
