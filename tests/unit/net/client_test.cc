#include "sandboxkit/client.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using sandboxkit::Client;
using sandboxkit::ClientRequest;
using sandboxkit::ClientResponse;
using sandboxkit::ErrorCode;
using sandboxkit::Result;

/// Plays one script: each connection gets the next answer after its request came, on a port of its
/// own. It notes the requests.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_, 16) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() { finish(); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// All requests, once the script is through.
  const std::vector<std::string>& requests() {
    finish();
    return requests_;
  }
  std::size_t connections() const { return connections_; }

 private:
  void finish() {
    ::shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) {
      thread_.join();
      ::close(listener_);
    }
  }
  void serve() {
    while (requests_.size() < answers_.size()) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) {
        return;
      }
      ++connections_;
      serve_connection(connection);
      ::close(connection);
    }
  }
  void serve_connection(int connection) {
    while (requests_.size() < answers_.size()) {
      auto request = read_request(connection);
      if (request.empty()) {
        return;
      }
      requests_.push_back(std::move(request));
      const auto& answer = answers_[requests_.size() - 1];
      if (::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL) < 0 ||
          answer.find("Connection: close") != std::string::npos || answer.empty()) {
        return;
      }
    }
  }
  static bool whole(const std::string& request) {
    const auto head = request.find("\r\n\r\n");
    if (head == std::string::npos) {
      return false;
    }
    if (request.find("Transfer-Encoding: chunked") != std::string::npos) {
      return request.ends_with("0\r\n\r\n");
    }
    const auto field = request.find("Content-Length: ");
    const std::size_t length =
        field == std::string::npos ? 0 : std::strtoul(request.c_str() + field + 16, nullptr, 10);
    return request.size() >= head + 4 + length;
  }
  static std::string read_request(int connection) {
    std::string request;
    char buffer[65536];
    while (!whole(request)) {
      const auto got = ::recv(connection, buffer, sizeof buffer, 0);
      if (got <= 0) {
        return {};
      }
      request.append(buffer, static_cast<std::size_t>(got));
    }
    return request;
  }

  std::vector<std::string> answers_;
  std::vector<std::string> requests_;
  std::atomic<std::size_t> connections_{0};
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::unique_ptr<Client> client_of(const std::string& url, std::string key = "sk_secret") {
  auto client = Client::create({.url = url, .key = std::move(key)});
  REQUIRE(client);
  return std::move(*client);
}

