#include "wire/http.h"

#include <optional>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using wire::BodyDecoder;
using wire::Framing;

namespace {

struct Decoded {
  std::string payload;
  std::string left;
  bool done = false;
};

/// Feeds `text` in pieces of `step` bytes; nullopt when it is refused.
std::optional<Decoded> decode(wire::BodyFraming framing, std::string_view text, std::size_t step) {
  BodyDecoder decoder(framing);
  Decoded out;
  while (!text.empty() && !decoder.done()) {
    std::string_view piece = text.substr(0, step);
    text.remove_prefix(piece.size());
    if (!decoder.feed(piece, out.payload)) {
      return std::nullopt;
    }
    out.left += piece;
  }
  out.left += text;
  out.done = decoder.done();
  return out;
}

}  // namespace

TEST_CASE("a chunked body reads the same however it is cut, and leaves what follows it") {
  const std::string text =
      "5\r\nhello\r\nA;name=\"v\"\r\n, world...\r\n0\r\nX-Trailer: dropped\r\n\r\nGET / HTTP/1.1";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    CAPTURE(step);
    const auto body = decode({Framing::kChunked}, text, step);
    REQUIRE(body);
    CHECK(body->payload == "hello, world...");
    CHECK(body->left == "GET / HTTP/1.1");
    CHECK(body->done);
  }
}

TEST_CASE("a chunked body that is not plain is refused however it is cut") {
  for (const std::string& text : {
           std::string("\r\n"),
           std::string("g\r\n"),
           std::string("-1\r\n"),
           std::string("+1\r\n"),
           std::string("0x1\r\nx\r\n"),
           std::string(" 1\r\nx\r\n"),
           std::string("1 \r\nx\r\n"),
           std::string("1 ;a\r\nx\r\n"),
           std::string("1\nx\n0\n\n"),
           std::string("1\rx"
                       "\r\n"),
           std::string("1\r\nxy\r\n"),
           std::string("1\r\nx\n0\r\n\r\n"),
           std::string("1\r\nx0\r\n\r\n"),
           std::string("1;a\x01\r\nx\r\n"),
           std::string("1;\0\r\nx\r\n", 9),
           std::string("fffffffffffffffff\r\n"),
           std::string("1000000000000000\r\n"),
           std::string("1;" + std::string(300, 'x') + "\r\nx\r\n"),
           std::string("0\r\nno colon\r\n\r\n"),
           std::string("0\r\n folded: x\r\n\r\n"),
           std::string("0\r\nX: a\n\r\n"),
           std::string("0\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"),
       }) {
    CAPTURE(text);
    for (const std::size_t step : {std::size_t{1}, std::size_t{2}, text.size()}) {
      CHECK_FALSE(decode({Framing::kChunked}, text, step).has_value());
    }
  }
}

TEST_CASE("trailers together are bounded, not only one by one") {
  std::string text = "0\r\n";
  for (int i = 0; i < 100; ++i) {
    text += "X: " + std::string(100, 'x') + "\r\n";
  }
  CHECK_FALSE(decode({Framing::kChunked}, text + "\r\n", 64).has_value());
}

TEST_CASE("a decoder that met a broken body stays broken") {
  BodyDecoder decoder({Framing::kChunked});
  std::string payload;
  std::string_view bad = "zz\r\n";
  CHECK_FALSE(decoder.feed(bad, payload));
  std::string_view good = "1\r\nx\r\n0\r\n\r\n";
  CHECK_FALSE(decoder.feed(good, payload));
  CHECK(payload.empty());
  CHECK_FALSE(decoder.done());
}

TEST_CASE("a body of a length ends there") {
  const auto body = decode({Framing::kLength, 5}, "helloGET /", 3);
  REQUIRE(body);
  CHECK(body->payload == "hello");
  CHECK(body->left == "GET /");
  CHECK(body->done);
  const auto cut = decode({Framing::kLength, 5}, "hel", 3);
  REQUIRE(cut);
  CHECK_FALSE(cut->done);
}

TEST_CASE("no body and a body of length zero are done before a byte is read") {
  CHECK(BodyDecoder({Framing::kNone}).done());
  CHECK(BodyDecoder({Framing::kLength, 0}).done());
  CHECK_FALSE(BodyDecoder({Framing::kUntilClose}).done());
}

TEST_CASE("a body until close takes all and is never done by itself") {
  const auto body = decode({Framing::kUntilClose}, "all of it", 4);
  REQUIRE(body);
  CHECK(body->payload == "all of it");
  CHECK_FALSE(body->done);
}

TEST_CASE("chunks that were written read back") {
  const std::string big(70'000, 'x');
  const std::string text =
      wire::chunk("a") + wire::chunk("") + wire::chunk(big) + std::string(wire::kLastChunk);
  const auto body = decode({Framing::kChunked}, text, 4096);
  REQUIRE(body);
  CHECK(body->payload == "a" + big);
  CHECK(body->done);
  CHECK(wire::chunk("hello, world....") == "10\r\nhello, world....\r\n");
}
