#pragma once

#include "sandboxkit/result.h"

#include "io/event_loop.h"
#include "io/http_server.h"
#include "json/value.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace sandboxkit::guest {

using RpcResult = Result<json::Value>;

/// Answers a unary Connect call: 200 with JSON, or an error's status and body.
void answer_rpc(io::HttpExchange& exchange, const RpcResult& result);

/// Checks what every Connect request must say: POST, the codec, no compression.
Status check_rpc_head(const wire::RequestHead& head, bool stream);

/// Collects and parses a unary call's message, or the one envelope of a server stream's request.
/// `on_message` is not called for a broken one: that is answered here.
void read_rpc(
    const std::shared_ptr<io::HttpExchange>& exchange, bool stream,
    std::function<void(std::shared_ptr<io::HttpExchange>, const json::Value&)> on_message);

/// `Connect-Timeout-Ms`; nullopt without one, an error for what is no number.
Result<std::optional<std::chrono::milliseconds>> rpc_timeout(const wire::Headers& headers);

/// The answer of a server stream: envelopes, keepalives after silence, and one last envelope.
class ConnectStream : public std::enable_shared_from_this<ConnectStream> {
 public:
  /// Begins the answer. `keepalive` is sent after as much silence as the request asked for.
  static std::shared_ptr<ConnectStream> begin(io::EventLoop& loop,
                                              std::shared_ptr<io::HttpExchange> exchange,
                                              json::Value keepalive);
  ~ConnectStream();

  void send(const json::Value& message);
  void end(const std::optional<Error>& error);
  bool congested() const;
  void on_drain(std::function<void()> handler);
  /// The client went away before the end.
  void on_gone(std::function<void()> handler);

 private:
  ConnectStream(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
                json::Value keepalive);
  void arm();

  io::EventLoop& loop_;
  std::shared_ptr<io::HttpExchange> exchange_;
  const json::Value keepalive_;
  std::chrono::milliseconds silence_;
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace sandboxkit::guest
