#include "net/api_server.h"

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>

namespace {

using namespace std::chrono_literals;
using sandboxkit::net::ApiRequest;
using sandboxkit::net::ApiResponder;
using sandboxkit::net::ApiResponse;
using sandboxkit::net::ApiServer;
using sandboxkit::net::json_response;

ApiRequest request_of(std::string method, std::string target) {
  ApiRequest request;
  request.method = std::move(method);
  request.path = target;
  request.target = std::move(target);
  return request;
}

ApiResponse call(ApiServer& server, ApiRequest request) {
  auto promise = std::make_shared<std::promise<ApiResponse>>();
  auto answer = promise->get_future();
  REQUIRE(server.submit(std::move(request), [promise](ApiResponse response) {
    promise->set_value(std::move(response));
  }));
  REQUIRE(answer.wait_for(10s) == std::future_status::ready);
  return answer.get();
}

/// Answers with the route's name and what its names matched.
void echo(ApiServer& server, const std::string& method, const std::string& pattern) {
  server.route(
      method, pattern,
      [name = method + " " + pattern](const ApiRequest& request, const ApiResponder& respond) {
        std::string text = name;
        for (const auto& param : request.params) {
          text += "|" + param;
        }
        respond(json_response(200, text));
      });
}

struct Served {
  ApiServer server;
  Served() {
    echo(server, "GET", "/v1/sandboxes");
    echo(server, "POST", "/v1/sandboxes");
    echo(server, "GET", "/v1/sandboxes/{id}");
    echo(server, "DELETE", "/v1/sandboxes/{id}");
    echo(server, "GET", "/v1/sandboxes/{id}/egress/denied");
    echo(server, "GET", "/openapi.json");
    server.start(2, 16);
  }
};

}  // namespace

TEST_CASE("a request reaches the route of its method and path") {
  Served api;
  struct Row {
    const char* method;
    const char* target;
    const char* body;
  };
  for (const auto& row : {
           Row{"GET", "/v1/sandboxes", "GET /v1/sandboxes"},
           Row{"POST", "/v1/sandboxes?wait=false", "POST /v1/sandboxes"},
           Row{"GET", "/v1/sandboxes/i1", "GET /v1/sandboxes/{id}|i1"},
           Row{"DELETE", "/v1/sandboxes/i1", "DELETE /v1/sandboxes/{id}|i1"},
           Row{"GET", "/v1/sandboxes/i1/egress/denied", "GET /v1/sandboxes/{id}/egress/denied|i1"},
           Row{"GET", "/v1/%73andboxes/i1", "GET /v1/sandboxes/{id}|i1"},
           Row{"HEAD", "/v1/sandboxes/i1", "GET /v1/sandboxes/{id}|i1"},
           Row{"GET", "/openapi.json", "GET /openapi.json"},
       }) {
    CAPTURE(row.method);
    CAPTURE(row.target);
    const auto response = call(api.server, request_of(row.method, row.target));
    CHECK(response.status == 200);
    CHECK(response.body == row.body);
  }
}

TEST_CASE("an encoded slash or percent sign stays inside of its parameter") {
  Served api;
  CHECK(call(api.server, request_of("GET", "/v1/sandboxes/a%2Fb%2525")).body ==
        "GET /v1/sandboxes/{id}|a/b%25");
  CHECK(call(api.server, request_of("GET", "/v1/sandboxes/a+b%20c")).body ==
        "GET /v1/sandboxes/{id}|a+b c");
  CHECK(call(api.server, request_of("GET", "/v1/sandboxes/%0d%0aX: y%ff")).body ==
        "GET /v1/sandboxes/{id}|\r\nX: y\xff");
}

TEST_CASE("a path without a route is answered with 404") {
  Served api;
  for (const char* target : {"/", "/v1", "/v1/sandboxes/", "/v1/sandboxes//egress/denied",
                             "/v1/sandboxes/i1/egress", "//v1/sandboxes", "/v1%2Fsandboxes",
                             "/openapiXjson", "*", "/v1/sandboxes/i1/egress/denied/x"}) {
    CAPTURE(target);
    const auto response = call(api.server, request_of("GET", target));
    CHECK(response.status == 404);
    CHECK(response.body.find("route_not_found") != std::string::npos);
  }
}

TEST_CASE("a known path with another method is answered with 405 and what it takes") {
  Served api;
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "BREW"}) {
    CAPTURE(method);
    const auto response = call(api.server, request_of(method, "/v1/sandboxes"));
    CHECK(response.status == 405);
    REQUIRE(response.headers.find("Allow") != nullptr);
    CHECK(*response.headers.find("Allow") == "GET, HEAD, POST");
  }
}

TEST_CASE("a foreign method on an unknown path is answered with 404") {
  Served api;
  CHECK(call(api.server, request_of("BREW", "/coffee")).status == 404);
}

TEST_CASE("a broken escape is answered with 400, a path past the limit with 414") {
  Served api;
  CHECK(call(api.server, request_of("GET", "/v1/%zz")).status == 400);
  const std::string prefix = "/v1/sandboxes/";
  const auto longest = prefix + std::string(2048 - prefix.size(), 'a');
  CHECK(call(api.server, request_of("GET", longest)).status == 200);
  CHECK(call(api.server, request_of("GET", longest + "a")).status == 414);
}

