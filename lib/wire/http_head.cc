#include "base/text.h"
#include "wire/http.h"
#include "wire/http_text.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sandboxkit::wire {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kMaxMethodBytes = 32;
// Far above any real body, and far below where sums of lengths could wrap.
constexpr std::uint64_t kMaxContentLength = std::uint64_t{1} << 60;

/// What a request and a response have in common while they are read.
struct HeadLines {
  std::string_view start;
  Headers headers;
};

struct Problem {
  std::string message;
  bool too_large = false;
};

Error error_of(const Problem& problem, const char* reason) {
  if (problem.too_large) {
    return {ErrorCode::kTooLarge, problem.message, "head_too_large"};
  }
  return {ErrorCode::kInvalidArgument, problem.message, reason};
}

std::optional<Problem> read_field(std::string_view line, Headers& headers) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) {
    return Problem{"header line without a colon"};
  }
  // A blank before the colon and a folded line (one that starts with a blank) both fail here: a
  // name is a token. Two readers that disagree on them see two different requests.
  const std::string_view name = line.substr(0, colon);
  if (!detail::is_token(name)) {
    return Problem{"header name " + quoted(name) + " is no token"};
  }
  const std::string_view value = detail::trim_blanks(line.substr(colon + 1));
  if (!detail::is_field_value(value)) {
    return Problem{"value of header " + quoted(name) + " holds a control character"};
  }
  headers.add(std::string(name), std::string(value));
  return std::nullopt;
}

std::optional<Problem> read_lines(std::string_view head, const HeadLimits& limits, HeadLines& out) {
  if (head.size() > limits.max_bytes) {
    return Problem{"head is larger than " + std::to_string(limits.max_bytes) + " bytes", true};
  }
  if (head.empty() || find_head_end(head) != head.size()) {
    return Problem{"head does not end with its blank line"};
  }
  head.remove_suffix(kLineEnd.size());
  const auto first_end = head.find(kLineEnd);
  out.start = head.substr(0, first_end);
  head.remove_prefix(first_end + kLineEnd.size());
  while (!head.empty()) {
    if (out.headers.fields().size() >= limits.max_fields) {
      return Problem{"head has more than " + std::to_string(limits.max_fields) + " fields", true};
    }
    const auto end = head.find(kLineEnd);
    if (auto problem = read_field(head.substr(0, end), out.headers)) {
      return problem;
    }
    head.remove_prefix(end + kLineEnd.size());
  }
  return std::nullopt;
}

/// `HTTP/1.0` and `HTTP/1.1` alone.
std::optional<int> minor_version_of(std::string_view version) {
  if (version == "HTTP/1.1") {
    return 1;
  }
  return version == "HTTP/1.0" ? std::optional<int>(0) : std::nullopt;
}

