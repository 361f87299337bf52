#include "base/text.h"
#include "net/tunnel_session.h"

#include <algorithm>
#include <array>

#include <nghttp2/nghttp2.h>

namespace sandboxkit::net {

namespace {

/// What a field costs besides its bytes. Source: RFC 9113, 6.5.2.
constexpr std::size_t kFieldOverheadBytes = 32;
/// After the last request that a connection has room for, a new tunnel must come.
constexpr std::chrono::milliseconds kLastGrace{30'000};

/// Fields that belong to one connection. Source: RFC 9113, 8.2.2; `expect` was answered before.
constexpr std::array<std::string_view, 10> kConnectionFields = {"connection",
                                                                "keep-alive",
                                                                "proxy-connection",
                                                                "transfer-encoding",
                                                                "upgrade",
                                                                "te",
                                                                "host",
                                                                "http2-settings",
                                                                "expect",
                                                                "trailer"};

nghttp2_nv field_of(const std::pair<std::string, std::string>& field) {
  // The library copies both and takes them by pointers that are not const.
  const auto bytes = [](const std::string& text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  };
  return {bytes(field.first), bytes(field.second), field.first.size(), field.second.size(),
          NGHTTP2_NV_FLAG_NONE};
}

std::vector<nghttp2_nv> fields_of(const TunnelSession::Fields& fields) {
  std::vector<nghttp2_nv> all;
  all.reserve(fields.size());
  std::ranges::transform(fields, std::back_inserter(all), field_of);
  return all;
}

}  // namespace

Result<TunnelSession::Fields> tunnel_fields(TunnelSession::Fields pseudo,
                                            const wire::Headers& headers, std::size_t max_bytes) {
  auto fields = std::move(pseudo);
  for (const auto& [raw_name, raw_value] : headers.fields()) {
    auto name = ascii_lower(raw_name);
    if (std::ranges::count(kConnectionFields, name) > 0 || headers.has_token("connection", name)) {
      continue;
    }
    const auto field = std::pair<std::string, std::string>(std::move(name), trim(raw_value));
    const auto nv = field_of(field);
    if (field.first.starts_with(':') || nghttp2_check_header_name(nv.name, nv.namelen) == 0 ||
        nghttp2_check_header_value(nv.value, nv.valuelen) == 0) {
      return Error{ErrorCode::kInvalidArgument, "bad header " + sandboxkit::quoted(raw_name),
                   "bad_header"};
    }
    fields.push_back(field);
  }
  std::size_t bytes = 0;
  for (const auto& [name, value] : fields) {
    bytes += name.size() + value.size() + kFieldOverheadBytes;
  }
  if (bytes > max_bytes) {
    return Error{ErrorCode::kTooLarge, "the head is larger than a tunnel takes", "head_too_large"};
  }
  return fields;
}

/// What the library calls. `user` is the session; streams are found by their number, since one may
/// be forgotten while the library still holds frames of it.
struct TunnelSession::Callbacks {
  static TunnelSession& self(void* user) { return *static_cast<TunnelSession*>(user); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& session = self(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      return 0;
    }
    auto flow = session.setup_.on_new_flow();
    flow->session_ = session.weak_from_this();
    flow->id_ = frame->hd.stream_id;
    session.flows_[frame->hd.stream_id] = std::move(flow);
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* user) {
    auto& session = self(user);
    const auto flow = session.find(frame->hd.stream_id);
    if (!flow) {
      return 0;
    }
    flow->head_bytes_ += name_size + value_size + kFieldOverheadBytes;
    if (flow->head_bytes_ > session.limits().max_header_bytes) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // resets the stream
    }
    flow->on_field({reinterpret_cast<const char*>(name), name_size},
                   {reinterpret_cast<const char*>(value), value_size});
    return 0;
  }

  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& session = self(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      session.peer_leaves_ = true;
      return 0;
    }
    const auto flow = session.find(frame->hd.stream_id);
    if (!flow || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) {
      return 0;
    }
    const bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS) {
      flow->in_ended_ = ended;
      flow->on_whole_head(ended);
    }
    if (ended && !flow->over_) {
      flow->receive_end();
    }
    return 0;
  }

  static int data_received(nghttp2_session* library, std::uint8_t, std::int32_t id,
                           const std::uint8_t* data, std::size_t size, void* user) {
    // The connection's credit goes back at once, so that one slow stream never stops the others.
    nghttp2_session_consume_connection(library, size);
    if (const auto flow = self(user).find(id)) {
      flow->receive({reinterpret_cast<const char*>(data), size});
    }
    return 0;
  }

  static int stream_closed(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    self(user).stream_closed(id, code);
    return 0;
  }

  static int frame_sent(nghttp2_session* library, const nghttp2_frame* frame, void* user) {
    auto& session = self(user);
    const bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!ends || session.setup_.role != Role::kWorker) {
      return 0;
    }
    // The answer is complete: the rest of a body that nobody waits for needs no credit.
    const auto flow = session.find(frame->hd.stream_id);
    if (flow && !flow->in_ended_) {
      nghttp2_submit_rst_stream(library, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static int frame_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS && self(user).setup_.role == Role::kController) {
      self(user).stream_closed(frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
    }
    return 0;
  }

  static ssize_t read_length(nghttp2_session*, std::uint8_t, std::int32_t,
                             std::int32_t session_window, std::int32_t stream_window,
                             std::uint32_t max_frame_bytes, void* user) {
    const auto window = static_cast<std::uint32_t>(std::min(session_window, stream_window));
    return static_cast<ssize_t>(
        std::min({window, max_frame_bytes, self(user).limits().max_frame_bytes}));
  }

  static ssize_t read_data(nghttp2_session*, std::int32_t id, std::uint8_t*, std::size_t size,
                           std::uint32_t* flags, nghttp2_data_source*, void* user) {
    const auto flow = self(user).find(id);
    if (!flow) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    const auto count = std::min(size, flow->out_.size());
    if (count == 0 && !flow->out_ended_) {
      flow->deferred_ = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (flow->out_ended_ && count == flow->out_.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(count);
  }

  static int send_data(nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* head,
                       std::size_t size, nghttp2_data_source*, void* user) {
    constexpr std::size_t kFrameHeadBytes = 9;
    auto& session = self(user);
    if (session.batch_.size() >= kTunnelBatchBytes) {
      return NGHTTP2_ERR_WOULDBLOCK;
    }
    const auto flow = session.find(frame->hd.stream_id);
    if (!flow || flow->out_.size() < size) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (session.batch_.empty()) {
      session.batch_.reserve(std::min(kTunnelBatchBytes, flow->out_.size()) + size);
    }
    session.batch_.append(reinterpret_cast<const char*>(head), kFrameHeadBytes);
    flow->out_.take(size, session.batch_);
    if (flow->wants_room_ && flow->out_.size() < io::Socket::kLowWater) {
      flow->wants_room_ = false;
      session.with_room_.push_back(flow);
    }
    return 0;
  }
};

Status TunnelSession::open_library() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0) {
    nghttp2_session_callbacks_del(callbacks);
    return Error{ErrorCode::kInternal, "no memory for a tunnel"};
  }
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, &Callbacks::begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::frame_received);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::data_received);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::stream_closed);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, &Callbacks::frame_sent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, &Callbacks::frame_not_sent);
  nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks,
                                                                 &Callbacks::read_length);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, &Callbacks::send_data);

  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_peer_max_concurrent_streams(option, setup_.limits.max_streams);
  // The peer is our own controller, which cancels as often as its clients do.
  constexpr std::uint64_t kNoRateLimit = 1'000'000'000;
  nghttp2_option_set_stream_reset_rate_limit(option, kNoRateLimit, kNoRateLimit);

  const int result = setup_.role == Role::kController
                         ? nghttp2_session_client_new2(&library_, callbacks, this, option)
                         : nghttp2_session_server_new2(&library_, callbacks, this, option);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  if (result != 0) {
    return Error{ErrorCode::kInternal, nghttp2_strerror(result)};
  }
  return submit_settings();
}

