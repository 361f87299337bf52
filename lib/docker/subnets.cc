#include "docker/subnets.h"

#include "base/text.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include <arpa/inet.h>

namespace sandboxkit::docker {
namespace {

std::uint32_t mask_of(int prefix) { return prefix == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix); }

std::string address_text(std::uint32_t address) {
  const in_addr raw{htonl(address)};
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &raw, text, sizeof text);
  return text;
}

/// A column of /proc/net/route: the kernel prints the big-endian word as a native number.
std::optional<std::uint32_t> route_word(std::string_view text) {
  std::uint32_t word = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
  if (problem != std::errc() || end != text.data() + text.size() || text.size() != 8) {
    return std::nullopt;
  }
  return ntohl(word);
}

}  // namespace

Result<Subnet> Subnet::parse(std::string_view text) {
  const Error bad{ErrorCode::kInvalidArgument,
                  quoted(text) + " is no IPv4 network such as `10.231.0.0/16`"};
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return bad;
  }
  in_addr raw{};
  const auto prefix = parse_decimal(text.substr(slash + 1), 32);
  if (!prefix || inet_pton(AF_INET, std::string(text.substr(0, slash)).c_str(), &raw) != 1) {
    return bad;
  }
  const Subnet subnet{ntohl(raw.s_addr), static_cast<int>(*prefix)};
  if ((subnet.address & ~mask_of(subnet.prefix)) != 0) {
    return Error{ErrorCode::kInvalidArgument, quoted(text) + " has bits beyond its prefix"};
  }
  return subnet;
}

std::string Subnet::to_string() const {
  return address_text(address) + "/" + std::to_string(prefix);
}

std::string Subnet::host(std::uint32_t index) const { return address_text(address + index); }

bool Subnet::overlaps(const Subnet& other) const {
  const std::uint32_t mask = mask_of(std::min(prefix, other.prefix));
  return (address & mask) == (other.address & mask);
}

std::optional<Subnet> free_subnet(const Subnet& pool, int prefix, std::span<const Subnet> taken,
                                  std::uint32_t start) {
  if (prefix < pool.prefix || prefix > 30) {
    return std::nullopt;
  }
  const std::uint32_t count = std::uint32_t{1} << (prefix - pool.prefix);
  for (std::uint32_t tried = 0; tried < count; ++tried) {
    const std::uint32_t index = (start % count + tried) % count;
    const Subnet candidate{pool.address + (index << (32 - prefix)), prefix};
    const bool free = std::none_of(taken.begin(), taken.end(),
                                   [&](const Subnet& other) { return other.overlaps(candidate); });
    if (free) {
      return candidate;
    }
  }
  return std::nullopt;
}

std::vector<Subnet> subnets_of_networks(const json::Value& networks) {
  std::vector<Subnet> found;
  const json::Array* list = networks.as_array();
  if (list == nullptr) {
    return found;
  }
  for (const json::Value& network : *list) {
    const json::Value* ipam = network.find("IPAM");
    const json::Value* config = ipam != nullptr ? ipam->find("Config") : nullptr;
    const json::Array* blocks = config != nullptr ? config->as_array() : nullptr;
    if (blocks == nullptr) {
      continue;
    }
    for (const json::Value& block : *blocks) {
      if (auto subnet = Subnet::parse(block.text("Subnet"))) {
        found.push_back(*subnet);
      }
    }
  }
  return found;
}

std::vector<Subnet> subnets_of_routes(std::string_view text) {
  constexpr std::size_t kDestination = 1;
  constexpr std::size_t kMask = 7;
  std::vector<Subnet> found;
  for (const std::string_view line : split(text, '\n')) {
    std::vector<std::string_view> columns;
    for (const std::string_view column : split(line, '\t')) {
      columns.push_back(trim(column));
    }
    if (columns.size() <= kMask) {
      continue;
    }
    const auto destination = route_word(columns[kDestination]);
    const auto mask = route_word(columns[kMask]);
    if (destination && mask && *mask != 0) {
      found.push_back(Subnet{*destination & *mask, std::popcount(*mask)});
    }
  }
  return found;
}

}  // namespace sandboxkit::docker
