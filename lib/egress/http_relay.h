#pragma once

#include "egress/engine.h"
#include "egress/forward.h"
#include "egress/stream.h"
#include "wire/http.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// The HTTP/1.1 between one client and the upstreams of its requests, in clear and behind TLS
/// alike: reads heads strictly, one after the other, hands each to its connection to be judged, and
/// passes one exchange at a time. Whatever is in doubt ends the connection.
///
/// head -> waiting (judged, dialled) -> exchange -> head ... ; stopped, when something else than
/// HTTP has the connection or nobody has.
/// Thread-safety: the loop's thread.
class HttpRelay {
 public:
  using Steady = std::chrono::steady_clock;

  /// Who has the two streams: opens and closes them, and decides. `finish` and `cut_off` stop the
  /// relay; it does nothing more then.
  class Connection {
   public:
    Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    virtual ~Connection() = default;
    /// Answers with `refuse`, or goes on with `wait` or `begin`, or stops the relay.
    virtual void on_request(const wire::RequestHead& head) = 0;
    /// The upstream turned out to be stale before it answered: the request waits for another one.
    virtual void redial() = 0;
    /// The upstream has said 101, and `early` behind it.
    virtual void on_upgrade(std::string_view early) = 0;
    virtual void drop_upstream() = 0;
    virtual void finish() = 0;   ///< What is queued for the client is still written.
    virtual void cut_off() = 0;  ///< At once, so that the client sees it break.
  };

  /// Ownership: borrows all three.
  HttpRelay(Engine& engine, Connection& connection, Stream& client)
      : engine_(engine), connection_(connection), client_(client) {}
  ~HttpRelay() { drop_request(); }
  HttpRelay(const HttpRelay&) = delete;
  HttpRelay& operator=(const HttpRelay&) = delete;

  // What happens at the client and at the upstream.
  void on_client_data(std::string_view bytes);
  void on_client_drained();
  void on_client_end();
  void on_upstream_data(std::string_view bytes);
  void on_upstream_end();
  void on_upstream_lost();
  void on_upstream_drained() { client_.resume_reading(); }
  /// Refuses a head that does not come in time; true when it did.
  bool sweep(Steady::time_point now);

  // What the connection makes of a head.
  void refuse(const Refusal& refusal, bool keep_alive);
  /// Keeps the request that is to go on. `mask` hides secrets that were lent to it.
  void take(ForwardRequest request, std::shared_ptr<const SecretMask> mask);
  void wait();
  /// Passes the request on. `reused`: the upstream served before, and may be stale.
  void begin(Stream& upstream, bool reused);
  /// No upstream could be had. The client may ask on when nothing of its request is left to read.
  void decline(const Refusal& refusal);
  /// Forgets the request and what it held of secrets.
  void drop_request();
  void stop();

  bool is_between_requests() const { return phase_ == Phase::kHead; }
  bool is_waiting() const { return phase_ == Phase::kWaiting; }
  bool is_in_exchange() const { return phase_ == Phase::kExchange; }
  bool client_ended() const { return client_ended_; }
  const std::optional<ForwardRequest>& request() const { return request_; }
  /// Bytes of the client that nobody took yet.
  std::string& input() { return input_; }

 private:
  enum class Phase : std::uint8_t { kHead, kWaiting, kExchange, kStopped };

  void read_heads();
  /// A refusal when no head can come of what is buffered.
  std::optional<Refusal> doubt_in_input();
  void send_request_body();
  void finish_exchange(bool upstream_is_clean);
  /// An exchange that stands cannot go on.
  void fail(const Refusal& refusal);

  Engine& engine_;
  Connection& connection_;
  Stream& client_;
  Stream* upstream_ = nullptr;  // of the exchange
  Phase phase_ = Phase::kHead;

  std::string input_;
  std::size_t checked_ = 0;  // of the input, for doubt
  bool client_ended_ = false;
  std::optional<Steady::time_point> head_began_;

  std::string method_;  // of the request at hand; empty when it could not be read
  std::optional<ForwardRequest> request_;
  std::shared_ptr<const SecretMask> mask_;  // Shared with the book.
  bool reused_ = false;
  std::optional<BodyRelay> request_body_;
  std::optional<ResponseRelay> response_;
};

}  // namespace sandboxkit::egress
