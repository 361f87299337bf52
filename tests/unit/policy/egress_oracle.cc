#include "tests/unit/policy/egress_oracle.h"

#include <arpa/inet.h>

namespace sandboxkit::egress_oracle {
namespace {

bool is_one_of(char c, const std::string& set) { return set.find(c) != std::string::npos; }

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return text;
}

std::vector<std::string> labels_of(const std::string& name) {
  std::vector<std::string> out{""};
  for (const char c : name) {
    if (c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

/// A number from 1 to 65535 without a sign or a leading zero; 0 when it is none.
int port_number(const std::string& text) {
  if (text.empty() || text.size() > 5 || text[0] == '0') {
    return 0;
  }
  int out = 0;
  for (const char c : text) {
    if (!is_one_of(c, "0123456789")) {
      return 0;
    }
    out = 10 * out + (c - '0');
  }
  return out <= 65535 ? out : 0;
}

/// What the C library would read as a number: decimal, octal or hexadecimal.
bool is_number(const std::string& label) {
  const bool hexadecimal = label.substr(0, 2) == "0x";
  const std::string digits = hexadecimal ? "0123456789abcdef" : "0123456789";
  for (const char c : hexadecimal ? label.substr(2) : label) {
    if (!is_one_of(c, digits)) {
      return false;
    }
  }
  return true;
}

bool is_name(const std::string& name) {
  if (name.empty() || name.size() > 253) {
    return false;
  }
  const std::vector<std::string> labels = labels_of(name);
  for (const std::string& label : labels) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') {
      return false;
    }
    for (const char c : label) {
      if (!is_one_of(c, "abcdefghijklmnopqrstuvwxyz0123456789-_")) {
        return false;
      }
    }
  }
  return !is_number(labels.back());
}

bool name_matches(const Domain& domain, const std::string& host) {
  if (!domain.below) {
    return host == domain.name;
  }
  const std::string tail = "." + domain.name;
  return host.size() > tail.size() &&
         host.compare(host.size() - tail.size(), tail.size(), tail) == 0;
}

int port_of(int port, const Target& target) {
  if (port != 0) {
    return port;
  }
  return target.connect ? 443 : 80;
}

/// How closely an entry speaks of a host: its own name more than any `*.`, a longer one more.
std::size_t closeness(const Domain& domain) {
  return domain.below ? domain.name.size() : std::size_t{1000};
}

Verdict decide_name(const Policy& policy, const Target& target) {
  Verdict verdict{Answer::kNotListed, -1};
  std::size_t best = 0;
  for (std::size_t i = 0; i < policy.domains.size(); ++i) {
    const Domain& domain = policy.domains[i];
    if (!name_matches(domain, target.host)) {
      continue;
    }
    const bool allows = port_of(domain.port, target) == target.port;
    const bool allowed_before = verdict.answer == Answer::kAllowed;
    if (verdict.entry < 0 || (allows && !allowed_before) ||
        (allows == allowed_before && closeness(domain) > best)) {
      verdict = {allows ? Answer::kAllowed : Answer::kWrongPort, static_cast<int>(i)};
      best = closeness(domain);
    }
  }
  return verdict;
}

Verdict decide_literal(const Policy& policy, const Target& target) {
  Verdict verdict{Answer::kLiteral, -1};
  for (std::size_t i = 0; i < policy.networks.size(); ++i) {
    const Network& network = policy.networks[i];
    if (!network.block.contains(*target.literal)) {
      continue;
    }
    if (port_of(network.port, target) == target.port) {
      return {Answer::kAllowed, static_cast<int>(i)};
    }
    if (verdict.entry < 0) {
      verdict = {Answer::kWrongPort, static_cast<int>(i)};
    }
  }
  return verdict;
}

}  // namespace

std::optional<Address> address(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  const bool v6 = text.find(':') != std::string::npos;
  if (inet_pton(v6 ? AF_INET6 : AF_INET, text.c_str(), bytes.data()) != 1 ||
      text.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  Number number = 0;
  for (std::size_t i = 0; i < (v6 ? 16U : 4U); ++i) {
    number = (number << 8U) | bytes[i];
  }
  if (v6 && number >> 32U == 0xffff) {
    return Address{false, number & 0xffffffff};
  }
  return Address{v6, number};
}

std::string text(const Address& address) {
  std::array<unsigned char, 16> bytes{};
  const std::size_t size = address.v6 ? 16 : 4;
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<unsigned char>(address.number >> (8 * (size - 1 - i)));
  }
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, bytes.data(), out.data(), out.size());
  return out.data();
}

