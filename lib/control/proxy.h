#pragma once

#include "io/event_loop.h"
#include "io/http_server.h"
#include "net/api_server.h"
#include "net/tunnel.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sandboxkit::control {

/// One exchange of a client, carried over one stream of a worker's tunnel.
struct ProxyOrder {
  std::shared_ptr<net::TunnelClient> tunnel;  // Shared with all that runs on it.
  std::string path;                           ///< On the worker's side.
  std::string sandbox;
  /// Bytes both ways after a 101 (a TCP forward); else a request with its answer.
  bool raw = false;
};

/// Copies a client's request to a worker and its answer back, with back-pressure both ways. Our
/// credentials and all connection-level fields stay here. A stream that breaks after its head cuts
/// the client's connection, so that half an answer never reads as a whole one; a client that goes
/// away resets the stream. `on_over` comes once, at the end.
/// Thread-safety: the loop's thread.
void start_proxy(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
                 const ProxyOrder& order, std::function<void()> on_over);

/// Answers an exchange with an API answer.
void respond(io::HttpExchange& exchange, const net::ApiResponse& response);

}  // namespace sandboxkit::control
