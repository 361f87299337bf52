#include "egress/config.h"

#include "base/text.h"
#include "io/fd.h"
#include "json/reader.h"
#include "wire/messages.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

constexpr std::size_t kMaxFileBytes = 256 * 1024;
constexpr std::size_t kMaxAddressBytes = 64;
constexpr std::size_t kMaxDnsServers = 8;
constexpr std::size_t kMaxHosts = 256;
constexpr std::size_t kMaxLent = 16;
constexpr std::size_t kMaxLentBytes = 260;
constexpr std::size_t kMaxRefusedNetworks = 1024;
constexpr std::size_t kMaxHashBytes = 128;
constexpr std::uint64_t kMaxPort = 65535;

std::optional<ListenAddress> parse_listen(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const auto address = IpAddress::parse(host);
  const auto port = parse_decimal(text.substr(colon + 1), kMaxPort);
  if (!address || !port) {
    return std::nullopt;
  }
  return ListenAddress{address->to_string(), static_cast<std::uint16_t>(*port)};
}

/// `10.231.0.0/16`, without bits after the prefix.
std::optional<policy::AddressBlock> parse_block(std::string_view text) {
  const auto slash = text.find('/');
  const auto base = IpAddress::parse(text.substr(0, slash));
  if (!base || slash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto bits = parse_decimal(text.substr(slash + 1), policy::address_bits(*base));
  if (!bits || policy::masked(*base, static_cast<unsigned>(*bits)) != *base) {
    return std::nullopt;
  }
  return policy::AddressBlock{*base, static_cast<std::uint8_t>(*bits)};
}

bool is_dns_server(std::string_view text) {
  return IpAddress::parse(text).has_value() || parse_listen(text).has_value();
}

/// The name as a target spells it, or nullopt.
std::optional<std::string> canonical_name(const std::string& name) {
  const auto target = EgressTarget::from_authority(name + ":443");
  if (!target || target->address()) {
    return std::nullopt;
  }
  return target->host();
}

std::map<std::string, IpAddress> read_hosts(json::Reader& reader) {
  std::map<std::string, IpAddress> out;
  const auto hosts =
      reader.optional_string_map("hosts", kMaxHosts, kMaxFileBytes, kMaxAddressBytes);
  if (!hosts) {
    return out;
  }
  for (const auto& [name, text] : *hosts) {
    const auto canonical = canonical_name(name);
    const auto address = IpAddress::parse(text);
    if (!canonical || !address) {
      reader.refuse("hosts", quoted(name) +
                                 " is no name with an address, such as "
                                 "`packages.example.org`: `192.0.2.7`");
      return out;
    }
    out[*canonical] = *address;
  }
  return out;
}

/// The counts of `limits.h`, where the file names them.
Limits read_limits(json::Reader& reader) {
  constexpr std::int64_t kMost = 65'536;
  constexpr std::int64_t kMostLookups = 1'000'000;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 52;
  Limits limits;
  const auto read = [&](const char* name, std::int64_t most, auto& limit) {
    limit = static_cast<std::remove_reference_t<decltype(limit)>>(
        reader.optional_int(name, 1, most).value_or(static_cast<std::int64_t>(limit)));
  };
  read("max_connections", kMost, limits.max_connections);
  read("max_upstreams", kMost, limits.max_upstreams);
  read("max_lookups_per_minute", kMostLookups, limits.max_lookups_per_minute);
  limits.max_bytes =
      static_cast<std::uint64_t>(reader.optional_int("max_bytes", 0, kMostBytes).value_or(0));
  return limits;
}

/// Errors: kNotFound when there is none; kTooLarge.
Result<std::string> read_file(const std::string& path) {
  const io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    return io::error_from_errno(("open " + quoted(path)).c_str(), errno);
  }
  std::string text;
  std::array<char, 16 * 1024> buffer{};
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return io::error_from_errno(("read " + quoted(path)).c_str(), errno);
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return Error{ErrorCode::kTooLarge, quoted(path) + " is larger than 256 KiB"};
}

}  // namespace

