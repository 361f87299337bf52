#pragma once

#include "io/event_loop.h"
#include "io/http_server.h"

#include <memory>
#include <string>

namespace sandboxkit::guest {

/// Streams a regular file with back-pressure; honours one Range. A file whose size says 0 is read
/// to its end, because procfs does not know its sizes. FIFOs and devices are refused unread.
/// Source: design of the E2B surface, 4.5.
void serve_download(io::EventLoop& loop, const std::shared_ptr<io::HttpExchange>& exchange,
                    const std::string& path);

}  // namespace sandboxkit::guest
