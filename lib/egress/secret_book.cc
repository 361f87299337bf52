#include "egress/secret_book.h"

#include "base/text.h"
#include "json/reader.h"
#include "wire/messages.h"

#include <algorithm>
#include <set>
#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kForbidden = 403;
constexpr int kUnavailable = 503;
constexpr std::size_t kMaxPemBytes = 16 * 1024;
constexpr std::string_view kPlainPort = ":80";

bool is_plain(std::string_view destination) { return destination.ends_with(kPlainPort); }

CertifiedKey read_authority(json::Reader& reader) {
  const json::Value* value = reader.member("authority");
  if (value == nullptr) {
    reader.refuse("authority", "is missing");
    return {};
  }
  json::Reader inner(*value, reader.path_of("authority"));
  CertifiedKey authority{inner.required_string("certificate", kMaxPemBytes),
                         SecretText(inner.required_string("key", kMaxPemBytes))};
  if (auto status = inner.finish(); !status) {
    reader.refuse(status.error());
  }
  return authority;
}

Refusal unavailable(const EgressTarget& target) {
  return {kUnavailable, "secret_unavailable",
          "The secret for " + quoted(target.to_string()) +
              " is not here yet; nothing is sent there without it. Try again soon."};
}

Refusal expired(const EgressTarget& target, const PlacedSecret& secret) {
  return {kForbidden, "secret_expired",
          "The secret " + quoted(secret.name) + ", lent for " + quoted(target.to_string()) +
              ", has expired. Its owner can renew it."};
}

Refusal needs_tls(const EgressTarget& target) {
  return {kForbidden, "secret_needs_tls",
          "A secret is lent for " + quoted(target.host()) +
              " over TLS alone: use `https://`. This is the sandbox's egress policy."};
}

}  // namespace

SecretOrder::~SecretOrder() {
  for (LentSecret& secret : secrets) {
    wipe(secret.value);
  }
}

Result<SecretOrder> parse_secret_order(std::string_view json) {
  const auto value = json::parse(json, {.max_bytes = SecretOrder::kMaxBytes});
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  SecretOrder order;
  order.authority = read_authority(reader);
  order.roots = reader.required_string("roots", SecretOrder::kMaxRootsBytes);
  const json::Value* list = reader.member("secrets");
  if (list == nullptr) {
    reader.refuse("secrets", "is missing");
  }
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  auto secrets = wire::lent_secrets_from_json(*list, "secrets");
  if (!secrets) {
    return secrets.error();
  }
  order.secrets = *std::move(secrets);
  return order;
}

std::string write_secret_order(const SecretOrder& order) {
  return json::dump(json::Object{
      {"secrets", wire::lent_secrets_to_json(order.secrets)},
      {"authority", json::Object{{"certificate", order.authority.certificate},
                                 {"key", order.authority.key.view()}}},
      {"roots", order.roots},
  });
}

std::string lent_to(const LentSecret& lent) {
  return lent.domain + (lent.domain.find(':') == std::string::npos ? ":443" : "");
}

SecretBook::SecretBook(std::vector<std::string> destinations)
    : destinations_(std::move(destinations)) {}

bool SecretBook::ends_tls(const EgressTarget& target) const {
  const auto is_target = [&](const std::string& destination) {
    return !is_plain(destination) && destination == target.to_string();
  };
  return !destinations_.empty() && std::ranges::any_of(destinations_, is_target);
}

bool SecretBook::lends_to_host(const std::string& host) const {
  return std::ranges::any_of(destinations_, [&](const std::string& destination) {
    return std::string_view(destination).substr(0, destination.rfind(':')) == host;
  });
}

Status SecretBook::put(SecretOrder order) {
  std::map<std::string, Lent> lent;
  std::map<std::string, std::shared_ptr<SecretMask>> masks;
  for (const LentSecret& secret : order.secrets) {
    const std::string destination = lent_to(secret);
    if (std::ranges::find(destinations_, destination) == destinations_.end()) {
      return Error{ErrorCode::kConflict, "the policy file lends nothing to " + quoted(destination),
                   "not_lent"};
    }
    lent[destination].secrets.push_back(place(secret));
    auto& mask = masks[destination];
    mask = mask ? mask : std::make_shared<SecretMask>();
    mask->add(secret);
  }
  for (auto& [destination, entry] : lent) {
    entry.mask = masks[destination];
    if (is_plain(destination)) {
      continue;
    }
    const auto leaf = issue_leaf(order.authority, destination.substr(0, destination.rfind(':')));
    auto server = leaf ? TlsContext::for_server(*leaf) : Result<TlsContext>(leaf.error());
    if (!server) {
      return server.error();
    }
    entry.server = *std::move(server);
  }
  auto upstream = TlsContext::for_client(order.roots);
  if (!upstream) {
    return upstream.error();
  }
  upstream_ = *std::move(upstream);
  lent_ = std::move(lent);
  return {};
}

std::variant<const SecretBook::Lent*, Refusal> SecretBook::find(const EgressTarget& target,
                                                                WallTime now) const {
  const std::string destination = target.to_string();
  const bool known = std::ranges::find(destinations_, destination) != destinations_.end();
  const bool plain = target.scheme() == EgressScheme::kHttp;
  if (!known || plain != is_plain(destination)) {
    return needs_tls(target);
  }
  const auto found = lent_.find(destination);
  if (found == lent_.end()) {
    return unavailable(target);
  }
  for (const PlacedSecret& placed : found->second.secrets) {
    if (placed.expires_at != WallTime{} && placed.expires_at <= now) {
      return expired(target, placed);
    }
  }
  return &found->second;
}

Result<TlsSession> SecretBook::connect(const std::string& host) const {
  if (!upstream_) {
    return Error{ErrorCode::kUnavailable, "no roots are known yet", "secret_unavailable"};
  }
  return upstream_->connect(host);
}

void SecretBook::count(const Lent& lent, WallTime now) {
  for (const PlacedSecret& secret : lent.secrets) {
    Uses& uses = uses_[secret.name];
    ++uses.count;
    uses.last = now;
  }
}

json::Value SecretBook::uses() const {
  if (destinations_.empty()) {
    return {};
  }
  std::set<std::string> names;
  for (const auto& [destination, entry] : lent_) {
    for (const PlacedSecret& secret : entry.secrets) {
      names.insert(secret.name);
    }
  }
  for (const auto& [name, uses] : uses_) {
    names.insert(name);
  }
  json::Array rows;
  for (const std::string& name : names) {
    const auto found = uses_.find(name);
    const Uses uses = found == uses_.end() ? Uses{} : found->second;
    rows.emplace_back(json::Object{
        {"name", name},
        {"uses", static_cast<std::int64_t>(uses.count)},
        {"last", uses.count == 0 ? json::Value() : json::Value(to_rfc3339(uses.last))}});
  }
  return rows;
}

}  // namespace sandboxkit::egress
