#include "policy/egress_address.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace sandboxkit {
namespace {

constexpr std::size_t kIpv6Groups = 8;
constexpr std::size_t kLongestAddressText = 45;  // v6 with a dotted quad at its end

std::optional<std::array<std::uint8_t, 4>> parse_dotted_quad(std::string_view text) {
  std::array<std::uint8_t, 4> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto dot = text.find('.');
    if ((dot == std::string_view::npos) != (i + 1 == out.size())) {
      return std::nullopt;
    }
    const auto number = parse_decimal(text.substr(0, dot), 255);
    if (!number) {
      return std::nullopt;
    }
    out[i] = static_cast<std::uint8_t>(*number);
    text = dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  }
  return out;
}

/// One to four hexadecimal digits.
std::optional<std::uint16_t> parse_group(std::string_view text) {
  std::uint16_t value = 0;
  if (text.empty() || text.size() > 4) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

/// Groups between colons; the last one may be a dotted quad, which counts as two.
std::optional<std::vector<std::uint16_t>> parse_groups(std::string_view text, bool quad_may_end) {
  std::vector<std::uint16_t> out;
  if (text.empty()) {
    return out;
  }
  const auto parts = split(text, ':');
  if (parts.size() > kIpv6Groups) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (quad_may_end && i + 1 == parts.size() && parts[i].find('.') != std::string_view::npos) {
      const auto quad = parse_dotted_quad(parts[i]);
      if (!quad) {
        return std::nullopt;
      }
      out.push_back(static_cast<std::uint16_t>((*quad)[0] << 8 | (*quad)[1]));
      out.push_back(static_cast<std::uint16_t>((*quad)[2] << 8 | (*quad)[3]));
      break;
    }
    const auto group = parse_group(parts[i]);
    if (!group) {
      return std::nullopt;
    }
    out.push_back(*group);
  }
  return out;
}

std::optional<std::array<std::uint16_t, kIpv6Groups>> parse_v6_groups(std::string_view text) {
  std::array<std::uint16_t, kIpv6Groups> out{};
  const auto gap = text.find("::");
  if (gap == std::string_view::npos) {
    const auto all = parse_groups(text, true);
    if (!all || all->size() != kIpv6Groups) {
      return std::nullopt;
    }
    std::ranges::copy(*all, out.begin());
    return out;
  }
  const auto tail_text = text.substr(gap + 2);
  if (tail_text.find("::") != std::string_view::npos || tail_text.starts_with(':')) {
    return std::nullopt;
  }
  const auto head = parse_groups(text.substr(0, gap), false);
  const auto tail = parse_groups(tail_text, true);
  // The gap stands for at least one group.
  if (!head || !tail || head->size() + tail->size() >= kIpv6Groups) {
    return std::nullopt;
  }
  std::ranges::copy(*head, out.begin());
  std::ranges::copy(*tail, out.end() - static_cast<std::ptrdiff_t>(tail->size()));
  return out;
}

std::string dotted_quad(const std::array<std::uint8_t, 16>& bytes) {
  return std::to_string(bytes[0]) + "." + std::to_string(bytes[1]) + "." +
         std::to_string(bytes[2]) + "." + std::to_string(bytes[3]);
}

/// RFC 5952: lower case, no leading zeros, the first longest run of two or more zeros as `::`.
std::string v6_text(const std::array<std::uint8_t, 16>& bytes) {
  std::array<unsigned, kIpv6Groups> groups{};
  for (std::size_t i = 0; i < kIpv6Groups; ++i) {
    groups[i] = static_cast<unsigned>(bytes[2 * i] << 8 | bytes[2 * i + 1]);
  }
  std::size_t gap_at = kIpv6Groups;
  std::size_t gap_size = 1;
  for (std::size_t i = 0; i < kIpv6Groups;) {
    std::size_t end = i;
    while (end < kIpv6Groups && groups[end] == 0) {
      ++end;
    }
    if (end - i > gap_size) {
      gap_at = i;
      gap_size = end - i;
    }
    i = std::max(end, i + 1);
  }
  std::string out;
  for (std::size_t i = 0; i < kIpv6Groups; ++i) {
    if (i == gap_at) {
      out += "::";
      i += gap_size - 1;
      continue;
    }
    if (!out.empty() && out.back() != ':') {
      out += ':';
    }
    std::array<char, 4> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), groups[i], 16).ptr;
    out.append(digits.data(), end);
  }
  return out;
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.size() > kLongestAddressText) {
    return std::nullopt;
  }
  IpAddress out;
  if (text.find(':') == std::string_view::npos) {
    const auto quad = parse_dotted_quad(text);
    if (!quad) {
      return std::nullopt;
    }
    std::ranges::copy(*quad, out.bytes.begin());
    return out;
  }
  const auto groups = parse_v6_groups(text);
  if (!groups) {
    return std::nullopt;
  }
  out.is_v6 = true;
  for (std::size_t i = 0; i < kIpv6Groups; ++i) {
    out.bytes[2 * i] = static_cast<std::uint8_t>((*groups)[i] >> 8);
    out.bytes[2 * i + 1] = static_cast<std::uint8_t>((*groups)[i] & 0xff);
  }
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), out.bytes.begin())) {
    IpAddress v4;
    std::copy(out.bytes.begin() + kMapped.size(), out.bytes.end(), v4.bytes.begin());
    return v4;
  }
  return out;
}