Status TunnelSession::submit_settings() {
  const auto& limits = setup_.limits;
  const bool controller = setup_.role == Role::kController;
  const std::array<nghttp2_settings_entry, 5> entries = {{
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
       static_cast<std::uint32_t>(limits.stream_window_bytes)},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, limits.max_frame_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.max_header_bytes)},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, controller ? 0 : limits.max_streams},
      // Last, for the controller alone: a server may not say it.
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  }};
  const int settings = nghttp2_submit_settings(library_, NGHTTP2_FLAG_NONE, entries.data(),
                                               controller ? entries.size() : entries.size() - 1);
  const int window = nghttp2_session_set_local_window_size(library_, NGHTTP2_FLAG_NONE, 0,
                                                           limits.connection_window_bytes);
  if (settings != 0 || window != 0) {
    return Error{ErrorCode::kInvalidArgument, "a tunnel's limits are out of range"};
  }
  return {};
}

Status TunnelSession::submit_request(const Fields& fields, bool has_body,
                                     const std::shared_ptr<TunnelFlow>& flow) {
  if (!is_open()) {
    return tunnel_gone("the tunnel to the worker is gone");
  }
  const std::size_t cap = std::min(
      setup_.limits.max_streams,
      nghttp2_session_get_remote_settings(library_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS));
  if (flows_.size() >= cap) {
    return Error{ErrorCode::kResourceExhausted, "the tunnel has no room for another stream",
                 "tunnel_streams"};
  }
  nghttp2_data_provider provider{};
  provider.read_callback = &Callbacks::read_data;
  const auto all = fields_of(fields);
  const std::int32_t id = nghttp2_submit_request(library_, nullptr, all.data(), all.size(),
                                                 has_body ? &provider : nullptr, nullptr);
  if (id < 0) {
    shut_down(kLastGrace);
    return tunnel_gone(std::string("the tunnel takes no more streams: ") + nghttp2_strerror(id));
  }
  flow->session_ = weak_from_this();
  flow->id_ = id;
  flow->out_ended_ = !has_body;
  flows_[id] = flow;
  schedule_flush();
  return {};
}

void TunnelSession::submit_response(std::int32_t id, const Fields& fields, bool has_body) {
  if (dead_) {
    return;
  }
  nghttp2_data_provider provider{};
  provider.read_callback = &Callbacks::read_data;
  const auto all = fields_of(fields);
  nghttp2_submit_response(library_, id, all.data(), all.size(), has_body ? &provider : nullptr);
  schedule_flush();
}

}  // namespace sandboxkit::net
