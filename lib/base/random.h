#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sandboxkit {

/// Where randomness comes from; tests replay it from a seed.
/// Thread-safety: any thread.
class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::uint8_t> bytes) = 0;

  std::uint64_t next_u64();
  /// `length` characters of `alphabet`, each equally likely. The alphabet has at most 256.
  std::string text(std::size_t length, const char* alphabet);
};

/// getrandom(2). Lives as long as the process.
Random& system_random();

inline constexpr const char* kBase62 =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
inline constexpr const char* kBase36 = "0123456789abcdefghijklmnopqrstuvwxyz";

}  // namespace sandboxkit
