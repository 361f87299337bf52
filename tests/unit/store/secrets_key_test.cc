#include "store/secrets_key.h"

#include "base/random.h"
#include "tests/unit/store/temporary_folder.h"

#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sandboxkit;
using store::SecretsKey;

namespace {

std::string file_of(const TemporaryFolder& folder, std::size_t bytes, mode_t mode) {
  const std::string path = folder.file("key-" + std::to_string(bytes) + "-" + std::to_string(mode));
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'k');
  REQUIRE(::chmod(path.c_str(), mode) == 0);
  return path;
}

SecretsKey key_of(char fill) {
  SecretsKey::Bytes bytes{};
  bytes.fill(static_cast<std::uint8_t>(fill));
  return SecretsKey(bytes);
}

}  // namespace

TEST_CASE("a sealed value opens with its key in its place and nowhere else") {
  const SecretsKey key = key_of('a');
  for (const std::string& value : {std::string(), std::string("s3cret"), std::string(4096, 'x')}) {
    const auto sealed = key.seal(value, "acme/i1/TOKEN", system_random());
    REQUIRE(sealed);
    CHECK(*key.open(*sealed, "acme/i1/TOKEN") == value);
    CHECK_FALSE(key.open(*sealed, "acme/i2/TOKEN").has_value());
    CHECK_FALSE(key_of('b').open(*sealed, "acme/i1/TOKEN").has_value());
    CHECK((value.empty() || sealed->find(value) == std::string::npos));
  }
}

TEST_CASE("the same value is sealed differently each time") {
  const SecretsKey key = key_of('a');
  CHECK(*key.seal("v", "c", system_random()) != *key.seal("v", "c", system_random()));
}

TEST_CASE("a sealed text that was changed or cut does not open") {
  const SecretsKey key = key_of('a');
  const std::string sealed = *key.seal("s3cret", "c", system_random());
  for (std::size_t i = 0; i + 4 < sealed.size(); i += 3) {
    std::string changed = sealed;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    CHECK_FALSE(key.open(changed, "c").has_value());
    const auto cut = key.open(sealed.substr(0, i), "c");
    REQUIRE_FALSE(cut);
    CHECK(cut.error().message.find("s3cret") == std::string::npos);
  }
}

TEST_CASE("a digest needs the key") {
  CHECK(key_of('a').digest("x") == key_of('a').digest("x"));
  CHECK(key_of('a').digest("x") != key_of('b').digest("x"));
  CHECK(key_of('a').digest("x") != key_of('a').digest("y"));
}

TEST_CASE("a key is a plain file of 32 bytes that nobody else may use") {
  const TemporaryFolder folder;
  CHECK(SecretsKey::load(file_of(folder, 32, 0600)).has_value());
  CHECK(SecretsKey::load(file_of(folder, 32, 0400)).has_value());
  for (const mode_t mode : {0640, 0604, 0660, 0644}) {
    CHECK_FALSE(SecretsKey::load(file_of(folder, 32, mode)).has_value());
  }
  CHECK_FALSE(SecretsKey::load(file_of(folder, 31, 0600)).has_value());
  CHECK_FALSE(SecretsKey::load(file_of(folder, 33, 0600)).has_value());
  CHECK(SecretsKey::load(folder.file("none")).error().code == ErrorCode::kNotFound);
  REQUIRE(::symlink(file_of(folder, 32, 0600).c_str(), folder.file("link").c_str()) == 0);
  CHECK_FALSE(SecretsKey::load(folder.file("link")).has_value());
  CHECK_FALSE(SecretsKey::load("/dev/zero").has_value());
}
