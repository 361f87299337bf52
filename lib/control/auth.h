#pragma once

#include "base/guarded.h"
#include "control/call_limits.h"
#include "control/context.h"
#include "net/api_server.h"
#include "policy/access.h"
#include "wire/http.h"
#include "wire/trace.h"

#include <string>
#include <unordered_map>
#include <variant>

namespace sandboxkit::control {

/// Who calls. Made by `Authenticator` alone: a tenant never comes from a request.
struct Caller {
  policy::Role role = policy::Role::kNobody;
  std::string tenant{};      ///< "" for operator, unscoped workers and their tokens.
  std::string credential{};  ///< Public part.
  std::string worker{};      ///< wk: its worker. jn: the only name that may join.
  std::string address{};
  wire::Trace trace{};  ///< Of the call: goes into audit rows, orders and events.
};

/// Who calls, or the answer that refuses the call.
using Admission = std::variant<Caller, net::ApiResponse>;

/// Turns a request's credential into a caller.
///
/// Malformed credentials are refused without a look-up; revocation and expiry count at once, as
/// nothing is cached. Thread-safety: any thread. Blocking: one read of the store.
class Authenticator {
 public:
  explicit Authenticator(Context& context) : context_(context), limits_(context.config) {}

  /// Refusals: 401 `unauthenticated`, one text for unknown, expired and revoked; 429 `rate_limited`
  /// with the setting's name; 503 `store_unavailable`.
  Admission admit(const wire::Headers& headers, const std::string& address);

 private:
  Result<Caller> look_up(const std::string& text, const std::string& address);
  void note_use(const store::CredentialRow& row, WallTime now);

  Context& context_;
  Limits limits_;
  /// When a use was last written down, so that one credential costs one write a minute.
  Guarded<std::unordered_map<std::string, WallTime>> noted_;
};

/// The text after `Bearer`, or of `X-API-Key`; empty when there is none or more than one.
std::string credential_text(const wire::Headers& headers);

}  // namespace sandboxkit::control