bool is_host(std::string_view host) {
  constexpr std::string_view kMarks = "-._~:[]!$&'()*+;=%";
  return std::ranges::all_of(host, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::optional<Problem> check_host(const RequestHead& head) {
  const std::size_t hosts = head.headers.count("host");
  if (hosts > 1 || (hosts == 0 && head.minor_version == 1)) {
    return Problem{"request needs exactly one Host header"};
  }
  if (hosts == 1 && !is_host(*head.headers.find("host"))) {
    return Problem{"Host header " + quoted(*head.headers.find("host")) + " is no host"};
  }
  return std::nullopt;
}

/// Reads the two fields that frame a body. The order of the checks does not matter: whatever is
/// doubtful is refused, because the next reader may resolve the doubt another way.
std::optional<Problem> read_framing(const Headers& headers, int minor_version, BodyFraming& out) {
  const std::size_t lengths = headers.count("content-length");
  const std::size_t codings = headers.count("transfer-encoding");
  if (lengths + codings > 1) {
    return Problem{"body is framed more than once"};
  }
  if (codings == 1) {
    const std::string& coding = *headers.find("transfer-encoding");
    if (minor_version == 0) {
      return Problem{"HTTP/1.0 has no Transfer-Encoding"};
    }
    if (!equal_ignoring_case(coding, "chunked")) {
      return Problem{"Transfer-Encoding " + quoted(coding) + " is not `chunked`"};
    }
    out = {Framing::kChunked, 0};
  }
  if (lengths == 1) {
    const std::string& text = *headers.find("content-length");
    const auto length = parse_decimal(text, kMaxContentLength);
    if (!length) {
      return Problem{"Content-Length " + quoted(text) + " is no length"};
    }
    out = {Framing::kLength, *length};
  }
  return std::nullopt;
}

bool keeps_alive(const Headers& headers, int minor_version) {
  if (minor_version == 0) {
    return headers.has_token("connection", "keep-alive") &&
           !headers.has_token("connection", "close");
  }
  return !headers.has_token("connection", "close");
}

std::optional<Problem> read_request_line(std::string_view line, RequestHead& out) {
  const auto parts = split(line, ' ');
  if (parts.size() != 3) {
    return Problem{"request line is not `METHOD target HTTP/1.1`"};
  }
  const auto version = minor_version_of(parts[2]);
  if (!version) {
    return Problem{"protocol " + quoted(parts[2]) + " is not spoken here"};
  }
  if (!detail::is_token(parts[0]) || parts[0].size() > kMaxMethodBytes) {
    return Problem{"method " + quoted(parts[0]) + " is no method"};
  }
  if (!detail::is_target_text(parts[1])) {
    return Problem{"request target holds more than visible ASCII"};
  }
  out.method = parts[0];
  out.target = parts[1];
  out.minor_version = *version;
  return std::nullopt;
}

std::optional<Problem> read_status_line(std::string_view line, ResponseHead& out) {
  constexpr std::size_t kVersionBytes = 8;
  const auto version = minor_version_of(line.substr(0, kVersionBytes));
  if (!version || line.size() < kVersionBytes + 4 || line[kVersionBytes] != ' ') {
    return Problem{"status line is not `HTTP/1.1 status reason`"};
  }
  const auto status = parse_decimal(line.substr(kVersionBytes + 1, 3), 599);
  if (!status || *status < 100) {
    return Problem{"status is no number from 100 to 599"};
  }
  std::string_view reason = line.substr(kVersionBytes + 4);
  if (!reason.empty() && reason.front() != ' ') {
    return Problem{"status is no number from 100 to 599"};
  }
  reason.remove_prefix(reason.empty() ? 0 : 1);
  if (!detail::is_field_value(reason)) {
    return Problem{"reason of the status holds a control character"};
  }
  out.status = static_cast<int>(*status);
  out.reason = reason;
  out.minor_version = *version;
  return std::nullopt;
}

/// Sets framing and keep-alive of a response as RFC 9112, 6.3 orders them.
void frame_response(std::string_view request_method, BodyFraming stated, ResponseHead& head) {
  const bool interim_or_empty = head.status < 200 || head.status == 204;
  const bool tunnel = request_method == "CONNECT" && head.status / 100 == 2;
  head.keep_alive = keeps_alive(head.headers, head.minor_version);
  if (interim_or_empty || tunnel || head.status == 304 || request_method == "HEAD") {
    head.body = {};
    // Such an answer has no body whatever it says. One that says otherwise may have sent one.
    const bool claims_body = stated.kind == Framing::kChunked || stated.length > 0;
    head.keep_alive = head.keep_alive && !(interim_or_empty && claims_body);
    return;
  }
  head.body = stated;
  if (stated.kind == Framing::kNone) {
    head.body = {Framing::kUntilClose, 0};
    head.keep_alive = false;
  }
}

}  // namespace

std::size_t find_head_end(std::string_view buffer) {
  const auto at = buffer.find(kHeadEnd);
  return at == std::string_view::npos ? 0 : at + kHeadEnd.size();
}

Result<RequestHead> parse_request_head(std::string_view head, const HeadLimits& limits) {
  RequestHead out;
  HeadLines lines;
  auto problem = read_lines(head, limits, lines);
  if (!problem) {
    problem = read_request_line(lines.start, out);
  }
  out.headers = std::move(lines.headers);
  if (!problem) {
    problem = check_host(out);
  }
  if (!problem) {
    problem = read_framing(out.headers, out.minor_version, out.body);
  }
  // What follows a CONNECT is the tunnel's; a body in front of it could be read either way.
  if (!problem && out.method == "CONNECT" &&
      (out.body.kind == Framing::kChunked || out.body.length > 0)) {
    problem = Problem{"CONNECT takes no body"};
  }
  if (problem) {
    return error_of(*problem, "bad_request");
  }
  out.keep_alive = keeps_alive(out.headers, out.minor_version);
  return out;
}

Result<ResponseHead> parse_response_head(std::string_view head, std::string_view request_method,
                                         const HeadLimits& limits) {
  ResponseHead out;
  HeadLines lines;
  BodyFraming stated;
  auto problem = read_lines(head, limits, lines);
  if (!problem) {
    problem = read_status_line(lines.start, out);
  }
  out.headers = std::move(lines.headers);
  if (!problem) {
    problem = read_framing(out.headers, out.minor_version, stated);
  }
  if (problem) {
    return error_of(*problem, "bad_response");
  }
  frame_response(request_method, stated, out);
  return out;
}

}  // namespace sandboxkit::wire
