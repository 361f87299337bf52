// The attack list of the wall, as far as it can be told from the proxy's answer. The policy is the
// list's own: `ok.test` and `*.w.test`, on their default ports, and nothing may be dialled.

#include "tests/unit/egress/proxy_world.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)
using namespace std::literals;

namespace {

struct Row {
  int number;  // in the attack list
  std::string request;
  int status;
  const char* reason;
};

std::string connect_to(std::string_view authority) {
  return "CONNECT " + std::string(authority) + " HTTP/1.1\r\nHost: x.test\r\n\r\n";
}

std::string get(std::string_view uri, std::string_view fields = "") {
  return "GET " + std::string(uri) + " HTTP/1.1\r\nHost: ok.test\r\n" + std::string(fields) +
         "\r\n";
}

void check_rows(const std::vector<Row>& rows) {
  World world({.domains = {"ok.test", "*.w.test"}});
  for (const Row& row : rows) {
    CAPTURE(row.number);
    CAPTURE(row.request.substr(0, 200));
    const std::string answer = ask(world, row.request);
    CAPTURE(answer);
    CHECK(answer.starts_with("HTTP/1.1 " + std::to_string(row.status) + " "));
    CHECK(answer.find("; reason="s + row.reason + "\r\n") != std::string::npos);
  }
  // Nothing on the list leaves: no packet to a name server, no connection.
  CHECK(world.dns_queries() == 0);
  CHECK(world.upstream_connections() == 0);
}

}  // namespace

