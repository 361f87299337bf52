#pragma once

#include "sandboxkit/egress.h"

#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::policy {

/// One question to a policy, as a person asks it (`sandboxkit egress check`).
struct EgressQuestion {
  /// `https://host[:port]/...` (means CONNECT, default port 443), `http://host[:port]/...` (means a
  /// plain request, default port 80) or `host:port` (means CONNECT).
  std::string target;
  /// What the name resolves to, when the asker wants that judged as well.
  std::optional<std::string> resolved{};
  /// The server name of the TLS hello (empty: it has none), judged by the rule of strict TLS.
  std::optional<std::string> tls_server_name{};
};

/// One line of the answer. Made by default it is a refusal.
struct EgressAnswer {
  std::string target{};  ///< `host:port` once it could be read, else as it was asked.
  bool allowed = false;
  std::string rule{};  ///< The entry that decided, as it was written; empty when none matched.
  /// A name of EgressReason, or `bad_target`, `bad_address`.
  std::string reason{};
  std::string message{};  ///< For people: what was wrong with the question; mostly empty.
};

/// The rule of strict TLS, for a target that `allowed` lets through: the server name of the hello
/// is the CONNECT host, but for case and one final dot. A target that is an address has no name
/// that could be equal. Absent and empty are the same.
EgressVerdict judge_server_name(const EgressTarget& target, EgressVerdict allowed,
                                std::string_view server_name);

/// Decides as the proxy would, without resolving anything.
/// Blocking: never. Thread-safety: any thread.
EgressAnswer check_egress(const EgressPolicy& policy, const EgressQuestion& question);

}  // namespace sandboxkit::policy
