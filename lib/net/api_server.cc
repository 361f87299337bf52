#include "net/api_server.h"

#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/percent.h"
#include "base/text.h"
#include "io/http_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <httplib.h>

namespace sandboxkit::net {

namespace {

/// Longest path that is looked up. The library matches routes with std::regex, whose stack use
/// grows with the text, so this is a promise about the stack and no matter of taste.
constexpr std::size_t kMaxPathBytes = 2048;

constexpr std::array<std::string_view, 5> kRoutedMethods = {"GET", "POST", "PUT", "PATCH",
                                                            "DELETE"};
/// No route may have this method, so it stands for all that we do not know: 405 or 404.
constexpr std::string_view kForeignMethod = "OPTIONS";

/// One spelling for each path: every segment decoded, then encoded again, so that a `%2F` inside of
/// a segment never splits it. nullopt for a broken escape.
std::optional<std::string> canonical_path(std::string_view target) {
  const auto raw = target.substr(0, target.find('?'));
  std::string path;
  for (const auto segment : split(raw.substr(raw.empty() ? 0 : 1), '/')) {
    const auto decoded = percent_decode(segment, false);
    if (!decoded) {
      return std::nullopt;
    }
    path += '/';
    path += percent_encoded(*decoded);
  }
  return path;
}

/// `/v1/sandboxes/{id}` as the regular expression that the library wants.
std::string regex_of(std::string_view pattern) {
  std::string regex;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '{') {
      i = pattern.find('}', i);
      SANDBOXKIT_CHECK(i != std::string_view::npos, "a pattern closes its braces");
      regex += "([^/]+)";
      continue;
    }
    SANDBOXKIT_CHECK(c == '/' || percent_encoded({&c, 1}).size() == 1,
                     "a pattern's literals need no escape in a path");
    if (c == '.') {
      regex += '\\';
    }
    regex += c;
  }
  return regex;
}

Error error_of(ErrorCode code, std::string reason, std::string message) {
  return Error{code, std::move(message), std::move(reason)};
}

ApiResponse refusal(int status, std::string_view reason, std::string_view message) {
  return json_response(status, io::error_body(status, reason, message));
}

/// The answer of one call: whoever is first gives it, and a call that nobody answers gets a 500
/// when the last holder lets go.
class Answer {
 public:
  explicit Answer(ApiResponder done) : done_(std::move(done)) {}
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    give(
        error_response(error_of(ErrorCode::kInternal, "internal", "the call was left unanswered")));
  }

  /// The call was not taken: nobody is to be answered.
  void disown() { given_ = true; }

  void give(ApiResponse response) {
    if (!given_.exchange(true)) {
      done_(std::move(response));
    }
  }

 private:
  ApiResponder done_;
  std::atomic<bool> given_{false};
};

struct Call {
  ApiRequest request;
  std::shared_ptr<Answer> answer;
  bool taken = false;  ///< By the gate, a handler, or the refusal of another method.
};

/// A whole request in memory. What the library writes as the answer is dropped: answers are values
/// that may come later, from another thread, and go straight to the caller.
class MemoryStream final : public httplib::Stream {
 public:
  MemoryStream(std::string head, std::string remote)
      : head_(std::move(head)), remote_(std::move(remote)) {}

