#pragma once

#include "base/check.h"
#include "io/event_loop.h"
#include "io/socket.h"
#include "net/tunnel.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

struct nghttp2_session;
struct nghttp2_session_callbacks;

namespace sandboxkit::net {

class TunnelSession;

/// Frames are gathered up to this size before they go to the socket.
inline constexpr std::size_t kTunnelBatchBytes = 64 * 1024;

/// Bytes that wait to be sent, in order.
class ByteQueue {
 public:
  void append(std::string_view bytes);
  /// Moves the first `count` bytes (there must be that many) to the end of `out`.
  void take(std::size_t count, std::string& out);
  void clear();
  std::size_t size() const { return size_; }

 private:
  std::deque<std::string> pieces_;
  std::size_t front_offset_ = 0;
  std::size_t size_ = 0;
};

/// A stream as both ends see it: what waits to be sent, and what came and was not wanted yet.
///
/// What came while the owner is paused is held here; its size is bounded by the stream's window,
/// because credit is given for what the owner took and no earlier.
class TunnelFlow : public std::enable_shared_from_this<TunnelFlow> {
 public:
  TunnelFlow() = default;
  TunnelFlow(const TunnelFlow&) = delete;
  TunnelFlow& operator=(const TunnelFlow&) = delete;
  virtual ~TunnelFlow() = default;

 protected:
  /// What the session tells the role.
  virtual void on_field(std::string_view name, std::string_view value) = 0;
  virtual void on_whole_head(bool ended) = 0;
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_ended() = 0;
  /// Before the other side's end, or while something of ours waits: the stream is over.
  virtual void on_lost(const Error& error) = 0;
  /// Both sides are through.
  virtual void on_finished() = 0;
  /// The queue has room again.
  virtual void on_room() = 0;

  void send(std::string_view bytes);
  void send_end();
  void hold();     ///< Stops the flow to `on_bytes`.
  void release();  ///< Lets it go on; what is held comes from the loop, not from inside of this.
  void release_now();
  std::size_t unsent_bytes() const { return out_.size(); }
  bool end_sent() const { return out_ended_; }
  bool peer_ended() const { return in_ended_; }
  /// Resets the stream; the session forgets it.
  void cut();
  /// The session, unless this stream is over.
  std::shared_ptr<TunnelSession> session() const { return over_ ? nullptr : session_.lock(); }
  std::int32_t id() const { return id_; }

 private:
  friend class TunnelSession;

  void receive(std::string_view bytes);
  void receive_end();
  void give_held();
  void give_credit(std::size_t bytes);
  void lose(const Error& error);

  std::weak_ptr<TunnelSession> session_;
  std::int32_t id_ = -1;
  std::size_t head_bytes_ = 0;
  bool over_ = false;  ///< Nothing is told or sent any more.

  ByteQueue out_;
  bool out_ended_ = false;
  bool deferred_ = false;  ///< The library waits for more bytes of ours.
  bool wants_room_ = false;

  std::string held_;
  std::size_t uncredited_ = 0;
  bool paused_ = false;
  bool in_ended_ = false;
  bool end_told_ = false;
  bool transport_closed_ = false;
};

/// One end of a tunnel over nghttp2, whichever role: it moves frames between the library and the
/// socket, gives credit, watches the peer's life, and ends all streams with the tunnel.
///
/// The library must not be entered while one of its callbacks runs, so what a callback wants sent
/// is only submitted, and `flush` runs when the library has returned.
class TunnelSession : public std::enable_shared_from_this<TunnelSession> {
 public:
  enum class Role : std::uint8_t { kController, kWorker };
  using Fields = std::vector<std::pair<std::string, std::string>>;

  struct Setup {
    io::EventLoop& loop;
    std::shared_ptr<io::Socket> socket;
    Role role;
    TunnelLimits limits;
    std::string early;
    /// The worker's: a request begins.
    std::function<std::shared_ptr<TunnelFlow>()> on_new_flow;
    std::function<void(const Error&)> on_closed;
  };

  static std::shared_ptr<TunnelSession> start(Setup setup);
  explicit TunnelSession(Setup setup);
  ~TunnelSession();
  TunnelSession(const TunnelSession&) = delete;
  TunnelSession& operator=(const TunnelSession&) = delete;

  /// Errors: kUnavailable `tunnel_gone`, kResourceExhausted `tunnel_streams`.
  Status submit_request(const Fields& fields, bool has_body,
                        const std::shared_ptr<TunnelFlow>& flow);
  void submit_response(std::int32_t id, const Fields& fields, bool has_body);
  void resume_output(TunnelFlow& flow);
  void credit(std::int32_t id, std::size_t bytes);
  void reset_stream(std::int32_t id, std::uint32_t code);
  void forget(std::int32_t id);

  /// GOAWAY now; the end when all streams are done, or after `grace`.
  void shut_down(std::chrono::milliseconds grace);
  /// The owner let go: ends at once and calls only the streams.
  void abandon();

  bool is_open() const { return !dead_ && !closing_ && !peer_leaves_; }
  std::size_t stream_count() const { return flows_.size(); }
  const TunnelLimits& limits() const { return setup_.limits; }
  io::EventLoop& loop() const { return setup_.loop; }

 private:
  struct Callbacks;
  friend struct Callbacks;

  Status open_library();
  Status submit_settings();
  void on_socket_data(std::string_view bytes);
  void feed(std::string_view bytes);
  void schedule_flush();
  void flush();
  bool fill_batch();
  void tell_room();
  void end_if_done();
  void die(const Error& error);
  void on_tick();
  void schedule_tick();
  std::shared_ptr<TunnelFlow> find(std::int32_t id) const;
  void stream_closed(std::int32_t id, std::uint32_t code);

  Setup setup_;
  nghttp2_session* library_ = nullptr;
  std::unordered_map<std::int32_t, std::shared_ptr<TunnelFlow>> flows_;
  std::string batch_;
  std::vector<std::shared_ptr<TunnelFlow>> with_room_;
  std::optional<Error> dies_later_;
  bool inside_library_ = false;
  bool flushing_ = false;
  bool flush_scheduled_ = false;
  bool closing_ = false;
  bool peer_leaves_ = false;
  bool dead_ = false;
  std::chrono::steady_clock::time_point last_heard_{};
  std::chrono::steady_clock::time_point tick_due_{};
  io::EventLoop::TimerId tick_ = 0;
  io::EventLoop::TimerId grace_ = 0;
};

/// The fields that may travel: names in lower case, connection-level ones left out.
/// Errors: kInvalidArgument `bad_header`; kTooLarge `head_too_large`.
Result<TunnelSession::Fields> tunnel_fields(TunnelSession::Fields pseudo,
                                            const wire::Headers& headers, std::size_t max_bytes);

Error tunnel_gone(std::string message);

}  // namespace sandboxkit::net
