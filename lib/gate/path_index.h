#pragma once

#include "gate/pattern.h"

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sandboxkit::gate {

/// Numbers of entries of a list, as they are found: not in order, and some twice.
using Numbers = std::vector<std::uint32_t>;

/// Puts numbers into the order of their list, each once.
void put_in_order(Numbers& numbers);

/// A hash of a text, on top of what came before it.
std::uint64_t hash_on(std::uint64_t before, std::string_view text);

/// Numbers by the hash of a text. Most searches find nothing, and are told so by one bit.
class NumberTable {
 public:
  void add(std::uint64_t hash, std::uint32_t number);
  void find(std::uint64_t hash, Numbers& found) const;
  bool empty() const { return numbers_.empty(); }

 private:
  static constexpr std::size_t kBits = 4096;
  std::bitset<kBits> seen_;
  std::unordered_map<std::uint64_t, Numbers> numbers_;
};

/// Narrows a list of patterns to those that may match a name: by the components before the first
/// wildcard, or by the one after a `**` at the front. It never passes over one that matches;
/// whether one of them does, the pattern itself says.
///
/// Texts are known by their hashes alone: two that share one cost a comparison more.
/// Thread-safety: immutable after the last `add`.
class PathIndex {
 public:
  explicit PathIndex(Matching matching) : matching_(matching) {}

  /// All patterns of one index have its `matching`.
  void add(const PathPattern& pattern, std::uint32_t number);
  /// Appends the numbers of every pattern that may match the name or a directory above it.
  void find(const PathName& name, Numbers& found) const;

 private:
  /// A pattern that begins with wildcards: some component has these letters around one.
  struct Anywhere {
    std::string begins;
    std::string ends;
    std::uint32_t number;
  };

  Matching matching_;
  /// By the hash of all components before the first wildcard.
  NumberTable fronts_;
  /// By the hash of the component after a `**`.
  NumberTable names_;
  std::vector<Anywhere> anywhere_;
};

}  // namespace sandboxkit::gate
