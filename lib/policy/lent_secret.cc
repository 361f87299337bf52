#include "policy/lent_secret.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace sandboxkit {
namespace {

// A message frames itself by these, and a proxy speaks for itself in the others.
constexpr std::array<std::string_view, 10> kProxyHeaders = {
    "connection",     "content-length",    "expect", "host",
    "http2-settings", "keep-alive",        "te",     "trailer",
    "upgrade",        "transfer-encoding",
};

Error invalid(std::string field, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), {}, std::move(field)};
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_variable(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

bool is_token(std::string_view text, std::string_view punctuation) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || is_digit(c) || punctuation.find(c) != std::string_view::npos;
  });
}

/// How a client of the domain asks the proxy: port 80 is plain HTTP, any other one a CONNECT.
Result<EgressTarget> target_of(std::string_view domain) {
  const bool has_port = domain.find(':') != std::string_view::npos;
  auto target = EgressTarget::from_authority(std::string(domain) + (has_port ? "" : ":443"));
  if (target && target->port() == 80) {
    return EgressTarget::from_http_uri("http://" + target->host() + "/");
  }
  return target;
}

Status check_domain(const LentSecret& lent) {
  const auto target = target_of(lent.domain);
  if (!target) {
    return invalid("domain", target.error().message);
  }
  if (target->address()) {
    return invalid("domain", quoted(lent.domain) + " is an address; a secret is lent to a name");
  }
  const std::string_view host = std::string_view(lent.domain).substr(0, target->host().size());
  const std::string_view rest = std::string_view(lent.domain).substr(host.size());
  if (host != target->host() || !(rest.empty() || rest.front() == ':')) {
    return invalid("domain", quoted(lent.domain) + " must be written as " + quoted(target->host()) +
                                 ", with a port at most");
  }
  if (rest == ":443") {
    return invalid("domain", "port 443 needs not be written: " + quoted(target->host()));
  }
  return {};
}

Status check_key(const LentSecret& lent) {
  if (lent.key.size() > LentSecret::kMaxKeyBytes) {
    return invalid(name_of(lent.place), "must be at most 128 bytes");
  }
  switch (lent.place) {
    case SecretPlace::kBasic:
      return lent.key.empty() ? Status() : invalid("basic", "has no key");
    case SecretPlace::kQuery:
      return is_token(lent.key, "._~-")
                 ? Status()
                 : invalid("query",
                           quoted(lent.key) + " must be letters, digits, `.`, `_`, `~` or `-`");
    case SecretPlace::kHeader:
      break;
  }
  const std::string lower = ascii_lower(lent.key);
  if (!is_token(lent.key, "!#$%&'*+-.^_`|~")) {
    return invalid("header", quoted(lent.key) + " is no name of a header");
  }
  if (std::ranges::find(kProxyHeaders, lower) != kProxyHeaders.end() ||
      lower.starts_with("proxy-")) {
    return invalid("header", quoted(lent.key) + " is not lent: the proxy or the client sets it");
  }
  return {};
}

/// Its messages are about the value and never hold it.
Status check_value(const LentSecret& lent) {
  const std::string& value = lent.value;
  if (value.empty() || value.size() > LentSecret::kMaxValueBytes) {
    return invalid("value_from.value", "must be 1 to 4096 bytes");
  }
  if (!is_utf8(value) || has_control_characters(value)) {
    return invalid("value_from.value", "must be UTF-8 without control characters");
  }
  if (lent.place != SecretPlace::kQuery && (value.front() == ' ' || value.back() == ' ')) {
    return invalid("value_from.value", "must not begin or end with a space");
  }
  if (lent.place == SecretPlace::kBasic && value.find(':') == std::string::npos) {
    return invalid("value_from.value", "must be `user:password` for `basic`");
  }
  return {};
}

/// Two secrets of one slot would overwrite each other.
std::string slot_of(const LentSecret& lent) {
  const bool is_query = lent.place == SecretPlace::kQuery;
  const std::string key = is_query                            ? lent.key
                          : lent.place == SecretPlace::kBasic ? "authorization"
                                                              : ascii_lower(lent.key);
  return lent.domain + (is_query ? " query " : " header ") + key;
}

}  // namespace

const char* name_of(SecretPlace place) {
  switch (place) {
    case SecretPlace::kHeader:
      return "header";
    case SecretPlace::kBasic:
      return "basic";
    case SecretPlace::kQuery:
      return "query";
  }
  return "unknown";
}

Status validate(const LentSecret& lent) {
  if (lent.name.size() > LentSecret::kMaxNameBytes || !is_variable(lent.name)) {
    return invalid("name", "name " + quoted(lent.name) +
                               " must be 1 to 64 letters, digits or `_`, the first one no digit");
  }
  for (const auto check : {check_domain, check_key, check_value}) {
    if (auto status = check(lent); !status) {
      return status;
    }
  }
  if (lent.expires_at < WallTime{}) {
    return invalid("expires_at", "must be a time after 1970");
  }
  return {};
}

namespace policy {

Status check_secrets(const SandboxSpec& spec) {
  if (spec.secrets.empty()) {
    return {};
  }
  if (!spec.egress.is_walled()) {
    return invalid("secrets", "secrets are lent through the wall: give `egress` a policy");
  }
  if (spec.secrets.size() > SandboxSpec::kMaxSecrets) {
    return invalid("secrets", "secrets must be at most 16");
  }
  std::set<std::string> taken;
  for (std::size_t i = 0; i < spec.secrets.size(); ++i) {
    const LentSecret& lent = spec.secrets[i];
    const std::string path = "secrets[" + std::to_string(i) + "]";
    if (auto status = validate(lent); !status) {
      return invalid(path + "." + status.error().field, status.error().message);
    }
    if (!spec.egress.policy()->decide(*target_of(lent.domain)).allowed) {
      return invalid(path + ".domain",
                     "domain " + quoted(lent.domain) + " is not allowed by `egress`; add it there");
    }
    if (spec.env.contains(lent.name) || !taken.insert(lent.name).second) {
      return invalid(path + ".name", "name " + quoted(lent.name) +
                                         " is taken by another secret or a variable of `env`");
    }
    if (!taken.insert(slot_of(lent)).second) {
      return invalid(path, "another secret of " + quoted(lent.domain) + " has the same place");
    }
  }
  return {};
}

}  // namespace policy
}  // namespace sandboxkit
