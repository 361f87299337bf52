#pragma once

#include "guest/settings.h"
#include "io/event_loop.h"
#include "io/http_server.h"
#include "wire/http.h"

#include <memory>

namespace sandboxkit::guest {

/// `/files?path=&username=`: GET, POST, PUT, DELETE. With an access token set a request shows it,
/// or carries a signature made with it.
///
/// Files are reached with the guest's own rights, as envd does: whoever may call us owns the
/// sandbox. Source: design of the E2B surface, 4.1 and 4.5.
void serve_files(io::EventLoop& loop, Settings& settings,
                 const std::shared_ptr<io::HttpExchange>& exchange, const wire::Target& target);

struct Signed {
  std::string path;       ///< As in the query.
  std::string operation;  ///< `read` or `write`.
  std::string user;
  std::optional<std::string> expiration;  ///< Unix seconds.
};
/// `v1_` and the digest of `path:operation:user:token[:expiration]`.
std::string file_signature(const Signed& what, std::string_view token);

}  // namespace sandboxkit::guest
