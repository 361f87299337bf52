#include "wire/messages.h"

#include "sandboxkit/relax/unwalled_egress.h"

#include "base/text.h"

#include <limits>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr WallTime kTime{std::chrono::milliseconds{1'764'417'600'123}};

json::Value read(std::string_view text) {
  const auto value = json::parse(text);
  REQUIRE(value);
  return *value;
}

SandboxId sandbox_id() { return *SandboxId::parse("i0123456789abcdefghij"); }
TenantId tenant_id() { return *TenantId::parse("acme"); }

SandboxSpec full_spec() {
  const std::vector<std::string> domains{"packages.test", "*.w.test:8443"};
  const std::vector<std::string> networks{"10.1.0.0/16"};
  SandboxSpec spec{.image = "sandboxkit/base:1",
                   .egress = Egress::walled(*EgressPolicy::create(domains, networks))};
  spec.name = "build-7";
  spec.cpu_cores = 0.1;
  spec.memory_mb = 2048;
  spec.timeout = std::chrono::seconds{90};
  spec.profile = HardeningProfile::kSudo;
  spec.persistence = Persistence::kWorkspace;
  spec.runtime = "runsc";
  spec.env = {{"PATH", "/usr/bin"}, {"EMPTY", ""}};
  spec.metadata = {{"note", "caf\xc3\xa9"}};
  spec.worker_labels = {{"zone", "eu-1"}};
  return spec;
}

std::vector<LentSecret> some_secrets() {
  return {{.name = "API",
           .domain = "packages.test",
           .key = "Authorization",
           .value = "Bearer s3cret-1",
           .expires_at = kTime},
          {.name = "GIT",
           .domain = "a.w.test:8443",
           .place = SecretPlace::kBasic,
           .value = "me:s3cret-2"},
          {.name = "Q",
           .domain = "packages.test",
           .place = SecretPlace::kQuery,
           .key = "key",
           .value = "s3cret-3"}};
}

/// Equal in every member: the canonical text leaves out name and timeout.
bool same(const SandboxSpec& a, const SandboxSpec& b) {
  return canonical_text(a) == canonical_text(b) && a.name == b.name && a.timeout == b.timeout;
}

/// The field at which `text` is refused as a spec, or `taken`.
std::string refused_at(std::string_view text) {
  const auto spec = wire::spec_from_json(read(text));
  return spec ? "taken" : spec.error().field;
}

wire::Delivery create_delivery() {
  return {.seq = 7,
          .kind = wire::DeliveryKind::kCreate,
          .sandbox = sandbox_id(),
          .tenant = tenant_id(),
          .generation = 2,
          .expires_at = kTime,
          .policy_hash = "abc123",
          .spec = full_spec()};
}

/// `value` without that member.
json::Value without(const json::Value& value, std::string_view name) {
  json::Object members = *value.as_object();
  std::erase_if(members, [&](const auto& member) { return member.first == name; });
  return members;
}

json::Value with(const json::Value& value, std::string_view name, json::Value member) {
  json::Object members = *without(value, name).as_object();
  members.emplace_back(name, std::move(member));
  return members;
}

}  // namespace

TEST_CASE("a spec reads back exactly what was written") {
  const SandboxSpec spec = full_spec();
  const auto back = wire::spec_from_json(read(json::dump(wire::spec_to_json(spec))));
  REQUIRE(back);
  CHECK(same(*back, spec));
  CHECK(json::dump(wire::spec_to_json(*back)) == json::dump(wire::spec_to_json(spec)));
}

TEST_CASE("a spec of an image alone has the documented defaults and no wall") {
  const auto spec = wire::spec_from_json(read(R"({"image":"base"})"));
  REQUIRE(spec);
  CHECK_FALSE(spec->egress.is_walled());
  CHECK(spec->cpu_cores == 1);
  CHECK(spec->memory_mb == 512);
  CHECK(spec->timeout == std::chrono::seconds{3600});
  CHECK(spec->profile == HardeningProfile::kHardened);
  CHECK(spec->persistence == Persistence::kEphemeral);
  const auto back = wire::spec_from_json(wire::spec_to_json(*spec));
  REQUIRE(back);
  CHECK(same(*back, *spec));
}