std::string IpAddress::to_string() const { return is_v6 ? v6_text(bytes) : dotted_quad(bytes); }

namespace policy {
namespace {

struct SpecialBlock {
  std::string_view text;
  std::uint8_t prefix_bits;
  std::string_view name;
};

// The more telling block stands first where one holds another.
constexpr std::array kSpecialBlocks{
    SpecialBlock{"0.0.0.0", 8, "this_network"},
    SpecialBlock{"10.0.0.0", 8, "private"},
    SpecialBlock{"100.100.100.200", 32, "cloud_metadata"},
    SpecialBlock{"100.64.0.0", 10, "carrier_nat"},
    SpecialBlock{"127.0.0.0", 8, "loopback"},
    SpecialBlock{"168.63.129.16", 32, "cloud_metadata"},
    SpecialBlock{"169.254.169.254", 32, "cloud_metadata"},
    SpecialBlock{"169.254.0.0", 16, "link_local"},
    SpecialBlock{"172.16.0.0", 12, "private"},
    SpecialBlock{"192.0.0.0", 24, "protocol_assignments"},
    SpecialBlock{"192.0.2.0", 24, "documentation"},
    SpecialBlock{"192.88.99.0", 24, "relay_6to4"},
    SpecialBlock{"192.168.0.0", 16, "private"},
    SpecialBlock{"198.18.0.0", 15, "benchmarking"},
    SpecialBlock{"198.51.100.0", 24, "documentation"},
    SpecialBlock{"203.0.113.0", 24, "documentation"},
    SpecialBlock{"224.0.0.0", 4, "multicast"},
    SpecialBlock{"240.0.0.0", 4, "reserved"},
    SpecialBlock{"::1", 128, "loopback"},
    SpecialBlock{"::", 96, "embedded_ipv4"},  // the unspecified address is in it
    SpecialBlock{"64:ff9b::", 96, "embedded_ipv4"},
    SpecialBlock{"64:ff9b:1::", 48, "embedded_ipv4"},
    SpecialBlock{"100::", 64, "discard"},
    SpecialBlock{"2001::", 23, "protocol_assignments"},  // Teredo is in it
    SpecialBlock{"2001:db8::", 32, "documentation"},
    SpecialBlock{"2002::", 16, "embedded_ipv4"},
    SpecialBlock{"3fff::", 20, "documentation"},
    SpecialBlock{"5f00::", 16, "segment_routing"},
    SpecialBlock{"fc00::", 7, "private"},
    SpecialBlock{"fe80::", 10, "link_local"},
    SpecialBlock{"fec0::", 10, "site_local"},
    SpecialBlock{"ff00::", 8, "multicast"},
};

struct ParsedBlock {
  AddressBlock block;
  std::string_view name;
};

const std::vector<ParsedBlock>& special_blocks() {
  static const std::vector<ParsedBlock> kBlocks = [] {
    std::vector<ParsedBlock> out;
    for (const SpecialBlock& row : kSpecialBlocks) {
      out.push_back({{IpAddress::parse(row.text).value(), row.prefix_bits}, row.name});
    }
    return out;
  }();
  return kBlocks;
}

}  // namespace

IpAddress masked(const IpAddress& address, unsigned prefix_bits) {
  IpAddress out = address;
  for (unsigned i = 0; i < out.bytes.size(); ++i) {
    const unsigned kept = std::min(8U, prefix_bits > 8 * i ? prefix_bits - 8 * i : 0U);
    out.bytes[i] = static_cast<std::uint8_t>(out.bytes[i] & (0xff00U >> kept));
  }
  return out;
}

bool AddressBlock::contains(const IpAddress& address) const {
  return address.is_v6 == base.is_v6 && masked(address, prefix_bits) == base;
}

std::string_view special_class(const IpAddress& address) {
  for (const ParsedBlock& row : special_blocks()) {
    if (row.block.contains(address)) {
      return row.name;
    }
  }
  // Only 2000::/3 is handed out today: anything else is not ours to guess about.
  if (address.is_v6 && (address.bytes[0] & 0xe0) != 0x20) {
    return "unallocated";
  }
  return {};
}

}  // namespace policy
}  // namespace sandboxkit
