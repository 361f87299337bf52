#include "docker/labels.h"

#include "tests/unit/docker/support.h"

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

TEST_CASE("labels read back as the order that they were made for") {
  const SandboxOrder order = docker::test::order(docker::test::walled({"ok.test"}));
  const json::Value labels =
      labels_for(docker::test::owner(), order, Role::kEgress, Structure::kInternalNet);
  const auto read = read_labels(&labels, docker::test::owner());
  REQUIRE(read.has_value());
  CHECK(read->role == Role::kEgress);
  CHECK(read->sandbox == order.sandbox);
  CHECK(read->tenant == order.tenant);
  CHECK(read->generation == 3);
  CHECK(read->expires_at == order.expires_at);
  CHECK(read->policy_hash == "hash-1");
}

TEST_CASE("a part of a wall that waits is no sandbox's, and a sandbox says which wall it took") {
  const Owner owner = docker::test::owner();
  for (const Role role : {Role::kNetwork, Role::kEgress, Role::kAnchor}) {
    const json::Value part = labels_for_wall(owner, role, "wall1");
    CHECK_FALSE(read_labels(&part, owner));
    const auto read = read_wall_labels(&part, owner);
    REQUIRE(read);
    CHECK(read->role == role);
    CHECK(read->wall == "wall1");
    Owner other = owner;
    other.worker = docker::test::id<WorkerId>("w-2");
    CHECK_FALSE(read_wall_labels(&part, other));
  }
  const SandboxOrder order = docker::test::order(docker::test::walled({}));
  const json::Value taker =
      labels_for(owner, order, Role::kSandbox, Structure::kInternalNet, "wall1");
  CHECK(read_labels(&taker, owner)->wall == "wall1");
  CHECK_FALSE(read_wall_labels(&taker, owner));
}

TEST_CASE("a wall's id that would name another folder is none") {
  const Owner owner = docker::test::owner();
  const SandboxOrder order = docker::test::order(docker::test::walled({}));
  for (const std::string& bad :
       {std::string(".."), std::string("a/b"), std::string("A"), std::string(65, 'a')}) {
    CAPTURE(bad);
    const json::Value part = labels_for_wall(owner, Role::kEgress, bad);
    CHECK_FALSE(read_wall_labels(&part, owner));
    const json::Value taker =
        labels_for(owner, order, Role::kSandbox, Structure::kInternalNet, bad);
    CHECK_FALSE(read_labels(&taker, owner));
  }
  const json::Value longest = labels_for_wall(owner, Role::kEgress, std::string(64, 'a'));
  CHECK(read_wall_labels(&longest, owner));
}

// Complaint 36: a start-up sweep takes a sibling's sandboxes.
TEST_CASE("an object of another controller or another worker is not ours") {
  const SandboxOrder order = docker::test::order(docker::test::walled({}));
  const json::Value labels =
      labels_for(docker::test::owner(), order, Role::kSandbox, Structure::kInternalNet);
  Owner other_controller = docker::test::owner();
  other_controller.controller = docker::test::id<ControllerId>("ctl-2");
  Owner other_worker = docker::test::owner();
  other_worker.worker = docker::test::id<WorkerId>("w-2");
  CHECK_FALSE(read_labels(&labels, other_controller));
  CHECK_FALSE(read_labels(&labels, other_worker));
  CHECK_FALSE(read_labels(nullptr, docker::test::owner()));
}

TEST_CASE("an object without one of the labels is no sandbox's") {
  const SandboxOrder order = docker::test::order(docker::test::walled({}));
  const json::Value labels =
      labels_for(docker::test::owner(), order, Role::kSandbox, Structure::kInternalNet);
  for (const auto& [name, value] : *labels.as_object()) {
    if (name == label::kPolicyHash) {
      continue;  // Its absence means unwalled, which a wall's network then contradicts.
    }
    if (name == label::kStructure) {
      continue;  // Objects from before there were two structures lack it.
    }
    const auto& shown = name;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    json::Object fewer;
    for (const auto& [other, text] : *labels.as_object()) {
      if (other != name) {
        fewer.emplace_back(other, text);
      }
    }
    const json::Value rest = std::move(fewer);
    CHECK_FALSE(read_labels(&rest, docker::test::owner()));
  }
}

TEST_CASE("a shared network is known by its role and is no sandbox's") {
  const json::Value labels = labels_for_shared(docker::test::owner(), Role::kOpenNetwork);
  CHECK(has_role(&labels, docker::test::owner(), Role::kOpenNetwork));
  CHECK_FALSE(has_role(&labels, docker::test::owner(), Role::kEgressNetwork));
  CHECK_FALSE(read_labels(&labels, docker::test::owner()));
}

TEST_CASE("filters name the owner's two labels") {
  const SandboxId sandbox = docker::test::id<SandboxId>("i1");
  CHECK(filters_for(docker::test::owner(), &sandbox) ==
        "filters=%7B%22label%22%3A%5B%22dev.sandboxkit.controller%3Dctl-1%22%2C%22"
        "dev.sandboxkit.worker%3Dw-1%22%2C%22dev.sandboxkit.sandbox%3Di1%22%5D%7D");
}
