#include "egress/client_hello.h"

#include "tests/unit/egress/tls_bytes.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit::egress;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)
using namespace std::literals;
using State = ClientHelloReader::State;
using Flight = ClientHelloReader::Flight;

namespace {

struct Read {
  State state = State::kMore;
  std::string name{};
  std::size_t taken = 0;
};

Read read(std::string_view bytes, std::size_t step = 1U << 20U, Flight flight = Flight::kFirst) {
  ClientHelloReader reader(flight);
  Read out;
  for (std::size_t at = 0; at < bytes.size() && out.state == State::kMore; at += step) {
    std::string_view piece = bytes.substr(at, step);
    const std::size_t offered = piece.size();
    out.state = reader.feed(piece);
    out.taken += offered - piece.size();
  }
  out.name = reader.server_name();
  return out;
}

}  // namespace

TEST_CASE("a hello is read however it is cut into packets and records") {
  const std::string message = hello_message({.name = "Ok.test", .padding = 300});
  for (const std::size_t piece : {1U, 3U, 4U, 5U, 100U, 16'384U}) {
    for (const std::size_t step : {1U, 2U, 7U, 1'000'000U}) {
      CAPTURE(piece);
      CAPTURE(step);
      const std::string bytes = records(message, piece);
      const Read got = read(bytes + "what follows", step);
      CHECK(got.state == State::kHello);
      CHECK(got.name == "Ok.test");
      CHECK(got.taken == bytes.size());
    }
  }
}

TEST_CASE("a hello without a name is a hello, and its name is empty") {
  CHECK(read(record(hello_message({}))).state == State::kHello);
  CHECK(read(record(hello_message({}))).name.empty());
  CHECK(read(record(hello_message({.with_extensions = false}))).state == State::kHello);
}

TEST_CASE("half a hello is waited for, and never taken for one") {
  const std::string whole = hello("ok.test");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(read(whole.substr(0, size)).state == State::kMore);
  }
}

TEST_CASE("other protocols are told by their first bytes") {
  for (const std::string_view bytes :
       {"S"sv, "GET / HTTP/1.1\r\n"sv, "\0"sv, "\x80\x2e\x01"sv, "\x15\x03\x01"sv,
        "\x14\x03\x01\x00\x01\x01"sv, "\x17"sv, "\x16\x02"sv, "\x16\xfe\xff"sv,
        "\x16\x03\x01\x00\x00"sv, "\x16\x03\x01\x40\x01"sv, "\x16\x03\x01\x00\x05\x02"sv}) {
    CAPTURE(bytes);
    CHECK(read(bytes).state == State::kNotTls);
  }
}

TEST_CASE("what two readers could take in two ways is no hello") {
  const std::string ok = hello_message({.name = "ok.test"});
  const std::string list = name_list({"ok.test"});
  const auto with = [](HelloParts parts) { return record(hello_message(parts)); };
  const auto named = [&](const std::string& value) {
    return with({.more_extensions = {extension(0, value)}});
  };
  std::string short_record = record(ok);
  short_record[4] = static_cast<char>(short_record[4] - 1);
  const std::string rows[] = {
      // Two names: in one list, in two extensions, in two equal extensions.
      named(name_list({"ok.test", "evil.test"})),
      with({.name = "ok.test", .more_extensions = {extension(0, name_list({"evil.test"}))}}),
      with({.name = "ok.test", .more_extensions = {extension(0, list)}}),
      // Lists that do not add up.
      named(""),
      named(u16(0)),
      named(list + "x"),
      named(list.substr(0, list.size() - 1)),
      named(name_list({""})),
      named(u16(10) + "\x01" + u16(7) + "ok.test"),
      // Extensions and messages that do not.
      with({.name = "ok.test", .more_extensions = {"\x00\x2b"s}}),
      with({.name = "ok.test", .more_extensions = {"\x00\x2b\x00\x09x"s}}),
      with({.name = "ok.test", .behind = "x"}),
      record("\x01\x00\x00\x00"s),
      record("\x01\x00\x00\x02\x03\x03"s),
      // Records: another message, or the begin of one, behind the hello in its own.
      record(ok + ok),
      record(ok + "\x01"),
      short_record + record("x"),
      // Another record type, and an empty record, in the midst.
      record(ok.substr(0, 10)) + record("\x01"s, 20) + record(ok.substr(10)),
      record(ok.substr(0, 10)) + record("") + record(ok.substr(10)),
      record(ok.substr(0, 10)) + record(ok.substr(10), 23),
  };
  for (const std::string& bytes : rows) {
    CAPTURE(bytes);
    CHECK(read(bytes).state == State::kNotTls);
    CHECK(read(bytes, 1).state == State::kNotTls);
  }
}

TEST_CASE("a hello of 16 KiB with its records is read, one byte more is not") {
  constexpr std::size_t kRecord = 5;
  const std::size_t rest = hello_message({.name = "ok.test", .padding = 1}).size() - 1;
  const std::size_t fits = ClientHelloReader::kMaxBytes - kRecord - rest;
  CHECK(read(record(hello_message({.name = "ok.test", .padding = fits}))).state == State::kHello);
  CHECK(read(record(hello_message({.name = "ok.test", .padding = fits + 1}))).state ==
        State::kNotTls);
  // In records of one byte the headers count too: a stream of them ends.
  const Read cut = read(records(hello_message({.name = "ok.test", .padding = 8'000}), 1), 1);
  CHECK(cut.state == State::kNotTls);
  CHECK(cut.taken <= ClientHelloReader::kMaxBytes);
}

TEST_CASE("a second hello may stand behind one change_cipher_spec, and is read as strictly") {
  const std::string change = record("\x01"s, 20);
  CHECK(read(change + hello("ok.test"), 1, Flight::kSecond).name == "ok.test");
  CHECK(read(hello("ok.test"), 1, Flight::kSecond).name == "ok.test");
  CHECK(read(change + change + hello("ok.test"), 1, Flight::kSecond).state == State::kNotTls);
  CHECK(read(record("\x01\x01"s, 20), 1, Flight::kSecond).state == State::kNotTls);
  CHECK(read(change + record("data", 23), 1, Flight::kSecond).state == State::kNotTls);
}

TEST_CASE("a HelloRetryRequest is told from any other answer, however it is cut") {
  const std::string message = server_hello(true).substr(5);
  for (const std::size_t piece : {1U, 2U, 7U, 100U}) {
    const std::string bytes = records(message, piece);
    CHECK(read_server_flight(bytes) == ServerFlight::kRetry);
    CHECK(read_server_flight(bytes.substr(0, 20)) == ServerFlight::kMore);
  }
  CHECK(read_server_flight(server_hello(false)) == ServerFlight::kOther);
  CHECK(read_server_flight("") == ServerFlight::kMore);
  CHECK(read_server_flight("220 smtp.test ESMTP\r\n") == ServerFlight::kOther);
  // A warning may stand before the hello.
  CHECK(read_server_flight(record("\x01\x70"s, 21) + server_hello(true)) == ServerFlight::kRetry);
  CHECK(read_server_flight(record("\x02\x28"s, 21)) == ServerFlight::kMore);
  std::string alerts;
  while (alerts.size() < 2'000) {
    alerts += record("\x01\x70"s, 21);
  }
  CHECK(read_server_flight(alerts) == ServerFlight::kRetry);
}
