#pragma once

#include "sandboxkit/result.h"

#include "base/random.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sandboxkit::store {

/// What lent secrets are sealed with at rest: AES-256-GCM under 32 random bytes, which stand in a
/// file of their own and not in the store, so that a copy of the store alone tells nothing.
///
/// Thread-safety: const members may be called from any thread.
class SecretsKey {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<std::uint8_t, kBytes>;

  explicit SecretsKey(const Bytes& bytes) : bytes_(bytes) {}

  /// Reads the key's file. Errors: kInvalidArgument when it is not a plain file of exactly 32 bytes
  /// that nobody but its owner may read or write, kNotFound.
  static Result<SecretsKey> load(const std::string& path);

  /// Base64 of nonce, ciphertext and tag. `context` says whose value it is: a sealed text that was
  /// moved to another row does not open there.
  Result<std::string> seal(std::string_view value, std::string_view context, Random& random) const;
  /// Errors: kInternal, without a word of what is inside, for any other key, context or text.
  Result<std::string> open(std::string_view sealed, std::string_view context) const;

  /// HMAC-SHA-256 in hex: tells equal texts apart from others, and nothing to who lacks the key.
  std::string digest(std::string_view text) const;

 private:
  Bytes bytes_;
};

}  // namespace sandboxkit::store
