#pragma once

#include "sandboxkit/result.h"

#include "wire/http.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::net {

/// One short API call: head and body are whole and within their limits.
struct ApiRequest {
  std::string method;
  std::string target;  ///< Raw; `path` is decoded.
  std::string path;
  std::vector<std::pair<std::string, std::string>> query{};
  wire::Headers headers{};
  std::string body{};
  std::string remote_address{};
  /// What the pattern's `{name}`s matched, in order, decoded.
  std::vector<std::string> params{};

  std::optional<std::string> query_value(std::string_view name) const;
};

struct ApiResponse {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  wire::Headers headers{};
};

/// Takes the answer, exactly once, from any thread, now or later: a handler that waits for a worker
/// keeps it and returns, so that no thread is held.
using ApiResponder = std::function<void(ApiResponse)>;
using ApiHandler = std::function<void(const ApiRequest&, ApiResponder)>;

/// Routes short JSON calls with cpp-httplib on a bounded pool of threads. It has no socket of its
/// own: the front gives it whole requests, so an idle or slow client costs no thread.
///
/// Thread-safety: routes are added before `start`; `submit` from any thread.
class ApiServer {
 public:
  ApiServer();
  ~ApiServer();

  /// `pattern`: `/v1/sandboxes/{id}`; a `{name}` matches one segment.
  void route(std::string method, std::string pattern, ApiHandler handler);
  /// Runs before the routes are looked at: an answer ends the call (authentication).
  void before_routing(std::function<std::optional<ApiResponse>(const ApiRequest&)> gate);
  /// All routes as `METHOD pattern`, in the order in which they were added.
  std::vector<std::string> routes() const;

  void start(std::size_t threads, std::size_t queue_limit);
  void stop();  ///< Answers what is queued with 503, waits for the threads.

  /// False when the queue is full. A path without a route gets 404 `route_not_found`, a known path
  /// with another method 405 `method_not_allowed` with `Allow`. A handler that throws gets 500.
  bool submit(ApiRequest request, ApiResponder done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

ApiResponse json_response(int status, const std::string& json);
/// Status and body (`code`, `error`, `message`, `field`) of an error.
ApiResponse error_response(const Error& error);

}  // namespace sandboxkit::net
