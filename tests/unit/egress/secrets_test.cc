#include "tests/unit/egress/proxy_world.h"
#include "tests/unit/egress/tls_peers.h"

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

using namespace sandboxkit;                // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)
using namespace std::literals;

namespace {

constexpr std::string_view kValue = "Bearer s3cret-value-42";

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A proxy, the real server of api.test with a certificate of its own authority, and the authority
/// that the sandbox trusts.
struct Lending {
  explicit Lending(TlsUpstream::Serve serve = tls_mirror, const std::string& certified = "api.test",
                   Limits limits = {.sweep = Limits::Ms{20}})
      : upstream(issue_leaf(public_root, certified).value(), std::move(serve)),
        destination("api.test:" + std::to_string(upstream.port())),
        world({.domains = {destination, "plain.test:@"},
               .hosts = {{"api.test", "127.0.0.1"}, {"plain.test", "127.0.0.1"}},
               .lent = {destination},
               .upstream = echo,
               .limits = limits}) {}

  LentSecret secret(std::string_view value = kValue, WallTime expires_at = {}) const {
    return {.name = "API_KEY",
            .domain = destination,
            .place = SecretPlace::kHeader,
            .key = "Authorization",
            .value = std::string(value),
            .expires_at = expires_at};
  }

  std::string put(const LentSecret& lent) {
    SecretOrder order;
    order.secrets = {lent};
    order.authority = copy_of(authority);
    order.roots = public_root.certificate;
    return world.lend(std::move(order));
  }

  TlsClientOptions trusting() const {
    return {.server_name = "api.test", .trusted = authority.certificate};
  }

  std::string get(std::string_view path = "/", std::string_view fields = "") const {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: " + destination + "\r\n" +
           std::string(fields) + "\r\n";
  }

  /// One request on a connection of its own.
  std::string ask(std::string_view request) {
    TlsClient client(world, destination);
    REQUIRE(has(client.connect_answer(), " 200 "));
    REQUIRE(client.shake(trusting()).empty());
    client.send(request);
    return client.read_answer();
  }

  CertifiedKey public_root = authority_for({"api.test", "other.test"});
  CertifiedKey authority = authority_for({"api.test"});
  TlsUpstream upstream;
  std::string destination;
  World world;
};

}  // namespace

TEST_CASE("a lent secret reaches its domain, and what the sandbox sent in its place does not") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  const std::string answer =
      lending.ask(lending.get("/v1?q=1", "authorization: Bearer mine\r\nA: b\r\n"));
  CAPTURE(answer);
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(has(answer, "GET /v1?q=1 HTTP/1.1\r\nHost: " + lending.destination +
                        "\r\nAuthorization: " + std::string(kValue) + "\r\nA: b\r\n"));
  CHECK_FALSE(has(answer, "mine"));
  CHECK(lending.upstream.last_server_name() == "api.test");
}

