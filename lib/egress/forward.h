#pragma once

#include "sandboxkit/egress.h"

#include "egress/refusal.h"
#include "wire/http.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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
  /// A safe method (RFC 9110, section 9.2.1) without a body: it may be sent a second time, and so
  /// on a connection that may turn out to be stale.
  bool repeatable;
};

/// Reads what is no CONNECT. Errors come as the refusal that the client gets.
std::variant<ForwardRequest, Refusal> plan_forward(const wire::RequestHead& head);

/// Why a method is not passed on, if it is not.
std::optional<Refusal> refuse_method(const std::string& method);

/// Where a request goes that was taken apart, and what the proxy says there in its own words.
struct Rewrite {
  EgressTarget target;
  std::string origin;  ///< The request's target in origin form.
  /// `Host`, and whatever else stands in place of the client's fields of the same names.
  std::vector<std::pair<std::string, std::string>> own_fields;
};

/// Takes a request apart that names its target itself (`http://host/path`).
std::variant<Rewrite, Refusal> read_plain(const wire::RequestHead& head);

/// Writes the request for the upstream: the fields of the client's connection removed, framing and
/// own fields written anew. A client's field counts as of the same name also when it differs in
/// case, or in `_` for `-`, which many servers read alike.
ForwardRequest rewrite_request(const wire::RequestHead& head, Rewrite rewrite);

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

class SecretMask;

/// What the client's side of an answer depends on.
struct ResponseContext {
  std::string method;
  int client_minor_version = 1;
  bool client_keep_alive = true;
  bool websocket = false;
  /// Hides secrets that were lent to the request in the answer's fields. Shared: a rotation may
  /// replace it while the answer is under way.
  std::shared_ptr<const SecretMask> mask{};
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
  /// The answer's head as the client gets it, without framing.
  wire::ResponseHead passed_on(const wire::ResponseHead& head) const;

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
