#pragma once

#include "base/guarded.h"
#include "control/call_limits.h"
#include "control/context.h"
#include "net/api_server.h"
#include "policy/access.h"
#include "wire/http.h"
#include "wire/trace.h"

#include <cstdint>
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
  std::string sandbox{};  ///< Role sandbox: the only one that it opens.
  wire::Trace trace{};    ///< Of the call: goes into audit rows, orders and events.
  /// wk: whether it may have another one. `kOnly`: it is past its end and within the renewal
  /// window; it may ask for another one and do nothing else.
  enum class Renewal : std::uint8_t { kNone, kDue, kOnly };
  Renewal renewal = Renewal::kNone;
};

/// Who calls, or the answer that refuses the call.
using Admission = std::variant<Caller, net::ApiResponse>;

/// Whether a worker's credential that is past its end still counts, for the one route that can
/// renew it.
enum class Lateness : std::uint8_t { kRefused, kMayRenew };

class AuditKeeper;

/// Turns a request's credential into a caller.
///
/// Malformed credentials are refused without a look-up; revocation and expiry count at once, as
/// nothing is cached. Thread-safety: any thread. Blocking: one read of the store.
class Authenticator {
 public:
  Authenticator(Context& context, AuditKeeper& audit)
      : context_(context), audit_(audit), limits_(context.config) {}

  /// Refusals: 401 `unauthenticated`, one text for unknown, expired and revoked; 429 `rate_limited`
  /// with the setting's name; 503 `store_unavailable`.
  Admission admit(const wire::Headers& headers, const std::string& address,
                  Lateness lateness = Lateness::kRefused);

 private:
  Result<Caller> look_up(const std::string& text, Caller caller, Lateness lateness);
  /// Whether the row counts now; sets what of the caller depends on it.
  bool counts(const store::CredentialRow& row, Lateness lateness, Caller& caller);
  void note_first_use(const Caller& caller, WallTime now);
  void note_use(const store::CredentialRow& row, WallTime now);

  Context& context_;
  AuditKeeper& audit_;
  Limits limits_;
  /// When a use was last written down, so that one credential costs one write a minute.
  Guarded<std::unordered_map<std::string, WallTime>> noted_;
};

/// The text after `Bearer`, or of `X-API-Key`; empty when there is none or more than one.
std::string credential_text(const wire::Headers& headers);

}  // namespace sandboxkit::control
