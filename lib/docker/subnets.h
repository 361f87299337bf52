#pragma once

#include "sandboxkit/result.h"

#include "json/value.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::docker {

/// An IPv4 network. Host bits are zero.
struct Subnet {
  std::uint32_t address = 0;
  int prefix = 32;

  /// Reads `10.231.0.0/16`. Errors: kInvalidArgument for bad text or host bits.
  static Result<Subnet> parse(std::string_view text);
  std::string to_string() const;
  /// The text of the network's `index`-th address: 0 is the network itself.
  std::string host(std::uint32_t index) const;
  bool overlaps(const Subnet& other) const;
  bool operator==(const Subnet&) const = default;
};

/// A wall is a /29: .1 is the gateway that nobody has, .2 the sandbox, .3 its sidecar.
inline constexpr int kWallPrefix = 29;
inline constexpr std::uint32_t kSandboxHost = 2;
inline constexpr std::uint32_t kSidecarHost = 3;
/// A shared network holds as many containers as a Linux bridge has ports (1,023).
inline constexpr int kSharedPrefix = 22;
/// A pool must hold the two shared networks and some walls.
inline constexpr int kMinPoolPrefix = 8;
inline constexpr int kMaxPoolPrefix = 20;

/// The first network of that size in the pool that overlaps nothing in `taken`, looking from the
/// `start`-th on and around; nullopt when there is none. Pure.
std::optional<Subnet> free_subnet(const Subnet& pool, int prefix, std::span<const Subnet> taken,
                                  std::uint32_t start);

/// The IPv4 subnets in an answer to `GET /networks`.
std::vector<Subnet> subnets_of_networks(const json::Value& networks);
/// The destinations in the text of /proc/net/route, without default routes.
std::vector<Subnet> subnets_of_routes(std::string_view text);

}  // namespace sandboxkit::docker
