#include "sandboxkit/egress.h"

#include "base/text.h"
#include "policy/egress_address.h"
#include "policy/egress_name.h"
#include "policy/egress_table.h"

#include <algorithm>
#include <utility>

namespace sandboxkit {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::uint64_t kMaxPort = 65535;
// A wider network would be an allow-list of everything, as `*` would be.
constexpr unsigned kWidestIpv4Prefix = 8;
constexpr unsigned kWidestIpv6Prefix = 16;

Error bad_entry(const char* list, std::size_t index, std::string message) {
  return {ErrorCode::kInvalidArgument,
          std::move(message),
          {},
          std::string(list) + "[" + std::to_string(index) + "]"};
}

std::uint16_t default_port(EgressScheme scheme) {
  return scheme == EgressScheme::kHttp ? kHttpPort : kHttpsPort;
}

bool port_matches(std::optional<std::uint16_t> rule, const EgressTarget& target) {
  return target.port() == rule.value_or(default_port(target.scheme()));
}

struct DomainRule {
  std::string name;  // of a wildcard: what stands after `*.`
  bool wildcard = false;
  std::optional<std::uint16_t> port;
};

struct NetworkRule {
  policy::AddressBlock block;
  std::optional<std::uint16_t> port;
};

/// Takes `:port` off the end of `text`, if there is one.
Result<std::optional<std::uint16_t>> take_port(std::string_view& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::optional<std::uint16_t>{};
  }
  const auto port = parse_decimal(text.substr(colon + 1), kMaxPort);
  if (!port || *port == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 quoted(text) + " has no port from 1 to 65535 after its colon"};
  }
  text = text.substr(0, colon);
  return std::optional(static_cast<std::uint16_t>(*port));
}

/// Common mistakes that deserve their own words; empty when there is none.
std::string mistake_in(std::string_view entry) {
  if (entry.empty()) {
    return "is empty; remove it, or write a name such as `example.org`";
  }
  if (entry.size() > EgressPolicy::kMaxEntryBytes) {
    return "is too long";
  }
  if (entry.find("://") != std::string_view::npos) {
    return "has a scheme; write the name alone, such as `example.org`";
  }
  if (entry.find('/') != std::string_view::npos) {
    return "has a path; write the name alone (address blocks go to `allowed_networks`)";
  }
  if (entry.find('@') != std::string_view::npos) {
    return "has a user name; write the name alone, such as `example.org`";
  }
  if (entry.starts_with('[') || IpAddress::parse(entry)) {
    return "is an address; write it to `allowed_networks`, such as `192.0.2.7/32`";
  }
  return {};
}

Result<DomainRule> parse_domain_rule(std::string_view entry) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument, quoted(entry) + " " + std::string(why)};
  };
  if (const std::string mistake = mistake_in(entry); !mistake.empty()) {
    return fail(mistake);
  }
  std::string_view name = entry;
  const auto port = take_port(name);
  if (!port) {
    return port.error();
  }
  DomainRule rule{.name = {}, .wildcard = name.starts_with("*."), .port = *port};
  if (rule.wildcard) {
    name.remove_prefix(2);
  }
  if (IpAddress::parse(name)) {
    return fail("is an address; write it to `allowed_networks`, such as `192.0.2.7/32:443`");
  }
  if (name.find('*') != std::string_view::npos) {
    return fail("has a `*` that is not its whole first label; write `*.example.org`");
  }
  if (name.ends_with('.')) {
    return fail("ends with a dot; write it without");
  }
  auto parsed = policy::parse_name(name);
  if (!parsed) {
    return std::move(parsed).error();
  }
  if (parsed->find('.') == std::string::npos) {
    return fail(rule.wildcard ? "is too wide; name at least two labels after `*.`"
                              : "is a single label; write the full name, such as `example.org`");
  }
  rule.name = *std::move(parsed);
  return rule;
}

Result<NetworkRule> parse_network_rule(std::string_view entry) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument, quoted(entry) + " " + std::string(why)};
  };
  if (entry.size() > EgressPolicy::kMaxEntryBytes) {
    return fail("is too long");
  }
  const auto slash = entry.find('/');
  if (slash == std::string_view::npos) {
    return fail("has no prefix length; write `10.1.0.0/16`, or `10.1.2.3/32` for one address");
  }
  const auto address = IpAddress::parse(entry.substr(0, slash));
  if (!address) {
    return fail("is no address block; write `10.1.0.0/16` or `fd00:1::/32`");
  }
  std::string_view prefix_text = entry.substr(slash + 1);
  const auto port = take_port(prefix_text);
  if (!port) {
    return port.error();
  }
  const auto prefix = parse_decimal(prefix_text, policy::address_bits(*address));
  if (!prefix) {
    return fail("has no prefix length from 0 to " + std::to_string(policy::address_bits(*address)));
  }
  const unsigned widest = address->is_v6 ? kWidestIpv6Prefix : kWidestIpv4Prefix;
  if (*prefix < widest) {
    return fail("is too wide; the prefix has at least " + std::to_string(widest) + " bits");
  }
  const auto bits = static_cast<std::uint8_t>(*prefix);
  const IpAddress base = policy::masked(*address, bits);
  if (base != *address) {
    return fail("has bits after its prefix; write `" + base.to_string() + "/" +
                std::to_string(bits) + "`");
  }
  return NetworkRule{{base, bits}, *port};
}

