#pragma once

#include "sandboxkit/result.h"

#include "base/random.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sandboxkit::audit {

/// SHA-256 in lower-case hex.
std::string sha256_hex(std::string_view bytes);

/// What the heads of the log are signed with: 32 random bytes in a file of their own.
///
/// Thread-safety: const members may be called from any thread.
class Key {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<std::uint8_t, kBytes>;

  explicit Key(const Bytes& bytes) : bytes_(bytes) {}

  /// Errors: kNotFound; kInvalidArgument when it is no plain file of exactly 32 bytes that belongs
  /// to this user and that nobody else may read or write.
  static Result<Key> load(const std::string& path);
  /// `load`, and makes the file (0600) when there is none.
  static Result<Key> load_or_create(const std::string& path, Random& random);

  /// HMAC-SHA-256 in lower-case hex over `purpose`, a line feed and `text`: what is signed for one
  /// purpose counts for no other.
  std::string sign(std::string_view purpose, std::string_view text) const;

 private:
  Bytes bytes_;
};

}  // namespace sandboxkit::audit