TEST_CASE("absent and null egress are unwalled, and an empty list is a wall that allows nothing") {
  CHECK_FALSE(wire::spec_from_json(read(R"({"image":"b","egress":null})"))->egress.is_walled());
  const auto walled =
      wire::spec_from_json(read(R"({"image":"b","egress":{"allowed_domains":[]}})"));
  REQUIRE(walled);
  REQUIRE(walled->egress.is_walled());
  CHECK(walled->egress.policy()->allowed_domains().empty());
  CHECK(wire::egress_to_json(Egress::unwalled(UnwalledEgress())).is_null());
}

TEST_CASE("strict TLS is read, and written only where it is asked for") {
  const auto egress_of = [](const char* json) {
    return wire::egress_from_json(read(json), "egress");
  };
  const char* strict = R"({"allowed_domains":["a.test"],"allowed_networks":[],"strict_tls":true})";
  const char* plain = R"({"allowed_domains":["a.test"],"allowed_networks":[]})";
  CHECK(egress_of(strict)->policy()->strict_tls());
  CHECK_FALSE(egress_of(plain)->policy()->strict_tls());
  CHECK(json::dump(wire::egress_to_json(*egress_of(strict))) == strict);
  CHECK(json::dump(wire::egress_to_json(*egress_of(plain))) == plain);
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domains":[],"strict_tls":"yes"}})") ==
        "egress.strict_tls");
}

TEST_CASE("an egress that does not say its domains is refused and never unwalled") {
  CHECK(refused_at(R"({"image":"b","egress":{}})") == "egress.allowed_domains");
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domains":null}})") ==
        "egress.allowed_domains");
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_networks":[]}})") ==
        "egress.allowed_domains");
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domain":["a.test"]}})") ==
        "egress.allowed_domains");
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domains":[],"x":1}})") == "egress.x");
  CHECK(refused_at(R"({"image":"b","egress":[]})") == "egress");
  CHECK(refused_at(R"({"image":"b","egress":false})") == "egress");
  CHECK(refused_at(R"({"image":"b","egress":"none"})") == "egress");
}

TEST_CASE("a bad entry of the policy is named with its index") {
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domains":["ok.test","*"]}})") ==
        "egress.allowed_domains[1]");
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domains":["ok.test",7]}})") ==
        "egress.allowed_domains[1]");
  CHECK(refused_at(R"({"image":"b","egress":{"allowed_domains":[],"allowed_networks":["x"]}})") ==
        "egress.allowed_networks[0]");
}

TEST_CASE("each member of a spec is checked and named") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({})", "image"},
      {R"({"image":""})", "image"},
      {R"({"image":7})", "image"},
      {R"({"image":"b","cpu_cores":0})", "cpu_cores"},
      {R"({"image":"b","cpu_cores":"1"})", "cpu_cores"},
      {R"({"image":"b","memory_mb":15})", "memory_mb"},
      {R"({"image":"b","memory_mb":512.5})", "memory_mb"},
      {R"({"image":"b","timeout_seconds":0})", "timeout_seconds"},
      {R"({"image":"b","timeout_seconds":2592001})", "timeout_seconds"},
      {R"({"image":"b","profile":"root"})", "profile"},
      {R"({"image":"b","persistence":"disk"})", "persistence"},
      {R"({"image":"b","env":[]})", "env"},
      {R"({"image":"b","env":{"A":1}})", "env.A"},
      {R"({"image":"b","labels":{"A":null}})", "labels.A"},
      {R"({"image":"b","tenant":"other"})", "tenant"},
      {R"({"image":"b","privileged":true})", "privileged"},
  };
  for (const auto& [text, field] : rows) {
    const auto& shown = text;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    CHECK(refused_at(text) == field);
  }
}

TEST_CASE("every kind of delivery reads back what was written") {
  for (const auto kind :
       {wire::DeliveryKind::kCreate, wire::DeliveryKind::kRemove, wire::DeliveryKind::kRenew,
        wire::DeliveryKind::kNarrow, wire::DeliveryKind::kLend}) {
    wire::Delivery delivery = create_delivery();
    delivery.kind = kind;
    delivery.egress = *full_spec().egress.policy();
    delivery.secrets = some_secrets();
    const auto back = wire::delivery_from_json(read(json::dump(wire::to_json(delivery))));
    REQUIRE(back);
    CHECK(back->seq == 7);
    CHECK(back->kind == kind);
    CHECK(back->sandbox == sandbox_id());
    CHECK(back->tenant == tenant_id());
    CHECK(back->generation == 2);
    CHECK(wire::to_json(*back) == wire::to_json(delivery));
  }
}

