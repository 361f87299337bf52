#pragma once

#include "sandboxkit/clock.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::policy {

/// A token bucket's size: `burst` at once, `per_second` for ever.
struct RateLimit {
  double per_second = 0;  ///< 0 or less: no limit.
  double burst = 1;       ///< At least 1.
  bool is_off() const { return per_second <= 0; }
};

/// Token buckets of many keys in memory that never grows.
///
/// Each key belongs to one of `sets` small sets, which the seed chooses, so that nobody outside
/// knows which keys share one. When a set is full, the key that took the least gives way. A key
/// that has spent its tokens is therefore never forgotten in favour of another, however many keys
/// come; when all of a set are spent, a new key is let through uncounted: to refuse it would let
/// one set's keys lock out others. A clock that steps back refills nothing.
/// Thread-safety: one thread at a time.
class RateTable {
 public:
  static constexpr std::size_t kWays = 8;

  RateTable(RateLimit limit, std::size_t sets, std::uint64_t seed);

  /// Takes a token. nullopt when there was one, else how long until there is.
  std::optional<std::chrono::milliseconds> take(std::string_view key, WallTime now);
  /// The same question, without taking.
  std::optional<std::chrono::milliseconds> wait(std::string_view key, WallTime now) const;

 private:
  struct Bucket {
    std::uint64_t key = 0;  ///< Mark of the key; 0: free.
    double tokens = 0;
    WallTime at{};
  };
  using Set = std::array<Bucket, kWays>;

  std::uint64_t mark_of(std::string_view key) const;
  double tokens_of(const Bucket& bucket, WallTime now) const;
  std::optional<std::chrono::milliseconds> missing(double tokens) const;

  RateLimit limit_;
  std::uint64_t seed_;
  std::vector<Set> sets_;
};

/// Whose address it is, for a limit: an IPv4 address (also one that is mapped into IPv6), or the
/// /64 that an IPv6 address lies in, which is what one customer has. Other text is its own key.
std::string rate_key(std::string_view address);

}  // namespace sandboxkit::policy
