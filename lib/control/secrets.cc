#include "control/secrets.h"

#include "base/random.h"
#include "store/credentials.h"
#include "wire/messages.h"

#include <utility>

namespace sandboxkit::control {
namespace {

/// Whose value it is: a sealed text does not open in another row.
std::string context_of(const store::SandboxRow& row, const std::string& name) {
  return row.tenant + "\n" + row.id + "\n" + name;
}

Error unavailable() {
  return Error{ErrorCode::kConflict, "the secrets of this sandbox do not open",
               kSecretsUnavailable};
}

}  // namespace

Result<store::SecretRow> seal_secret(const store::SandboxRow& row, const LentSecret& lent,
                                     const store::SecretsKey& key) {
  auto sealed = key.seal(lent.value, context_of(row, lent.name), system_random());
  if (!sealed) {
    return sealed.error();
  }
  store::SecretRow out{row.id,   lent.name,         lent.domain, name_of(lent.place),
                       lent.key, std::move(*sealed)};
  if (lent.expires_at != WallTime{}) {
    out.expires = lent.expires_at;
  }
  return out;
}

Status insert_secrets(store::Tx& tx, const store::SandboxRow& row,
                      const std::vector<LentSecret>& secrets, const store::SecretsKey& key) {
  for (const LentSecret& lent : secrets) {
    auto sealed = seal_secret(row, lent, key);
    if (!sealed) {
      return sealed.error();
    }
    if (auto written = tx.insert(*sealed); !written) {
      return written;
    }
  }
  return {};
}

LentSecret secret_of(const store::SecretRow& row) {
  LentSecret lent{.name = row.name, .domain = row.domain};
  for (const auto place : {SecretPlace::kHeader, SecretPlace::kBasic, SecretPlace::kQuery}) {
    if (row.place == name_of(place)) {
      lent.place = place;
    }
  }
  lent.key = row.key;
  lent.expires_at = row.expires.value_or(WallTime{});
  return lent;
}

Result<std::vector<LentSecret>> open_secrets(store::Tx& tx, const store::SandboxRow& row,
                                             const store::SecretsKey* key) {
  auto rows = tx.secrets(row.id);
  if (!rows) {
    return rows.error();
  }
  std::vector<LentSecret> secrets;
  for (const store::SecretRow& each : *rows) {
    auto value = key != nullptr ? key->open(each.sealed, context_of(row, each.name))
                                : Result<std::string>(unavailable());
    if (!value) {
      return unavailable();
    }
    secrets.push_back(secret_of(each));
    secrets.back().value = std::move(*value);
  }
  return secrets;
}

std::string request_digest(const json::Value& body, const store::SecretsKey* key) {
  // A plain hash of a body with a secret in it could be tried out by who reads the store.
  const std::string text = json::dump(body);
  const bool plain = body.find("secrets") == nullptr || key == nullptr;
  return plain ? store::sha256_hex(text) : key->digest(text);
}

Result<EgressPolicy> stored_policy(const std::string& text) {
  const auto value = json::parse(text);
  auto egress = value ? wire::egress_from_json(*value, "egress") : Result<Egress>(value.error());
  if (!egress || !egress->is_walled()) {
    return Error{ErrorCode::kInternal, "a stored policy cannot be read"};
  }
  return *egress->policy();
}

}  // namespace sandboxkit::control
