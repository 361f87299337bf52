#include "net/front.h"

#include "sandboxkit/client.h"

#include "net/tunnel.h"

#include <chrono>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace {

using namespace std::chrono_literals;
using namespace sandboxkit::net;
using sandboxkit::Client;
using sandboxkit::ClientRequest;
using sandboxkit::Error;
using sandboxkit::ErrorCode;
using sandboxkit::Result;
namespace io = sandboxkit::io;
namespace wire = sandboxkit::wire;

/// A front whose loop runs in a thread of its own.
class FrontFixture {
 public:
  explicit FrontFixture(FrontOptions options = {}, Front::StreamHandler streams = {},
                        std::size_t queue = 64)
      : api(std::make_unique<ApiServer>()) {
    api->route("GET", "/hello", [](const ApiRequest& request, const ApiResponder& respond) {
      respond(json_response(200, "{\"from\":\"" + request.remote_address + "\"}"));
    });
    api->route("POST", "/echo", [](const ApiRequest& request, const ApiResponder& respond) {
      respond(json_response(200, request.body + request.query_value("x").value_or("")));
    });
    api->route("GET", "/kept", [this](const ApiRequest&, ApiResponder respond) {
      kept.set_value(std::move(respond));
    });
    api->route("DELETE", "/nothing",
               [](const ApiRequest&, const ApiResponder& respond) { respond({.status = 204}); });
    api->start(2, queue);
    auto made = Front::listen(loop, options, *api, std::move(streams));
    REQUIRE(made);
    front = std::move(*made);
    thread = std::thread([this] { loop.run(); });
  }
  ~FrontFixture() {
    api->stop();
    loop.stop();
    thread.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(front->port()); }
  std::unique_ptr<Client> client() const { return std::move(*Client::create({.url = url()})); }
  /// Runs on the loop's thread and gives its result.
  std::size_t connections() {
    std::promise<std::size_t> count;
    loop.post([&] { count.set_value(front->connections()); });
    return count.get_future().get();
  }

  io::EventLoop loop;
  std::promise<ApiResponder> kept;
  std::unique_ptr<ApiServer> api;
  std::unique_ptr<Front> front;
  std::thread thread;
};

