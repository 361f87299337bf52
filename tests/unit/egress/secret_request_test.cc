#include "egress/secret_request.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress;  // NOLINT(google-build-using-namespace)

namespace {

LentSecret header(std::string key, std::string value) {
  return {.name = "KEY",
          .domain = "api.test",
          .place = SecretPlace::kHeader,
          .key = std::move(key),
          .value = std::move(value)};
}

LentSecret query(std::string key, std::string value) {
  return {.name = "KEY",
          .domain = "api.test",
          .place = SecretPlace::kQuery,
          .key = std::move(key),
          .value = std::move(value)};
}

LentSecret basic(std::string value) {
  return {
      .name = "KEY", .domain = "api.test", .place = SecretPlace::kBasic, .value = std::move(value)};
}

/// What the upstream gets, or the refusal's reason.
std::string planned(const std::string& head, const LentSecret& secret,
                    const std::string& target = "api.test:443") {
  std::vector<PlacedSecret> secrets;
  secrets.push_back(place(secret));
  const auto parsed = wire::parse_request_head(head);
  REQUIRE(parsed);
  const auto plan = plan_lent(*parsed, EgressTarget::from_authority(target).value(), secrets);
  const auto* refusal = std::get_if<Refusal>(&plan);
  return refusal != nullptr ? refusal->reason : std::get<ForwardRequest>(plan).head;
}

std::string get(const std::string& target, const std::string& fields = "",
                const std::string& host = "api.test") {
  return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n";
}

}  // namespace

TEST_CASE("a header's secret replaces what the sandbox sent there, however it spelt the name") {
  CHECK(planned(get("/v1?a=1", "x-api-KEY: mine\r\nX_Api_Key: mine too\r\nA: b\r\n"),
                header("X-Api-Key", "s3cret")) ==
        "GET /v1?a=1 HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: s3cret\r\nA: b\r\n\r\n");
}

TEST_CASE("Connection cannot take a secret's header away") {
  CHECK(planned(get("/", "Connection: x-api-key\r\n"), header("X-Api-Key", "s3cret"))
            .find("X-Api-Key: s3cret") != std::string::npos);
}

TEST_CASE("basic credentials stand in Authorization") {
  CHECK(planned(get("/", "Authorization: Bearer mine\r\n"), basic("user:pass")) ==
        "GET / HTTP/1.1\r\nHost: api.test\r\nAuthorization: Basic dXNlcjpwYXNz\r\n\r\n");
}

TEST_CASE("a parameter's secret replaces every spelling of that parameter") {
  struct Row {
    const char* target;
    const char* line;
  };
  constexpr Row kRows[] = {
      {"/p", "GET /p?key=a%20b%26c HTTP/1.1"},
      {"/p?", "GET /p?&key=a%20b%26c HTTP/1.1"},
      {"/p?x=1&key=mine&y=2", "GET /p?x=1&y=2&key=a%20b%26c HTTP/1.1"},
      {"/p?k%65y=mine&KEY=other", "GET /p?KEY=other&key=a%20b%26c HTTP/1.1"},
      {"/p?key", "GET /p?key=a%20b%26c HTTP/1.1"},
      {"/p?k=%zz", "GET /p?k=%zz&key=a%20b%26c HTTP/1.1"},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.target);
    CHECK(planned(get(row.target), query("key", "a b&c")).starts_with(row.line));
  }
}

TEST_CASE("a placeholder does not reach the upstream in any field") {
  const std::string sent = planned(get("/", "Authorization: Bearer sandboxkit-secret-KEY\r\n"),
                                   header("X-Api-Key", "s3cret"));
  CHECK(sent.find("sandboxkit-secret") == std::string::npos);
}

TEST_CASE("a request for another host than the connection's is refused") {
  struct Row {
    const char* host;
    const char* target;
    bool good;
  };
  constexpr Row kRows[] = {
      {"api.test", "api.test:443", true},     {"API.test.", "api.test:443", true},
      {"api.test:443", "api.test:443", true}, {"api.test:8443", "api.test:8443", true},
      {"api.test", "api.test:8443", false},   {"api.test:80", "api.test:443", false},
      {"evil.test", "api.test:443", false},   {"api.test.evil.test", "api.test:443", false},
      {"127.0.0.1", "api.test:443", false},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.host);
    CAPTURE(row.target);
    const std::string got = planned(get("/", "", row.host), header("X-K", "s3cret"), row.target);
    CHECK((got == "host_mismatch") == !row.good);
  }
  CHECK(planned("GET / HTTP/1.0\r\n\r\n", header("X-K", "s")) == "host_mismatch");
}

TEST_CASE("a target that is no path is refused, and a method that echoes") {
  CHECK(planned(get("https://api.test/"), header("X-K", "s")) == "bad_target");
  CHECK(planned(get("http://evil.test/"), header("X-K", "s")) == "bad_target");
  CHECK(planned(get("/a#b"), query("k", "s")) == "bad_target");
  CHECK(planned("OPTIONS * HTTP/1.1\r\nHost: api.test\r\n\r\n", query("k", "s")) == "bad_target");
  CHECK(planned("TRACE / HTTP/1.1\r\nHost: api.test\r\n\r\n", header("X-K", "s")) == "bad_method");
}

TEST_CASE("an answer's fields are freed of the secret in each spelling that went out") {
  SecretMask mask;
  mask.add(header("Authorization", "Bearer token-12345678"));
  mask.add(basic("someone:pass word!"));
  mask.add(query("key", "p&q r s t u"));
  const auto hidden = [&](const std::string& text) {
    wire::ResponseHead head;
    head.headers.add("Location", text);
    return *mask.hide_in(head).headers.find("location");
  };
  const std::string placeholder = "sandboxkit-secret-KEY";
  CHECK(hidden("x Bearer token-12345678 y") == "x " + placeholder + " y");
  CHECK(hidden("/?t=token-12345678&u=token-12345678") ==
        "/?t=" + placeholder + "&u=" + placeholder);
  CHECK(hidden("/?key=p%26q%20r%20s%20t%20u") == "/?key=" + placeholder);
  CHECK(hidden("c29tZW9uZTpwYXNzIHdvcmQh") == placeholder);
  CHECK(hidden("pass word!") == placeholder);
  CHECK(hidden("nothing") == "nothing");
}

TEST_CASE("a mask leaves the framing alone, and short secrets, which stand everywhere by chance") {
  SecretMask mask;
  mask.add(header("X-K", "1234567890"));
  mask.add(header("X-K", "123"));
  wire::ResponseHead head;
  head.headers.add("Content-Length", "1234567890");
  head.headers.add("X-Echo", "123");
  const auto hidden = mask.hide_in(head);
  CHECK(*hidden.headers.find("content-length") == "1234567890");
  CHECK(*hidden.headers.find("x-echo") == "123");
}

TEST_CASE("plain HTTP is lent to as well where the owner said so") {
  std::vector<PlacedSecret> secrets;
  secrets.push_back(place(header("X-Api-Key", "s3cret")));
  const auto head =
      wire::parse_request_head("GET http://api.test/p HTTP/1.1\r\nHost: x\r\nX-Api-Key: a\r\n\r\n");
  const auto plan = plan_lent_plain(*head, secrets);
  CHECK(std::get<ForwardRequest>(plan).head ==
        "GET /p HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: s3cret\r\n\r\n");
}
