#include "egress/forward.h"

#include "base/text.h"
#include "egress/secret_request.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kForbidden = 403;
constexpr int kMethodNotAllowed = 405;
constexpr int kSwitchingProtocols = 101;
constexpr int kFirstFinalStatus = 200;
constexpr int kNoContent = 204;
constexpr int kMaxInterimHeads = 16;
constexpr std::size_t kMaxResponseHeadBytes = 64 * 1024;
constexpr std::size_t kMaxResponseFields = 200;
constexpr std::string_view kReasonHeader = "X-Sandboxkit-Egress";

/// Fields that mean this connection only; framing is written anew from what was parsed.
constexpr std::array<std::string_view, 12> kHopByHop{"connection",
                                                     "proxy-connection",
                                                     "keep-alive",
                                                     "te",
                                                     "trailer",
                                                     "upgrade",
                                                     "proxy-authorization",
                                                     "proxy-authenticate",
                                                     "transfer-encoding",
                                                     "max-forwards",
                                                     "proxy-authentication-info",
                                                     "http2-settings"};
/// Named in `Connection` they stay all the same: without them a message means another thing.
constexpr std::array<std::string_view, 3> kNeverStripped{"host", "content-length", "content-type"};

bool is_one_of(std::string_view name, const auto& names) {
  return std::ranges::any_of(
      names, [&](std::string_view other) { return equal_ignoring_case(name, other); });
}

/// The fields that go on: end-to-end ones that the message's own `Connection` does not name.
wire::Headers end_to_end(const wire::Headers& headers) {
  wire::Headers out;
  for (const auto& [name, value] : headers.fields()) {
    const bool hop = is_one_of(name, kHopByHop) ||
                     (headers.has_token("connection", name) && !is_one_of(name, kNeverStripped));
    if (!hop && !equal_ignoring_case(name, kReasonHeader)) {
      out.add(name, value);
    }
  }
  return out;
}

/// The part of an absolute URI that an origin server reads.
std::string origin_form(std::string_view uri, std::string_view method) {
  const auto authority = uri.find("://") + 3;
  const auto path = uri.find_first_of("/?", authority);
  if (path == std::string_view::npos) {
    return method == "OPTIONS" ? "*" : "/";
  }
  return (uri[path] == '?' ? "/" : "") + std::string(uri.substr(path));
}

std::string host_field(const EgressTarget& target) {
  std::string text = target.to_string();
  constexpr std::string_view kDefault = ":80";
  if (target.port() == 80) {
    text.resize(text.size() - kDefault.size());
  }
  return text;
}

/// Whether servers that turn names into variables would read the two as one.
bool is_same_field(std::string_view a, std::string_view b) {
  const auto fold = [](char c) { return c == '_' ? '-' : c; };
  std::string left(a);
  std::string right(b);
  std::ranges::transform(left, left.begin(), fold);
  std::ranges::transform(right, right.begin(), fold);
  return equal_ignoring_case(left, right);
}

Refusal refuse_target(const std::string& target, const std::string& why) {
  if (target.starts_with('/') || target == "*") {
    return {kBadRequest, "bad_target",
            "This is an HTTP proxy: ask for `http://host/path`, or CONNECT to `host:port`."};
  }
  return {kBadRequest, "bad_target", "The request's target cannot be used: " + why + "."};
}

bool is_safe(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

}  // namespace

std::optional<Refusal> refuse_method(const std::string& method) {
  const auto upper = [](char c) { return (c >= 'A' && c <= 'Z') || c == '-' || c == '_'; };
  if (method == "TRACE" || !std::ranges::all_of(method, upper)) {
    return Refusal{kMethodNotAllowed, "bad_method",
                   "The method " + quoted(method) + " is not passed on."};
  }
  return std::nullopt;
}