  bool is_readable() const override { return offset_ < head_.size(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* out, std::size_t size) override {
    const auto count = head_.copy(out, size, offset_);
    offset_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char*, std::size_t size) override { return static_cast<ssize_t>(size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = remote_;
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  socket_t socket() const override { return -1; }

 private:
  std::string head_;
  std::string remote_;
  std::size_t offset_ = 0;
};

/// The call that this thread's `Router::serve` is in. The library's handlers get its own request
/// and no value of ours.
thread_local Call* t_call = nullptr;

/// cpp-httplib without its sockets: it looks up the route, runs the handler, contains exceptions.
class Router final : public httplib::Server {
 public:
  void serve(Call& call, std::string_view path) {
    t_call = &call;
    MemoryStream stream(head_of(call.request, path), call.request.remote_address);
    bool closed = false;
    process_request(stream, true, closed, nullptr);
    t_call = nullptr;
  }

  void add(std::string_view method, const std::string& regex, Handler handler) {
    if (method == "GET") {
      Get(regex, std::move(handler));
    } else if (method == "POST") {
      Post(regex, std::move(handler));
    } else if (method == "PUT") {
      Put(regex, std::move(handler));
    } else if (method == "PATCH") {
      Patch(regex, std::move(handler));
    } else if (method == "DELETE") {
      Delete(regex, std::move(handler));
    } else {
      Options(regex, std::move(handler));
    }
  }

 private:
  /// Written anew from what was parsed: the library never sees the client's own bytes, so it cannot
  /// read them in another way than we did. The body is not its business either.
  static std::string head_of(const ApiRequest& request, std::string_view path) {
    const bool known =
        request.method == "HEAD" || std::ranges::count(kRoutedMethods, request.method);
    std::string head = known ? request.method : std::string(kForeignMethod);
    head += ' ';
    for (const char c : path) {
      head += c;
      if (c == '%') {
        head += "25";  // the library decodes once; the routes match the canonical spelling
      }
    }
    head += " HTTP/1.1\r\nHost: api\r\nContent-Length: 0\r\n\r\n";
    return head;
  }
};

struct Route {
  std::string method;
  std::string pattern;
  ApiHandler handler;
};

}  // namespace

struct ApiServer::Impl {
  std::vector<Route> routes;
  std::function<std::optional<ApiResponse>(const ApiRequest&)> gate;
  Router router;
  std::unique_ptr<BoundedQueue<Call>> queue;
  std::vector<std::thread> threads;
  std::atomic<bool> stopping{false};

  void build_router();
  void add_refusals_of_other_methods();
  void serve(Call call);
  void work();
};

void ApiServer::Impl::build_router() {
  router.set_pre_routing_handler([this](const httplib::Request&, httplib::Response&) {
    if (gate) {
      if (auto response = gate(t_call->request)) {
        t_call->taken = true;
        t_call->answer->give(std::move(*response));
        return httplib::Server::HandlerResponse::Handled;
      }
    }
    return httplib::Server::HandlerResponse::Unhandled;
  });
  router.set_exception_handler([](const httplib::Request&, httplib::Response&, std::exception_ptr) {
    // The exception's text may hold a secret or a path: it is not the client's to read.
    t_call->taken = true;
    t_call->answer->give(
        error_response(error_of(ErrorCode::kInternal, "internal", "the call failed by a defect")));
  });
  for (const auto& route : routes) {
    router.add(route.method, regex_of(route.pattern),
               [&route](const httplib::Request& matched, httplib::Response&) {
                 auto& call = *t_call;
                 call.taken = true;
                 for (std::size_t i = 1; i < matched.matches.size(); ++i) {
                   call.request.params.push_back(
                       percent_decode(matched.matches[i].str(), false).value_or(""));
                 }
                 route.handler(call.request, [answer = call.answer](ApiResponse response) {
                   answer->give(std::move(response));
                 });
               });
  }
  add_refusals_of_other_methods();
}

/// After all real routes, so that none is hidden.
void ApiServer::Impl::add_refusals_of_other_methods() {
  for (auto route = routes.begin(); route != routes.end(); ++route) {
    const auto same_pattern = [&](const Route& other) { return other.pattern == route->pattern; };
    if (std::any_of(routes.begin(), route, same_pattern)) {
      continue;
    }
    std::vector<std::string_view> missing = {kForeignMethod};
    std::string allow;
    for (const auto method : kRoutedMethods) {
      const bool served = std::ranges::any_of(routes, [&](const Route& other) {
        return same_pattern(other) && other.method == method;
      });
      if (!served) {
        missing.push_back(method);
        continue;
      }
      allow +=
          (allow.empty() ? "" : ", ") + std::string(method) + (method == "GET" ? ", HEAD" : "");
    }
    for (const auto method : missing) {
      router.add(method, regex_of(route->pattern),
                 [allow](const httplib::Request&, httplib::Response&) {
                   auto response = refusal(405, "method_not_allowed",
                                           "this route takes " + allow + ", not " +
                                               sandboxkit::quoted(t_call->request.method));
                   t_call->taken = true;
                   response.headers.add("Allow", allow);
                   t_call->answer->give(std::move(response));
                 });
    }
  }
}

void ApiServer::Impl::serve(Call call) {
  const auto path = canonical_path(call.request.target);
  if (!path) {
    call.answer->give(refusal(400, "bad_request", "the path has a broken escape"));
    return;
  }
  if (path->size() > kMaxPathBytes) {
    call.answer->give(refusal(414, "path_too_long", "the path is longer than 2048 bytes"));
    return;
  }
  call.request.params.clear();
  router.serve(call, *path);
  if (!call.taken) {
    call.answer->give(
        refusal(404, "route_not_found", "no such route: " + sandboxkit::quoted(*path)));
  }
}

void ApiServer::Impl::work() {
  while (auto call = queue->pop()) {
    if (stopping) {
      call->answer->give(refusal(503, "unavailable", "the server is stopping"));
    } else {
      serve(std::move(*call));
    }
  }
}

ApiServer::ApiServer() : impl_(std::make_unique<Impl>()) {}
ApiServer::~ApiServer() { stop(); }

void ApiServer::route(std::string method, std::string pattern, ApiHandler handler) {
  SANDBOXKIT_CHECK(!impl_->queue, "routes are added before the start");
  SANDBOXKIT_CHECK(std::ranges::count(kRoutedMethods, method) == 1, "a route has a known method");
  impl_->routes.push_back({std::move(method), std::move(pattern), std::move(handler)});
}

void ApiServer::before_routing(std::function<std::optional<ApiResponse>(const ApiRequest&)> gate) {
  SANDBOXKIT_CHECK(!impl_->queue, "the gate is set before the start");
  impl_->gate = std::move(gate);
}

std::vector<std::string> ApiServer::routes() const {
  std::vector<std::string> names;
  for (const auto& route : impl_->routes) {
    names.push_back(route.method + " " + route.pattern);
  }
  return names;
}

void ApiServer::start(std::size_t threads, std::size_t queue_limit) {
  SANDBOXKIT_CHECK(!impl_->queue, "a server starts once");
  impl_->build_router();
  impl_->queue = std::make_unique<BoundedQueue<Call>>(queue_limit);
  for (std::size_t i = 0; i < threads; ++i) {
    impl_->threads.emplace_back([this] { impl_->work(); });
  }
}

void ApiServer::stop() {
  if (!impl_->queue) {
    return;
  }
  impl_->stopping = true;
  impl_->queue->close();
  for (auto& thread : impl_->threads) {
    thread.join();
  }
  impl_->threads.clear();
}

bool ApiServer::submit(ApiRequest request, ApiResponder done) {
  if (!impl_->queue) {
    return false;
  }
  Call call{std::move(request), std::make_shared<Answer>(std::move(done))};
  if (impl_->queue->try_push(std::move(call))) {
    return true;
  }
  call.answer->disown();
  return false;
}

std::optional<std::string> ApiRequest::query_value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) {
      return value;
    }
  }
  return std::nullopt;
}

ApiResponse json_response(int status, const std::string& json) {
  ApiResponse response;
  response.status = status;
  response.body = json;
  return response;
}

ApiResponse error_response(const Error& error) {
  const int status = io::status_of(error.code);
  return json_response(status,
                       io::error_body(status, reason_of(error), error.message, error.field));
}

}  // namespace sandboxkit::net
