#include "docker/tar.h"

#include <array>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

TEST_CASE("a packed file is read back, up to its limit and no further") {
  const std::string bytes(1000, 'x');
  const auto tar = pack_tar(std::array{TarFile{"etc/a", bytes}, TarFile{"etc/b", "other"}});
  REQUIRE(tar);
  CHECK(first_of_tar(*tar, 1000).value().bytes == bytes);
  CHECK(first_of_tar(*tar, 999).error().code == ErrorCode::kTooLarge);
}

TEST_CASE("what is no archive of a file is refused") {
  const auto tar = pack_tar(std::array{TarFile{"etc/a", std::string(5000, 'x')}});
  CHECK_FALSE(first_of_tar("", 10));
  CHECK_FALSE(first_of_tar("this is no archive", 10));
  CHECK_FALSE(first_of_tar(tar->substr(0, 2000), 10'000));
}