std::variant<Rewrite, Refusal> read_plain(const wire::RequestHead& head) {
  if (auto refusal = refuse_method(head.method)) {
    return *std::move(refusal);
  }
  auto target = EgressTarget::from_http_uri(head.target);
  if (!target) {
    return refuse_target(head.target, target.error().message);
  }
  std::string host = host_field(*target);
  return Rewrite{.target = *std::move(target),
                 .origin = origin_form(head.target, head.method),
                 .own_fields = {{"Host", std::move(host)}}};
}

std::variant<ForwardRequest, Refusal> plan_forward(const wire::RequestHead& head) {
  auto rewrite = read_plain(head);
  if (auto* refusal = std::get_if<Refusal>(&rewrite)) {
    return std::move(*refusal);
  }
  return rewrite_request(head, std::get<Rewrite>(std::move(rewrite)));
}

ForwardRequest rewrite_request(const wire::RequestHead& head, Rewrite rewrite) {
  // h2c and anything else that would change the protocol under us is not passed on.
  const bool websocket = head.method == "GET" && head.minor_version == 1 &&
                         head.headers.has_token("connection", "upgrade") &&
                         head.headers.count("upgrade") == 1 &&
                         equal_ignoring_case(*head.headers.find("upgrade"), "websocket") &&
                         head.body.kind == wire::Framing::kNone;
  wire::RequestHead out{.method = head.method, .target = std::move(rewrite.origin)};
  for (const auto& [name, value] : rewrite.own_fields) {
    out.headers.add(name, value);
  }
  const wire::Headers kept = end_to_end(head.headers);
  for (const auto& field : kept.fields()) {
    const auto is_ours = [&](const auto& own) { return is_same_field(own.first, field.first); };
    if (std::ranges::none_of(rewrite.own_fields, is_ours)) {
      out.headers.add(field.first, field.second);
    }
  }
  if (head.body.kind == wire::Framing::kChunked) {
    out.headers.add("Transfer-Encoding", "chunked");
  }
  if (websocket) {
    out.headers.add("Connection", "Upgrade");
    out.headers.add("Upgrade", "websocket");
  }
  return ForwardRequest{
      .target = std::move(rewrite.target),
      .method = head.method,
      .head = wire::serialize(out),
      .body = head.body,
      .client_minor_version = head.minor_version,
      .client_keep_alive = head.keep_alive,
      .websocket = websocket,
      .repeatable = is_safe(head.method) && head.body.kind == wire::Framing::kNone};
}

Status BodyRelay::feed(std::string_view& input, std::string& out) {
  if (!rechunk_) {
    return decoder_.feed(input, out);
  }
  std::string payload;
  auto status = decoder_.feed(input, payload);
  if (!status) {
    return status;
  }
  out += wire::chunk(payload);
  if (decoder_.done()) {
    out += wire::kLastChunk;
  }
  return {};
}

Status ResponseRelay::feed(std::string_view& input, std::string& out) {
  if (!head_done()) {
    if (auto status = feed_heads(input, out); !status || !body_) {
      return status;
    }
  }
  if (done_ || upgraded_) {
    return {};
  }
  if (auto status = body_->feed(input, out); !status) {
    return status;
  }
  done_ = body_->done();
  return {};
}

Status ResponseRelay::feed_heads(std::string_view& input, std::string& out) {
  while (!head_done() && !input.empty()) {
    const std::size_t before = pending_.size();
    pending_ += input;
    const std::size_t end = wire::find_head_end(pending_);
    if (end == 0 ? pending_.size() > kMaxResponseHeadBytes : end > kMaxResponseHeadBytes) {
      return Error{ErrorCode::kTooLarge, "the answer's head is too large"};
    }
    if (end == 0) {
      input = {};
      return {};
    }
    const auto head = wire::parse_response_head(
        std::string_view(pending_).substr(0, end), context_.method,
        {.max_bytes = kMaxResponseHeadBytes, .max_fields = kMaxResponseFields});
    if (!head) {
      return head.error();
    }
    input.remove_prefix(end - before);
    pending_.clear();
    if (auto status = take_head(*head, out); !status) {
      return status;
    }
  }
  return {};
}

