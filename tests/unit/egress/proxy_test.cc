#include "egress/proxy.h"

#include "tests/unit/egress/proxy_world.h"
#include "wire/http.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)
using sandboxkit::egress::Limits;
using namespace std::literals;

namespace {

/// A world in which ok.test is the upstream and evil.test is known, but not allowed.
WorldOptions ok_world(Upstream upstream = mirror_head) {
  return {
      .domains = {"ok.test:@", "*.w.test:@"},
      .hosts = {{"ok.test", "127.0.0.1"}, {"a.w.test", "127.0.0.1"}, {"evil.test", "127.0.0.1"}},
      .upstream = std::move(upstream)};
}

std::string get(const World& world, std::string_view host, std::string_view fields = "",
                std::string_view method = "GET") {
  return std::string(method) + " http://" + std::string(host) + ":" + world.up() +
         "/path?q=1 HTTP/1.1\r\nHost: evil.test\r\n" + std::string(fields) + "\r\n";
}

std::string connect_to(const World& world, std::string_view host) {
  return "CONNECT " + std::string(host) + ":" + world.up() + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("a plain request goes on with a request line and a Host of our own") {  // 47
  World world(ok_world());
  const std::string answer = ask(world, get(world, "OK.test."));
  CAPTURE(answer);
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(has(answer, "GET /path?q=1 HTTP/1.1\r\nHost: ok.test:" + world.up() + "\r\n"));
  CHECK_FALSE(has(answer, "evil.test"));
}

TEST_CASE("fields of the connection are removed, and Connection cannot remove what frames") {  // 54
  World world(ok_world());
  const std::string answer = ask(
      world,
      get(world, "ok.test",
          "Connection: host, content-length, x-hop\r\nX-Hop: 1\r\nProxy-Authorization: Basic s\r\n"
          "Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n"
          "HTTP2-Settings: x\r\nX-End: 1\r\nX-Sandboxkit-Egress: fake\r\n"));
  CAPTURE(answer);
  CHECK(has(answer, "Host: ok.test"));
  CHECK(has(answer, "X-End: 1"));
  for (const char* gone : {"X-Hop", "Proxy-Auth", "Proxy-Conn", "Keep-Alive", "TE:", "Upgrade",
                           "HTTP2", "Connection", "fake"}) {
    CAPTURE(gone);
    CHECK_FALSE(has(answer, gone));
  }
}

TEST_CASE("each request of a kept connection is judged by itself") {  // 51
  World world(ok_world());
  Client client(world);
  client.send(get(world, "ok.test"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
  client.send(get(world, "evil.test"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 403"));
  client.send(get(world, "a.w.test"));
  CHECK(has(client.read_answer(), "Host: a.w.test"));
  client.send(connect_to(world, "evil.test"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 403"));
  CHECK(world.upstream_connections() == 2);
}

TEST_CASE("pipelined requests are answered in order, each judged by itself") {  // 51
  World world(ok_world());
  Client client(world);
  client.send(get(world, "ok.test") + get(world, "evil.test") + get(world, "ok.test", "A: 2\r\n"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 403"));
  CHECK(has(client.read_answer(), "A: 2"));
  CHECK(world.upstream_connections() == 1);
}

TEST_CASE("pipelined requests of a client that ended its half are all answered") {  // 35, 51
  World world(ok_world());
  Client client(world);
  client.send(get(world, "ok.test") + get(world, "evil.test") + get(world, "ok.test", "A: 2\r\n"));
  client.shutdown_write();
  const std::string answers = client.read_all();
  CHECK_FALSE(client.timed_out());
  CHECK(has(answers, "HTTP/1.1 403"));
  CHECK(has(answers, "A: 2"));
}

TEST_CASE("a refusal tells an agent that it is policy, and what was refused") {
  World world(ok_world());
  const std::string answer = ask(world, connect_to(world, "evil.test"));
  CAPTURE(answer);
  CHECK(has(answer, "X-Sandboxkit-Egress: denied; reason=not_in_allow_list\r\n"));
  CHECK(has(answer, "evil.test:" + world.up()));
  CHECK(has(answer, "egress policy"));
  const std::string denied = world.denied();
  CHECK(has(denied, R"("host":"evil.test","port":)" + world.up()));
  CHECK(has(denied, R"("reason":"not_in_allow_list","count":1)"));
}

TEST_CASE("early data behind CONNECT is delivered in order") {  // 33
  World world(ok_world(echo));
  Client client(world);
  client.send(connect_to(world, "ok.test") + "early ");
  CHECK(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  client.send("late");
  CHECK(client.read_until("late") == "early late");
}

TEST_CASE("a client that ends its half still gets the reply") {  // 35
  const Upstream answer_at_end = [](const std::string& received) -> Reply {
    return received.ends_with("bye") ? Reply{"reply to " + received, true} : Reply{};
  };
  World world(ok_world(answer_at_end));
  Client client(world);
  client.send(connect_to(world, "ok.test") + "bye");
  client.shutdown_write();
  CHECK(client.read_all().ends_with("\r\n\r\nreply to bye"));
  CHECK_FALSE(client.timed_out());
}

TEST_CASE("a plain client that ends its half still gets the answer") {  // 35
  World world(ok_world());
  Client client(world);
  client.send(get(world, "ok.test"));
  client.shutdown_write();
  CHECK(has(client.read_all(), "Host: ok.test"));
  CHECK_FALSE(client.timed_out());
}

TEST_CASE("a megabyte passes through a tunnel and through a plain answer unchanged") {
  std::string large;
  for (int i = 0; large.size() < 1'000'000; ++i) {
    large += std::to_string(i) + " ";
  }
  World world(ok_world([&](const std::string& received) -> Reply {
    return has(received, "\r\n\r\n")
               ? Reply{"HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(large.size()) +
                       "\r\n\r\n" + large}
               : Reply{};
  }));
  CHECK(ask(world, get(world, "ok.test")).ends_with("\r\n\r\n" + large));
  Client client(world);
  client.send(connect_to(world, "ok.test") + "\r\n\r\n");
  CHECK(client.read_until(large.substr(large.size() - 100)).ends_with(large));
}

TEST_CASE("an upstream that closes ends the tunnel, a reset of the client ends the upstream") {
  World world(ok_world([](const std::string& received) -> Reply {
    return {"got " + received, true};
  }));
  Client client(world);
  client.send(connect_to(world, "ok.test") + "x");
  CHECK(client.read_all().ends_with("got x"));
  CHECK_FALSE(client.timed_out());
  Client other(world);
  other.send(connect_to(world, "ok.test"));
  other.read_until("\r\n\r\n");
  other.reset();
  Client last(world);
  last.send(connect_to(world, "ok.test") + "y");
  CHECK(last.read_all().ends_with("got y"));
}

TEST_CASE(
    "bodies are framed anew: by length, and chunked without extensions and trailers") {  // 52, 60
  const Upstream whole = [](const std::string& received) -> Reply {
    const bool end = received.ends_with("0\r\n\r\n") || received.ends_with("hello");
    return end ? Reply{"HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(received.size()) +
                       "\r\n\r\n" + received}
               : Reply{};
  };
  World world(ok_world(whole));
  const std::string chunked =
      ask(world, get(world, "ok.test", "Transfer-Encoding: chunked\r\n", "POST") +
                     "5;ext=\"x\"\r\nhello\r\n0\r\nTrailer: x\r\n\r\n");
  CAPTURE(chunked);
  CHECK(has(chunked, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
  CHECK_FALSE(has(chunked, "ext="));
  CHECK_FALSE(has(chunked, "Trailer"));
  const std::string plain =
      ask(world, get(world, "ok.test", "Content-Length: 5\r\n", "POST") + "hello");
  CHECK(has(plain, "Content-Length: 5\r\n\r\nhello"));
}

TEST_CASE(
    "a broken chunk ends the connection with 400, and the upstream sees no whole request") {  // 52
  World world(ok_world([](const std::string&) -> Reply { return {}; }));
  for (const char* body : {"zz\r\nhello\r\n", "5\r\nhelloworld\r\n", "-1\r\n", "5\nhello\n0\n\n"}) {
    CAPTURE(std::string(body));
    Client client(world);
    client.send(get(world, "ok.test", "Transfer-Encoding: chunked\r\n", "POST") + body);
    const std::string answer = client.read_all();
    CAPTURE(answer);
    CHECK_FALSE(client.timed_out());
    CHECK(answer.starts_with("HTTP/1.1 400 "));
  }
}

TEST_CASE("a client that asks and asks and never reads is not served on and on") {
  World world(ok_world());
  Client client(world);
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += get(world, "evil.test");
  }
  client.send(many + many);  // answers of about one megabyte
  CHECK(client.read_answer().starts_with("HTTP/1.1 403"));
  for (int i = 0; i < 1999; ++i) {
    REQUIRE(client.read_answer().starts_with("HTTP/1.1 403"));
  }
}

TEST_CASE("answers keep their framing: HEAD, 204, 304, chunked, until close, interim") {  // 60
  const struct {
    const char* what;
    const char* method;
    const char* upstream;
    const char* client;
  } rows[] = {
      {"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"},
      {"204", "GET", "HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n",
       "HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n"},
      {"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
       "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"},
      {"chunked", "GET",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 5\r\n\r\n"
       "3;a=b\r\nabc\r\n0\r\nT: 1\r\n\r\n",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
      {"interim", "GET",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    World world(ok_world([&](const std::string&) -> Reply { return {row.upstream}; }));
    Client client(world);
    client.send(get(world, "ok.test", "", row.method));
    const std::string expected = row.client;
    CHECK(client.read_until(expected) == expected);
    // The connection serves on: nothing of the answer is left over.
    client.send(get(world, "evil.test", "", row.method));
    CHECK(client.read_answer(false).starts_with("HTTP/1.1 403"));
  }
}

TEST_CASE("an answer without a length ends with the connection") {
  World world(ok_world([](const std::string&) -> Reply {
    return {"HTTP/1.1 200 OK\r\n\r\nsome text", true};
  }));
  Client client(world);
  client.send(get(world, "ok.test"));
  CHECK(client.read_all() == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome text");
  CHECK_FALSE(client.timed_out());
}

TEST_CASE("an answer that cannot be read without doubt becomes 502") {  // 60
  for (const char* answer :
       {"HTTP/1.1 200 OK\nContent-Length: 0\n\nxxxx\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "ICY 200 OK\r\n\r\n", "SSH-2.0-x\r\n\r\n"}) {
    CAPTURE(std::string(answer));
    World world(ok_world([&](const std::string&) -> Reply { return {answer}; }));
    CHECK(ask(world, get(world, "ok.test")).starts_with("HTTP/1.1 502 "));
  }
}

TEST_CASE("an upstream that floods with interim answers, or upgrades unasked, gets 502") {  // 91
  std::string flood;
  for (int i = 0; i < 20; ++i) {
    flood += "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
  }
  for (const std::string& answer :
       {flood + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"s,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"s}) {
    CAPTURE(answer);
    World world(ok_world([&](const std::string&) -> Reply { return {answer}; }));
    CHECK(has(ask(world, get(world, "ok.test")), "HTTP/1.1 502 "));
  }
}

TEST_CASE("bytes behind an answer never become the answer to the next request") {  // 92
  World world(ok_world([](const std::string& received) -> Reply {
    const bool first = has(received, "/first");
    return {first ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
                    "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"
                  : "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"};
  }));
  Client client(world);
  const std::string base = "GET http://ok.test:" + world.up();
  client.send(base + "/first HTTP/1.1\r\nHost: x\r\n\r\n" + base +
              "/second HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_answer().ends_with("first"));
  CHECK(client.read_answer().ends_with("second"));
  CHECK(world.upstream_connections() == 2);
}

TEST_CASE("chunks whose size overflows, and bodies of many tiny chunks") {  // 52, 93
  for (const char* size :
       {"10000000000000005", "ffffffffffffffff1", "-5", "+5", "0x5", " 5", "5 ", "", "5;\n"}) {
    CAPTURE(std::string(size));
    World world(ok_world());
    Client client(world);
    client.send(get(world, "ok.test", "Transfer-Encoding: chunked\r\n", "POST") + size +
                "\r\nhello\r\n0\r\n\r\n");
    // The upstream of this test answers a head at once: what counts is that the rest is cut off.
    client.read_all();
    CHECK_FALSE(client.timed_out());
    CHECK_FALSE(has(world.stats(), R"("bytes_up":5)"));
  }
  std::string tiny;
  for (int i = 0; i < 20'000; ++i) {
    tiny += "1\r\nx\r\n";
  }
  World world(ok_world([](const std::string& received) -> Reply {
    return received.ends_with("0\r\n\r\n") ? Reply{"HTTP/1.1 204 No Content\r\n\r\n"} : Reply{};
  }));
  CHECK(ask(world, get(world, "ok.test", "Transfer-Encoding: chunked\r\n", "POST") + tiny +
                       "0\r\nHost: evil.test\r\n\r\n")
            .starts_with("HTTP/1.1 204 "));
}

TEST_CASE("the bytes of a sandbox have a limit, if one is set") {  // 36
  WorldOptions options = ok_world();
  options.limits = {.max_bytes = 200, .sweep = Limits::Ms{20}};
  World world(std::move(options));
  Client client(world);
  client.send(get(world, "ok.test") + get(world, "ok.test") + get(world, "ok.test"));
  client.read_all();
  CHECK_FALSE(client.timed_out());
  CHECK(has(ask(world, get(world, "ok.test")), "reason=byte_limit"));
  CHECK(has(ask(world, connect_to(world, "ok.test")), "HTTP/1.1 429 "));
}

TEST_CASE("an answer that breaks off breaks off at the client too") {
  World world(ok_world([](const std::string&) -> Reply {
    return {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", true};
  }));
  Client client(world);
  client.send(get(world, "ok.test"));
  CHECK(client.read_all().size() < 100);
  CHECK_FALSE(client.timed_out());
}

TEST_CASE("a websocket passes as a byte pipe after its 101, h2c does not pass") {  // 57
  World world(ok_world([](const std::string& received) -> Reply {
    if (!has(received, "\r\n\r\n")) {
      return {"echo " + received};
    }
    return has(received, "Upgrade: websocket")
               ? Reply{"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                       "Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nhello"}
               : mirror_head(received);
  }));
  Client client(world);
  client.send(get(world, "ok.test",
                  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"));
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.1 101 "));
  CHECK(has(head, "Upgrade: websocket\r\n"));
  CHECK(has(head, "Sec-WebSocket-Accept: x\r\n"));
  CHECK(client.read_until("hello") == "hello");
  client.send("frame");
  CHECK(client.read_until("frame") == "echo frame");
  CHECK_FALSE(
      has(ask(world, get(world, "ok.test", "Connection: Upgrade\r\nUpgrade: h2c\r\n")), "h2c"));
}

TEST_CASE("a kept upstream that was closed meanwhile is dialled again, once") {
  World world(ok_world([](const std::string& received) -> Reply {
    return {mirror_head(received).bytes, true};  // says keep-alive, and closes
  }));
  Client client(world);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    client.send(get(world, "ok.test"));
    CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
  }
  CHECK(world.upstream_connections() == 3);
}

TEST_CASE("clients of HTTP/1.0 get no chunks and are closed unless they ask") {
  World world(ok_world([](const std::string&) -> Reply {
    return {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
  }));
  Client client(world);
  client.send("GET http://ok.test:" + world.up() + "/ HTTP/1.0\r\n\r\n");
  CHECK(client.read_all() == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
}

TEST_CASE("a head that does not come in time is ended") {  // 38
  WorldOptions options = ok_world();
  options.limits = {.head = Limits::Ms{50}, .sweep = Limits::Ms{10}};
  World world(std::move(options));
  Client client(world);
  client.send("GET http://ok.test/ HTTP/1.1\r\nX: ");
  CHECK(client.read_all().starts_with("HTTP/1.1 408 "));
  CHECK_FALSE(client.timed_out());
}

TEST_CASE("an idle tunnel and a tunnel past its life are ended, a busy one is not") {  // 37
  WorldOptions options = ok_world(echo);
  options.limits = {.idle = Limits::Ms{60}, .sweep = Limits::Ms{10}};
  World world(std::move(options));
  Client client(world);
  client.send(connect_to(world, "ok.test") + "ping");
  client.read_until("ping");
  CHECK(client.read_all().empty());
  CHECK_FALSE(client.timed_out());

  WorldOptions old = ok_world(echo);
  old.limits = {.lifetime = Limits::Ms{100}, .sweep = Limits::Ms{10}};
  World other(std::move(old));
  Client busy(other);
  busy.send(connect_to(other, "ok.test"));
  busy.read_until("\r\n\r\n");
  int rounds = 0;
  for (; rounds < 100'000; ++rounds) {
    busy.send("x");
    if (busy.read_until("x") != "x") {
      break;
    }
  }
  CHECK(rounds < 100'000);
}

TEST_CASE("one tunnel more than the limit gets 429, and room comes back when one ends") {  // 36
  WorldOptions options = ok_world(echo);
  options.limits = {.max_upstreams = 2, .sweep = Limits::Ms{20}};
  World world(std::move(options));
  auto first = std::make_unique<Client>(world);
  Client second(world);
  for (Client* client : {first.get(), &second}) {
    client->send(connect_to(world, "ok.test") + "x");
    CHECK(client->read_until("\r\n\r\nx").starts_with("HTTP/1.1 200 "));
  }
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 429 "));
  CHECK(ask(world, get(world, "ok.test")).starts_with("HTTP/1.1 429 "));
  first->shutdown_write();
  CHECK(first->read_all().empty());
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
}

TEST_CASE("one connection more than the limit gets 429") {
  WorldOptions options = ok_world();
  options.limits = {.max_connections = 1, .sweep = Limits::Ms{20}};
  World world(std::move(options));
  Client first(world);
  first.send(get(world, "ok.test"));
  CHECK(first.read_answer().starts_with("HTTP/1.1 200"));
  Client second(world);
  CHECK(second.read_all().starts_with("HTTP/1.1 429 "));
}

TEST_CASE("an upstream that cannot be reached gives 502, and no denial") {
  World world({.domains = {"ok.test:1"}, .hosts = {{"ok.test", "127.0.0.1"}}});
  const std::string answer = ask(world, "CONNECT ok.test:1 HTTP/1.1\r\nHost: ok.test\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 502 "));
  CHECK(has(answer, "failed; reason=connect_failed"));
  CHECK(world.denied() == R"({"denied":[]})");
}

TEST_CASE("decisions stand in the log, one JSON line each") {
  WorldOptions options = ok_world(echo);
  World world(std::move(options));
  {
    Client client(world);
    client.send(connect_to(world, "OK.test") + "12345");
    client.read_until("12345");
    ask(world, connect_to(world, "evil.test"));
    client.shutdown_write();
    client.read_all();
  }
  const std::string log = world.log_until("\"closed\"");
  CAPTURE(log);
  CHECK(has(log, R"("host":"ok.test","port":)" + world.up() +
                     R"(,"decision":"allow","reason":"allowed","rule":"ok.test:)" + world.up() +
                     R"(","address":"127.0.0.1"})"));  // 1
  CHECK(has(log, R"("decision":"deny","reason":"not_in_allow_list")"));
  CHECK(has(log, R"("bytes_up":5,"bytes_down":5)"));
}
