#pragma once

#include "guest/settings.h"
#include "io/http_server.h"

#include <memory>
#include <string_view>

namespace sandboxkit::guest {

/// The calls of E2B's `filesystem.Filesystem`: Stat, MakeDir, Move, ListDir, Remove. Watching
/// answers `unimplemented`. Source: design of the E2B surface, 4.4.
void serve_filesystem_rpc(Settings& settings, std::string_view method,
                          const std::shared_ptr<io::HttpExchange>& exchange);

}  // namespace sandboxkit::guest
