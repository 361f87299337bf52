#include "docker/engine_client.h"
#include "tests/unit/docker/support.h"

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)
using docker::test::parsed;

TEST_CASE("an engine is spoken to in 1.41, or in the oldest version that it still takes") {
  CHECK(negotiate(parsed(R"({"ApiVersion":"1.41","MinAPIVersion":"1.12","Version":"20.10.24"})"))
            ->api_version == "1.41");
  CHECK(negotiate(parsed(R"({"ApiVersion":"1.51","MinAPIVersion":"1.44"})"))->api_version ==
        "1.44");
}

TEST_CASE("an engine that is too old is refused with the version that is needed") {
  const auto version = negotiate(parsed(R"({"ApiVersion":"1.40","Version":"19.03"})"));
  REQUIRE_FALSE(version);
  CHECK(version.error().reason == "engine_too_old");
  CHECK(version.error().message.find("1.41") != std::string::npos);
}

TEST_CASE("what is no engine is refused") {
  for (const char* text : {"{}", "[]", R"({"ApiVersion":"2.0"})", R"({"ApiVersion":"1.x"})"}) {
    CAPTURE(text);
    CHECK_FALSE(negotiate(parsed(text)).has_value());
  }
}

TEST_CASE("a refusal carries the engine's own message and a code that fits its status") {
  const EngineCall call{.method = "POST", .target = "/containers/create?name=x"};
  const struct {
    int status;
    ErrorCode code;
  } rows[] = {{400, ErrorCode::kInvalidArgument}, {403, ErrorCode::kConflict},
              {404, ErrorCode::kNotFound},        {409, ErrorCode::kConflict},
              {500, ErrorCode::kInternal},        {503, ErrorCode::kUnavailable}};
  for (const auto& row : rows) {
    CAPTURE(row.status);
    const Error error = error_of_reply(call, {row.status, R"({"message":"no such thing"})"});
    CHECK(error.code == row.code);
    CHECK(error.message == "the engine refused POST /containers/create: no such thing");
  }
}

TEST_CASE("a refusal without a message names its status, and controls in one are blanked") {
  const EngineCall call{.target = "/info"};
  CHECK(error_of_reply(call, {500, "<html>"}).message.find("status 500") != std::string::npos);
  CHECK(error_of_reply(call, {500, R"({"message":"a\nb"})"}).message.find("a b") !=
        std::string::npos);
}