TEST_CASE("a domain without a secret is not looked into") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  const TlsClient client(lending.world, "plain.test:" + lending.world.up());
  REQUIRE(has(client.connect_answer(), " 200 "));
  const std::string bytes = "\x16\x03\x01 not for us \x00 at all"s;
  REQUIRE(::send(client.fd(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string back(bytes.size(), ' ');
  REQUIRE(::recv(client.fd(), back.data(), back.size(), MSG_WAITALL) ==
          static_cast<ssize_t>(back.size()));
  CHECK(back == bytes);
}

TEST_CASE("an upstream that does not prove its name gets no byte of a request") {
  Lending lending(tls_mirror, "other.test");
  REQUIRE(lending.put(lending.secret()).empty());
  const std::string answer = lending.ask(lending.get());
  CAPTURE(answer);
  CHECK(answer.starts_with("HTTP/1.1 502 "));
  CHECK(has(answer, "reason=upstream_certificate"));
  CHECK(lending.upstream.bytes() == 0);
}

TEST_CASE("an upstream of an unknown authority gets no byte of a request") {
  Lending lending;
  SecretOrder order;
  order.secrets = {lending.secret()};
  order.authority = copy_of(lending.authority);
  order.roots = authority_for({"api.test"}).certificate;  // Not the one that signed.
  REQUIRE(lending.world.lend(std::move(order)).empty());
  CHECK(has(lending.ask(lending.get()), "reason=upstream_certificate"));
  CHECK(lending.upstream.bytes() == 0);
}

TEST_CASE("an upstream that speaks no TLS gets no byte of a request") {
  World world({.domains = {"api.test:@"},
               .hosts = {{"api.test", "127.0.0.1"}},
               .lent = {"api.test:@"},
               .upstream = [](const std::string&) -> Reply {
                 return {"HTTP/1.1 400 this is plain\r\n\r\n", true};
               }});
  const CertifiedKey authority = authority_for({"api.test"});
  SecretOrder order;
  order.secrets = {{.name = "K",
                    .domain = "api.test:" + world.up(),
                    .key = "X-Key",
                    .value = std::string(kValue)}};
  order.authority = copy_of(authority);
  order.roots = authority.certificate;
  REQUIRE(world.lend(std::move(order)).empty());
  TlsClient client(world, "api.test:" + world.up());
  REQUIRE(client.shake({.server_name = "api.test", .trusted = authority.certificate}).empty());
  client.send("GET / HTTP/1.1\r\nHost: api.test:" + world.up() + "\r\n\r\n");
  CHECK(has(client.read_answer(), "reason=upstream_tls"));
}

TEST_CASE("a Host of somebody else is refused inside of the connection, and listed") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  const std::string answer = lending.ask("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 421 "));
  CHECK(has(answer, "reason=host_mismatch"));
  CHECK(lending.upstream.connections() == 0);
  CHECK(has(lending.world.denied(), "host_mismatch"));
}

TEST_CASE("a hello that names another server, or none, ends the connection, and is listed") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  for (const char* name : {"evil.test", "", "api.test.evil.test"}) {
    CAPTURE(name);
    TlsClient client(lending.world, lending.destination);
    CHECK_FALSE(
        client.shake({.server_name = name, .trusted = lending.authority.certificate}).empty());
  }
  CHECK(has(lending.world.log_until("sni_mismatch"), "sni_mismatch"));
  CHECK(has(lending.world.denied(), "sni_mismatch"));
}

TEST_CASE("requests of a kept connection use one connection to the upstream, pipelined ones too") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  client.send(lending.get("/1"));
  CHECK(has(client.read_answer(), "GET /1"));
  client.send(lending.get("/2") + lending.get("/3"));
  CHECK(has(client.read_answer(), "GET /2"));
  CHECK(has(client.read_answer(), "GET /3"));
  CHECK(lending.upstream.connections() == 1);
}

TEST_CASE("an upstream that closed its idle connection is dialled again, once") {
  Lending lending([](const std::string& received) {
    return TlsUpstream::Answer{.bytes = mirror_head(received).bytes, .close = true};
  });
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  for (const char* path : {"/1", "/2", "/3"}) {
    client.send(lending.get(path));
    CHECK(has(client.read_answer(), path));
  }
}

TEST_CASE("what may not be sent twice is sent on a connection of its own") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  client.send(lending.get("/1"));
  CHECK(has(client.read_answer(), "GET /1"));
  client.send("DELETE /2 HTTP/1.1\r\nHost: " + lending.destination + "\r\n\r\n");
  CHECK(has(client.read_answer(), "DELETE /2"));
  CHECK(lending.upstream.connections() == 2);
}

TEST_CASE("requests with lent secrets count against the bytes of their sandbox") {
  Lending lending(tls_mirror, "api.test", {.max_bytes = 400, .sweep = Limits::Ms{20}});
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient standing(lending.world, lending.destination);
  REQUIRE(standing.shake(lending.trusting()).empty());
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  client.send(lending.get() + lending.get() + lending.get() + lending.get());
  client.read_all();
  standing.send(lending.get());
  CHECK(has(standing.read_all(), "reason=byte_limit"));
  CHECK(has(TlsClient(lending.world, lending.destination).connect_answer(), "reason=byte_limit"));
}

