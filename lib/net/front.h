#pragma once

#include "io/event_loop.h"
#include "io/http_server.h"
#include "net/api_server.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sandboxkit::net {

struct FrontOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t max_connections = 20'000;
  std::size_t max_body_bytes = 1 << 20;
  io::HttpServerOptions http{};
};

/// The one port: keeps every connection in an event loop, gives short calls to the ApiServer once
/// they are whole, and leaves the rest (streams, uploads, gateway, tunnels) to `streams`.
///
/// Past `max_connections` a client is told 503 `overloaded`, likewise when the calls' queue is
/// full. Lifetime: the loop outlives the ApiServer's threads (stop that first), for answers come
/// back over it. Letting go of the front ends no connection: those that stand get 503 for the next
/// request. Thread-safety: made and used on the loop's thread (or before the loop runs); `port` any
/// thread.
class Front {
 public:
  /// Looks at a request's head only. True: it took the exchange and answers it; false: a short
  /// call.
  using StreamHandler =
      std::function<bool(const std::shared_ptr<io::HttpExchange>&, const std::string& remote)>;

  static Result<std::unique_ptr<Front>> listen(io::EventLoop& loop, const FrontOptions& options,
                                               ApiServer& api, StreamHandler streams);
  ~Front();
  std::uint16_t port() const;
  std::size_t connections() const;
  /// Short calls whose answer is still to come.
  std::size_t calls() const;
  /// Stops accepting; connections that stand are left to end.
  void stop_accepting();
  /// As well: each further request of a standing connection is told 503, and ends it.
  void drain();

 private:
  struct Impl;
  explicit Front(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  ///< Answers that are under way in other threads point to it.
};

}  // namespace sandboxkit::net
