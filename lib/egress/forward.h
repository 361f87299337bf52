#pragma once

#include "sandboxkit/egress.h"

#include "egress/engine.h"
#include "wire/http.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace sandboxkit::egress {

/// A plain request, taken apart and written anew: request line and Host come from the parsed
/// target, never from the client's bytes. Pure.
struct ForwardRequest {
  EgressTarget target;
  std::string method;
  std::string head;  ///< For the upstream, blank line included.
  wire::BodyFraming body;
  int client_minor_version;
  bool client_keep_alive;
  bool websocket;  ///< The client asked for an upgrade to a websocket.
};

/// Reads what is no CONNECT. Errors come as the refusal that the client gets.
std::variant<ForwardRequest, Refusal> plan_forward(const wire::RequestHead& head);

/// Decodes a body and frames it anew the same way (or, with `bare_payload`, not at all), so that no
/// doubt about where it ends is passed on. Trailers and chunk extensions are dropped.
class BodyRelay {
 public:
  explicit BodyRelay(wire::BodyFraming framing, bool bare_payload = false)
      : rechunk_(framing.kind == wire::Framing::kChunked && !bare_payload), decoder_(framing) {}
  /// Takes from the front of `input`, appends to `out`; what is left in `input` is not the body's.
  Status feed(std::string_view& input, std::string& out);
  bool done() const { return decoder_.done(); }

 private:
  bool rechunk_;
  wire::BodyDecoder decoder_;
};

/// What the client's side of an answer depends on.
struct ResponseContext {
  std::string method;
  int client_minor_version = 1;
  bool client_keep_alive = true;
  bool websocket = false;
};

/// Reads an upstream's answer piece by piece and writes it for the client: strict heads, hop-by-hop
/// fields removed, the body framed anew.
class ResponseRelay {
 public:
  explicit ResponseRelay(ResponseContext context) : context_(std::move(context)) {}

  /// Errors: an answer that cannot be read without doubt; nothing of it may be passed on any more.
  Status feed(std::string_view& input, std::string& out);
  /// The upstream closed. Errors: the answer was not complete.
  Status end();

  bool head_done() const { return body_.has_value() || upgraded_; }
  bool done() const { return done_; }
  bool upgraded() const { return upgraded_; }  ///< 101: what follows is a byte pipe.
  bool upstream_reusable() const { return upstream_keep_alive_; }
  bool client_keep_alive() const { return context_.client_keep_alive; }
  int status() const { return status_; }

 private:
  Status feed_heads(std::string_view& input, std::string& out);
  Status take_head(const wire::ResponseHead& head, std::string& out);
  std::string final_head(const wire::ResponseHead& head);

  ResponseContext context_;
  std::string pending_;  // bytes of a head that is not whole yet
  std::optional<BodyRelay> body_;
  bool until_close_ = false;
  bool upstream_keep_alive_ = false;
  bool upgraded_ = false;
  bool done_ = false;
  int interim_heads_ = 0;
  int status_ = 0;
};

/// The proxy's own answer, whole. `keep_alive` says whether the connection serves on.
std::string refusal_response(const Refusal& refusal, bool keep_alive, bool with_body);

}  // namespace sandboxkit::egress
