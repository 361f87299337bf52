#pragma once

#include "gate/path_index.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sandboxkit::gate {

struct Access;
struct Grant;

/// Narrows grants to those that may be meant by an access: paths by their directories, commands by
/// their words behind the program, everything else by its whole target.
class GrantIndex {
 public:
  GrantIndex() = default;
  /// The numbers are those of the list.
  explicit GrantIndex(std::span<const Grant> grants);

  /// In the order of the list.
  Numbers find(const Access& access) const;

 private:
  void find_words(const Access& access, Numbers& found) const;

  PathIndex paths_{Matching::kExact};
  NumberTable targets_;
  NumberTable commands_;
  NumberTable command_fronts_;
};

}  // namespace sandboxkit::gate