TEST_CASE("a rotated secret is used from the next request on, in a connection that stands") {
  Lending lending;
  REQUIRE(lending.put(lending.secret("Bearer the-first-value")).empty());
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  client.send(lending.get());
  CHECK(has(client.read_answer(), "Bearer the-first-value"));
  REQUIRE(lending.put(lending.secret("Bearer the-second-one")).empty());
  client.send(lending.get());
  const std::string answer = client.read_answer();
  CHECK(has(answer, "Bearer the-second-one"));
  CHECK_FALSE(has(answer, "the-first-value"));
}

TEST_CASE("an expired secret shuts its domain: a new connection and one that stands") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient standing(lending.world, lending.destination);
  REQUIRE(standing.shake(lending.trusting()).empty());
  const WallTime past = system_clock().now() - 1s;
  REQUIRE(lending.put(lending.secret(kValue, past)).empty());
  standing.send(lending.get());
  CHECK(has(standing.read_answer(), "reason=secret_expired"));
  const TlsClient late(lending.world, lending.destination);
  CHECK(late.connect_answer().starts_with("HTTP/1.1 403 "));
  CHECK(has(late.connect_answer(), "reason=secret_expired"));
  CHECK(lending.upstream.connections() == 0);
}

TEST_CASE("before its secret has come a domain is shut, never passed through") {
  Lending lending;
  const TlsClient client(lending.world, lending.destination);
  CHECK(client.connect_answer().starts_with("HTTP/1.1 503 "));
  CHECK(has(client.connect_answer(), "reason=secret_unavailable"));
  CHECK(lending.upstream.connections() == 0);
}

TEST_CASE("a secret is not lent where the policy file does not say so") {
  Lending lending;
  LentSecret lent = lending.secret();
  lent.domain = "plain.test";
  CHECK(lending.put(lent) == "not_lent");
  CHECK(has(TlsClient(lending.world, lending.destination).connect_answer(), "secret_unavailable"));
}

TEST_CASE("plain HTTP to a domain that has a secret for TLS is refused") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  const std::string answer = ask(
      lending.world, "GET http://" + lending.destination + "/ HTTP/1.1\r\nHost: api.test\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 403 "));
  CHECK(has(answer, "reason=secret_needs_tls"));
  CHECK(lending.upstream.connections() == 0);
}

TEST_CASE("another port of the domain is the policy's business alone") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  CHECK(has(TlsClient(lending.world, "api.test:1").connect_answer(), "reason=port_not_allowed"));
}

