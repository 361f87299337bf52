#include "base/text.h"
#include "control/api.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

/// The audit log as its readers see it: an owner the workspace's lines, the operator those that
/// belong to none.
namespace sandboxkit::control {
namespace {

constexpr std::size_t kDefaultPage = 100;
constexpr std::uint64_t kMaxPage = 500;

/// A line's id is its hash: its number would tell how much happens in other workspaces.
json::Value audit_view(const store::AuditRow& row) {
  return json::Object{{"id", row.hash},         {"time", to_rfc3339(row.time)},
                      {"actor", row.actor},     {"action", row.action},
                      {"target", row.target},   {"outcome", row.outcome},
                      {"address", row.address}, {"request", row.request}};
}

Error invalid(const char* field, const char* message) {
  return Error{ErrorCode::kInvalidArgument, message, "invalid_argument", field};
}

Result<std::size_t> limit_from(const net::ApiRequest& request) {
  const auto text = request.query_value("limit");
  const auto number = text ? parse_decimal(*text, kMaxPage) : std::optional(kDefaultPage);
  if (!number || *number == 0) {
    return invalid("limit", "limit must be 1 to 500");
  }
  return static_cast<std::size_t>(*number);
}

Result<std::int64_t> place_after(store::Tx& tx, const Caller& caller, const std::string& id) {
  if (id.empty()) {
    return std::int64_t{0};
  }
  auto seq = tx.audit_seq(caller.tenant, id);
  if (!seq) {
    return seq.error();
  }
  if (!*seq) {
    return invalid("after", "there is no such line in this log (any more)");
  }
  return **seq;
}

net::ApiResponse list(Services& services, const Caller& caller, const net::ApiRequest& request) {
  const auto limit = limit_from(request);
  if (!limit) {
    return refuse(limit.error());
  }
  std::vector<store::AuditRow> rows;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    const auto after = place_after(tx, caller, request.query_value("after").value_or(""));
    if (!after) {
      return after.error();
    }
    // One more tells whether there is a next page.
    auto found = tx.audit(caller.tenant, *after, *limit + 1);
    if (!found) {
      return found.error();
    }
    rows = std::move(*found);
    return {};
  });
  if (!read) {
    return refuse(read.error());
  }
  const bool more = rows.size() > *limit;
  rows.resize(std::min(rows.size(), *limit));
  json::Array views;
  std::ranges::transform(rows, std::back_inserter(views), audit_view);
  return json_answer(
      200, json::Object{{"audit", std::move(views)},
                        {"next", more ? json::Value(rows.back().hash) : json::Value(nullptr)}});
}

}  // namespace

void add_audit_routes(Api& api, Services& services) {
  api.on("GET", "/v1/audit",
         [&services](const Caller& caller, const net::ApiRequest& request,
                     const net::ApiResponder& answer) { answer(list(services, caller, request)); });
}

}  // namespace sandboxkit::control
