#pragma once

#include "control/refusals.h"
#include "control/services.h"
#include "json/reader.h"
#include "net/api_server.h"

#include <functional>
#include <set>
#include <string>

namespace sandboxkit::control {

using Handler =
    std::function<void(const Caller&, const net::ApiRequest&, const net::ApiResponder&)>;

/// Binds handlers to the route table. What is the same for every call happens here, in this order:
/// authenticate, ask the access table, refuse unknown query parameters; only then the handler.
class Api {
 public:
  Api(net::ApiServer& server, Services& services);

  /// The route must stand in the table.
  void on(const std::string& method, const std::string& pattern, Handler handler);
  /// A route without a credential.
  void open(const std::string& method, const std::string& pattern,
            std::function<net::ApiResponse()> handler);
  /// Whether every short route of the table has its handler: a defect when not.
  void check_complete() const;

 private:
  net::ApiServer& server_;
  Services& services_;
  std::set<std::string> bound_;
};

void add_sandbox_routes(Api& api, Services& services);
void add_egress_routes(Api& api, Services& services);
void add_secret_routes(Api& api, Services& services);
void add_isolation_route(Api& api, Services& services);
void add_create_route(Api& api, Services& services);
void add_fleet_routes(Api& api, Services& services);
void add_join_token_routes(Api& api, Services& services);
void add_key_routes(Api& api, Services& services);
void add_sandbox_token_routes(Api& api, Services& services);
void add_workspace_routes(Api& api, Services& services);
void add_worker_routes(Api& api, Services& services);
void add_audit_routes(Api& api, Services& services);
void add_approval_routes(Api& api, Services& services);

/// The body as an object's JSON; an empty body is an empty object.
Result<json::Value> body_of(const net::ApiRequest& request, const json::Limits& limits = {});
net::ApiResponse json_answer(int status, const json::Value& value);

}  // namespace sandboxkit::control