TEST_CASE("names and ports that are not allowed are refused before any look-up") {
  check_rows({
      {4, connect_to("a.ok.test:443"), 403, "not_in_allow_list"},
      {5, connect_to("w.test:443"), 403, "not_in_allow_list"},
      {6, connect_to("notok.test:443"), 403, "not_in_allow_list"},
      {6, connect_to("ok.test.evil.test:443"), 403, "not_in_allow_list"},
      {6, connect_to("xw.test:443"), 403, "not_in_allow_list"},
      {8, connect_to("xn--k-wga.test:443"), 403, "not_in_allow_list"},
      {15, connect_to("ok.test:22"), 403, "port_not_allowed"},
      {16, connect_to("203.0.113.9:443"), 403, "ip_literal"},
      {17, connect_to("127.0.0.1:443"), 403, "ip_literal"},
      {17, connect_to("[::ffff:127.0.0.1]:443"), 403, "ip_literal"},
      {17, connect_to("[::1]:443"), 403, "ip_literal"},
      {21, connect_to("c2VjcmV0.evil.test:443"), 403, "not_in_allow_list"},
      {31, connect_to("redis:443"), 403, "not_in_allow_list"},
      {39, connect_to("127.0.0.1:3128"), 403, "ip_literal"},
      {39, connect_to("localhost:443"), 403, "not_in_allow_list"},
      {41, connect_to("ok.test:25"), 403, "port_not_allowed"},
      {48, "GET http://evil.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 403, "not_in_allow_list"},
      {48, get("http://ok.test:443/"), 403, "port_not_allowed"},
      {48, get("http://169.254.169.254/latest/meta-data/"), 403, "ip_literal"},
  });
}

TEST_CASE("spellings that two readers could take in two ways get 400") {
  check_rows({
      {3, connect_to("ok.test..:443"), 400, "bad_target"},
      {5, connect_to(".w.test:443"), 400, "bad_target"},
      {7, connect_to("\xef\xbd\x8fk.test:443"), 400, "bad_request"},
      {7, connect_to("o\xe2\x84\xaa.test:443"), 400, "bad_request"},
      {8, connect_to("xn--99999999999.test:443"), 400, "bad_target"},
      {9, connect_to("ok%2etest:443"), 400, "bad_target"},
      {10, connect_to("evil.test\0.w.test:443"sv), 400, "bad_request"},
      {10, connect_to("ok.test\0.evil:443"sv), 400, "bad_request"},
      {12, connect_to("evil.test#.ok.test:443"), 400, "bad_target"},
      {12, connect_to("evil.test\\@ok.test:443"), 400, "bad_target"},
      {12, connect_to("evil.test?.ok.test:443"), 400, "bad_target"},
      {12, get("http://evil.test\\@ok.test/"), 400, "bad_target"},
      {12, get("http://evil.test@ok.test/"), 400, "bad_target"},
      {12, get("http://ok.test#@evil.test/"), 400, "bad_target"},
      {14, connect_to("ok.test:443abc"), 400, "bad_target"},
      {14, connect_to("ok.test:+443"), 400, "bad_target"},
      {14, connect_to("ok.test:0"), 400, "bad_target"},
      {14, connect_to("ok.test:65979"), 400, "bad_target"},
      {14, connect_to("ok.test:-1"), 400, "bad_target"},
      {14, connect_to("ok.test"), 400, "bad_target"},
      {17, connect_to("2130706433:443"), 400, "bad_target"},
      {17, connect_to("0x7f.1:443"), 400, "bad_target"},
      {17, connect_to("0177.0.0.1:443"), 400, "bad_target"},
      {17, connect_to("127.1:443"), 400, "bad_target"},
      {17, connect_to("[::1%eth0]:443"), 400, "bad_target"},
  });
}

TEST_CASE("requests that are no plain proxy requests get 400, 405 or 431") {
  const std::string large(70 * 1024, 'a');
  check_rows({
      {46, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s, 400, "bad_request"},
      {49, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400, "bad_target"},
      {49, "OPTIONS * HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400, "bad_target"},
      {53, "GET http://ok.test/ HTTP/1.1\r\nHost : ok.test\r\n\r\n", 400, "bad_request"},
      {53, "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n folded\r\n\r\n", 400, "bad_request"},
      {53, "GET http://ok.test/ HTTP/1.1\nHost: ok.test\n\n", 400, "bad_request"},
      {53, "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nA: b\rc\r\n\r\n", 400, "bad_request"},
      {53, "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nA: b\0c\r\n\r\n"s, 400, "bad_request"},
      {52, get("http://ok.test/", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400,
       "bad_request"},
      {52, get("http://ok.test/", "Content-Length: 1\r\nContent-Length: 2\r\n"), 400,
       "bad_request"},
      {52, get("http://ok.test/", "Transfer-Encoding: xchunked\r\n"), 400, "bad_request"},
      {52, get("http://ok.test/", "Transfer-Encoding: chunked, identity\r\n"), 400, "bad_request"},
      {55, get("https://ok.test/"), 400, "bad_target"},
      {55, get("ftp://ok.test/"), 400, "bad_target"},
      {57, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_request"},
      {58, "TRACE http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 405, "bad_method"},
      {58, "connect ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 405, "bad_method"},
      {58, large, 431, "head_too_large"},
      {58, get("http://ok.test/", "A: " + large + "\r\n"), 431, "head_too_large"},
      {58, "CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 5\r\n\r\nhello", 400,
       "bad_request"},
  });
}

// From 80 on: what is not on the list and was looked for.

TEST_CASE("targets that are written for another reader get 400") {
  check_rows({
      {80, connect_to("user@ok.test:443"), 400, "bad_target"},
      {80, connect_to("http://ok.test:443"), 400, "bad_target"},
      {80, connect_to("ok.test:443/"), 400, "bad_target"},
      {80, connect_to("*:443"), 400, "bad_target"},
      {80, connect_to(":443"), 400, "bad_target"},
      {80, connect_to("ok.test:443:443"), 400, "bad_target"},
      {80, connect_to("ok.test,evil.test:443"), 400, "bad_target"},
      {80, connect_to("ok_test"), 400, "bad_target"},
      {81, connect_to("[fe80::1%25lo]:443"), 400, "bad_target"},
      {81, connect_to("[ok.test]:443"), 400, "bad_target"},
      {81, connect_to("[127.0.0.1]:443"), 400, "bad_target"},
      {81, connect_to("[::1:443"), 400, "bad_target"},
      {81, connect_to("[::1]443"), 400, "bad_target"},
      {81, connect_to("::1:443"), 400, "bad_target"},
      {82, get("http://user:pass@ok.test/"), 400, "bad_target"},
      {82, get("http://ok.test:80:80/"), 400, "bad_target"},
      {82, get("http://ok.test:/"), 400, "bad_target"},
      {82, get("http:///ok.test/"), 400, "bad_target"},
      {82, get("http:/ok.test/"), 400, "bad_target"},
      {82, get("http:ok.test/"), 400, "bad_target"},
      {82, get("http://"), 400, "bad_target"},
      {82, get("//ok.test/"), 400, "bad_target"},
      {82, get("ws://ok.test/"), 400, "bad_target"},
      {82, get("ok.test:80"), 400, "bad_target"},
      {82, get("http://ok.test\t/"), 400, "bad_request"},
  });
}

TEST_CASE("heads that two readers could end, split or count in two ways get 400 or 431") {
  const auto with = [](const std::string& line, const std::string& rest) {
    return line + "\r\n" + rest + "\r\n";
  };
  const std::string line = "GET http://ok.test/ HTTP/1.1";
  std::string many = "Host: ok.test\r\n";
  for (int i = 0; i < 100; ++i) {
    many += "A: b\r\n";
  }
  check_rows({
      {83, with(line, "Host: ok.test\r\nHost: evil.test\r\n"), 400, "bad_request"},
      {83, with(line, "Host: ok.test\r\nhost: ok.test\r\n"), 400, "bad_request"},
      {83, with(line, ""), 400, "bad_request"},
      {84, with("GET http://ok.test/ HTTP/1.0", "Transfer-Encoding: chunked\r\n"), 400,
       "bad_request"},
      {84, with(line, "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
       400, "bad_request"},
      {84, with(line, "Host: a\r\nTransfer-Encoding: \x0b chunked\r\n"), 400, "bad_request"},
      {85, with(line, "Host: a\r\nContent-Length: +5\r\n"), 400, "bad_request"},
      {85, with(line, "Host: a\r\nContent-Length: 5, 5\r\n"), 400, "bad_request"},
      {85, with(line, "Host: a\r\nContent-Length: 0x5\r\n"), 400, "bad_request"},
      {85, with(line, "Host: a\r\nContent-Length: -1\r\n"), 400, "bad_request"},
      {85, with(line, "Host: a\r\nContent-Length: 18446744073709551617\r\n"), 400, "bad_request"},
      {85, with(line, "Host: a\r\nContent-Length:\r\n"), 400, "bad_request"},
      {86, with("GET http://ok.test/ HTTP/1.2", "Host: a\r\n"), 400, "bad_request"},
      {86, with("GET http://ok.test/ HTTP/2.0", "Host: a\r\n"), 400, "bad_request"},
      {86, with("GET http://ok.test/ HTTP/1.10", "Host: a\r\n"), 400, "bad_request"},
      {86, with("GET http://ok.test/ http/1.1", "Host: a\r\n"), 400, "bad_request"},
      {86, "GET http://ok.test/\r\n\r\n", 400, "bad_request"},
      {87, with("GET  http://ok.test/ HTTP/1.1", "Host: a\r\n"), 400, "bad_request"},
      {87, with("GET http://ok.test/ x HTTP/1.1", "Host: a\r\n"), 400, "bad_request"},
      {87, with("GET\thttp://ok.test/ HTTP/1.1", "Host: a\r\n"), 400, "bad_request"},
      {87, with(" GET http://ok.test/ HTTP/1.1", "Host: a\r\n"), 400, "bad_request"},
      {87, "\r\n" + with(line, "Host: a\r\n"), 400, "bad_request"},
      {88, with(line, " Host: a\r\nHost: a\r\n"), 400, "bad_request"},
      {88, with(line, "Host: a\r\n: b\r\n"), 400, "bad_request"},
      {88, with(line, "Host: a\r\nA\xc3\xa4: b\r\n"), 400, "bad_request"},
      {88, with(line, "Host: a\r\nno colon\r\n"), 400, "bad_request"},
      {89, with(line, many), 431, "head_too_large"},
      {90, with("CONNECT ok.test:443 HTTP/1.1", "Host: a\r\nTransfer-Encoding: chunked\r\n"), 400,
       "bad_request"},
      {90, with("CONNECT evil.test:443 HTTP/1.1", "Host: a\r\nExpect: 100-continue\r\n"), 403,
       "not_in_allow_list"},
  });
}