std::string port_suffix(std::optional<std::uint16_t> port) {
  return port ? ":" + std::to_string(*port) : std::string();
}

std::string canonical_text(const DomainRule& rule) {
  return "domain " + std::string(rule.wildcard ? "*." : "") + rule.name + port_suffix(rule.port);
}

std::string canonical_text(const NetworkRule& rule) {
  return "network " + rule.block.base.to_string() + "/" + std::to_string(rule.block.prefix_bits) +
         port_suffix(rule.port);
}

/// Whether every name that `narrow` stands for is one that `wide` stands for.
bool name_covers(const DomainRule& wide, const DomainRule& narrow) {
  if (!wide.wildcard) {
    return !narrow.wildcard && narrow.name == wide.name;
  }
  // `*.x` covers itself and `*.a.x`, and of single names those below x.
  return narrow.name.ends_with("." + wide.name) || (narrow.wildcard && narrow.name == wide.name);
}

bool port_covers(const DomainRule& wide, EgressScheme scheme, std::uint16_t port) {
  return wide.port.value_or(default_port(scheme)) == port;
}

}  // namespace

struct EgressPolicy::Rules {
  std::vector<std::string> domains;
  std::vector<std::string> networks;
  std::vector<DomainRule> domain_rules;  // of each domain
  policy::NameTable<> names;
  std::vector<NetworkRule> blocks;
  std::vector<std::string> canonical_lines;

  /// Adds the canonical line of an entry; false when it is there already.
  bool add_line(std::string line) {
    const auto at = std::ranges::lower_bound(canonical_lines, line);
    if (at != canonical_lines.end() && *at == line) {
      return false;
    }
    canonical_lines.insert(at, std::move(line));
    return true;
  }

  Status add_domain(const std::string& entry) {
    const std::size_t index = domains.size();
    auto rule = parse_domain_rule(entry);
    if (!rule) {
      return bad_entry("allowed_domains", index, rule.error().message);
    }
    if (!add_line(canonical_text(*rule))) {
      return bad_entry("allowed_domains", index, quoted(entry) + " is listed twice; remove one");
    }
    names.add(rule->name, rule->wildcard, index);
    domain_rules.push_back(*std::move(rule));
    domains.push_back(entry);
    return {};
  }

  Status add_network(const std::string& entry) {
    const std::size_t index = networks.size();
    auto rule = parse_network_rule(entry);
    if (!rule) {
      return bad_entry("allowed_networks", index, rule.error().message);
    }
    if (!add_line(canonical_text(*rule))) {
      return bad_entry("allowed_networks", index, quoted(entry) + " is listed twice; remove one");
    }
    blocks.push_back(*rule);
    networks.push_back(entry);
    return {};
  }

  EgressVerdict judge_name(const EgressTarget& target) const {
    EgressVerdict verdict;
    std::size_t decided_by = domains.size();
    const auto judge = [&](const std::vector<std::size_t>& entries) {
      const auto match = std::ranges::find_if(entries, [&](std::size_t entry) {
        return port_matches(domain_rules[entry].port, target);
      });
      // The names come nearest last: what allows has the last word, else what comes last.
      if (match != entries.end()) {
        verdict = {true, EgressReason::kAllowed, {}};
        decided_by = *match;
      } else if (!verdict.allowed) {
        verdict.reason = EgressReason::kPortNotAllowed;
        decided_by = entries.front();
      }
    };
    policy::NoMeter meter;
    names.visit(target.host(), judge, meter);
    if (decided_by < domains.size()) {
      verdict.rule = domains[decided_by];
    }
    return verdict;
  }

  /// Each scheme's port may be covered by an entry of its own.
  bool covers(const DomainRule& narrow) const {
    const auto covered = [&](EgressScheme scheme) {
      const std::uint16_t port = narrow.port.value_or(default_port(scheme));
      return std::ranges::any_of(domain_rules, [&](const DomainRule& wide) {
        return name_covers(wide, narrow) && port_covers(wide, scheme, port);
      });
    };
    return covered(EgressScheme::kHttp) && covered(EgressScheme::kConnect);
  }

  /// A block without a port lifts for every port and one with a port allows it in both schemes, so
  /// neither covers the other.
  bool covers(const NetworkRule& narrow) const {
    return std::ranges::any_of(blocks, [&](const NetworkRule& wide) {
      return wide.port == narrow.port && wide.block.prefix_bits <= narrow.block.prefix_bits &&
             wide.block.contains(narrow.block.base);
    });
  }