Status ResponseRelay::take_head(const wire::ResponseHead& head, std::string& out) {
  status_ = head.status;
  if (head.status == kSwitchingProtocols) {
    if (!context_.websocket) {
      return Error{ErrorCode::kInvalidArgument, "an upgrade that nobody asked for"};
    }
    wire::ResponseHead answer = passed_on(head);
    answer.headers.remove("content-length");
    answer.headers.add("Connection", "Upgrade");
    answer.headers.add("Upgrade", "websocket");
    out += wire::serialize(answer);
    upgraded_ = true;
    return {};
  }
  if (head.status < kFirstFinalStatus) {
    if (++interim_heads_ > kMaxInterimHeads) {
      return Error{ErrorCode::kInvalidArgument, "too many interim answers"};
    }
    if (context_.client_minor_version == 1) {
      wire::ResponseHead answer = passed_on(head);
      answer.headers.remove("content-length");
      out += wire::serialize(answer);
    }
    return {};
  }
  out += final_head(head);
  return {};
}

wire::ResponseHead ResponseRelay::passed_on(const wire::ResponseHead& head) const {
  wire::ResponseHead answer{
      .status = head.status, .reason = head.reason, .headers = end_to_end(head.headers)};
  return context_.mask ? context_.mask->hide_in(std::move(answer)) : answer;
}

std::string ResponseRelay::final_head(const wire::ResponseHead& head) {
  wire::ResponseHead answer = passed_on(head);
  wire::BodyFraming body = head.body;
  upstream_keep_alive_ = head.keep_alive;
  if (body.kind == wire::Framing::kNone && head.status == kNoContent) {
    answer.headers.remove("content-length");
  }
  const bool chunked = body.kind == wire::Framing::kChunked;
  until_close_ = body.kind == wire::Framing::kUntilClose;
  if (chunked && context_.client_minor_version == 1) {
    answer.headers.add("Transfer-Encoding", "chunked");
  }
  // A client of HTTP/1.0 reads no chunks: it gets the bare payload, ended by the close.
  const bool unframed = until_close_ || (chunked && context_.client_minor_version == 0);
  context_.client_keep_alive = context_.client_keep_alive && !unframed;
  if (!context_.client_keep_alive) {
    answer.headers.add("Connection", "close");
  } else if (context_.client_minor_version == 0) {
    answer.headers.add("Connection", "keep-alive");
  }
  body_.emplace(body, /*bare_payload=*/chunked && context_.client_minor_version == 0);
  return wire::serialize(answer);
}

Status ResponseRelay::end() {
  if (done_) {
    return {};
  }
  if (body_ && until_close_) {
    done_ = true;
    return {};
  }
  return Error{ErrorCode::kUnavailable, "the upstream closed before its answer was complete"};
}

std::string refusal_response(const Refusal& refusal, bool keep_alive, bool with_body) {
  wire::ResponseHead head{.status = refusal.status};
  const std::string body = refusal.message + "\n";
  const char* word = refusal.status == kForbidden ? "denied"
                     : refusal.status < 500       ? "refused"
                                                  : "failed";
  // For a CONNECT many tools show this line and nothing else of the answer.
  head.reason = "sandboxkit egress " + std::string(word) + " (" + refusal.reason + ")";
  head.headers.add(std::string(kReasonHeader), std::string(word) + "; reason=" + refusal.reason);
  head.headers.add("Content-Type", "text/plain; charset=utf-8");
  head.headers.add("Content-Length", std::to_string(body.size()));
  head.headers.add("Cache-Control", "no-store");
  if (!keep_alive) {
    head.headers.add("Connection", "close");
  }
  return wire::serialize(head) + (with_body ? body : std::string());
}

}  // namespace sandboxkit::egress
