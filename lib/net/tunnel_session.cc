#include "net/tunnel_session.h"

#include <algorithm>

#include <nghttp2/nghttp2.h>

namespace sandboxkit::net {

namespace {

Error closed_here() {
  return Error{ErrorCode::kCancelled, "the tunnel was closed on this side", "tunnel_closed"};
}

Error stream_error(std::uint32_t code) {
  return Error{ErrorCode::kUnavailable,
               std::string("the other side ended the stream: ") + nghttp2_http2_strerror(code),
               code == NGHTTP2_REFUSED_STREAM ? "tunnel_gone" : "stream_reset"};
}

}  // namespace

Error tunnel_gone(std::string message) {
  return Error{ErrorCode::kUnavailable, std::move(message), "tunnel_gone"};
}

std::shared_ptr<TunnelSession> TunnelSession::start(Setup setup) {
  auto session = std::make_shared<TunnelSession>(std::move(setup));
  if (const auto status = session->open_library(); !status) {
    session->loop().post([session, error = status.error()] { session->die(error); });
    return session;
  }
  session->setup_.socket->start({
      .on_data = [session](std::string_view bytes) { session->on_socket_data(bytes); },
      .on_end = [session] { session->die(tunnel_gone("the other side closed the connection")); },
      .on_drain = [session] { session->flush(); },
      .on_close =
          [session](const Error& error) {
            session->die(tunnel_gone("the connection is lost: " + error.message));
          },
  });
  session->setup_.socket->resume_reading();  // an upgraded connection comes paused
  session->last_heard_ = std::chrono::steady_clock::now();
  session->schedule_tick();
  // From the loop, so that the owner has its pointer before the first request comes.
  session->loop().post([session] {
    session->on_socket_data({});
    session->flush();
  });
  return session;
}

TunnelSession::TunnelSession(Setup setup) : setup_(std::move(setup)) {}

TunnelSession::~TunnelSession() {
  abandon();
  nghttp2_session_del(library_);
}

void TunnelSession::resume_output(TunnelFlow& flow) {
  if (!dead_ && std::exchange(flow.deferred_, false)) {
    nghttp2_session_resume_data(library_, flow.id_);
    schedule_flush();
  }
}

void TunnelSession::credit(std::int32_t id, std::size_t bytes) {
  if (!dead_) {
    nghttp2_session_consume_stream(library_, id, bytes);
    schedule_flush();
  }
}

void TunnelSession::reset_stream(std::int32_t id, std::uint32_t code) {
  if (!dead_) {
    nghttp2_submit_rst_stream(library_, NGHTTP2_FLAG_NONE, id, code);
    schedule_flush();
  }
}

void TunnelSession::forget(std::int32_t id) { flows_.erase(id); }

std::shared_ptr<TunnelFlow> TunnelSession::find(std::int32_t id) const {
  const auto found = flows_.find(id);
  return found == flows_.end() ? nullptr : found->second;
}

void TunnelSession::stream_closed(std::int32_t id, std::uint32_t code) {
  const auto flow = find(id);
  if (!flow) {
    return;
  }
  flow->transport_closed_ = true;
  const bool controller = setup_.role == Role::kController;
  if (controller && flow->in_ended_ && !flow->end_told_) {
    return;  // A whole answer that its owner has not taken yet: it goes with its end.
  }
  flows_.erase(id);
  if (controller ? flow->end_told_ : flow->out_ended_ && code == NGHTTP2_NO_ERROR) {
    flow->over_ = true;
    flow->out_.clear();  // an answer may come before the request's end
    flow->on_finished();
  } else {
    flow->lose(stream_error(code));
  }
}

void TunnelSession::on_socket_data(std::string_view bytes) {
  if (!setup_.early.empty()) {
    feed(std::exchange(setup_.early, {}));
  }
  if (!bytes.empty()) {
    feed(bytes);
  }
}

void TunnelSession::feed(std::string_view bytes) {
  if (dead_) {
    return;
  }
  const auto hold = shared_from_this();
  last_heard_ = std::chrono::steady_clock::now();
  inside_library_ = true;
  const auto taken = nghttp2_session_mem_recv(
      library_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  inside_library_ = false;
  if (dies_later_) {
    die(*std::exchange(dies_later_, std::nullopt));
  } else if (taken < 0) {
    die(tunnel_gone(std::string("the other side speaks no HTTP/2: ") +
                    nghttp2_strerror(static_cast<int>(taken))));
  } else {
    flush();
  }
}

/// The frames of one turn of the loop go out together.
void TunnelSession::schedule_flush() {
  if (dead_ || inside_library_ || flushing_ || flush_scheduled_) {
    return;  // Somebody flushes when this returns.
  }
  flush_scheduled_ = true;
  loop().post([session = shared_from_this()] {
    session->flush_scheduled_ = false;
    session->flush();
  });
}

void TunnelSession::flush() {
  if (dead_ || inside_library_ || flushing_) {
    return;
  }
  const auto hold = shared_from_this();
  flushing_ = true;
  while (!dead_ && setup_.socket->queued_bytes() < io::Socket::kHighWater && fill_batch()) {
    setup_.socket->write(std::exchange(batch_, {}));
    tell_room();
  }
  flushing_ = false;
  end_if_done();
}

/// False when the library has nothing to send, or failed.
bool TunnelSession::fill_batch() {
  inside_library_ = true;
  ssize_t size = 0;
  while (batch_.size() < kTunnelBatchBytes) {
    const std::uint8_t* data = nullptr;
    size = nghttp2_session_mem_send(library_, &data);
    if (size <= 0) {
      break;
    }
    batch_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  }
  inside_library_ = false;
  if (size < 0) {
    dies_later_ = tunnel_gone(std::string("the tunnel cannot send: ") +
                              nghttp2_strerror(static_cast<int>(size)));
  }
  if (dies_later_) {
    die(*std::exchange(dies_later_, std::nullopt));
  }
  return !dead_ && !batch_.empty();
}

void TunnelSession::tell_room() {
  for (const auto& flow : std::exchange(with_room_, {})) {
    if (!flow->over_) {
      flow->on_room();
    }
  }
}

void TunnelSession::end_if_done() {
  if (dead_ || nghttp2_session_want_read(library_) != 0 ||
      nghttp2_session_want_write(library_) != 0) {
    return;
  }
  die(closing_ ? closed_here() : tunnel_gone("the other side closed the tunnel"));
}

void TunnelSession::shut_down(std::chrono::milliseconds grace) {
  if (dead_ || std::exchange(closing_, true)) {
    return;
  }
  nghttp2_submit_goaway(library_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(library_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  grace_ = loop().run_after(grace, [weak = weak_from_this()] {
    if (const auto session = weak.lock()) {
      session->die(closed_here());
    }
  });
  schedule_flush();
}

void TunnelSession::abandon() {
  setup_.on_closed = nullptr;
  die(tunnel_gone("the tunnel was given up"));
  const auto left = std::exchange(flows_, {});
  for (const auto& [id, flow] : left) {
    flow->lose(tunnel_gone("the tunnel was given up"));
  }
}

void TunnelSession::die(const Error& error) {
  if (dead_) {
    return;
  }
  if (inside_library_) {
    dies_later_ = dies_later_ ? dies_later_ : error;
    return;
  }
  dead_ = true;
  loop().cancel(tick_);
  loop().cancel(grace_);
  setup_.socket->close_after_flush();
  auto flows = std::exchange(flows_, {});
  for (const auto& [id, flow] : flows) {
    if (setup_.role == Role::kController && flow->in_ended_ && !flow->end_told_) {
      flow->transport_closed_ = true;
      flows_[id] = flow;  // Its answer is whole; only its owner has not taken it yet.
    } else {
      flow->lose(error.reason == "tunnel_closed" ? tunnel_gone(error.message) : error);
    }
  }
  if (const auto on_closed = std::exchange(setup_.on_closed, nullptr)) {
    on_closed(error);
  }
}

void TunnelSession::schedule_tick() {
  const auto now = std::chrono::steady_clock::now();
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_heard_);
  const auto until_dead = setup_.limits.dead_after - silence;
  const auto wait =
      std::clamp(until_dead, std::chrono::milliseconds(1), setup_.limits.ping_interval);
  tick_due_ = now + wait;
  tick_ = loop().run_after(wait, [weak = weak_from_this()] {
    if (const auto session = weak.lock()) {
      session->on_tick();
    }
  });
}

void TunnelSession::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  if (now - tick_due_ > setup_.limits.ping_interval) {
    last_heard_ = now;  // This process stood still; nobody could be heard meanwhile.
  }
  if (now - last_heard_ >= setup_.limits.dead_after) {
    die(tunnel_gone("the other side was silent for too long"));
    return;
  }
  nghttp2_submit_ping(library_, NGHTTP2_FLAG_NONE, nullptr);
  schedule_tick();
  flush();
}

}  // namespace sandboxkit::net