TEST_CASE("a delivery without one of its members is refused there") {
  const json::Value whole = wire::to_json(create_delivery());
  for (const auto& [name, member] : *whole.as_object()) {
    const auto& shown = name;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    const auto refused = wire::delivery_from_json(without(whole, name));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().field == name);
  }
}

TEST_CASE("a delivery takes no member of another kind and no unknown one") {
  wire::Delivery remove = create_delivery();
  remove.kind = wire::DeliveryKind::kRemove;
  const auto refused =
      wire::delivery_from_json(with(wire::to_json(remove), "spec", json::Object{}));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "unknown_field");
  CHECK_FALSE(wire::delivery_from_json(with(wire::to_json(remove), "x", 1)).has_value());
}

TEST_CASE("a narrowing without a policy or its hash is refused: no message takes a wall away") {
  wire::Delivery narrow = create_delivery();
  narrow.kind = wire::DeliveryKind::kNarrow;
  narrow.egress = EgressPolicy::deny_all();
  const json::Value whole = wire::to_json(narrow);
  REQUIRE(wire::delivery_from_json(whole));
  CHECK(wire::delivery_from_json(whole)->egress->allowed_domains().empty());
  CHECK_FALSE(wire::delivery_from_json(with(whole, "egress", nullptr)).has_value());
  CHECK_FALSE(wire::delivery_from_json(without(whole, "egress")).has_value());
  CHECK_FALSE(wire::delivery_from_json(with(whole, "policy_hash", "")).has_value());
  CHECK_FALSE(wire::delivery_from_json(with(whole, "egress", json::Object{})).has_value());
}

TEST_CASE("an order that lends secrets must list them") {
  wire::Delivery lend = create_delivery();
  lend.kind = wire::DeliveryKind::kLend;
  const json::Value whole = wire::to_json(lend);
  CHECK(wire::delivery_from_json(whole)->secrets.empty());
  CHECK_FALSE(wire::delivery_from_json(without(whole, "secrets")).has_value());
  CHECK_FALSE(wire::delivery_from_json(with(whole, "secrets", json::Array{7})).has_value());
}

TEST_CASE("how a wall is made is told with the sandbox, and an unwalled one says nothing") {
  SandboxReport report{.sandbox = sandbox_id(), .tenant = tenant_id(), .generation = 1};
  CHECK(wire::to_json(report).find("structure") == nullptr);
  report.structure = "isolated-ns";
  CHECK(wire::sandbox_report_from_json(wire::to_json(report))->structure == "isolated-ns");
}

TEST_CASE("a create whose wall and policy hash do not agree is refused") {
  const json::Value whole = wire::to_json(create_delivery());
  CHECK_FALSE(wire::delivery_from_json(with(whole, "policy_hash", "")).has_value());
  const json::Value unwalled = with(*whole.find("spec"), "egress", nullptr);
  CHECK_FALSE(wire::delivery_from_json(with(whole, "spec", unwalled)).has_value());
  CHECK(
      wire::delivery_from_json(with(with(whole, "spec", unwalled), "policy_hash", "")).has_value());
}

TEST_CASE("a faulty spec inside of a delivery is named with its path") {
  const json::Value whole = wire::to_json(create_delivery());
  const json::Value spec = with(*whole.find("spec"), "memory_mb", 1);
  const auto refused = wire::delivery_from_json(with(whole, "spec", spec));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().field == "spec.memory_mb");
}

