#include "wire/http.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using wire::Framing;
using wire::parse_request_head;
using wire::parse_response_head;

namespace {

/// A request of HTTP/1.1 with a Host and these further lines (each with its CRLF).
std::string request(const std::string& lines, const std::string& first = "POST /x HTTP/1.1") {
  return first + "\r\nHost: ok.test\r\n" + lines + "\r\n";
}

std::string response(const std::string& lines, const std::string& first = "HTTP/1.1 200 OK") {
  return first + "\r\n" + lines + "\r\n";
}

template <typename T>
std::string reason(const Result<T>& result) {
  return result ? "taken" : reason_of(result.error());
}

}  // namespace

TEST_CASE("a request head is read into its parts") {
  const auto head = parse_request_head(request("X-One:  a b\t\r\nx-two:\r\nContent-Length: 7\r\n"));
  REQUIRE(head);
  CHECK(head->method == "POST");
  CHECK(head->target == "/x");
  CHECK(head->minor_version == 1);
  CHECK(*head->headers.find("x-one") == "a b");
  CHECK(head->headers.find("X-TWO")->empty());
  CHECK(head->body.kind == Framing::kLength);
  CHECK(head->body.length == 7);
  CHECK(head->keep_alive);
}

TEST_CASE("a head that another reader could read otherwise is refused") {
  for (const std::string& lines : {
           std::string("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
           std::string("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
           std::string("Content-Length: 5\r\nContent-Length: 6\r\n"),
           std::string("Content-Length: 5\r\nContent-Length: 5\r\n"),
           std::string("Content-Length: 5, 5\r\n"),
           std::string("Content-Length: +5\r\n"),
           std::string("Content-Length: -5\r\n"),
           std::string("Content-Length: 0x5\r\n"),
           std::string("Content-Length: 5 5\r\n"),
           std::string("Content-Length: 05\r\n"),
           std::string("Content-Length:\r\n"),
           std::string("Content-Length: 99999999999999999999\r\n"),
           std::string("Content-Length: 1152921504606846977\r\n"),
           std::string("Transfer-Encoding: xchunked\r\n"),
           std::string("Transfer-Encoding: chunked, identity\r\n"),
           std::string("Transfer-Encoding: gzip, chunked\r\n"),
           std::string("Transfer-Encoding: identity\r\n"),
           std::string("Transfer-Encoding: \"chunked\"\r\n"),
           std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
           std::string("Transfer-Encoding:\x0b"
                       "chunked\r\n"),
           std::string("Transfer-Encoding : chunked\r\n"),
           std::string("X : blank before the colon\r\n"),
           std::string(" X: starts with a blank\r\n"),
           std::string("X: a\r\n folded\r\n"),
           std::string("X: a\r\n\tfolded\r\n"),
           std::string("X: bare\nY: line feed\r\n"),
           std::string("X: bare\rcarriage return\r\n"),
           std::string("X: nul\0 in a value\r\n", 20),
           std::string("X\0: nul in a name\r\n", 19),
           std::string("X: escape \x1b[31m\r\n"),
           std::string("X: delete \x7f\r\n"),
           std::string("no colon\r\n"),
           std::string(": no name\r\n"),
           std::string("X\xc3\xa9: name beyond ASCII\r\n"),
           std::string("X(y): no token\r\n"),
           std::string("Host: second.test\r\n"),
       }) {
    CAPTURE(lines);
    CHECK(reason(parse_request_head(request(lines))) == "bad_request");
  }
}

TEST_CASE("a request line that is not plain is refused") {
  for (const char* line : {"",
                           "GET",
                           "GET /x",
                           "GET  /x HTTP/1.1",
                           "GET /x  HTTP/1.1",
                           " GET /x HTTP/1.1",
                           "GET /x HTTP/1.1 ",
                           "GET\t/x\tHTTP/1.1",
                           "GET /a b HTTP/1.1",
                           "GET /x HTTP/1.2",
                           "GET /x HTTP/2.0",
                           "PRI * HTTP/2.0",
                           "GET /x http/1.1",
                           "GET /x HTTP/1.1x",
                           "G(T /x HTTP/1.1",
                           "GET /\x7f HTTP/1.1",
                           "GET /\xc3\xa9 HTTP/1.1",
                           "GET /\x01 HTTP/1.1",
                           "GET /x\rHTTP/1.1",
                           "\x16\x03\x01 hello HTTP/1.1"}) {
    CAPTURE(line);
    CHECK(reason(parse_request_head(request("", line))) == "bad_request");
  }
  CHECK(reason(parse_request_head(request("", std::string(32, 'M') + " /x HTTP/1.1"))) == "taken");
  CHECK(reason(parse_request_head(request("", std::string(33, 'M') + " /x HTTP/1.1"))) ==
        "bad_request");
}

TEST_CASE("a method is taken as it is spelled, so that lower case stays another method") {
  CHECK(parse_request_head(request("", "connect ok.test:443 HTTP/1.1"))->method == "connect");
  CHECK(parse_request_head(request("", "TRACE / HTTP/1.1"))->method == "TRACE");
}

TEST_CASE("HTTP/1.1 needs one Host and HTTP/1.0 takes at most one") {
  CHECK(reason(parse_request_head("GET / HTTP/1.1\r\n\r\n")) == "bad_request");
  CHECK(reason(parse_request_head("GET / HTTP/1.0\r\n\r\n")) == "taken");
  CHECK(reason(parse_request_head("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n")) ==
        "bad_request");
  for (const char* host : {"a b", "a/b", "a@b", "a,b", "a\\b", "a?b", "a#b", "\xc3\xa9.test"}) {
    CAPTURE(host);
    CHECK(reason(parse_request_head("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n")) ==
          "bad_request");
  }
  CHECK(reason(parse_request_head("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n")) == "taken");
}

TEST_CASE("HTTP/1.0 has no chunked body, and CONNECT has none at all") {
  CHECK(reason(parse_request_head(request("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0"))) ==
        "bad_request");
  const std::string connect = "CONNECT ok.test:443 HTTP/1.1";
  CHECK(reason(parse_request_head(request("Transfer-Encoding: chunked\r\n", connect))) ==
        "bad_request");
  CHECK(reason(parse_request_head(request("Content-Length: 1\r\n", connect))) == "bad_request");
  CHECK(reason(parse_request_head(request("Content-Length: 0\r\n", connect))) == "taken");
}

TEST_CASE("keep-alive follows the version and the Connection header") {
  CHECK(parse_request_head(request(""))->keep_alive);
  CHECK_FALSE(parse_request_head(request("Connection: x, Close\r\n"))->keep_alive);
  CHECK_FALSE(parse_request_head(request("", "GET / HTTP/1.0"))->keep_alive);
  CHECK(parse_request_head(request("Connection: Keep-Alive\r\n", "GET / HTTP/1.0"))->keep_alive);
  CHECK_FALSE(parse_request_head(request("Connection: keep-alive, close\r\n", "GET / HTTP/1.0"))
                  ->keep_alive);
}

TEST_CASE("a head is taken at its limits and refused as too large one past them") {
  const std::string head = request("X: y\r\n");
  CHECK(reason(parse_request_head(head, {.max_bytes = head.size()})) == "taken");
  CHECK(reason(parse_request_head(head, {.max_bytes = head.size() - 1})) == "head_too_large");
  CHECK(reason(parse_request_head(head, {.max_fields = 2})) == "taken");
  CHECK(reason(parse_request_head(head, {.max_fields = 1})) == "head_too_large");
  CHECK(reason(parse_request_head(std::string(1 << 20, 'M') + " / HTTP/1.1\r\n\r\n")) ==
        "head_too_large");
}

TEST_CASE("the end of a head is CRLF CRLF and nothing else") {
  CHECK(wire::find_head_end("GET / HTTP/1.1\r\n\r\nrest") == 18);
  for (const char* text : {"", "\r\n", "GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\n\n", "a\n\r\n"}) {
    CAPTURE(text);
    CHECK(wire::find_head_end(text) == 0);
    CHECK(reason(parse_request_head(text)) == "bad_request");
  }
  CHECK(reason(parse_request_head(request("") + "rest")) == "bad_request");
}

TEST_CASE("a response head is read into its parts") {
  const auto head = parse_response_head(response("Content-Length: 3\r\n"), "GET");
  REQUIRE(head);
  CHECK(head->status == 200);
  CHECK(head->reason == "OK");
  CHECK(head->body.length == 3);
  CHECK(head->keep_alive);
  CHECK(parse_response_head(response("", "HTTP/1.1 404"), "GET")->status == 404);
  CHECK(parse_response_head(response("", "HTTP/1.1 404 "), "GET")->reason.empty());
}

TEST_CASE("a status line that is not plain is refused") {
  for (const char* line :
       {"", "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 20", "HTTP/1.1 2000 OK", "HTTP/1.1  200 OK",
        "HTTP/1.1 099 x", "HTTP/1.1 600 x", "HTTP/1.1 +20 x", "HTTP/2.0 200 OK", "http/1.1 200 OK",
        "HTTP/1.1 200\tOK", "HTTP/1.1 200 O\x01K", "ICY 200 OK", "GET / HTTP/1.1"}) {
    CAPTURE(line);
    CHECK(reason(parse_response_head(response("", line), "GET")) == "bad_response");
  }
}

TEST_CASE("the framing of a response follows request, status and fields") {
  const auto framing = [](const char* method, const char* first, const char* lines) {
    const auto head = parse_response_head(response(lines, first), method);
    REQUIRE(head);
    return std::pair(head->body.kind, head->keep_alive);
  };
  using Expected = std::pair<Framing, bool>;
  const char* length = "Content-Length: 5\r\n";
  CHECK(framing("GET", "HTTP/1.1 200 OK", length) == Expected(Framing::kLength, true));
  CHECK(framing("GET", "HTTP/1.1 200 OK", "Transfer-Encoding: Chunked\r\n") ==
        Expected(Framing::kChunked, true));
  CHECK(framing("GET", "HTTP/1.1 200 OK", "") == Expected(Framing::kUntilClose, false));
  CHECK(framing("HEAD", "HTTP/1.1 200 OK", length) == Expected(Framing::kNone, true));
  CHECK(framing("GET", "HTTP/1.1 304 x", length) == Expected(Framing::kNone, true));
  CHECK(framing("GET", "HTTP/1.1 204 x", "") == Expected(Framing::kNone, true));
  CHECK(framing("GET", "HTTP/1.1 204 x", length) == Expected(Framing::kNone, false));
  CHECK(framing("GET", "HTTP/1.1 101 x", "") == Expected(Framing::kNone, true));
  CHECK(framing("CONNECT", "HTTP/1.1 200 OK", "") == Expected(Framing::kNone, true));
  CHECK(framing("CONNECT", "HTTP/1.1 403 x", length) == Expected(Framing::kLength, true));
}

TEST_CASE("a response that is framed twice is refused") {
  for (const char* lines :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n", "Transfer-Encoding: gzip\r\n"}) {
    CAPTURE(lines);
    CHECK(reason(parse_response_head(response(lines), "GET")) == "bad_response");
    CHECK(reason(parse_response_head(response(lines), "HEAD")) == "bad_response");
  }
}

TEST_CASE("a head reads back what was written") {
  const std::string text = request("X-A: 1\r\nx-a: 2\r\nContent-Length: 5\r\n");
  CHECK(wire::serialize(*parse_request_head(text)) == text);
  const std::string answer = response("Content-Length: 0\r\n", "HTTP/1.0 404 Gone fishing");
  CHECK(wire::serialize(*parse_response_head(answer, "GET")) == answer);
}

TEST_CASE("an empty reason is filled from the status") {
  CHECK(wire::serialize(wire::ResponseHead{.status = 507}) ==
        "HTTP/1.1 507 Insufficient Storage\r\n\r\n");
  CHECK(std::string(wire::reason_phrase(299)) == "Unknown");
}

TEST_CASE("a line break in a value that a program made cannot start another field") {
  wire::ResponseHead head{.reason = "a\r\nX: y"};
  head.headers.add("X",
                   "1\r\nSet-Cookie: stolen\0"
                   "2");
  const auto back = parse_response_head(wire::serialize(head), "GET");
  REQUIRE(back);
  CHECK(back->headers.fields().size() == 1);
  CHECK(back->reason == "a  X: y");
}

TEST_CASE("fields are found, counted, replaced and removed whatever their case") {
  wire::Headers headers;
  headers.add("Accept", "a");
  headers.add("ACCEPT", "b");
  headers.add("Connection", "Upgrade, keep-alive");
  CHECK(headers.count("accept") == 2);
  CHECK(*headers.find("accept") == "a");
  CHECK(headers.has_token("connection", "upgrade"));
  CHECK_FALSE(headers.has_token("connection", "up"));
  headers.set("accept", "c");
  CHECK(headers.count("Accept") == 1);
  headers.remove("aCCept");
  CHECK(headers.find("accept") == nullptr);
}
