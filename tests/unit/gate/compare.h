#pragma once

#include "sandboxkit/box_plan.h"

#include "gate/box_view.h"
#include "tests/support/box_gaps.h"
#include "tests/support/box_world.h"
#include "tests/unit/gate/fake_eyes.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include <doctest/doctest.h>

namespace sandboxkit::box_test {

using gate_test::FakeEyes;

inline constexpr std::size_t kQuestions = 1000;

inline FakeEyes eyes_on(const World& world) {
  FakeEyes eyes;
  for (const Entry& entry : world.entries) {
    switch (entry.kind) {
      case Kind::kFile:
        eyes.file(entry.path);
        break;
      case Kind::kProgram:
        eyes.file(entry.path).mode = 0755;
        break;
      case Kind::kDirectory:
        eyes.directory(entry.path);
        break;
      case Kind::kLink:
        eyes.link(entry.path, entry.to);
        break;
      case Kind::kHardLink:
        eyes.hard_link(entry.to, entry.path);
        break;
    }
  }
  for (const char* path : {"/etc/shadow", "/etc/hosts", "/etc/ssl/private/site.key",
                           "/usr/share/doc/sample.key", "/usr/bin/git", "/var/lib/state"}) {
    eyes.file(path);
  }
  eyes.link("/bin", "/usr/bin");
  return eyes;
}

inline std::uint32_t first_seed() {
  const char* text = std::getenv("SANDBOXKIT_SEED");
  return text == nullptr ? 1 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// How often each answer and each difference was met.
using Count = std::map<std::string, int>;

struct Run {
  const World& world;
  const FakeEyes& eyes;
  const PermissionGate& gate;
  const GateGrants& grants;
  const BoxPlan& plan;
  /// Whether the box lets an item through.
  const std::function<bool(const GateItem&)>& box;
};

/// A box for a plan, and what else of a difference is looked at.
struct Tried {
  std::function<std::function<bool(const GateItem&)>(const BoxPlan&, const FakeEyes&)> box;
  std::function<void(const GateItem&, Gap)> met = [](const GateItem&, Gap) {};
  bool makes_hard_links = true;
};

inline void compare(const Run& run, const GateItem& item, const Tried& tried, Count& count) {
  const auto decide = [&](const GateItem& asked) {
    return run.gate.decide({.cwd = run.world.tree(), .items = {asked}}, run.grants, run.eyes,
                           kTestNow);
  };
  const gate::BoxView view(run.plan, run.eyes);
  const GateDecision decision = decide(item);
  const bool gate_allows = decision.answer == GateAnswer::kAllow;
  const bool box_allows = run.box(item);
  ++count[gate_allows ? "the gate allows" : "the gate does not"];
  if (gate_allows == box_allows) {
    return;
  }
  const std::string& path = item.argv.empty() ? item.target : item.argv.front();
  const auto allows = [&](GateOperation operation) {
    return decide({.operation = operation, .target = path}).answer == GateAnswer::kAllow;
  };
  const auto gap =
      gap_of({item, decision, box_allows, allows(GateOperation::kRead),
              allows(GateOperation::kWrite), view, run.plan, run.eyes, tried.makes_hard_links});
  ++count[gap ? name_of(*gap) : "nothing"];
  if (gap) {
    tried.met(item, *gap);
  }
  const std::string told = std::string(name_of(item.operation)) + " " + path + " " + item.to +
                           ": box " + (box_allows ? "allows" : "denies") + ", " + explain(decision);
  CHECK_MESSAGE(gap.has_value(), told);
}

inline Count compare_all(const BoxChoices& choices, const Tried& tried) {
  const World world = world_at("");
  const FakeEyes eyes = eyes_on(world);
  Count count;
  for (const Setting& setting : settings_of(world, eyes.identity(world.tree()))) {
    CAPTURE(setting.name);
    auto gate = PermissionGate::create(session_of(world, eyes.identity(world.tree())),
                                       setting.policy, PermissionMode::kPrompt);
    REQUIRE_MESSAGE(gate.has_value(), gate.error().message);
    const auto grants = gate->compile(setting.permanent, setting.granted);
    REQUIRE_MESSAGE(grants.has_value(), grants.error().message);
    const auto plan = gate->plan_box(*grants, eyes, kTestNow, choices);
    REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
    const auto box = tried.box(*plan, eyes);
    for (const GateItem& item : questions(world, first_seed(), kQuestions)) {
      compare({world, eyes, *gate, *grants, *plan, box}, item, tried, count);
    }
  }
  for (const auto& [what, times] : count) {
    MESSAGE(what, ": ", times);
  }
  return count;
}

}  // namespace sandboxkit::box_test
