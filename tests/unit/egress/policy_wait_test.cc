#include "egress/policy_wait.h"

#include "io/fd.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <unistd.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

/// A folder, and a descriptor that says when to stop.
struct Folder {
  std::string path = "/tmp/sk-policy-XXXXXX";
  io::Fd stop;
  io::Fd stopper;

  Folder() {
    REQUIRE(mkdtemp(path.data()) != nullptr);
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    stop = io::Fd(ends[0]);
    stopper = io::Fd(ends[1]);
  }
  ~Folder() { std::filesystem::remove_all(path); }

  void put(const std::string& name) const {
    std::ofstream(path + "/part") << "{}";
    std::filesystem::rename(path + "/part", path + "/" + name);
  }
  Result<bool> wait() const { return egress::wait_for_file(path, "policy.json", stop.get()); }
};

}  // namespace

TEST_CASE("a policy that is there is not waited for") {
  const Folder folder;
  folder.put("policy.json");
  const auto came = folder.wait();
  REQUIRE(came);
  CHECK(*came);
}

TEST_CASE("a policy that comes is seen, and no other file is taken for it") {
  const Folder folder;
  std::jthread writer([&] {
    folder.put("other.json");
    std::ofstream(folder.path + "/policy.json.part") << "{";
    folder.put("policy.json");
  });
  const auto came = folder.wait();
  REQUIRE(came);
  CHECK(*came);
  CHECK(std::filesystem::exists(folder.path + "/other.json"));
}

TEST_CASE("a stop ends the wait, also when it came before") {
  const Folder folder;
  REQUIRE(write(folder.stopper.get(), "x", 1) == 1);
  const auto came = folder.wait();
  REQUIRE(came);
  CHECK_FALSE(*came);
}

TEST_CASE("a folder that cannot be looked into is an error") {
  const Folder folder;
  const auto came = egress::wait_for_file(folder.path + "/" + std::string(300, 'x'), "policy.json",
                                          folder.stop.get());
  CHECK_FALSE(came.has_value());
}