std::string answer_of(int status, const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a url that is no plain address of a controller is refused") {
  for (const char* url :
       {"", "controller", "ftp://host:1", "http://", "http://user:pw@host:1", "http://host:1/path",
        "http://host:1/?q", "http://host:99999", "file:///etc/passwd"}) {
    CAPTURE(url);
    const auto client = Client::create({.url = url});
    REQUIRE_FALSE(client);
    CHECK(client.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(Client::create({.url = "http://127.0.0.1:7070/"}));
  CHECK(Client::create({.url = "https://controller.example"}));
}

TEST_CASE("a call sends key, headers and body, and gives the answer back") {
  ScriptedServer server({answer_of(201, "{\"id\":1}", "X-Request: 7\r\n")});
  ClientRequest request;
  request.method = "POST";
  request.target = "/v1/sandboxes?wait=false";
  request.body = "{}";
  request.headers["Idempotency-Key"] = "k1";
  const auto response = client_of(server.url())->call(request);
  REQUIRE(response);
  CHECK(response->status == 201);
  CHECK(response->body == "{\"id\":1}");
  CHECK(response->headers.at("x-request") == "7");
  const auto& sent = server.requests().at(0);
  CHECK(sent.starts_with("POST /v1/sandboxes?wait=false HTTP/1.1\r\n"));
  CHECK(has(sent, "Authorization: Bearer sk_secret\r\n"));
  CHECK(has(sent, "Idempotency-Key: k1\r\n"));
  CHECK(has(sent, "Content-Type: application/json\r\n"));
  CHECK(has(sent, "Content-Length: 2\r\n"));
  CHECK_FALSE(has(sent, "Expect"));
}

TEST_CASE("calls one after the other share one connection") {
  ScriptedServer server({answer_of(200, "a"), answer_of(200, "b"), answer_of(204, "")});
  const auto client = client_of(server.url());
  CHECK(client->call({.target = "/a"})->body == "a");
  CHECK(client->call({.method = "POST", .target = "/b"})->body == "b");
  CHECK(client->call({.method = "DELETE", .target = "/c"})->status == 204);
  CHECK(server.connections() == 1);
  CHECK(server.requests().at(2).starts_with("DELETE /c "));
}

TEST_CASE("a refusal is an answer, and its error can be read") {
  ScriptedServer server({answer_of(
      400,
      R"({"code":400,"error":"unknown_field","message":"no member `x`","field":"egress.x"})")});
  const auto response = client_of(server.url())->call({.target = "/"});
  REQUIRE(response);
  const auto error = Client::error_from(*response);
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.reason == "unknown_field");
  CHECK(error.message == "no member `x`");
  CHECK(error.field == "egress.x");
}

TEST_CASE("an error without a readable body still has its code") {
  const auto error = Client::error_from({.status = 503, .body = "<html>"});
  CHECK(error.code == ErrorCode::kUnavailable);
  CHECK(has(error.message, "503"));
}

TEST_CASE("a redirect is not followed") {
  ScriptedServer server({answer_of(302, "", "Location: http://127.0.0.1:1/\r\n")});
  const auto response = client_of(server.url())->call({.target = "/"});
  REQUIRE(response);
  CHECK(response->status == 302);
}

TEST_CASE("a proxy of the environment is not used") {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  ::setenv("all_proxy", "http://127.0.0.1:1", 1);
  ScriptedServer server({answer_of(200, "direct")});
  const auto response = client_of(server.url())->call({.target = "/"});
  ::unsetenv("http_proxy");
  ::unsetenv("all_proxy");
  REQUIRE(response);
  CHECK(response->body == "direct");
}

TEST_CASE("a body of unknown length is streamed in chunks") {
  ScriptedServer server({answer_of(200, "")});
  int left = 3;
  ClientRequest request;
  request.method = "PUT";
  request.target = "/file";
  request.read_body = [&](std::span<char> out) -> Result<std::size_t> {
    return left-- > 0 ? out.data()[0] = 'x', std::size_t{1} : std::size_t{0};
  };
  REQUIRE(client_of(server.url())->call(request));
  CHECK(has(server.requests().at(0), "Transfer-Encoding: chunked\r\n"));
  CHECK(server.requests().at(0).ends_with("1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n0\r\n\r\n"));
}

TEST_CASE("a body of known length is streamed with its length") {
  ScriptedServer server({answer_of(200, "")});
  constexpr std::size_t kBytes = 1 << 20;
  std::size_t sent = 0;
  ClientRequest request;
  request.method = "PUT";
  request.target = "/file";
  request.body_bytes = kBytes;
  request.read_body = [&](std::span<char> out) -> Result<std::size_t> {
    const auto count = std::min(out.size(), kBytes - sent);
    std::fill_n(out.begin(), count, 'y');
    sent += count;
    return count;
  };
  REQUIRE(client_of(server.url())->call(request));
  CHECK(has(server.requests().at(0), "Content-Length: 1048576\r\n"));
  CHECK(server.requests().at(0).ends_with("yyyy"));
}

TEST_CASE("an error of the body's source ends the call with that error") {
  ScriptedServer server({answer_of(200, "")});
  ClientRequest request;
  request.method = "PUT";
  request.target = "/file";
  request.read_body = [](std::span<char>) -> Result<std::size_t> {
    return sandboxkit::Error{ErrorCode::kNotFound, "the file is gone"};
  };
  const auto response = client_of(server.url())->call(request);
  REQUIRE_FALSE(response);
  CHECK(response.error().message == "the file is gone");
}

TEST_CASE("a streamed answer goes to its taker, who may end it") {
  ScriptedServer server({answer_of(200, std::string(300'000, 'z')),
                         answer_of(200, std::string(300'000, 'z'), "Connection: close\r\n")});
  const auto client = client_of(server.url());
  std::size_t got = 0;
  ClientRequest request;
  request.target = "/file";
  request.on_body = [&](std::span<const char> bytes) {
    got += bytes.size();
    return true;
  };
  const auto whole = client->call(request);
  REQUIRE(whole);
  CHECK(got == 300'000);
  CHECK(whole->body.empty());
  request.on_body = [](std::span<const char>) { return false; };
  const auto ended = client->call(request);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == ErrorCode::kCancelled);
}

TEST_CASE("the body of a refusal is collected even when the answer was to be streamed") {
  ScriptedServer server({answer_of(404, "{}")});
  bool called = false;
  ClientRequest request;
  request.target = "/file";
  request.on_body = [&](std::span<const char>) { return called = true; };
  const auto response = client_of(server.url())->call(request);
  REQUIRE(response);
  CHECK(response->body == "{}");
  CHECK_FALSE(called);
}

TEST_CASE("nobody at the port is unavailable") {
  std::string url;
  {
    ScriptedServer server({});
    url = server.url();
  }
  const auto response = client_of(url)->call({.target = "/"});
  REQUIRE_FALSE(response);
  CHECK(response.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("an answer that breaks off is unavailable") {
  ScriptedServer server({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nabc"});
  const auto response = client_of(server.url())->call({.target = "/"});
  REQUIRE_FALSE(response);
  CHECK(response.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("an answer that does not come in time is a passed deadline") {
  ScriptedServer server({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "never"});
  const auto response = client_of(server.url())->call({.target = "/", .timeout = 100ms});
  REQUIRE_FALSE(response);
  CHECK(response.error().code == ErrorCode::kDeadlineExceeded);
}

TEST_CASE("what would break a request's lines is refused before it is sent") {
  const auto client = client_of("http://127.0.0.1:1");
  for (const auto& request :
       {ClientRequest{.target = "no-slash"}, ClientRequest{.target = "/a b"},
        ClientRequest{.target = "/a\r\nX: y"}, ClientRequest{.method = "get", .target = "/"},
        ClientRequest{.target = "/", .headers = {{"X", "a\r\nY: b"}}},
        ClientRequest{.target = "/", .headers = {{"X Y", "a"}}}}) {
    const auto response = client->call(request);
    REQUIRE_FALSE(response);
    CHECK(response.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK_FALSE(Client::create({.url = "http://127.0.0.1:1", .key = "a\r\nb"}));
}

TEST_CASE("percent-encoding leaves unreserved characters alone") {
  CHECK(sandboxkit::percent_encode("aZ09-._~") == "aZ09-._~");
  CHECK(sandboxkit::percent_encode("a/b c%\xff+") == "a%2Fb%20c%25%FF%2B");
}
