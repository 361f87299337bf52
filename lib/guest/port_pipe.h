#pragma once

#include "io/event_loop.h"
#include "io/http_server.h"

#include <memory>

namespace sandboxkit::guest {

/// CONNECT `127.0.0.1:port` or `[::1]:port`: a byte pipe to a port inside. Nothing else can be
/// reached: the way out of a sandbox is the wall's business. Refusals: 403 for another host, 502
/// `port_closed` when nobody listens.
void serve_connect(io::EventLoop& loop, const std::shared_ptr<io::HttpExchange>& exchange);

}  // namespace sandboxkit::guest
