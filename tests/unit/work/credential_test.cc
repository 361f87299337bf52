#include "work/credential.h"

#include "tests/unit/work/support.h"
#include "work/state_dir.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <stdlib.h>

namespace sandboxkit::work {
namespace {

using testing::id;

/// A state folder, and a worker that starts anew over it whenever the test says.
struct Home {
  std::string path =
      (std::filesystem::temp_directory_path() / "sandboxkit-credential-XXXXXX").string();
  Home() {
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    const WorkerIdentity first{id<WorkerId>("w-1"), id<ControllerId>("c-1"), "acme", "wk_first"};
    REQUIRE(write_identity(path, first).has_value());
  }
  ~Home() { std::filesystem::remove_all(path); }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  WorkerIdentity stored() const {
    auto identity = read_identity(path);
    REQUIRE(identity);
    REQUIRE(identity->has_value());
    return **identity;
  }
};

TEST_CASE("an identity is read as it was written, in a file of its owner alone") {
  const Home home;
  const WorkerIdentity identity{id<WorkerId>("w-2"), id<ControllerId>("c-2"), "", "wk_b", "wk_a"};
  REQUIRE(write_identity(home.path, identity).has_value());
  const WorkerIdentity read = home.stored();
  CHECK(read.worker == identity.worker);
  CHECK(read.controller == identity.controller);
  CHECK(read.tenant.empty());
  CHECK(read.credential == "wk_b");
  CHECK(read.previous_credential == "wk_a");
}

TEST_CASE("a new credential is on the disk before it is used, and the old one beside it") {
  const Home home;
  Credential credential(home.path, home.stored());
  REQUIRE(credential.take("wk_second").has_value());
  CHECK(credential.current() == "wk_second");
  CHECK(home.stored().credential == "wk_second");
  CHECK(home.stored().previous_credential == "wk_first");
}

TEST_CASE("the old credential goes once the new one worked, and not before") {
  const Home home;
  Credential credential(home.path, home.stored());
  REQUIRE(credential.take("wk_second").has_value());
  REQUIRE(credential.worked("wk_first").has_value());  // An answer that was under way.
  CHECK(home.stored().previous_credential == "wk_first");
  REQUIRE(credential.worked("wk_second").has_value());
  CHECK(home.stored().previous_credential.empty());
}

TEST_CASE("after a crash between the two a worker starts with the new one and can go back") {
  const Home home;
  {
    Credential credential(home.path, home.stored());
    REQUIRE(credential.take("wk_second").has_value());
  }
  Credential credential(home.path, home.stored());
  CHECK(credential.current() == "wk_second");
  CHECK(credential.refused("wk_second").value_or(false));
  CHECK(credential.current() == "wk_first");
  CHECK(home.stored().credential == "wk_first");
  CHECK(home.stored().previous_credential.empty());
  CHECK_FALSE(credential.refused("wk_first").value_or(true));
  CHECK(credential.current() == "wk_first");
}

TEST_CASE("a credential that cannot be kept is not used") {
  const Home home;
  Credential credential(home.path, home.stored());
  std::filesystem::remove_all(home.path);
  CHECK_FALSE(credential.take("wk_second").has_value());
  CHECK(credential.current() == "wk_first");
}

TEST_CASE("a file that is no identity is not taken for an absent one") {
  const Home home;
  REQUIRE(write_private_file(home.path + "/worker.json", "{}").has_value());
  const auto identity = read_identity(home.path);
  REQUIRE_FALSE(identity);
  CHECK(identity.error().reason == "bad_identity");
}

}  // namespace
}  // namespace sandboxkit::work
