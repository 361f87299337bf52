#include "cli/api.h"

#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr json::Limits kAnswerLimits{
    .max_bytes = 64U << 20, .max_depth = 32, .max_values = 5'000'000};

}  // namespace

Result<ClientResponse> Api::send(const ClientRequest& request) {
  auto response = client_->call(request);
  if (!response) {
    return response.error();
  }
  if (response->status / 100 != 2) {
    return Client::error_from(*response);
  }
  return response;
}

Result<json::Value> Api::call(const ClientRequest& request, int* status) {
  const auto response = send(request);
  if (!response) {
    return response.error();
  }
  if (status != nullptr) {
    *status = response->status;
  }
  if (response->body.empty()) {
    return json::Value();
  }
  auto value = json::parse(response->body, kAnswerLimits);
  if (!value) {
    return Error{ErrorCode::kInternal,
                 "the controller's answer cannot be read: " + value.error().message};
  }
  return value;
}

Result<json::Value> Api::post(const std::string& target, const json::Value& body,
                              std::map<std::string, std::string> headers) {
  return call({.method = "POST",
               .target = target,
               .body = json::dump(body),
               .headers = std::move(headers)});
}

Result<json::Value> Api::remove(const std::string& target, int* status) {
  return call({.method = "DELETE", .target = target}, status);
}

std::string sandbox_target(const std::string& sandbox, const std::string& rest) {
  return "/v1/sandboxes/" + percent_encode(sandbox) + rest;
}

}  // namespace sandboxkit::cli
