#include "cli/exec.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;       // NOLINT(google-build-using-namespace)
using namespace sandboxkit::cli;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::string_view kStream =
    "{\"type\":\"start\",\"pid\":7}\n"
    "{\"type\":\"stdout\",\"data\":\"b25lCg==\"}\n"
    "{\"type\":\"ping\"}\n"
    "{\"type\":\"stderr\",\"data\":\"dHdv\"}\n"
    "{\"type\":\"exit\",\"exit_code\":137,\"signal\":\"SIGKILL\",\"timed_out\":true}\n";

std::string told(ExecEvent event) {
  switch (event.kind) {
    case ExecEvent::Kind::kStart:
      return "start " + std::to_string(event.pid);
    case ExecEvent::Kind::kStdout:
      return "out " + event.bytes;
    case ExecEvent::Kind::kStderr:
      return "err " + event.bytes;
    case ExecEvent::Kind::kPing:
      return "ping";
    case ExecEvent::Kind::kExit:
      return "exit " + std::to_string(event.exit.code) + (event.exit.timed_out ? " late" : "");
  }
  return "?";
}

}  // namespace

TEST_CASE("an exec stream reads the same however it is cut") {
  for (std::size_t piece = 1; piece <= kStream.size(); ++piece) {
    CAPTURE(piece);
    ExecDecoder decoder;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < kStream.size(); at += piece) {
      REQUIRE(decoder.feed(kStream.substr(at, piece), [&](ExecEvent event) {
        events.push_back(told(std::move(event)));
        return true;
      }));
    }
    CHECK(events ==
          std::vector<std::string>{"start 7", "out one\n", "ping", "err two", "exit 137 late"});
  }
}

TEST_CASE("a line that is no event is an error") {
  for (const char* line : {"x\n", "{}\n", "{\"type\":\"dance\"}\n", "[1]\n",
                           "{\"type\":\"stdout\",\"data\":\"?\"}\n"}) {
    CAPTURE(std::string(line));
    ExecDecoder decoder;
    CHECK_FALSE(decoder.feed(line, [](ExecEvent) { return true; }));
  }
}

TEST_CASE("a taker that wants no more ends the stream") {
  ExecDecoder decoder;
  const auto status = decoder.feed(kStream, [](ExecEvent) { return false; });
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kCancelled);
  CHECK(decoder.refused());
}

TEST_CASE("a line without an end is refused at the limit") {
  ExecDecoder decoder;
  const std::string half(ExecDecoder::kMaxLineBytes / 2, 'x');
  CHECK(decoder.feed(half, [](ExecEvent) { return true; }));
  CHECK(decoder.feed(half, [](ExecEvent) { return true; }));
  CHECK_FALSE(decoder.feed("x", [](ExecEvent) { return true; }));
}

TEST_CASE("the guest's words for a signal become its number") {
  CHECK(signal_of_status("exit status 3") == 0);
  CHECK(signal_of_status("signal: killed") == 9);
  CHECK(signal_of_status("signal: segmentation fault (core dumped)") == 11);
  CHECK(signal_of_status("signal: something new") != 0);
}