Result<Config> parse_config(std::string_view json) {
  const auto value = json::parse(json, {.max_bytes = kMaxFileBytes});
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  const auto listen_text = reader.required_string("listen", kMaxAddressBytes);
  const auto dns_text = reader.optional_string("dns_listen", kMaxAddressBytes);
  // One past the policy's own limits, so that the policy's words are the ones that are read.
  const auto domains = reader.optional_strings("allowed_domains", EgressPolicy::kMaxDomains + 1,
                                               EgressPolicy::kMaxEntryBytes + 1);
  const auto networks = reader.optional_strings("allowed_networks", EgressPolicy::kMaxNetworks + 1,
                                                EgressPolicy::kMaxEntryBytes + 1);
  const auto servers = reader.optional_strings("dns_servers", kMaxDnsServers, kMaxAddressBytes);
  const auto lent = reader.optional_strings("lent", kMaxLent, kMaxLentBytes);
  const bool strict_tls = reader.optional_bool("strict_tls").value_or(false);
  const auto refused =
      reader.optional_strings("refused_networks", kMaxRefusedNetworks, kMaxAddressBytes);
  auto hosts = read_hosts(reader);
  const Limits limits = read_limits(reader);
  auto hash = reader.required_string("policy_hash", kMaxHashBytes);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  const auto fail = [](const char* field, std::string message) {
    return Error{ErrorCode::kInvalidArgument, std::move(message), {}, field};
  };
  if (!domains) {
    return fail("allowed_domains", "is missing; write `[]` to allow nothing");
  }
  const auto listen = parse_listen(listen_text);
  if (!listen) {
    return fail("listen", quoted(listen_text) + " is no `address:port`");
  }
  const auto dns_listen = dns_text ? parse_listen(*dns_text) : std::nullopt;
  if (dns_text && !dns_listen) {
    return fail("dns_listen", quoted(*dns_text) + " is no `address:port`");
  }
  for (const std::string& server : servers.value_or(std::vector<std::string>{})) {
    if (!is_dns_server(server)) {
      return fail("dns_servers", quoted(server) + " is no `address` or `address:port`");
    }
  }
  for (const std::string& destination : lent.value_or(std::vector<std::string>{})) {
    const auto target = EgressTarget::from_authority(destination);
    if (!target || target->to_string() != destination) {
      return fail("lent", quoted(destination) + " is no `host:port`");
    }
  }
  std::vector<policy::AddressBlock> blocks;
  for (const std::string& text : refused.value_or(std::vector<std::string>{})) {
    const auto block = parse_block(text);
    if (!block) {
      return fail("refused_networks", quoted(text) + " is no network, such as `10.231.0.0/16`");
    }
    blocks.push_back(*block);
  }
  auto policy = EgressPolicy::create(*domains, networks.value_or(std::vector<std::string>{}));
  if (!policy) {
    return policy.error();
  }
  return Config{.listen = *listen,
                .dns_listen = dns_listen,
                .policy = strict_tls ? policy->with_strict_tls() : *std::move(policy),
                .dns_servers = servers.value_or(std::vector<std::string>{}),
                .hosts = std::move(hosts),
                .lent = lent.value_or(std::vector<std::string>{}),
                .policy_hash = std::move(hash),
                .refused_networks = std::move(blocks),
                .limits = limits};
}

Result<NarrowedPolicy> parse_narrowed(std::string_view json) {
  const auto value = json::parse(json, {.max_bytes = kMaxFileBytes});
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  const auto hash = reader.required_string("policy_hash", kMaxHashBytes);
  if (value->as_object() == nullptr || !reader.ok()) {
    return reader.finish().error();
  }
  json::Object policy;
  for (const auto& [name, member] : *value->as_object()) {
    if (name != "policy_hash") {
      policy.emplace_back(name, member);
    }
  }
  auto egress = wire::egress_from_json(json::Value(std::move(policy)), "");
  if (!egress) {
    return egress.error();
  }
  return NarrowedPolicy{*egress->policy(), hash};
}

std::string write_narrowed(const NarrowedPolicy& narrowed) {
  const json::Value policy = wire::egress_to_json(Egress::walled(narrowed.policy));
  json::Object out = *policy.as_object();
  out.emplace_back("policy_hash", narrowed.policy_hash);
  return json::dump(json::Value(std::move(out)));
}

Status check_narrows(const EgressPolicy& policy, const EgressPolicy& in_force) {
  const std::vector<std::string> beyond = policy.beyond(in_force);
  if (beyond.empty()) {
    return {};
  }
  return Error{ErrorCode::kConflict,
               quoted(beyond.front()) + " (and " + std::to_string(beyond.size() - 1) +
                   " more) is not covered by the policy in force",
               "policy_widens", "allowed_domains"};
}

Result<Config> load_config(const std::string& path) {
  const auto text = read_file(path);
  auto config = text ? parse_config(*text) : Result<Config>(text.error());
  if (!config) {
    return config;
  }
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const auto narrowed_text = read_file(folder + kNarrowedFile);
  if (!narrowed_text && narrowed_text.error().code == ErrorCode::kNotFound) {
    return config;
  }
  auto narrowed = narrowed_text ? parse_narrowed(*narrowed_text)
                                : Result<NarrowedPolicy>(narrowed_text.error());
  if (!narrowed) {
    return narrowed.error();
  }
  if (auto narrows = check_narrows(narrowed->policy, config->policy); !narrows) {
    return narrows.error();
  }
  config->policy = std::move(narrowed->policy);
  config->policy_hash = std::move(narrowed->policy_hash);
  return config;
}

}  // namespace sandboxkit::egress