TEST_CASE("an inventory reads back, with texts for people cleaned") {
  const std::vector<SandboxReport> sandboxes{
      {.sandbox = sandbox_id(),
       .tenant = tenant_id(),
       .generation = 3,
       .state = SandboxState::kStopped,
       .expires_at = kTime,
       .policy_hash = "abc",
       .reason = "exit 137\n\x1b[31m\xff" + std::string(1000, 'x')}};
  const auto back = wire::inventory_from_json(read(json::dump(wire::inventory_to_json(sandboxes))));
  REQUIRE(back);
  REQUIRE(back->size() == 1);
  CHECK(back->front().sandbox == sandbox_id());
  CHECK(back->front().state == SandboxState::kStopped);
  CHECK(back->front().expires_at == kTime);
  CHECK(back->front().reason.starts_with("exit 137??[31m?xxx"));
  CHECK(back->front().reason.size() == wire::kMaxReasonBytes);
}

TEST_CASE("an inventory without its list is refused, because it would say that all is gone") {
  CHECK_FALSE(wire::inventory_from_json(read("{}")).has_value());
  CHECK_FALSE(wire::inventory_from_json(read(R"({"sandboxes":null})")).has_value());
  CHECK_FALSE(wire::inventory_from_json(read(R"({"sandboxes":{}})")).has_value());
  CHECK(wire::inventory_from_json(read(R"({"sandboxes":[]})"))->empty());
}

TEST_CASE("a stored or shown spec holds no secret, and a delivery to the worker holds them whole") {
  wire::Delivery delivery = create_delivery();
  delivery.spec->secrets = some_secrets();
  CHECK(json::dump(wire::spec_to_json(*delivery.spec)).find("s3cret") == std::string::npos);
  const auto back = wire::delivery_from_json(read(json::dump(wire::to_json(delivery))));
  REQUIRE(back);
  REQUIRE(back->spec->secrets.size() == 3);
  CHECK(same(*back->spec, *delivery.spec));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(back->spec->secrets[i].value == some_secrets()[i].value);
    CHECK(back->spec->secrets[i].expires_at == some_secrets()[i].expires_at);
  }
}

TEST_CASE("what everybody may see of a secret is all but its value") {
  for (const LentSecret& secret : some_secrets()) {
    const std::string seen = json::dump(wire::secret_view(secret));
    CHECK(seen.find("s3cret") == std::string::npos);
    CHECK(seen.find(secret.name) != std::string::npos);
    CHECK(seen.find(secret.domain) != std::string::npos);
  }
}

TEST_CASE("a rotation changes value and end, and nothing else") {
  const auto rotated =
      wire::rotated_from_json(read(R"({"value_from":{"value":"next"}})"), some_secrets()[0]);
  REQUIRE(rotated);
  CHECK(rotated->value == "next");
  CHECK(rotated->expires_at == WallTime{});
  CHECK(rotated->domain == "packages.test");
  CHECK(rotated->key == "Authorization");
  CHECK_FALSE(wire::rotated_from_json(read(R"({"value_from":{"value":"x"},"domain":"b.test"})"),
                                      some_secrets()[0])
                  .has_value());
  CHECK_FALSE(
      wire::rotated_from_json(read(R"({"value_from":{"value":"no colon"}})"), some_secrets()[1])
          .has_value());
}

TEST_CASE("a faulty secret is named with its path, and no message holds the value") {
  const std::string spec = R"({"image":"b","egress":{"allowed_domains":["a.test"]},"secrets":)";
  const std::pair<const char*, const char*> rows[] = {
      {R"({})", "secrets"},
      {R"([7])", "secrets[0]"},
      {R"([{"domain":"a.test","basic":true,"value_from":{"value":"s3:cret"}}])", "secrets[0].name"},
      {R"([{"name":"A","domain":"a.test","value_from":{"value":"s3cret"}}])", "secrets[0].header"},
      {R"([{"name":"A","domain":"a.test","header":"X","query":"x","value_from":{"value":"s3cret"}}])",
       "secrets[0].header"},
      {R"([{"name":"A","domain":"a.test","basic":false,"value_from":{"value":"s3:cret"}}])",
       "secrets[0].basic"},
      {R"([{"name":"A","domain":"a.test","basic":true}])", "secrets[0].value_from"},
      {R"([{"name":"A","domain":"a.test","basic":true,"value_from":"s3cret"}])",
       "secrets[0].value_from"},
      {R"([{"name":"A","domain":"a.test","basic":true,"value_from":{"env":"HOME"}}])",
       "secrets[0].value_from.value"},
      {R"([{"name":"A","domain":"a.test","basic":true,"value_from":{"value":"s3cret"}}])",
       "secrets[0].value_from.value"},
      {R"([{"name":"A","domain":"b.test","basic":true,"value_from":{"value":"s3:cret"}}])",
       "secrets[0].domain"},
      {R"([{"name":"A","domain":"a.test","header":"X","expires_at":"soon","value_from":{"value":"s3cret"}}])",
       "secrets[0].expires_at"},
  };
  for (const auto& [secrets, field] : rows) {
    const auto& shown = secrets;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    const auto refused = wire::spec_from_json(read(spec + secrets + "}"));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().field == field);
    CHECK(refused.error().message.find("s3") == std::string::npos);
  }
}

