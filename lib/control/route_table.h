#pragma once

#include "policy/access.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sandboxkit::control {

/// One route of the native API. The table is the whole surface: handlers, the OpenAPI document and
/// the tests are checked against it.
struct Route {
  const char* method;
  const char* pattern;  ///< `{name}` stands for one segment.
  policy::Action action;
  /// Query parameters that it takes, separated by blanks; any other is refused by name.
  const char* query = "";
  /// Served in the event loop (gateway and tunnels), not on the API's threads.
  bool stream = false;
};

std::span<const Route> routes();

/// Routes that need no credential: health and the API's own description.
inline constexpr std::string_view kOpenRoutes[] = {"GET /healthz", "GET /openapi.json"};

/// A stream route that a path matched, whatever the method.
struct StreamMatch {
  enum class Kind : std::uint8_t { kExec, kFiles, kRpc, kTcp, kDenied, kTunnel };
  Kind kind = Kind::kTunnel;
  std::string sandbox{};     ///< Id or name.
  std::string guest_path{};  ///< `/exec`, `/files`, `/process.Process/Start`; empty for tcp.
  std::uint16_t port = 0;
  std::string allow{};  ///< Methods of that path, for the `Allow` field.
};

/// nullopt: no stream route has that path. Only guest paths that are named here are ever passed on.
std::optional<StreamMatch> match_stream(std::string_view path);

/// The first query parameter outside of `allowed` (names separated by blanks), or nullptr.
template <typename Query>
const std::string* first_unknown(const Query& query, std::string_view allowed);

bool has_word(std::string_view words, std::string_view word);

template <typename Query>
const std::string* first_unknown(const Query& query, std::string_view allowed) {
  for (const auto& [name, value] : query) {
    if (!has_word(allowed, name)) {
      return &name;
    }
  }
  return nullptr;
}

}  // namespace sandboxkit::control
