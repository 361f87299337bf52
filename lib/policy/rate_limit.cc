#include "policy/rate_limit.h"

#include "policy/egress_address.h"

#include <algorithm>

namespace sandboxkit::policy {
namespace {

constexpr unsigned kCustomerBits = 64;
constexpr unsigned kMappedBits = 96;
/// Sums of fractions miss a whole token by less than this.
constexpr double kRounding = 1e-6;

/// A mixer with good avalanche (splitmix64's finalizer).
std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9ULL;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

bool is_mapped_ipv4(const IpAddress& address) {
  const auto mapped = IpAddress::parse("::ffff:0.0.0.0");
  return address.is_v6 && mapped && masked(address, kMappedBits) == *mapped;
}

}  // namespace

RateTable::RateTable(RateLimit limit, std::size_t sets, std::uint64_t seed)
    : limit_{limit.per_second, std::max(limit.burst, 1.0)},
      seed_(seed),
      sets_(limit.is_off() ? 0 : std::max<std::size_t>(sets, 1)) {}

std::uint64_t RateTable::mark_of(std::string_view key) const {
  std::uint64_t mark = mix(seed_ ^ key.size());
  for (const char c : key) {
    mark = mix(mark ^ seed_ ^ static_cast<unsigned char>(c));
  }
  return mark == 0 ? 1 : mark;
}

double RateTable::tokens_of(const Bucket& bucket, WallTime now) const {
  const std::chrono::duration<double> passed = std::max(now, bucket.at) - bucket.at;
  return std::min(limit_.burst, bucket.tokens + passed.count() * limit_.per_second);
}

std::optional<std::chrono::milliseconds> RateTable::missing(double tokens) const {
  if (tokens >= 1 - kRounding) {
    return std::nullopt;
  }
  const double milliseconds = (1 - tokens) / limit_.per_second * 1000;
  const auto whole = static_cast<std::int64_t>(milliseconds);
  const bool more = milliseconds - static_cast<double>(whole) > kRounding;
  return std::chrono::milliseconds(more ? whole + 1 : whole);
}

std::optional<std::chrono::milliseconds> RateTable::wait(std::string_view key, WallTime now) const {
  if (limit_.is_off()) {
    return std::nullopt;
  }
  const std::uint64_t mark = mark_of(key);
  const Set& set = sets_[mark % sets_.size()];
  const auto found = std::ranges::find(set, mark, &Bucket::key);
  return found == set.end() ? std::nullopt : missing(tokens_of(*found, now));
}

std::optional<std::chrono::milliseconds> RateTable::take(std::string_view key, WallTime now) {
  if (limit_.is_off()) {
    return std::nullopt;
  }
  const std::uint64_t mark = mark_of(key);
  Set& set = sets_[mark % sets_.size()];
  auto place = std::ranges::find(set, mark, &Bucket::key);
  if (place == set.end()) {
    place = std::ranges::max_element(set, {}, [&](const Bucket& each) {
      return each.key == 0 ? limit_.burst + 1 : tokens_of(each, now);
    });
    if (place->key != 0 && missing(tokens_of(*place, now))) {
      return std::nullopt;
    }
    *place = Bucket{mark, limit_.burst, now};
  }
  place->tokens = tokens_of(*place, now);
  // Also back: else a clock that was ahead once would keep the bucket from filling.
  place->at = now;
  const auto lacking = missing(place->tokens);
  place->tokens -= lacking ? 0 : 1;
  return lacking;
}

std::string rate_key(std::string_view address) {
  const auto parsed = IpAddress::parse(address);
  if (!parsed) {
    return std::string(address);
  }
  if (is_mapped_ipv4(*parsed)) {
    IpAddress inner;
    std::copy_n(parsed->bytes.begin() + kMappedBits / 8, 4, inner.bytes.begin());
    return inner.to_string();
  }
  return parsed->is_v6 ? masked(*parsed, kCustomerBits).to_string() : parsed->to_string();
}

}  // namespace sandboxkit::policy
