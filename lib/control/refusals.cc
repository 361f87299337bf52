#include "control/refusals.h"

#include "base/check.h"
#include "io/http_server.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::control {
namespace {

constexpr RefusalName kNames[] = {
    {"invalid_argument", 400},
    {"unknown_field", 400},
    {"not_offered", 400},
    {"invalid_json", 400},
    {"unauthenticated", 401},
    {"owner_required", 403},
    {"operator_required", 403},
    {"tenant_required", 403},
    {"worker_role", 403},
    {"worker_required", 403},
    {"concurrency_limit", 403},
    {"own_request", 403},
    {"sandbox_not_found", 404},
    {"worker_not_found", 404},
    {"key_not_found", 404},
    {"join_token_not_found", 404},
    {"token_not_found", 404},
    {"workspace_not_found", 404},
    {"secret_not_found", 404},
    {"approval_not_found", 404},
    {"route_not_found", 404},
    {"method_not_allowed", 405},
    {"worker_capability_unavailable", 409},
    {"spec_mismatch", 409},
    {"name_taken", 409},
    {"sandbox_not_running", 409},
    {"image_not_found", 409},
    {"last_owner_key", 409},
    {"secrets_unavailable", 409},
    {"cannot_retrofit", 409},
    {"policy_widens", 409},
    {"no_recorded_egress", 409},
    {"approval_changed", 409},
    {"body_too_large", 413},
    {"idempotency_mismatch", 422},
    {"upgrade_required", 426},
    {"rate_limited", 429},
    {"head_too_large", 431},
    {"internal", 500},
    {"no_capacity", 503},
    {"worker_unreachable", 503},
    {"store_unavailable", 503},
    {"overloaded", 503},
    {"create_timeout", 504},
};

const RefusalName* find_name(std::string_view name) {
  const auto* found =
      std::ranges::find_if(kNames, [&](const RefusalName& each) { return each.name == name; });
  return found == std::end(kNames) ? nullptr : found;
}

net::ApiResponse answer(int status, std::string_view name, const std::string& message,
                        std::string_view field, const json::Object& extra) {
  json::Object body{{"code", status}, {"error", name}, {"message", message}};
  if (!field.empty()) {
    body.emplace_back("field", field);
  }
  body.insert(body.end(), extra.begin(), extra.end());
  net::ApiResponse response;
  response.status = status;
  response.body = json::dump(json::Value(std::move(body)));
  if (status == 401) {
    response.headers.add("WWW-Authenticate", "Bearer");
  }
  return response;
}

}  // namespace

std::span<const RefusalName> refusal_names() { return kNames; }

net::ApiResponse refuse(std::string_view name, const std::string& message,
                        const json::Object& extra, std::string_view field) {
  const RefusalName* known = find_name(name);
  SANDBOXKIT_CHECK(known != nullptr, "every refusal stands in the table");
  return answer(known->status, name, message, field, extra);
}

net::ApiResponse refuse(const Error& error) {
  const std::string name = reason_of(error);
  const RefusalName* known = find_name(name);
  return answer(known != nullptr ? known->status : io::status_of(error.code), name, error.message,
                error.field, {});
}

net::ApiResponse refuse(const PlacementRequest& request, const Refusal& refusal) {
  json::Object counts;
  for (const auto& [filter, count] : refusal.counts) {
    counts.emplace_back(name_of(filter), count);
  }
  json::Object extra{{"counts", std::move(counts)}};
  if (!refusal.missing.empty()) {
    extra.emplace_back("missing", refusal.missing);
  }
  net::ApiResponse response =
      answer(status_of(refusal.code), name_of(refusal.code), explain(request, refusal), {}, extra);
  if (refusal.retry_after) {
    response.headers.add("Retry-After", std::to_string(refusal.retry_after->count()));
  }
  return response;
}

net::ApiResponse refuse_ended(const store::SandboxRow& row) {
  const std::size_t colon = row.reason.find(": ");
  const std::string_view name = std::string_view(row.reason).substr(0, colon);
  const RefusalName* known = colon == std::string::npos ? nullptr : find_name(name);
  if (row.state == "error" && known != nullptr) {
    return answer(known->status, name, row.reason.substr(colon + 2),
                  name == "image_not_found" ? "image" : "", {{"sandbox", row.id}});
  }
  const std::string why = row.reason.empty() ? std::string() : " (" + row.reason + ")";
  return refuse("sandbox_not_running", "sandbox `" + row.id + "` is " + row.state + why,
                {{"state", row.state}, {"reason", row.reason}, {"sandbox", row.id}});
}

Error sandbox_not_found() {
  return Error{ErrorCode::kNotFound, "no such sandbox in this workspace", "sandbox_not_found"};
}

Error worker_not_found() {
  return Error{ErrorCode::kNotFound, "no such worker that this workspace may use",
               "worker_not_found"};
}

}  // namespace sandboxkit::control