TEST_CASE("a report of a worker is refused at the member that is odd") {
  const json::Value good = wire::to_json(SandboxReport{
      .sandbox = sandbox_id(), .tenant = tenant_id(), .generation = 1, .expires_at = kTime});
  CHECK(wire::sandbox_report_from_json(good).has_value());
  const std::pair<const char*, json::Value> rows[] = {
      {"id", "../x"},          {"id", ""},           {"tenant", std::string(65, 'a')},
      {"generation", -1},      {"generation", 1.5},  {"state", "flying"},
      {"expires_at", "today"}, {"reason", "a\nb"},   {"reason", std::string(513, 'x')},
      {"policy_hash", 7},      {"unknown", "field"},
  };
  for (const auto& [name, member] : rows) {
    const auto& shown = name;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    const auto refused = wire::sandbox_report_from_json(with(good, name, member));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().field == name);
  }
}

TEST_CASE("a list of sandboxes is taken at its limit and refused one past it") {
  std::vector<SandboxReport> sandboxes(
      wire::kMaxReportedSandboxes,
      {.sandbox = sandbox_id(), .tenant = tenant_id(), .generation = 1, .expires_at = kTime});
  const std::string text = json::dump(wire::inventory_to_json(sandboxes));
  const auto value = json::parse(text, wire::kInventoryLimits);
  REQUIRE(value);
  CHECK(wire::inventory_from_json(*value)->size() == wire::kMaxReportedSandboxes);
  sandboxes.push_back(sandboxes.front());
  CHECK_FALSE(wire::inventory_from_json(wire::inventory_to_json(sandboxes)).has_value());
}

TEST_CASE("stats and denied lines read back what was written") {
  const SandboxStats stats{
      .cpu_seconds = 1.25, .memory_bytes = 3, .memory_limit_bytes = 4, .processes = 5};
  const auto stats_back = wire::stats_from_json(read(json::dump(wire::to_json(stats))));
  REQUIRE(stats_back);
  CHECK(stats_back->cpu_seconds == 1.25);
  CHECK(stats_back->processes == 5);
  const std::vector<DeniedEgress> denied{{.host = "evil\n.test",
                                          .port = 443,
                                          .reason = "not_in_allow_list",
                                          .count = 2,
                                          .first = kTime,
                                          .last = kTime}};
  const auto denied_back = wire::denied_from_json(read(json::dump(wire::denied_to_json(denied))));
  REQUIRE(denied_back);
  CHECK(denied_back->front().host == "evil?.test");
  CHECK(denied_back->front().port == 443);
  CHECK(denied_back->front().count == 2);
  CHECK(denied_back->front().last == kTime);
}

TEST_CASE("stats and denied lines of the wrong shape are refused") {
  CHECK_FALSE(wire::stats_from_json(read("{}")).has_value());
  CHECK_FALSE(
      wire::stats_from_json(
          read(R"({"cpu_seconds":-1,"memory_bytes":0,"memory_limit_bytes":0,"processes":0})"))
          .has_value());
  CHECK_FALSE(
      wire::denied_from_json(read(R"({"denied":[{"host":"a","port":65536,"reason":"x","count":1,
    "first":"2026-01-01T00:00:00Z","last":"2026-01-01T00:00:00Z"}]})"))
          .has_value());
}

