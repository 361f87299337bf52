#include "cli/settings.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sandboxkit;       // NOLINT(google-build-using-namespace)
using namespace sandboxkit::cli;  // NOLINT(google-build-using-namespace)

namespace {

/// A home of its own, removed at the end.
class Home {
 public:
  Home() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cli-test.XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Home() { std::filesystem::remove_all(path_); }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  Environment environment() const { return {{"HOME", path_}}; }
  std::string file() const { return settings_path(environment()); }

 private:
  std::string path_;
};

void overwrite(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  REQUIRE(file != nullptr);
  std::fputs(text.c_str(), file);
  std::fclose(file);
}

}  // namespace

TEST_CASE("flags come before the environment, and the environment before the file") {
  const Home home;
  REQUIRE(save_settings({.url = "http://file:1", .key = "sk_file"}, home.file()));
  Environment environment = home.environment();
  CHECK(connection_settings({}, environment)->url == "http://file:1");
  CHECK(connection_settings({}, environment)->key == "sk_file");
  environment["SANDBOXKIT_URL"] = "http://env:1";
  environment["SANDBOXKIT_KEY"] = "sk_env";
  CHECK(connection_settings({}, environment)->url == "http://env:1");
  CHECK(connection_settings({.url = "http://flag:1"}, environment)->url == "http://flag:1");
  CHECK(connection_settings({.key = "sk_flag"}, environment)->key == "sk_flag");
}

TEST_CASE("a stored key is not sent to another controller than the stored one") {
  const Home home;
  REQUIRE(save_settings({.url = "http://file:1", .key = "sk_file"}, home.file()));
  const auto other = connection_settings({.url = "http://other:1"}, home.environment());
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::kUnauthenticated);
}

TEST_CASE("the settings file is the user's alone, and one that others can read is refused") {
  const Home home;
  REQUIRE(save_settings({.url = "http://file:1", .key = "sk_file"}, home.file()));
  struct stat about {};
  REQUIRE(stat(home.file().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  REQUIRE(chmod(home.file().c_str(), 0640) == 0);
  const auto read = connection_settings({}, home.environment());
  REQUIRE_FALSE(read);
  CHECK(read.error().message.find("chmod 600") != std::string::npos);
}

TEST_CASE("a settings file that says something else is refused") {
  const Home home;
  REQUIRE(save_settings({}, home.file()));
  for (const char* text : {"", "{", "[]", R"({"url": 1})", R"({"ulr": "http://x:1"})"}) {
    CAPTURE(std::string(text));
    overwrite(home.file(), text);
    const auto read = connection_settings({}, home.environment());
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find("settings file") == 0);
  }
}

TEST_CASE("without a controller or a key it says which") {
  const Home home;
  CHECK(connection_settings({.key = "sk_x"}, home.environment()).error().code ==
        ErrorCode::kInvalidArgument);
  CHECK(connection_settings({.url = "http://x:1"}, home.environment()).error().code ==
        ErrorCode::kUnauthenticated);
}