TEST_CASE("a client that does not speak TLS is closed") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  for (const std::string& garbage :
       {"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"s, std::string(70'000, 'x'),
        std::string(16, '\0'),
        "\x16\x03\x01\xff\xff\x01\x00\xff\xff"s + std::string(100'000, '\x01')}) {
    const TlsClient client(lending.world, lending.destination);
    ::send(client.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    std::array<char, 1024> buffer{};
    ssize_t got = 0;
    while ((got = ::recv(client.fd(), buffer.data(), buffer.size(), 0)) > 0) {
    }
    CHECK((got == 0 || errno == ECONNRESET));
  }
  CHECK(has(lending.world.stats(), "\"open_upstreams\":0"));
  CHECK(lending.upstream.connections() == 0);
}

TEST_CASE("a handshake or a head that does not come in time ends the connection") {
  Lending lending(tls_mirror, "api.test", {.head = Limits::Ms{1000}, .sweep = Limits::Ms{20}});
  REQUIRE(lending.put(lending.secret()).empty());
  const TlsClient silent(lending.world, lending.destination);
  char byte = 0;
  CHECK(::recv(silent.fd(), &byte, 1, 0) == 0);
  TlsClient slow(lending.world, lending.destination);
  REQUIRE(slow.shake(lending.trusting()).empty());
  slow.send("GET / HT");
  CHECK(has(slow.read_all(), "reason=head_timeout"));
}

TEST_CASE("a client cannot renegotiate, nor speak another protocol inside") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient old(lending.world, lending.destination);
  TlsClientOptions options = lending.trusting();
  options.max_version = TLS1_2_VERSION;
  REQUIRE(old.shake(options).empty());
  CHECK_FALSE(old.renegotiates());

  options = lending.trusting();
  options.protocols = "\x02h2\x08http/1.1";
  TlsClient both(lending.world, lending.destination);
  REQUIRE(both.shake(options).empty());
  CHECK(both.protocol() == "http/1.1");

  options.protocols = "\x02h2";
  TlsClient newer(lending.world, lending.destination);
  CHECK_FALSE(newer.shake(options).empty());

  options = lending.trusting();
  options.max_version = TLS1_1_VERSION;
  TlsClient ancient(lending.world, lending.destination);
  CHECK_FALSE(ancient.shake(options).empty());
}

TEST_CASE("log, figures and denials name a secret and never hold it") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  CHECK(lending.ask(lending.get()).starts_with("HTTP/1.1 200"));
  CHECK(lending.ask("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n").starts_with("HTTP/1.1 421"));
  const std::string stats = lending.world.stats();
  CHECK(has(stats, R"("secrets":[{"name":"API_KEY","uses":1,"last":")"));
  const std::string log = lending.world.log_until(R"("event":"secret")");
  CHECK(has(log, R"("secrets":["API_KEY"])"));
  for (const std::string& text : {stats, log, lending.world.denied()}) {
    CHECK_FALSE(has(text, "s3cret"));
  }
}

TEST_CASE("a redirect that repeats a secret shows the sandbox its placeholder") {
  Lending lending([](const std::string& received) {
    const std::size_t end = received.find("\r\n");
    return TlsUpstream::Answer{.bytes = "HTTP/1.1 301 Moved\r\nLocation: https://api.test" +
                                        received.substr(4, end - 4 - 9) +
                                        "\r\nContent-Length: 0\r\n\r\n"};
  });
  LentSecret lent = lending.secret("long s3cret value");
  lent.place = SecretPlace::kQuery;
  lent.key = "api_key";
  REQUIRE(lending.put(lent).empty());
  const std::string answer = lending.ask(lending.get("/dir?x=1"));
  CHECK(has(answer, "Location: https://api.test/dir?x=1&api_key=sandboxkit-secret-API_KEY\r\n"));
}

TEST_CASE("a websocket inside is a pipe after its upgrade") {
  Lending lending([](const std::string& received) {
    return received.find("\r\n\r\n") == std::string::npos
               ? TlsUpstream::Answer{}
               : TlsUpstream::Answer{.bytes =
                                         "HTTP/1.1 101 Switching Protocols\r\nUpgrade: "
                                         "websocket\r\nConnection: Upgrade\r\n\r\nhello",
                                     .websocket = true};
  });
  REQUIRE(lending.put(lending.secret()).empty());
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  client.send(lending.get("/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
  CHECK(client.read_until("hello").starts_with("HTTP/1.1 101 "));
  const std::string big(300'000, 'w');
  client.send(big + "end");
  CHECK(client.read_until("end") == big + "end");
}

TEST_CASE("large bodies pass both ways whole, with back-pressure") {
  constexpr std::size_t kBytes = 5'000'000;
  Lending lending([](const std::string& received) {
    if (received.size() < kBytes) {
      return TlsUpstream::Answer{};
    }
    const std::string body = received.substr(received.find("\r\n\r\n") + 4);
    if (body.size() < kBytes) {
      return TlsUpstream::Answer{};
    }
    return TlsUpstream::Answer{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: " +
                                        std::to_string(body.size()) + "\r\n\r\n" + body};
  });
  REQUIRE(lending.put(lending.secret()).empty());
  std::string body(kBytes, ' ');
  for (std::size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<char>('a' + i * 7 % 23);
  }
  TlsClient client(lending.world, lending.destination);
  REQUIRE(client.shake(lending.trusting()).empty());
  client.send("POST / HTTP/1.1\r\nHost: " + lending.destination +
              "\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n" + body);
  const std::string answer = client.read_answer();
  CHECK(answer.size() > kBytes);
  CHECK(answer.ends_with(body));
}

TEST_CASE("an answer that ends with the connection is whole only when the upstream says so") {
  for (const bool cut : {false, true}) {
    CAPTURE(cut);
    Lending lending([cut](const std::string&) {
      return TlsUpstream::Answer{
          .bytes = "HTTP/1.1 200 OK\r\n\r\nsome text", .close = !cut, .cut = cut};
    });
    REQUIRE(lending.put(lending.secret()).empty());
    TlsClient client(lending.world, lending.destination);
    REQUIRE(client.shake(lending.trusting()).empty());
    client.send(lending.get());
    CHECK(has(client.read_all(), "some text"));
    CHECK(client.ended_in_order() == !cut);
  }
}

TEST_CASE("an authority speaks for its hosts alone") {
  const CertifiedKey authority = authority_for({"api.test"});
  const auto verify = [&](const std::string& host) {
    const CertifiedKey leaf = issue_leaf(authority, host).value();
    const std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>> store(X509_STORE_new());
    X509_STORE_add_cert(store.get(), read_certificate(authority.certificate).get());
    X509_STORE_set_flags(store.get(), X509_V_FLAG_X509_STRICT);
    const CertificatePtr certificate = read_certificate(leaf.certificate);
    const std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>> context(
        X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
    X509_verify_cert(context.get());
    return X509_STORE_CTX_get_error(context.get());
  };
  CHECK(verify("api.test") == X509_V_OK);
  CHECK(verify("evil.test") == X509_V_ERR_PERMITTED_VIOLATION);
  CHECK(verify("xapi.test") == X509_V_ERR_PERMITTED_VIOLATION);
  CHECK_FALSE(make_authority({{}, WallTime{}, WallTime{}}));
  CHECK_FALSE(make_authority({{"a,DNS:evil"}, WallTime{}, WallTime{}}));
  CHECK_FALSE(issue_leaf(authority, "a.test,DNS:evil.test"));
  CHECK(folder_name_of(authority.certificate).value().ends_with(".0"));
}

TEST_CASE("an order of secrets is read strictly, and no error holds a value") {
  const CertifiedKey authority = authority_for({"api.test"});
  SecretOrder order;
  order.secrets = {{.name = "K", .domain = "api.test", .key = "X-Key", .value = "s3cret"}};
  order.authority = copy_of(authority);
  order.roots = "roots";
  const std::string text = write_secret_order(order);
  const auto back = parse_secret_order(text);
  REQUIRE(back);
  CHECK(back->secrets.front().value == "s3cret");
  CHECK(back->authority.key.view() == authority.key.view());
  CHECK(lent_to(back->secrets.front()) == "api.test:443");
  for (
      const std::string& bad :
      {std::string(), "{}"s, "[]"s, text.substr(1), text + "x", R"({"secrets":[]})"s,
       R"({"secrets":[],"authority":{"certificate":"c"},"roots":"r"})"s,
       text.substr(0, text.size() - 1) + R"(,"more":1})",
       R"({"secrets":[{"name":"K","domain":"a.test","header":"X","value_from":{"value":"s3cret\n"}}],)"
       R"("authority":{"certificate":"c","key":"k"},"roots":"r"})"s}) {
    CAPTURE(bad);
    const auto read = parse_secret_order(bad);
    REQUIRE_FALSE(read);
    CHECK_FALSE(has(read.error().message, "s3cret"));
  }
}

TEST_CASE("an authority or roots that cannot be used leave what was lent before in force") {
  Lending lending;
  REQUIRE(lending.put(lending.secret()).empty());
  SecretOrder order;
  order.secrets = {lending.secret("other")};
  order.authority = {"no", SecretText("key")};
  order.roots = lending.public_root.certificate;
  CHECK_FALSE(lending.world.lend(std::move(order)).empty());
  SecretOrder rootless;
  rootless.secrets = {lending.secret("other")};
  rootless.authority = copy_of(lending.authority);
  rootless.roots = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  CHECK_FALSE(lending.world.lend(std::move(rootless)).empty());
  CHECK(has(lending.ask(lending.get()), kValue));
}
