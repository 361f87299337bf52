#include "wire/connect.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using wire::ConnectDecoder;

TEST_CASE("envelopes read back however they are cut") {
  const std::string stream = wire::connect_envelope(0, R"({"a":1})") +
                             wire::connect_envelope(0, std::string(70'000, 'x')) +
                             wire::connect_end(std::nullopt);
  for (const std::size_t step :
       {std::size_t{1}, std::size_t{3}, std::size_t{4096}, stream.size()}) {
    CAPTURE(step);
    ConnectDecoder decoder(1 << 20);
    std::vector<wire::ConnectMessage> messages;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      decoder.feed(std::string_view(stream).substr(at, step));
      while (true) {
        auto message = decoder.next();
        REQUIRE(message);
        if (!*message) {
          break;
        }
        messages.push_back(**message);
      }
    }
    REQUIRE(messages.size() == 3);
    CHECK(messages[0].json == R"({"a":1})");
    CHECK(messages[1].json.size() == 70'000);
    CHECK(messages[2].flags == wire::kConnectEndStream);
    CHECK(messages[2].json == "{}");
  }
}

TEST_CASE("the length stands in network order") {
  const std::string envelope = wire::connect_envelope(2, std::string(0x010203, 'x'));
  CHECK(envelope.substr(0, 5) == std::string("\x02\x00\x01\x02\x03", 5));
}

TEST_CASE("a message is taken at its limit and refused one past it, before it is there") {
  ConnectDecoder decoder(4);
  decoder.feed(wire::connect_envelope(0, "1234"));
  CHECK(decoder.next()->has_value());
  decoder.feed(wire::connect_envelope(0, "12345").substr(0, 5));
  const auto refused = decoder.next();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kTooLarge);
}

TEST_CASE("compression and other unknown flags are refused") {
  for (const int flags : {0x01, 0x03, 0x04, 0x80, 0xff}) {
    ConnectDecoder decoder(64);
    decoder.feed(wire::connect_envelope(static_cast<std::uint8_t>(flags), "{}"));
    const auto refused = decoder.next();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("an error ends a stream with its code and message") {
  const std::string end = wire::connect_end(Error{ErrorCode::kNotFound, "no `x`"});
  CHECK(end.substr(5) == R"({"error":{"code":"not_found","message":"no `x`"}})");
}

TEST_CASE("codes and statuses are those of the protocol") {
  CHECK(std::string(wire::connect_code(ErrorCode::kCancelled)) == "canceled");
  CHECK(std::string(wire::connect_code(ErrorCode::kConflict)) == "already_exists");
  CHECK(wire::connect_status(ErrorCode::kUnauthenticated) == 401);
  CHECK(wire::connect_status(ErrorCode::kConflict) == 409);
  CHECK(wire::connect_status(ErrorCode::kTooLarge) == 400);
  CHECK(wire::connect_status(ErrorCode::kInternal) == 500);
}