TEST_CASE("the gate's answer ends the call before any route is looked at") {
  bool ran = false;
  ApiServer server;
  server.route("GET", "/a", [&](const ApiRequest&, const ApiResponder& respond) {
    ran = true;
    respond({});
  });
  server.before_routing([](const ApiRequest& request) -> std::optional<ApiResponse> {
    if (request.headers.find("Authorization") == nullptr) {
      return json_response(401, "{}");
    }
    return std::nullopt;
  });
  server.start(1, 4);
  CHECK(call(server, request_of("GET", "/a")).status == 401);
  CHECK(call(server, request_of("GET", "/nothing-here")).status == 401);
  CHECK(call(server, request_of("BREW", "/a")).status == 401);
  CHECK_FALSE(ran);
  auto request = request_of("GET", "/a");
  request.headers.add("authorization", "Bearer x");
  CHECK(call(server, std::move(request)).status == 200);
}

TEST_CASE("a handler that throws is answered with 500 without the exception's text") {
  ApiServer server;
  server.route("GET", "/standard", [](const ApiRequest&, const ApiResponder&) {
    throw std::runtime_error("secret path");
  });
  server.route("POST", "/odd", [](const ApiRequest&, const ApiResponder&) { throw 7; });
  server.start(1, 4);
  const auto response = call(server, request_of("GET", "/standard"));
  CHECK(response.status == 500);
  CHECK(response.body.find("internal") != std::string::npos);
  CHECK(response.body.find("secret") == std::string::npos);
  CHECK(call(server, request_of("POST", "/odd")).status == 500);
  CHECK(call(server, request_of("GET", "/nothing")).status == 404);
}

TEST_CASE("a deferred answer holds no thread") {
  std::promise<ApiResponder> kept;
  std::promise<ApiResponse> slow;
  ApiServer server;
  server.route("GET", "/slow", [&](const ApiRequest&, ApiResponder respond) {
    kept.set_value(std::move(respond));
  });
  echo(server, "GET", "/fast");
  server.start(1, 4);
  REQUIRE(server.submit(request_of("GET", "/slow"),
                        [&](ApiResponse response) { slow.set_value(std::move(response)); }));
  CHECK(call(server, request_of("GET", "/fast")).status == 200);
  kept.get_future().get()(json_response(201, "{}"));
  CHECK(slow.get_future().get().status == 201);
}

TEST_CASE("only the first answer of a call counts") {
  ApiServer server;
  server.route("GET", "/twice", [](const ApiRequest&, const ApiResponder& respond) {
    respond(json_response(200, "first"));
    respond(json_response(201, "second"));
    throw std::runtime_error("third");
  });
  server.start(1, 4);
  CHECK(call(server, request_of("GET", "/twice")).body == "first");
}

TEST_CASE("a call whose responder is dropped is answered with 500") {
  ApiServer server;
  server.route("GET", "/forgets", [](const ApiRequest&, const ApiResponder&) {});
  server.start(1, 4);
  CHECK(call(server, request_of("GET", "/forgets")).status == 500);
}

TEST_CASE("a full queue refuses the call and leaves it unanswered") {
  std::promise<void> entered;
  std::promise<void> leave;
  ApiServer server;
  server.route("GET", "/wait", [&](const ApiRequest&, const ApiResponder& respond) {
    entered.set_value();
    leave.get_future().wait();
    respond({});
  });
  echo(server, "GET", "/echo");
  server.start(1, 2);
  const auto ignore = [](const ApiResponse&) {};
  REQUIRE(server.submit(request_of("GET", "/wait"), ignore));
  entered.get_future().wait();
  REQUIRE(server.submit(request_of("GET", "/echo"), ignore));
  REQUIRE(server.submit(request_of("GET", "/echo"), ignore));
  bool answered = false;
  CHECK_FALSE(
      server.submit(request_of("GET", "/echo"), [&](const ApiResponse&) { answered = true; }));
  CHECK_FALSE(answered);
  leave.set_value();
}

TEST_CASE("stopping answers what waits with 503 and takes nothing more") {
  std::promise<void> entered;
  std::promise<void> leave;
  std::promise<int> queued;
  ApiServer server;
  server.route("GET", "/wait", [&](const ApiRequest&, const ApiResponder& respond) {
    entered.set_value();
    leave.get_future().wait();
    respond({});
  });
  echo(server, "GET", "/echo");
  server.start(1, 1'000'000);
  const auto ignore = [](const ApiResponse&) {};
  REQUIRE(server.submit(request_of("GET", "/wait"), ignore));
  entered.get_future().wait();
  REQUIRE(server.submit(request_of("GET", "/echo"),
                        [&](const ApiResponse& response) { queued.set_value(response.status); }));
  auto stopped = std::async(std::launch::async, [&] { server.stop(); });
  while (server.submit(request_of("GET", "/echo"), ignore)) {
    std::this_thread::yield();
  }
  leave.set_value();
  CHECK(queued.get_future().get() == 503);
  stopped.get();
}

TEST_CASE("the routes can be listed for the API document") {
  Served api;
  const auto routes = api.server.routes();
  REQUIRE(routes.size() == 6);
  CHECK(routes.front() == "GET /v1/sandboxes");
}

TEST_CASE("an error becomes its status and the four members of a refusal") {
  const auto response = sandboxkit::net::error_response(
      {sandboxkit::ErrorCode::kNotFound, "no such sandbox", "sandbox_not_found", "id"});
  CHECK(response.status == 404);
  CHECK(response.content_type == "application/json");
  CHECK(response.body ==
        R"({"code":404,"error":"sandbox_not_found","message":"no such sandbox","field":"id"})");
}
