#include "control/networks.h"

#include "base/text.h"
#include "json/value.h"
#include "policy/egress_address.h"

#include <algorithm>

namespace sandboxkit::control {
namespace {

std::optional<policy::AddressBlock> block_of(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) {
    return std::nullopt;
  }
  const unsigned most = policy::address_bits(*address);
  const auto bits = slash == std::string_view::npos ? std::optional<std::uint64_t>(most)
                                                    : parse_decimal(text.substr(slash + 1), most);
  // Bits after the prefix may be a slip that opens more than was meant.
  if (!bits || policy::masked(*address, static_cast<unsigned>(*bits)) != *address) {
    return std::nullopt;
  }
  return policy::AddressBlock{*address, static_cast<std::uint8_t>(*bits)};
}

}  // namespace

std::optional<std::string> canonical_network(std::string_view text) {
  const auto block = block_of(text);
  return block ? std::optional(block->base.to_string() + "/" + std::to_string(block->prefix_bits))
               : std::nullopt;
}

bool in_networks(const std::string& list, std::string_view address) {
  if (list.empty()) {
    return true;
  }
  const auto peer = IpAddress::parse(address);
  const auto value = json::parse(list);
  const json::Array* networks = value ? value->as_array() : nullptr;
  return peer && networks != nullptr &&
         std::ranges::any_of(*networks, [&](const json::Value& network) {
           const auto block =
               network.as_string() == nullptr ? std::nullopt : block_of(*network.as_string());
           return block && block->contains(*peer);
         });
}

}  // namespace sandboxkit::control
