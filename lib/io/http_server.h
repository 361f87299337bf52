#pragma once

#include "io/event_loop.h"
#include "io/socket.h"
#include "wire/http.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::io {

/// Sees every request of a server and its answer, on the loop's thread.
class HttpObserver {
 public:
  virtual ~HttpObserver() = default;
  /// Before the handler: may set fields of the head. Returns the fields that every answer to it
  /// carries, whatever the handler says. A request that cannot be read comes as an empty head.
  virtual wire::Headers on_request(wire::RequestHead& head) = 0;
  /// The answer begins, `taken` after the request's head was whole. Not called when the client was
  /// gone before.
  virtual void on_answer(const wire::RequestHead& head, int status,
                         std::chrono::microseconds taken) = 0;
};

struct HttpServerOptions {
  wire::HeadLimits head{};
  /// A head that is not whole after this long ends the connection (408).
  EventLoop::Duration head_timeout{10'000};
  /// An idle keep-alive connection is closed after this long.
  EventLoop::Duration idle_timeout{75'000};
  /// `collect_body` waits this long for the whole body (408). Streamed bodies have no limit here.
  EventLoop::Duration body_timeout{60'000};
  std::shared_ptr<HttpObserver> observer{};  // Shared with the connections, which live on.
};

/// One request and its answer, on the loop's thread. Kept alive by the connection until the answer
/// is complete; a handler that needs it longer keeps the shared_ptr.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const wire::RequestHead& request() const = 0;

  /// Starts the body's flow: payload in pieces, then `on_end` once. Without a body `on_end` comes
  /// at once. Until this is called nothing of the body is read. `Expect: 100-continue` is answered
  /// here. A broken body ends the connection (400 when nothing was sent yet) and calls `on_gone`.
  virtual void read_body(std::function<void(std::string_view)> on_data,
                         std::function<void()> on_end) = 0;
  virtual void pause_body() = 0;
  virtual void resume_body() = 0;
  /// Collects a body of at most `max_bytes`; a larger one is answered 413 by itself.
  virtual void collect_body(std::size_t max_bytes, std::function<void(std::string)> on_body) = 0;

  /// A whole answer.
  virtual void respond(int status, wire::Headers headers, std::string_view body) = 0;
  /// A streamed answer: `Content-Length` in the headers frames it, else it is chunked.
  virtual void begin(int status, wire::Headers headers) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  virtual std::size_t queued_bytes() const = 0;
  virtual void on_drain(std::function<void()> handler) = 0;
  /// Cuts the connection without an end of the body: the client sees a broken stream.
  virtual void abort() = 0;
  /// Whether an answer was begun.
  virtual bool answered() const = 0;

  /// Called once if the client is gone before the answer was complete; the exchange is over then.
  /// A client that closed its sending half counts as gone, unless no handler was set: it may still
  /// read its answer.
  virtual void on_gone(std::function<void()> handler) = 0;

  /// Writes `head` (a 101, or 200 for CONNECT) and hands the connection over; bytes that came after
  /// the request's head are in `early`. The exchange is over, and so is the connection for
  /// `serve_http`. Reading is paused until the new owner calls `Socket::start`.
  virtual std::shared_ptr<Socket> upgrade(const wire::ResponseHead& head, std::string& early) = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

/// Serves HTTP/1.1 on one connection: strict heads, keep-alive, pipelined requests one after the
/// other, `Connection: close` honoured. Bad input gets a JSON error body
/// `{"code": status, "error": name, "message": text}` and ends the connection.
/// The connection lives by itself in the loop. `on_closed` comes once, at its end or hand-over.
void serve_http(EventLoop& loop, Fd connection, const HttpServerOptions& options,
                HttpHandler handler, std::function<void()> on_closed = {});

/// `{"code": status, "error": error, "message": message}` with `field` when there is one.
std::string error_body(int status, std::string_view error, std::string_view message,
                       std::string_view field = {});
/// The HTTP status of an error by its code (400, 401, 403, 404, 409, 413, 429, 503, 504, 499, 500).
int status_of(ErrorCode code);
/// Answers with the error's status and body.
void respond_error(HttpExchange& exchange, const Error& error);
/// Answers 200 (or the given status) with JSON text.
void respond_json(HttpExchange& exchange, int status, const std::string& json);

}  // namespace sandboxkit::io