TEST_CASE("a heartbeat reads back what was written") {
  wire::Heartbeat heartbeat{.facts = {.driver = {.engine = "docker 20.10.24"}}};
  heartbeat.facts.driver.arch = "amd64";
  heartbeat.facts.driver.cpu_cores = 2;
  heartbeat.facts.driver.memory_mb = 4096;
  heartbeat.facts.driver.capabilities = {"egress"};
  heartbeat.facts.driver.runtimes = {"runc"};
  heartbeat.facts.driver.images = {"sandboxkit/base:latest"};
  heartbeat.facts.max_sandboxes = 100;
  heartbeat.facts.max_starting = 2;
  heartbeat.facts.labels = {{"zone", "eu-1"}};
  heartbeat.sandboxes = {{.sandbox = sandbox_id(),
                          .generation = 1,
                          .state = SandboxState::kRunning,
                          .expires_at = kTime}};
  const auto back = wire::heartbeat_from_json(read(json::dump(wire::to_json(heartbeat))));
  REQUIRE(back);
  CHECK(wire::to_json(*back) == wire::to_json(heartbeat));
  CHECK(back->facts.driver.capabilities == heartbeat.facts.driver.capabilities);
  CHECK(back->sandboxes.front().state == SandboxState::kRunning);
}

TEST_CASE("a heartbeat must list its sandboxes, and what else it leaves out reads as the least") {
  CHECK_FALSE(wire::heartbeat_from_json(read("{}")).has_value());
  const auto least = wire::heartbeat_from_json(read(R"({"sandboxes":[]})"));
  REQUIRE(least);
  CHECK(least->facts.max_sandboxes == 0);
  CHECK(least->facts.driver.capabilities.empty());
  CHECK_FALSE(wire::heartbeat_from_json(read(R"({"sandboxes":[],"tenant":""})")).has_value());
}

TEST_CASE("a worker with more images than a heartbeat takes sends the first ones") {
  wire::Heartbeat heartbeat{.facts = {.driver = {.engine = "e"}}};
  heartbeat.facts.driver.images.assign(wire::kMaxWorkerListItems + 1, "image");
  const auto back = wire::heartbeat_from_json(wire::to_json(heartbeat));
  REQUIRE(back);
  CHECK(back->facts.driver.images.size() == wire::kMaxWorkerListItems);
}

TEST_CASE("join messages and the heartbeat's answer read back what was written") {
  const auto request = wire::join_request_from_json(
      wire::to_json(wire::JoinRequest{.name = "node-1", .facts = {.driver = {.engine = ""}}}));
  REQUIRE(request);
  CHECK(request->name == "node-1");
  CHECK(wire::join_request_from_json(read(R"({"name":"n"})")).has_value());
  const wire::JoinAnswer answer{.worker = *WorkerId::parse("w-1"),
                                .controller = *ControllerId::parse("c-1"),
                                .workspace = "",
                                .credential = "wk_secret"};
  const auto back = wire::join_answer_from_json(wire::to_json(answer));
  REQUIRE(back);
  CHECK(back->worker == answer.worker);
  CHECK(back->credential == "wk_secret");
  using std::chrono::milliseconds;
  for (const char* credential : {"", "wk_next"}) {
    const auto heard = wire::heartbeat_answer_from_json(
        wire::to_json(wire::HeartbeatAnswer{milliseconds{10'000}, credential}));
    REQUIRE(heard);
    CHECK(heard->interval == milliseconds{10'000});
    CHECK(heard->credential == credential);
  }
  CHECK_FALSE(wire::heartbeat_answer_from_json(read(R"({"interval_ms":0})")).has_value());
}

TEST_CASE("a join's answer without a workspace is refused: it would serve everyone") {
  const json::Value whole = wire::to_json(wire::JoinAnswer{.worker = *WorkerId::parse("w-1"),
                                                           .controller = *ControllerId::parse("c"),
                                                           .workspace = "acme",
                                                           .credential = "wk_x"});
  CHECK(wire::join_answer_from_json(whole)->workspace == "acme");
  CHECK_FALSE(wire::join_answer_from_json(without(whole, "workspace")).has_value());
  CHECK_FALSE(wire::join_answer_from_json(with(whole, "workspace", nullptr)).has_value());
  CHECK_FALSE(wire::join_answer_from_json(with(whole, "workspace", "a/b")).has_value());
}
