#pragma once

#include "io/http_server.h"
#include "io/socket.h"
#include "wire/http.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::io {

class ServerConnection;

/// One request on a ServerConnection. When the answer is complete, or the connection is over, it is
/// detached: every call is then without effect.
class ServerExchange final : public HttpExchange {
 public:
  /// `fields` go into every answer.
  ServerExchange(ServerConnection& connection, wire::RequestHead head, wire::Headers fields);

  const wire::RequestHead& request() const override { return head_; }
  void read_body(std::function<void(std::string_view)> on_data,
                 std::function<void()> on_end) override;
  void pause_body() override;
  void resume_body() override;
  void collect_body(std::size_t max_bytes, std::function<void(std::string)> on_body) override;
  void respond(int status, wire::Headers headers, std::string_view body) override;
  void begin(int status, wire::Headers headers) override;
  void write(std::string_view bytes) override;
  void end() override;
  std::size_t queued_bytes() const override;
  void on_drain(std::function<void()> handler) override;
  void abort() override;
  bool answered() const override { return answered_; }
  void on_gone(std::function<void()> handler) override;
  std::shared_ptr<Socket> upgrade(const wire::ResponseHead& head, std::string& early) override;

  // For the connection.
  /// Gives the handler what it may get of `input`; what is behind the body stays.
  void pump_body(std::string& input, bool eof);
  bool body_done() const { return decoder_.done(); }
  bool body_flows() const { return flows_ && !paused_; }
  bool wants_gone() const { return callbacks_->on_gone != nullptr; }
  void body_timed_out();
  void drained();
  /// Ends the exchange; the caller gets the on_gone handler to call.
  std::function<void()> detach();

 private:
  struct Callbacks {
    std::function<void(std::string_view)> on_data;
    std::function<void()> on_end;
    std::function<void()> on_drain;
    std::function<void()> on_gone;
  };
  wire::ResponseHead answer_head(int status, wire::Headers headers);
  void tell_observer(int status) const;
  void send_continue();
  /// Throws away what came of a body that the handler did not ask for; true when that was all.
  bool discard_buffered_body();
  void broken_body(const Error& error);
  void answer_too_large(std::size_t max_bytes);
  void finish();

  ServerConnection* connection_;
  const wire::RequestHead head_;
  const wire::Headers fields_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  wire::BodyDecoder decoder_;
  // Shared, because a callback may end the exchange while it runs.
  std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  bool flows_ = false;
  bool paused_ = false;
  bool answered_ = false;
  bool bodiless_ = false;  // The answer has no body: HEAD, 204, 304.
  bool chunked_ = false;
  bool until_close_ = false;
  std::uint64_t left_ = 0;  // Of a Content-Length.
  bool keep_alive_ = true;
};

/// The life of one connection: head, exchange, head, ... Owned by its socket's handlers.
class ServerConnection final : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(EventLoop& loop, Fd fd, const HttpServerOptions& options, HttpHandler handler,
                   std::function<void()> on_closed);
  void start();

  // For the exchange.
  Socket& socket() { return *socket_; }
  EventLoop& loop() { return loop_; }
  const HttpServerOptions& options() const { return options_; }
  std::string& input() { return input_; }
  bool peer_ended() const { return eof_; }
  /// Looks again at what can go on, soon (and not from inside of the caller).
  void wake();
  void start_body_timer();
  void stop_timer() { loop_.cancel(timer_); }
  bool serves(const ServerExchange* exchange) const { return exchange_.get() == exchange; }
  /// The answer is complete: next request, or the end.
  void exchange_finished(bool keep_alive);
  /// Closes now; `reset` makes a TCP peer see an error where an end would look orderly.
  void abort(bool reset);
  /// The client is gone: closes, and tells the exchange that is under way.
  void client_gone();
  std::shared_ptr<Socket> hand_over(std::string& early);

 private:
  enum class TimerKind : std::uint8_t { kHead, kIdle, kBody };
  void on_data(std::string_view bytes);
  void on_end();
  void on_hangup();
  void process();
  bool take_head();
  void refuse(int status, std::string_view error, std::string_view message);
  void update_reading();
  void arm(TimerKind kind, EventLoop::Duration delay);
  void on_timer();
  void end_in_order();
  void finished();

  EventLoop& loop_;
  const HttpServerOptions options_;
  const HttpHandler handler_;
  std::function<void()> on_closed_;
  std::shared_ptr<Socket> socket_;
  std::shared_ptr<ServerExchange> exchange_;
  std::string input_;
  bool eof_ = false;
  bool processing_ = false;
  bool wake_posted_ = false;
  bool over_ = false;
  TimerKind timer_kind_ = TimerKind::kHead;
  EventLoop::TimerId timer_ = 0;
};

/// A whole error answer with `Connection: close`, as bytes.
std::string error_answer(int status, std::string_view error, std::string_view message,
                         const wire::Headers& fields);

}  // namespace sandboxkit::io
