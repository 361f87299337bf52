#include "sandboxkit/sandbox_spec.h"

#include <functional>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

SandboxSpec plain() {
  return SandboxSpec{.image = "sandboxkit/base:1",
                     .egress = Egress::walled(EgressPolicy::deny_all())};
}

struct Row {
  const char* field;
  std::function<void(SandboxSpec&)> change;
};

std::map<std::string, std::string> entries(std::size_t count) {
  std::map<std::string, std::string> map;
  for (std::size_t i = 0; i < count; ++i) {
    map["k" + std::to_string(i)] = "v";
  }
  return map;
}

const std::vector<Row> kBad = {
    {"image", [](auto& s) { s.image = ""; }},
    {"image", [](auto& s) { s.image = std::string(256, 'a'); }},
    {"image", [](auto& s) { s.image = "--privileged"; }},
    {"image", [](auto& s) { s.image = "a b"; }},
    {"name", [](auto& s) { s.name = std::string(64, 'a'); }},
    {"name", [](auto& s) { s.name = "a/b"; }},
    {"name", [](auto& s) { s.name = "-a"; }},
    {"name", [](auto& s) { s.name = "i0123456789abcdefghij"; }},
    {"cpu_cores", [](auto& s) { s.cpu_cores = 0; }},
    {"cpu_cores", [](auto& s) { s.cpu_cores = 1024.5; }},
    {"cpu_cores", [](auto& s) { s.cpu_cores = std::numeric_limits<double>::quiet_NaN(); }},
    {"memory_mb", [](auto& s) { s.memory_mb = 15; }},
    {"memory_mb", [](auto& s) { s.memory_mb = SandboxSpec::kMaxMemoryMb + 1; }},
    {"timeout_seconds", [](auto& s) { s.timeout = std::chrono::seconds{0}; }},
    {"timeout_seconds",
     [](auto& s) { s.timeout = SandboxSpec::kMaxTimeout + std::chrono::seconds{1}; }},
    {"runtime", [](auto& s) { s.runtime = "run c"; }},
    {"env", [](auto& s) { s.env = entries(65); }},
    {"env",
     [](auto& s) {
       s.env = {{"A=B", "x"}};
     }},
    {"env",
     [](auto& s) {
       s.env = {{"", "x"}};
     }},
    {"env.A",
     [](auto& s) {
       s.env = {{"A", std::string(4097, 'x')}};
     }},
    {"env.A",
     [](auto& s) {
       s.env = {{"A", std::string("\0", 1)}};
     }},
    {"metadata",
     [](auto& s) {
       s.metadata = {{std::string(129, 'k'), "x"}};
     }},
    {"metadata.a",
     [](auto& s) {
       s.metadata = {{"a", "\xff"}};
     }},
    {"labels", [](auto& s) { s.worker_labels = entries(65); }},
};

}  // namespace

TEST_CASE("a spec at its limits is taken") {
  SandboxSpec spec = plain();
  spec.image = std::string(255, 'a');
  spec.name = std::string(63, 'a');
  spec.cpu_cores = 1024;
  spec.memory_mb = SandboxSpec::kMaxMemoryMb;
  spec.timeout = SandboxSpec::kMaxTimeout;
  spec.env = entries(64);
  spec.metadata = {{std::string(128, 'k'), std::string(4096, 'v')}};
  CHECK(validate(spec).has_value());
  spec.memory_mb = SandboxSpec::kMinMemoryMb;
  spec.timeout = std::chrono::seconds{1};
  spec.metadata = {{"a note with spaces = and signs", ""}};
  CHECK(validate(spec).has_value());
}

TEST_CASE("a spec past a limit is refused with the field's path") {
  for (std::size_t row = 0; row < kBad.size(); ++row) {
    CAPTURE(row);
    SandboxSpec spec = plain();
    kBad[row].change(spec);
    const Status status = validate(spec);
    REQUIRE_FALSE(status);
    CHECK(status.error().field == kBad[row].field);
  }
}

TEST_CASE("two specs that differ in anything but name and timeout have different texts") {
  const std::vector<std::function<void(SandboxSpec&)>> changes = {
      [](auto& s) { s.image = "other"; },
      [](auto& s) { s.egress = Egress::unwalled(UnwalledEgress{}); },
      [](auto& s) {
        const std::vector<std::string> domains = {"packages.test"};
        s.egress = Egress::walled(*EgressPolicy::create(domains, {}));
      },
      [](auto& s) { s.cpu_cores = 1.5; },
      [](auto& s) { s.memory_mb = 513; },
      [](auto& s) { s.profile = HardeningProfile::kSudo; },
      [](auto& s) { s.persistence = Persistence::kWorkspace; },
      [](auto& s) { s.runtime = "runsc"; },
      [](auto& s) {
        s.env = {{"a", "b"}};
      },
      [](auto& s) {
        s.env = {{"a", "b\nkey 1:c\nvalue 1:d"}};
      },
      [](auto& s) {
        s.env = {{"a", "b"}, {"c", "d"}};
      },
      [](auto& s) {
        s.metadata = {{"a", "b"}};
      },
      [](auto& s) {
        s.worker_labels = {{"a", "b"}};
      },
  };
  std::set<std::string> texts = {canonical_text(plain())};
  for (const auto& change : changes) {
    SandboxSpec spec = plain();
    change(spec);
    texts.insert(canonical_text(spec));
  }
  CHECK(texts.size() == changes.size() + 1);
}

TEST_CASE("name and timeout do not make another spec") {
  SandboxSpec spec = plain();
  spec.name = "mine";
  spec.timeout = std::chrono::seconds{5};
  CHECK(canonical_text(spec) == canonical_text(plain()));
}

TEST_CASE("every state of a sandbox has a name that reads back") {
  for (const auto state : {SandboxState::kPending, SandboxState::kStarting, SandboxState::kRunning,
                           SandboxState::kPaused, SandboxState::kStopping, SandboxState::kStopped,
                           SandboxState::kError, SandboxState::kLost, SandboxState::kDeleted}) {
    const auto read = sandbox_state_from(name_of(state));
    REQUIRE(read.has_value());
    CHECK(*read == state);
  }
  CHECK(sandbox_state_from("RUNNING").error().field == "state");
}
