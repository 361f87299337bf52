#pragma once

#include "io/event_loop.h"
#include "io/socket.h"
#include "wire/http.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::io {

/// One HTTP/1.1 request over a connected descriptor, on the loop's thread. The peer is untrusted:
/// heads and bodies are read strictly and with limits.
class HttpClientCall : public std::enable_shared_from_this<HttpClientCall> {
 public:
  struct Handlers {
    std::function<void(const wire::ResponseHead&)> on_head{};
    std::function<void(std::string_view)> on_data{};
    /// The answer is complete. When the connection can serve another request it is handed back,
    /// else the Fd is empty.
    std::function<void(Fd reusable)> on_end{};
    /// Before the end: broken answer, connection lost. Comes instead of on_end.
    std::function<void(const Error&)> on_error{};
    /// The request's body may be fed again.
    std::function<void()> on_drain{};
  };

  /// Sends the head (its framing fields must match the body that follows). For CONNECT and upgrades
  /// a 200/101 answer calls `on_head`, after which `take_socket` hands the connection over.
  static std::shared_ptr<HttpClientCall> start(EventLoop& loop, Fd connection,
                                               const wire::RequestHead& head, Handlers handlers);
  virtual ~HttpClientCall() = default;

  /// Body bytes as payload; they are framed as the head said (length or chunked).
  virtual void write_body(std::string_view payload) = 0;
  virtual void end_body() = 0;
  virtual std::size_t queued_bytes() const = 0;
  virtual void pause() = 0;  ///< Stops reading the answer.
  virtual void resume() = 0;
  /// Drops the connection; no callback comes any more.
  virtual void cancel() = 0;
  /// After a 101 or a CONNECT's 200: the raw connection, and what came after the head.
  virtual std::shared_ptr<Socket> take_socket(std::string& early) = 0;
};

}  // namespace sandboxkit::io
