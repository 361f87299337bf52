#include "io/http_connection.h"
#include "io/http_server.h"
#include "json/value.h"

#include <string>
#include <utility>

namespace sandboxkit::io {

std::string error_body(int status, std::string_view error, std::string_view message,
                       std::string_view field) {
  json::Object body;
  body.emplace_back("code", status);
  body.emplace_back("error", error);
  body.emplace_back("message", message);
  if (!field.empty()) {
    body.emplace_back("field", field);
  }
  return json::dump(std::move(body));
}

int status_of(ErrorCode code) {
  switch (code) {  // No default: -Werror=switch-enum asks for every new code here.
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

void respond_error(HttpExchange& exchange, const Error& error) {
  const int status = status_of(error.code);
  wire::Headers headers;
  headers.add("Content-Type", "application/json");
  exchange.respond(status, std::move(headers),
                   error_body(status, reason_of(error), error.message, error.field));
}

void respond_json(HttpExchange& exchange, int status, const std::string& json) {
  wire::Headers headers;
  headers.add("Content-Type", "application/json");
  exchange.respond(status, std::move(headers), json);
}

std::string error_answer(int status, std::string_view error, std::string_view message,
                         const wire::Headers& fields) {
  const std::string body = error_body(status, error, message);
  wire::ResponseHead head;
  head.status = status;
  head.headers = fields;
  head.headers.add("Content-Type", "application/json");
  head.headers.add("Content-Length", std::to_string(body.size()));
  head.headers.add("Connection", "close");
  return wire::serialize(head) + body;
}

}  // namespace sandboxkit::io