  EgressVerdict judge_literal(const EgressTarget& target) const {
    EgressVerdict verdict{false, EgressReason::kIpLiteral, {}};
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!blocks[i].block.contains(*target.address())) {
        continue;
      }
      if (port_matches(blocks[i].port, target)) {
        return {true, EgressReason::kAllowed, networks[i]};
      }
      if (verdict.rule.empty()) {
        verdict = {false, EgressReason::kPortNotAllowed, networks[i]};
      }
    }
    return verdict;
  }

  /// The network that lifts the refusal of a special address for a target whose name and port were
  /// allowed; nullptr when none does.
  const std::string* lifting_network(const EgressTarget& target, const IpAddress& address) const {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].block.contains(address) &&
          blocks[i].port.value_or(target.port()) == target.port()) {
        return &networks[i];
      }
    }
    return nullptr;
  }
};

EgressPolicy::EgressPolicy(std::shared_ptr<const Rules> rules, bool strict_tls)
    : rules_(std::move(rules)), strict_tls_(strict_tls) {}

Result<EgressPolicy> EgressPolicy::create(std::span<const std::string> allowed_domains,
                                          std::span<const std::string> allowed_networks) {
  if (allowed_domains.size() > kMaxDomains) {
    return bad_entry("allowed_domains", kMaxDomains, "more than 256 entries; use `*.` entries");
  }
  if (allowed_networks.size() > kMaxNetworks) {
    return bad_entry("allowed_networks", kMaxNetworks, "more than 64 entries; use wider blocks");
  }
  auto rules = std::make_shared<Rules>();
  for (const std::string& entry : allowed_domains) {
    if (auto status = rules->add_domain(entry); !status) {
      return status.error();
    }
  }
  for (const std::string& entry : allowed_networks) {
    if (auto status = rules->add_network(entry); !status) {
      return status.error();
    }
  }
  return EgressPolicy(std::move(rules));
}

EgressPolicy EgressPolicy::deny_all() { return EgressPolicy(std::make_shared<const Rules>()); }

EgressPolicy EgressPolicy::with_strict_tls() const { return EgressPolicy(rules_, true); }

EgressVerdict EgressPolicy::decide(const EgressTarget& target) const {
  return target.address() ? rules_->judge_literal(target) : rules_->judge_name(target);
}

EgressVerdict EgressPolicy::decide_address(const EgressTarget& target,
                                           const IpAddress& address) const {
  EgressVerdict verdict = decide(target);
  if (!verdict.allowed) {
    return verdict;
  }
  if (target.address()) {
    return *target.address() == address ? verdict
                                        : EgressVerdict{false, EgressReason::kAddressClass, {}};
  }
  if (policy::special_class(address).empty()) {
    return verdict;
  }
  if (const std::string* network = rules_->lifting_network(target, address)) {
    return {true, EgressReason::kAllowed, *network};
  }
  return {false, EgressReason::kAddressClass, verdict.rule};
}

std::vector<std::string> EgressPolicy::beyond(const EgressPolicy& wider) const {
  std::vector<std::string> out;
  if (wider.strict_tls() && !strict_tls()) {
    out.emplace_back("strict_tls");
  }
  for (std::size_t i = 0; i < rules_->domains.size(); ++i) {
    if (!wider.rules_->covers(rules_->domain_rules[i])) {
      out.push_back(rules_->domains[i]);
    }
  }
  for (std::size_t i = 0; i < rules_->networks.size(); ++i) {
    if (!wider.rules_->covers(rules_->blocks[i])) {
      out.push_back(rules_->networks[i]);
    }
  }
  return out;
}

const std::vector<std::string>& EgressPolicy::allowed_domains() const { return rules_->domains; }
const std::vector<std::string>& EgressPolicy::allowed_networks() const { return rules_->networks; }

std::string EgressPolicy::canonical() const {
  std::string out = "egress 1\n";
  out += strict_tls_ ? "strict_tls\n" : "";
  for (const std::string& line : rules_->canonical_lines) {
    out += line + "\n";
  }
  return out;
}

const char* name_of(EgressReason reason) {
  switch (reason) {
    case EgressReason::kAllowed:
      return "allowed";
    case EgressReason::kNotInAllowList:
      return "not_in_allow_list";
    case EgressReason::kPortNotAllowed:
      return "port_not_allowed";
    case EgressReason::kIpLiteral:
      return "ip_literal";
    case EgressReason::kAddressClass:
      return "resolved_address_denied";
    case EgressReason::kSniMismatch:
      return "sni_mismatch";
    case EgressReason::kSniAbsent:
      return "sni_absent";
    case EgressReason::kNotTls:
      return "not_tls";
  }
  return "not_in_allow_list";
}

}  // namespace sandboxkit