io::Fd connect_to(std::uint16_t port) {
  io::Fd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const timeval limit{10, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return connection;
}

void send_text(const io::Fd& connection, std::string_view text) {
  REQUIRE(::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

/// Reads until `end` was seen or the connection ends.
std::string read_until(const io::Fd& connection, std::string_view end) {
  std::string text;
  char byte = 0;
  while (!text.ends_with(end) && ::recv(connection.get(), &byte, 1, 0) == 1) {
    text += byte;
  }
  return text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a short call goes through the front to its route and back") {
  FrontFixture api;
  const auto client = api.client();
  const auto hello = client->call({.target = "/hello"});
  REQUIRE(hello);
  CHECK(hello->body == "{\"from\":\"127.0.0.1\"}");
  CHECK(hello->headers.at("content-type") == "application/json");
  const auto echo = client->call({.method = "POST", .target = "/echo?x=%21", .body = "body"});
  REQUIRE(echo);
  CHECK(echo->body == "body!");
  const auto nothing = client->call({.method = "DELETE", .target = "/nothing"});
  REQUIRE(nothing);
  CHECK(nothing->status == 204);
  CHECK(nothing->headers.count("content-type") == 0);
  CHECK(api.connections() == 1);
}

TEST_CASE("refusals come with a status, a name and a message") {
  FrontFixture api;
  const auto client = api.client();
  const auto missing = client->call({.target = "/none"});
  REQUIRE(missing);
  CHECK(missing->status == 404);
  CHECK(Client::error_from(*missing).reason == "route_not_found");
  const auto method = client->call({.method = "PUT", .target = "/hello"});
  REQUIRE(method);
  CHECK(method->status == 405);
  CHECK(method->headers.at("allow") == "GET, HEAD");
  const auto target = client->call({.target = "/a/../b"});
  REQUIRE(target);
  CHECK(target->status == 400);
}

TEST_CASE("HEAD is answered as GET, without the body") {
  FrontFixture api;
  const auto connection = connect_to(api.front->port());
  send_text(connection, "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto head = read_until(connection, "\r\n\r\n");
  CHECK(has(head, "HTTP/1.1 200 "));
  CHECK(has(head, "Content-Length: 20\r\n"));
  send_text(connection, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(read_until(connection, "}").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a body past the limit is refused with 413") {
  FrontOptions options;
  options.max_body_bytes = 1000;
  FrontFixture api(options);
  for (const std::size_t bytes : {1000U, 1001U}) {
    CAPTURE(bytes);
    const auto response =
        api.client()->call({.method = "POST", .target = "/echo", .body = std::string(bytes, 'x')});
    REQUIRE(response);
    CHECK(response->status == (bytes == 1000 ? 200 : 413));
  }
}

TEST_CASE("pipelined calls are answered in their order") {
  FrontFixture api;
  const auto connection = connect_to(api.front->port());
  std::string calls;
  for (int i = 0; i < 10; ++i) {
    calls +=
        "POST /echo?x=[" + std::to_string(i) + "] HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
  }
  send_text(connection, calls);
  std::string order;
  for (int i = 0; i < 10; ++i) {
    order += read_until(connection, "]").back() == ']' ? std::to_string(i) : "?";
  }
  CHECK(order == "0123456789");
}

TEST_CASE("a client that closed its sending half still gets its answer") {
  FrontFixture api;
  const auto connection = connect_to(api.front->port());
  send_text(connection, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  ::shutdown(connection.get(), SHUT_WR);
  CHECK(has(read_until(connection, "}"), "127.0.0.1"));
}

TEST_CASE("an answer that comes after its client is gone does no harm") {
  FrontFixture api;
  {
    const auto connection = connect_to(api.front->port());
    send_text(connection, "GET /kept HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto respond = api.kept.get_future().get();
    const linger reset_now{1, 0};
    ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &reset_now, sizeof reset_now);
    ::shutdown(connection.get(), SHUT_RDWR);
    respond(json_response(200, "{}"));
  }
  CHECK(api.client()->call({.target = "/hello"})->status == 200);
}

TEST_CASE("connections past the limit are told so, and those that stand go on") {
  FrontOptions options;
  options.max_connections = 2;
  FrontFixture api(options);
  const auto first = connect_to(api.front->port());
  const auto second = connect_to(api.front->port());
  const std::string get = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  send_text(first, get);
  send_text(second, get);
  CHECK(has(read_until(first, "}"), "200 OK"));
  CHECK(has(read_until(second, "}"), "200 OK"));
  const auto third = connect_to(api.front->port());
  send_text(third, get);
  const auto refused = read_until(third, "}");
  CHECK(has(refused, "HTTP/1.1 503 "));
  CHECK(has(refused, "Retry-After: 1\r\n"));
  CHECK(has(refused, "overloaded"));
  CHECK(read_until(third, "no more").empty());
  send_text(first, get);
  CHECK(has(read_until(first, "}"), "200 OK"));
}

TEST_CASE("calls that no queue has room for are told to come back") {
  FrontFixture api({}, {}, 0);
  const auto response = api.client()->call({.target = "/hello"});
  REQUIRE(response);
  CHECK(response->status == 503);
  CHECK(Client::error_from(*response).reason == "overloaded");
}

TEST_CASE("a stream is taken from its head alone, the rest stays with the API") {
  FrontFixture api({}, [](const std::shared_ptr<io::HttpExchange>& exchange, const std::string&) {
    if (!exchange->request().target.starts_with("/stream")) {
      return false;
    }
    exchange->begin(200, {});
    exchange->read_body([exchange](std::string_view bytes) { exchange->write(bytes); },
                        [exchange] { exchange->end(); });
    return true;
  });
  constexpr std::size_t kBytes = 8 << 20;
  std::size_t sent = 0;
  std::size_t got = 0;
  ClientRequest request;
  request.method = "PUT";
  request.target = "/stream";
  request.read_body = [&](std::span<char> out) -> Result<std::size_t> {
    const auto count = std::min(out.size(), kBytes - sent);
    std::fill_n(out.begin(), count, 's');
    sent += count;
    return count;
  };
  request.on_body = [&](std::span<const char> bytes) {
    got += bytes.size();
    return true;
  };
  const auto client = api.client();
  const auto response = client->call(request);
  REQUIRE(response);
  CHECK(got == kBytes);
  CHECK(client->call({.target = "/hello"})->status == 200);
}

TEST_CASE("a front that stopped accepting serves what stands and refuses dials") {
  FrontFixture api;
  const auto connection = connect_to(api.front->port());
  send_text(connection, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(has(read_until(connection, "}"), "200 OK"));
  std::promise<void> stopped;
  api.loop.post([&] {
    api.front->stop_accepting();
    stopped.set_value();
  });
  stopped.get_future().get();
  send_text(connection, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(has(read_until(connection, "}"), "200 OK"));
  CHECK_FALSE(api.client()->call({.target = "/hello"}));
}

namespace {

/// A controller's side of the tunnel: takes upgrades on the front and keeps the newest.
struct TunnelPoint {
  std::shared_ptr<TunnelClient> tunnel;
  io::EventLoop* loop = nullptr;
  std::promise<void> ready;

  bool take(const std::shared_ptr<io::HttpExchange>& exchange) {
    if (exchange->request().target != "/v1/worker/tunnel") {
      return false;
    }
    const auto* credential = exchange->request().headers.find("Authorization");
    if (credential == nullptr || *credential != "Bearer wk_good") {
      io::respond_error(*exchange, {ErrorCode::kUnauthenticated, "no such worker", "revoked"});
      return true;
    }
    wire::ResponseHead head{.status = 101};
    head.headers.add("Connection", "Upgrade");
    head.headers.add("Upgrade", kTunnelProtocol);
    std::string early;
    auto socket = exchange->upgrade(head, early);
    tunnel = TunnelClient::start(*loop, std::move(socket), early, {}, {});
    ready.set_value();
    return true;
  }
};

/// Dials on the front's loop and waits for the outcome.
Result<std::shared_ptr<TunnelServer>> dial(FrontFixture& api, TunnelDial order) {
  std::promise<Result<std::shared_ptr<TunnelServer>>> outcome;
  api.loop.post([&] {
    dial_tunnel(api.loop, order,
                [&](Result<std::shared_ptr<io::Socket>> socket, const std::string& early) {
                  if (!socket) {
                    outcome.set_value(socket.error());
                    return;
                  }
                  outcome.set_value(
                      TunnelServer::start(api.loop, *socket, early, {},
                                          [](const std::shared_ptr<TunnelExchange>& exchange) {
                                            exchange->respond(200, {}, "worker");
                                          },
                                          {}));
                });
  });
  return outcome.get_future().get();
}

std::string ask(FrontFixture& api, TunnelPoint& point) {
  std::promise<std::string> body;
  api.loop.post([&] {
    const auto stream = point.tunnel->open(
        {.path = "/v1/inventory"},
        {.on_data = [&](std::string_view bytes) { body.set_value(std::string(bytes)); },
         .on_error = [&](const Error& error) { body.set_value(error.message); }});
    REQUIRE(stream);
  });
  return body.get_future().get();
}

}  // namespace

TEST_CASE("a worker dials its tunnel through the front, and dials again") {
  TunnelPoint point;
  FrontFixture api({}, [&](const std::shared_ptr<io::HttpExchange>& exchange, const std::string&) {
    return point.take(exchange);
  });
  point.loop = &api.loop;
  for (const char* host : {"127.0.0.1", "localhost", "127.0.0.1"}) {
    CAPTURE(host);
    point.ready = {};
    auto worker =
        dial(api, {.url = "http://" + std::string(host) + ":" + std::to_string(api.front->port()),
                   .credential = "wk_good"});
    REQUIRE(worker);
    point.ready.get_future().get();
    CHECK(ask(api, point) == "worker");
    std::promise<void> dropped;
    api.loop.post([&] {
      worker->reset();
      dropped.set_value();
    });
    dropped.get_future().get();
  }
  std::promise<void> dropped;
  api.loop.post([&] {
    point.tunnel = nullptr;
    dropped.set_value();
  });
  dropped.get_future().get();
}

TEST_CASE("a worker that is not let in learns why") {
  TunnelPoint point;
  FrontFixture api({}, [&](const std::shared_ptr<io::HttpExchange>& exchange, const std::string&) {
    return point.take(exchange);
  });
  point.loop = &api.loop;
  const auto revoked = dial(api, {.url = api.url(), .credential = "wk_bad"});
  REQUIRE_FALSE(revoked);
  CHECK(revoked.error().code == ErrorCode::kUnauthenticated);
  CHECK(revoked.error().reason == "revoked");
  CHECK(revoked.error().message == "no such worker");
}

TEST_CASE("a dial that cannot work says so") {
  FrontFixture api;
  std::uint16_t free_port = 0;
  {
    const auto listener = io::listen_tcp("127.0.0.1", 0);
    free_port = *io::local_port(listener->get());
  }
  const auto nobody =
      dial(api, {.url = "http://127.0.0.1:" + std::to_string(free_port), .credential = "wk_good"});
  REQUIRE_FALSE(nobody);
  CHECK(nobody.error().code == ErrorCode::kUnavailable);
  const auto no_tunnels = dial(api, {.url = api.url(), .credential = "wk_good"});
  REQUIRE_FALSE(no_tunnels);
  CHECK(no_tunnels.error().code == ErrorCode::kUnavailable);
  CHECK(no_tunnels.error().reason == "route_not_found");
  for (const char* url : {"", "127.0.0.1:1", "https://127.0.0.1:1", "http://", "http://:1",
                          "http://127.0.0.1:0", "http://127.0.0.1:70000", "http://127.0.0.1:1/x",
                          "http://a b:1", "http://u@h:1", "http://[::1"}) {
    CAPTURE(url);
    const auto refused = dial(api, {.url = url, .credential = "wk_good"});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("a controller that accepts and says nothing is given up in time") {
  FrontFixture api;
  const auto silent = io::listen_tcp("127.0.0.1", 0);
  REQUIRE(silent);
  const auto port = io::local_port(silent->get());
  const auto result = dial(api, {.url = "http://127.0.0.1:" + std::to_string(*port),
                                 .credential = "wk_good",
                                 .timeout = 50ms});
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::kUnavailable);
}
