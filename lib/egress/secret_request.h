#pragma once

#include "sandboxkit/sandbox_spec.h"

#include "egress/forward.h"
#include "egress/secret_text.h"
#include "wire/http.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sandboxkit::egress {

/// Finds secrets in what an upstream says and puts their placeholders there: an answer's fields
/// often repeat the request (a redirect keeps the query). What an upstream writes into a body, or
/// in another spelling, is not found.
class SecretMask {
 public:
  /// Shorter ones are found by chance in texts that mean something else.
  static constexpr std::size_t kMinBytes = 8;

  /// All spellings in which the secret goes out.
  void add(const LentSecret& lent);
  std::string hide_in(std::string text) const;
  wire::ResponseHead hide_in(wire::ResponseHead head) const;

 private:
  std::vector<std::pair<SecretText, std::string>> spellings_;  // and their placeholders
};

/// One secret, ready to be added to a request. Pure data.
struct PlacedSecret {
  std::string name;
  std::string placeholder;  ///< What the sandbox has of it.
  SecretPlace place = SecretPlace::kHeader;
  std::string key;   ///< The field's name, or the parameter's.
  SecretText value;  ///< As it stands in the request.
  WallTime expires_at{};
};

PlacedSecret place(const LentSecret& secret);

/// Plans a request that the sandbox sent inside of its connection to `target`, with the secrets
/// added and whatever it sent in their places removed. Its own target must be in origin form and
/// its Host the very host and port of the connection: a name decided what this connection may
/// carry. Pure. Refusals: 400, 405, and 421 `host_mismatch`.
std::variant<ForwardRequest, Refusal> plan_lent(const wire::RequestHead& head,
                                                const EgressTarget& target,
                                                std::span<const PlacedSecret> secrets);

/// The same for a request that names its target itself (`http://host/path`).
std::variant<ForwardRequest, Refusal> plan_lent_plain(const wire::RequestHead& head,
                                                      std::span<const PlacedSecret> secrets);

}  // namespace sandboxkit::egress
