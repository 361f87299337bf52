#include "control/api.h"

#include "base/check.h"
#include "control/route_table.h"
#include "store/credentials.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sandboxkit::control {
namespace {

const Route* find_route(const std::string& method, const std::string& pattern) {
  const auto table = routes();
  const auto found = std::ranges::find_if(table, [&](const Route& each) {
    return each.method == method && each.pattern == pattern && !each.stream;
  });
  return found == table.end() ? nullptr : &*found;
}

/// The stable name of a refusal; empty for an answer that is none.
std::string name_of_refusal(const net::ApiResponse& response) {
  if (response.status < 400) {
    return {};
  }
  const auto body = json::parse(response.body);
  return body ? body->text("error") : std::string("internal");
}

std::string route_name(const std::string& method, const std::string& pattern) {
  return method + " " + pattern;
}

/// The role that a credential of this spelling can have at most, when its routes are so few that
/// every other one is refused unseen: a worker's two, and a join token's one.
std::optional<policy::Role> narrow_role(const std::string& kind, const net::ApiRequest& request) {
  if (kind == "wk" && !policy::is_worker_route(request.method, request.path)) {
    return policy::Role::kWorker;
  }
  if (kind == "jn" && !(request.method == "POST" && request.path == "/v1/worker/join")) {
    return policy::Role::kJoinToken;
  }
  return std::nullopt;
}

/// An expired credential of a worker counts on the route that renews it, and nowhere else.
Lateness lateness_of(const Route& route) {
  return route.action == policy::Action::kHeartbeat ? Lateness::kMayRenew : Lateness::kRefused;
}

/// Refuses a worker's credential or a join token on all but its own routes, known or not, before
/// anything is looked up but the credential itself.
std::optional<net::ApiResponse> narrow_gate(Services& services, const net::ApiRequest& request) {
  const auto name = store::parse_credential(credential_text(request.headers));
  const auto role = name ? narrow_role(name->kind, request) : std::nullopt;
  if (!role) {
    return std::nullopt;
  }
  auto admission = services.authenticator.admit(request.headers, request.remote_address);
  if (auto* refused = std::get_if<net::ApiResponse>(&admission)) {
    return std::move(*refused);
  }
  auto refusal = refuse(policy::check(*role, policy::Action::kListSandboxes).error());
  services.audit.note(std::get<Caller>(admission), policy::Action::kListSandboxes, refusal);
  return refusal;
}

}  // namespace

Api::Api(net::ApiServer& server, Services& services) : server_(server), services_(services) {
  server_.before_routing(
      [&services](const net::ApiRequest& request) { return narrow_gate(services, request); });
}

void Api::on(const std::string& method, const std::string& pattern, Handler handler) {
  const Route* route = find_route(method, pattern);
  SANDBOXKIT_CHECK(route != nullptr, "a route that is served stands in the table");
  bound_.insert(route_name(method, pattern));
  server_.route(method, pattern,
                [this, route, handler = std::move(handler)](const net::ApiRequest& request,
                                                            const net::ApiResponder& answer) {
                  const auto admission = services_.authenticator.admit(
                      request.headers, request.remote_address, lateness_of(*route));
                  if (const auto* refused = std::get_if<net::ApiResponse>(&admission)) {
                    return answer(*refused);
                  }
                  const Caller* caller = std::get_if<Caller>(&admission);
                  const auto noted = [this, route, caller = *caller,
                                      answer](const net::ApiResponse& response) {
                    services_.audit.note(caller, route->action, response);
                    if (route->action == policy::Action::kCreateSandbox) {
                      services_.context.metrics.create_decided(name_of_refusal(response));
                    }
                    answer(response);
                  };
                  if (const Status may = policy::check(caller->role, route->action); !may) {
                    return noted(refuse(may.error()));
                  }
                  if (const auto* unknown = first_unknown(request.query, route->query)) {
                    return answer(refuse("unknown_field", "this route takes no such parameter", {},
                                         *unknown));
                  }
                  handler(*caller, request, noted);
                });
}

void Api::open(const std::string& method, const std::string& pattern,
               std::function<net::ApiResponse()> handler) {
  const std::string name = route_name(method, pattern);
  SANDBOXKIT_CHECK(std::ranges::find(kOpenRoutes, name) != std::end(kOpenRoutes),
                   "a route without a credential stands in the list of open ones");
  server_.route(
      method, pattern,
      [handler = std::move(handler)](const net::ApiRequest&, const net::ApiResponder& answer) {
        answer(handler());
      });
}

void Api::check_complete() const {
  for (const Route& route : routes()) {
    SANDBOXKIT_CHECK(route.stream || bound_.contains(route_name(route.method, route.pattern)),
                     "every short route of the table has its handler");
  }
}

Result<json::Value> body_of(const net::ApiRequest& request, const json::Limits& limits) {
  if (request.body.empty()) {
    return json::Value(json::Object{});
  }
  return json::parse(request.body, limits);
}

net::ApiResponse json_answer(int status, const json::Value& value) {
  return net::json_response(status, json::dump(value));
}

}  // namespace sandboxkit::control
