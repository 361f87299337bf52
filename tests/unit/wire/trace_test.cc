#include "wire/trace.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

const std::string kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

wire::TraceSeed seed_of(std::uint8_t byte) {
  wire::TraceSeed seed{};
  seed.fill(byte);
  return seed;
}

}  // namespace

TEST_CASE("a request id is 1 to 64 plain characters") {
  CHECK(wire::is_request_id("a"));
  CHECK(wire::is_request_id("AZaz09._-"));
  CHECK(wire::is_request_id(std::string(64, 'x')));
  for (const std::string& text :
       {std::string(), std::string(65, 'x'), std::string("a b"), std::string("a\n"),
        std::string("a\0b", 3), std::string("a/b"), std::string("\xc3\xa9"), std::string("a,b")}) {
    CAPTURE(text);
    CHECK_FALSE(wire::is_request_id(text));
  }
}

TEST_CASE("a traceparent is read strictly") {
  CHECK(wire::is_traceparent(kParent));
  for (const char* text : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                           // Version, case, zero ids, separators, length.
                           "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
                           " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"}) {
    CAPTURE(text);
    CHECK_FALSE(wire::is_traceparent(text));
  }
}

TEST_CASE("a caller's own ids are taken as they are") {
  wire::Headers headers;
  headers.add("x-request-id", "job-7");
  headers.add("Traceparent", kParent);
  const auto trace = wire::admit_trace(headers, seed_of(7));
  CHECK(trace == wire::Trace{"job-7", kParent});
  CHECK(wire::trace_of(headers) == trace);
}

TEST_CASE("what is absent, doubled or not valid is replaced, so that one valid field is left") {
  for (const auto& [id, parent] :
       {std::pair<std::string, std::string>{"", ""}, {"a b", "x"}, {std::string(65, 'a'), "00"}}) {
    wire::Headers headers;
    if (!id.empty()) {
      headers.add("X-Request-Id", id);
      headers.add("traceparent", parent);
    }
    const auto trace = wire::admit_trace(headers, seed_of(0xab));
    CHECK(trace.request_id == std::string("abababababababababababababababab"));
    CHECK(trace.traceparent == "00-abababababababababababababababab-abababababababab-00");
    CHECK(headers.count("X-Request-Id") == 1);
    CHECK(headers.count("traceparent") == 1);
    CHECK(wire::trace_of(headers) == trace);
  }
  wire::Headers doubled;
  doubled.add("X-Request-Id", "one");
  doubled.add("X-Request-Id", "two");
  CHECK(wire::admit_trace(doubled, seed_of(1)).request_id.starts_with("0101"));
  CHECK(doubled.count("X-Request-Id") == 1);
}

TEST_CASE("randomness that is all zero still makes valid ids") {
  wire::Headers headers;
  const auto trace = wire::admit_trace(headers, seed_of(0));
  CHECK(wire::is_request_id(trace.request_id));
  CHECK(wire::is_traceparent(trace.traceparent));
}

TEST_CASE("a row's text reads back, and nothing else does") {
  const wire::Trace trace{"job-7", kParent};
  CHECK(wire::to_text(trace) == "job-7 " + kParent);
  CHECK(wire::trace_from_text(wire::to_text(trace)) == trace);
  CHECK(wire::to_text({}).empty());
  for (const std::string& text : {std::string(), std::string("job-7"), "job 7 " + kParent,
                                  "job-7  " + kParent, "job-7 " + kParent + " ", kParent}) {
    CAPTURE(text);
    CHECK(wire::trace_from_text(text) == wire::Trace{});
  }
}