Number Block::size() const {
  const unsigned free = (base.v6 ? 128U : 32U) - bits;
  return free == 128 ? 0 : Number{1} << free;
}

Address Block::last() const { return {base.v6, base.number + size() - 1}; }

bool Block::contains(const Address& address) const {
  return address.v6 == base.v6 && address.number >= base.number && address.number <= last().number;
}

Block block(const std::string& text) {
  const auto slash = text.find('/');
  return {*address(text.substr(0, slash)),
          static_cast<unsigned>(std::stoi(text.substr(slash + 1)))};
}

const std::vector<std::string>& special_blocks() {
  static const std::vector<std::string> kBlocks{
      "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
      "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
      "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
      "100.100.100.200/32", "::/128", "::1/128", "::/96", "64:ff9b::/96", "64:ff9b:1::/48",
      "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10",
      "ff00::/8",
      // Newer than the list: documentation, and all that nobody was given (all but 2000::/3).
      "3fff::/20", "::/3", "4000::/2", "8000::/1"};
  return kBlocks;
}

bool is_special(const Address& address) {
  static const std::vector<Block> kBlocks = [] {
    std::vector<Block> out;
    for (const std::string& text : special_blocks()) {
      out.push_back(block(text));
    }
    return out;
  }();
  for (const Block& block : kBlocks) {
    if (block.contains(address)) {
      return true;
    }
  }
  return false;
}

std::optional<Domain> domain(std::string text) {
  Domain out{.below = false, .name = {}, .port = 0};
  text = lower(text);
  const auto colon = text.find(':');
  if (colon != std::string::npos) {
    out.port = port_number(text.substr(colon + 1));
    if (out.port == 0) {
      return std::nullopt;
    }
    text.resize(colon);
  }
  if (text.substr(0, 2) == "*.") {
    out.below = true;
    text.erase(0, 2);
  }
  if (!is_name(text) || text.find('.') == std::string::npos) {
    return std::nullopt;
  }
  out.name = text;
  return out;
}

Network network(const std::string& text) {
  const auto port = text.find(':', text.find('/'));
  return {block(text.substr(0, port)),
          port == std::string::npos ? 0 : std::stoi(text.substr(port + 1))};
}

std::optional<std::string> host(std::string text) {
  text = lower(text);
  if (address(text)) {
    return std::nullopt;
  }
  if (!text.empty() && text.back() == '.') {
    text.pop_back();
  }
  if (!is_name(text)) {
    return std::nullopt;
  }
  return text;
}

Verdict decide(const Policy& policy, const Target& target) {
  return target.literal ? decide_literal(policy, target) : decide_name(policy, target);
}

Verdict decide_address(const Policy& policy, const Target& target, const Address& answer) {
  const Verdict named = decide(policy, target);
  if (named.answer != Answer::kAllowed) {
    return named;
  }
  if (target.literal) {
    return *target.literal == answer ? named : Verdict{Answer::kAddressClass, -1};
  }
  if (!is_special(answer)) {
    return named;
  }
  for (std::size_t i = 0; i < policy.networks.size(); ++i) {
    const Network& network = policy.networks[i];
    if (network.block.contains(answer) && (network.port == 0 || network.port == target.port)) {
      return {Answer::kAllowed, static_cast<int>(i)};
    }
  }
  return {Answer::kAddressClass, named.entry};
}

}  // namespace sandboxkit::egress_oracle
