#include "docker/narrowing.h"

#include "docker/plan.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

namespace {

/// A sandbox's egress folder with the policy that it was made with.
struct Folder {
  std::string path = "/tmp/sbx-narrowing-test-" + std::to_string(::getpid());
  Folder() {
    std::filesystem::create_directories(path);
    std::ofstream(path + kPolicyFile)
        << R"({"listen": "10.0.0.2:3128", "allowed_domains": ["a.test", "*.b.test"],
               "allowed_networks": [], "policy_hash": "h0"})";
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

egress::NarrowedPolicy narrowed(const std::vector<std::string>& domains, const std::string& hash) {
  return {*EgressPolicy::create(domains, {}), hash};
}

}  // namespace

TEST_CASE("a narrowing is kept beside the sealed policy, and only ever a narrower one") {
  const Folder folder;
  CHECK_FALSE(read_narrowing(folder.path)->has_value());
  CHECK(reason_of(write_narrowing(folder.path, narrowed({"c.test"}, "x")).error()) ==
        "policy_widens");
  CHECK_FALSE(read_narrowing(folder.path)->has_value());
  REQUIRE(write_narrowing(folder.path, narrowed({"a.test", "x.b.test"}, "h1")));
  REQUIRE(write_narrowing(folder.path, narrowed({"a.test", "x.b.test"}, "h1")));
  REQUIRE(write_narrowing(folder.path, narrowed({"a.test"}, "h2")));
  // The sealed policy would allow it, the one in force does not.
  CHECK(reason_of(write_narrowing(folder.path, narrowed({"x.b.test"}, "x")).error()) ==
        "policy_widens");
  CHECK((*read_narrowing(folder.path))->policy_hash == "h2");
  const auto config = egress::load_config(folder.path + kPolicyFile);
  REQUIRE(config);
  CHECK(config->policy_hash == "h2");
  CHECK(config->policy.allowed_domains() == std::vector<std::string>{"a.test"});
  forget_narrowing(folder.path);
  CHECK_FALSE(read_narrowing(folder.path)->has_value());
}

TEST_CASE(
    "a proxy does not start with a narrowed policy that is broken, or wider than the sealed") {
  const Folder folder;
  const std::string file = folder.path + "/" + egress::kNarrowedFile;
  for (const char* text : {"", "{}", R"({"allowed_domains": ["a.test"]})",
                           R"({"allowed_domains": ["evil.test"], "policy_hash": "x"})",
                           R"({"allowed_domains": ["a.test"], "policy_hash": "x", "more": 1})"}) {
    CAPTURE(text);
    std::ofstream(file, std::ios::trunc) << text;
    CHECK_FALSE(egress::load_config(folder.path + kPolicyFile).has_value());
  }
  CHECK_FALSE(write_narrowing(folder.path + "/none", narrowed({}, "x")).has_value());
}
