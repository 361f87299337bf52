#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/sandbox_spec.h"

#include "egress/authority.h"
#include "egress/secret_request.h"
#include "egress/tls_context.h"
#include "json/value.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sandboxkit::egress {

/// What the host hands over with `PUT /secrets`: the secrets, the authority that the sandbox trusts
/// for their domains, and the roots that prove the domains' real servers.
struct SecretOrder {
  static constexpr std::size_t kMaxBytes = 2 << 20;
  static constexpr std::size_t kMaxRootsBytes = 1 << 20;

  std::vector<LentSecret> secrets;
  CertifiedKey authority;
  std::string roots;

  SecretOrder() = default;
  SecretOrder(SecretOrder&&) = default;
  SecretOrder& operator=(SecretOrder&&) = default;
  SecretOrder(const SecretOrder&) = delete;
  SecretOrder& operator=(const SecretOrder&) = delete;
  ~SecretOrder();  ///< Overwrites the values.
};

/// `{"secrets": [...], "authority": {"certificate", "key"}, "roots"}`; no error holds a value.
/// Errors: kInvalidArgument with the field's path, `unknown_field`, `invalid_json`; kTooLarge.
Result<SecretOrder> parse_secret_order(std::string_view json);
std::string write_secret_order(const SecretOrder& order);

/// `host:port` of a secret's domain, as a target spells it.
std::string lent_to(const LentSecret& lent);

/// The secrets of one proxy, in memory alone. Which destinations have some stands in the sealed
/// policy file; their values come over the host's connection, and until then the destinations are
/// shut. Without a lent destination nothing of OpenSSL is touched.
/// Thread-safety: the loop's thread.
class SecretBook {
 public:
  /// What one destination gets. Valid until the next `put`.
  struct Lent {
    std::vector<PlacedSecret> secrets{};
    std::shared_ptr<const SecretMask> mask{};  // Shared with answers that are under way.
    std::optional<TlsContext> server{};        ///< None for plain HTTP.
  };

  /// `destinations` as `lent_to` writes them.
  explicit SecretBook(std::vector<std::string> destinations);

  /// Whether a CONNECT to the target ends in this proxy.
  bool ends_tls(const EgressTarget& target) const;
  /// Whether a plain request to that host needs a look: some port of it has a secret.
  bool lends_to_host(const std::string& host) const;

  /// Takes new values in place of all old ones. All or nothing.
  /// Errors: kConflict `not_lent` for a destination that the policy file does not name;
  /// kInvalidArgument for an authority or roots that cannot be used.
  Status put(SecretOrder order);

  /// What to add for the destination now; or why it is shut: 503 `secret_unavailable` before any
  /// values came, 403 `secret_expired`, 403 `secret_needs_tls` for plain HTTP to a host that has
  /// secrets for TLS alone.
  std::variant<const Lent*, Refusal> find(const EgressTarget& target, WallTime now) const;
  /// A session with the real server of `host`. Errors: kUnavailable before `put`; kInternal.
  Result<TlsSession> connect(const std::string& host) const;

  /// One request left with these secrets.
  void count(const Lent& lent, WallTime now);
  /// `[{"name", "uses", "last"}]`; null when nothing was lent.
  json::Value uses() const;

 private:
  struct Uses {
    std::uint64_t count = 0;
    WallTime last{};
  };
  std::vector<std::string> destinations_;
  std::map<std::string, Lent> lent_;
  std::optional<TlsContext> upstream_;
  std::map<std::string, Uses> uses_;
};

}  // namespace sandboxkit::egress
