#include "docker/images.h"

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

TEST_CASE("names and ids of images are taken") {
  for (const char* name : {"base", "sandboxkit/base", "reg.test:5000/team/base:1.2",
                           "base@sha256:0123", "sha256:0123abcd"}) {
    CAPTURE(name);
    CHECK(check_image_name(name).has_value());
  }
}

TEST_CASE("a name that could mean another route of the engine is refused") {
  for (const char* name : {"", "../containers/x", "a/../b", "/a", "a//b", "a?b", "a#b", "a b",
                           "a%2e", "a\n", "\xc3\xa9"}) {
    CAPTURE(name);
    const Status checked = check_image_name(name);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().field == "image");
  }
  CHECK(check_image_name(std::string(255, 'a')).has_value());
  CHECK_FALSE(check_image_name(std::string(256, 'a')).has_value());
}

TEST_CASE("an error in the progress of an import is found though the status was good") {
  CHECK(error_in_progress("{\"status\":\"sha256:1\"}\r\n") == "");
  CHECK(error_in_progress("{\"status\":\"x\"}\n{\"error\":\"unexpected EOF\"}\n") ==
        "unexpected EOF");
}

TEST_CASE("the image of the egress proxy is named by what the binary holds") {
  CHECK(egress_image_name("0123456789abcdef0123") == "sandboxkit/egress:0123456789ab");
}
