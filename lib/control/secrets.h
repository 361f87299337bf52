#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/sandbox_spec.h"

#include "json/value.h"
#include "store/secrets_key.h"
#include "store/store.h"

#include <string>
#include <vector>

namespace sandboxkit::control {

/// Refusal: this controller cannot keep secrets, or cannot open those that it has.
inline constexpr const char* kSecretsUnavailable = "secrets_unavailable";

/// Seals the secrets of a sandbox that is created into rows of their own.
Status insert_secrets(store::Tx& tx, const store::SandboxRow& row,
                      const std::vector<LentSecret>& secrets, const store::SecretsKey& key);

/// What a sandbox was lent, values too: for its worker alone. Nothing without secrets, whatever the
/// key. Errors: kConflict `secrets_unavailable` when they do not open; the store's.
Result<std::vector<LentSecret>> open_secrets(store::Tx& tx, const store::SandboxRow& row,
                                             const store::SecretsKey* key);

/// A row with a new value and end.
Result<store::SecretRow> seal_secret(const store::SandboxRow& row, const LentSecret& lent,
                                     const store::SecretsKey& key);

/// A row without its value, which stays sealed.
LentSecret secret_of(const store::SecretRow& row);

/// The request's body in a form that tells equal ones apart from others without holding a value:
/// what the idempotency key remembers.
std::string request_digest(const json::Value& body, const store::SecretsKey* key);

/// The policy in a row's text. Errors: kInternal: it is not one that we wrote.
Result<EgressPolicy> stored_policy(const std::string& text);

}  // namespace sandboxkit::control
