#include "guest/reply.h"

#include "base/text.h"

namespace sandboxkit::guest {
namespace {

constexpr const char* kUnimplemented = "unimplemented";

int guest_status_of(const Error& error) {
  if (error.reason == "no_space") {
    return 507;  // the SDKs know a full disk by this status
  }
  return is_unimplemented(error) ? 501 : io::status_of(error.code);
}

}  // namespace

void refuse(io::HttpExchange& exchange, const Error& error) {
  const int status = guest_status_of(error);
  io::respond_json(exchange, status,
                   io::error_body(status, reason_of(error), error.message, error.field));
}

std::string basic_user(const wire::Headers& headers) {
  const std::string* field = headers.find("Authorization");
  constexpr std::string_view kScheme = "basic ";
  if (field == nullptr || field->size() <= kScheme.size() ||
      !equal_ignoring_case(std::string_view(*field).substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  const auto decoded = base64_decode(trim(std::string_view(*field).substr(kScheme.size())));
  return decoded ? decoded->substr(0, decoded->find(':')) : std::string();
}

Error unimplemented(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), kUnimplemented};
}

bool is_unimplemented(const Error& error) { return error.reason == kUnimplemented; }

}  // namespace sandboxkit::guest
