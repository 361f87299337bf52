#include "tests/unit/control/house.h"

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

constexpr const char* kWalled =
    R"("egress": {"allowed_domains": ["a.test", "*.b.test"], "allowed_networks": ["10.0.0.0/8"]})";
constexpr const char* kNarrow = R"({"allowed_domains": ["a.test"], "apply": "now"})";

std::string made(const House& house, const std::string& members) {
  const auto answer = house.call("POST", "/v1/sandboxes", R"({"image": "x", )" + members + "}");
  CAPTURE(answer.text);
  REQUIRE(answer.status == 201);
  return answer.body.text("id");
}

Answer put_egress(const House& house, const std::string& id, const std::string& body) {
  return house.call("PUT", "/v1/sandboxes/" + id + "/egress", body);
}

std::string domains(const json::Value* policy) {
  REQUIRE(policy != nullptr);
  return policy->is_null() ? "null" : json::dump(*policy->find("allowed_domains"));
}

std::size_t audit_lines(const House& house, const std::string& action) {
  const std::string text = house.call("GET", "/v1/audit?limit=500").text;
  std::size_t count = 0;
  for (auto at = text.find(action); at != std::string::npos; at = text.find(action, at + 1)) {
    ++count;
  }
  return count;
}

std::size_t orders_of(const FakeWorker& worker, const std::string& order) {
  std::size_t count = 0;
  for (const std::string& each : worker.orders()) {
    count += each == order ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a policy that is put is recorded for the next creation, and the one in force stays") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  const auto answer = put_egress(house, id, R"({"allowed_domains": ["wider.test"]})");
  CHECK(answer.status == 202);
  CHECK(answer.body.text("applies") == "next_creation");
  const auto seen = house.get(id);
  CHECK(domains(seen.body.find("egress")) == R"(["a.test","*.b.test"])");
  CHECK(domains(seen.body.find("egress_recorded")) == R"(["wider.test"])");
  CHECK(seen.body.find("egress_narrowing")->is_null());
  CHECK(orders_of(*worker, "narrow " + id) == 0);
  CHECK(audit_lines(house, "\"sandbox.egress\"") == 1);
}

TEST_CASE("the next creation takes the recorded policy when it asks for it") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, R"("egress": null)");
  const std::string by_record = R"("egress": {"recorded_of": ")" + id + "\"}";
  const auto none = house.call("POST", "/v1/sandboxes", R"({"image": "x", )" + by_record + "}");
  CHECK(none.status == 409);
  CHECK(none.error() == "no_recorded_egress");
  REQUIRE(put_egress(house, id, R"({"allowed_domains": ["wider.test"]})").status == 202);
  CHECK(house.get(id).body.find("egress")->is_null());
  REQUIRE(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
  const std::string next = made(house, by_record);
  CHECK(domains(house.get(next).body.find("egress")) == R"(["wider.test"])");
  const auto foreign =
      house.call("POST", "/v1/sandboxes",
                 R"({"image": "x", "egress": {"recorded_of": "i00000000000000000000"}})");
  CHECK(foreign.status == 404);
}

TEST_CASE("a wall is narrowed now: in force once its worker said so") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  const std::string before = house.get(id).body.text("policy_hash");
  const auto answer = put_egress(house, id, kNarrow);
  CAPTURE(answer.text);
  CHECK(answer.status == 200);
  CHECK(answer.body.text("applies") == "now");
  CHECK(*answer.body.find("applied")->as_bool());
  const auto seen = house.get(id);
  CHECK(domains(seen.body.find("egress")) == R"(["a.test"])");
  CHECK(seen.body.text("policy_hash") != before);
  CHECK(seen.body.text("policy_hash") == worker->sandbox(id)->policy_hash);
  CHECK(domains(seen.body.find("egress_recorded")) == R"(["a.test"])");
}

TEST_CASE("the same narrowing again orders nothing and leaves no second line in the audit log") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  REQUIRE(put_egress(house, id, kNarrow).status == 200);
  REQUIRE(put_egress(house, id, kNarrow).status == 200);
  CHECK(orders_of(*worker, "narrow " + id) == 1);
  CHECK(audit_lines(house, "\"sandbox.egress\"") == 1);
}

TEST_CASE("what would widen a wall that stands is refused with its entries, and nothing changes") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  const auto wider = put_egress(
      house, id, R"({"allowed_domains": ["a.test", "evil.test"], "allowed_networks": ["11.0.0.0/8"],
                     "apply": "now"})");
  CHECK(wider.status == 409);
  CHECK(wider.error() == "policy_widens");
  CHECK(json::dump(*wider.body.find("entries")) == R"(["evil.test","11.0.0.0/8"])");
  CHECK(house.get(id).body.find("egress_recorded")->is_null());
  // What was narrowed does not come back.
  REQUIRE(put_egress(house, id, kNarrow).status == 200);
  CHECK(put_egress(house, id, R"({"allowed_domains": ["x.b.test"], "apply": "now"})").error() ==
        "policy_widens");
  CHECK(put_egress(house, id, R"({"allowed_domains": [], "apply": "now"})").status == 200);
  CHECK(orders_of(*worker, "narrow " + id) == 2);
}

TEST_CASE("a sandbox without a wall cannot be retrofitted, and one that ended is not narrowed") {
  House house;
  const auto worker = house.worker();
  const std::string open = made(house, R"("egress": null)");
  const auto refused = put_egress(house, open, kNarrow);
  CHECK(refused.status == 409);
  CHECK(refused.error() == "cannot_retrofit");
  CHECK(put_egress(house, open, R"({"allowed_domains": []})").status == 202);
  const std::string walled = made(house, kWalled);
  worker->end(walled, "exit 1");
  worker->heartbeat();
  REQUIRE(House::eventually([&] { return house.state_of(walled) == "stopped"; }));
  CHECK(put_egress(house, walled, kNarrow).error() == "sandbox_not_running");
  CHECK(put_egress(house, walled, R"({"allowed_domains": []})").status == 202);
  REQUIRE(house.call("DELETE", "/v1/sandboxes/" + walled).status == 204);
  CHECK(put_egress(house, walled, R"({"allowed_domains": []})").error() == "sandbox_not_running");
}

TEST_CASE("a body that is no policy is refused at its field") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  for (const auto& [body, field] : std::vector<std::pair<const char*, const char*>>{
           {"{}", "allowed_domains"},
           {R"({"allowed_domains": ["*"]})", "allowed_domains[0]"},
           {R"({"allowed_domains": [], "apply": "soon"})", "apply"},
           {R"({"allowed_domains": [], "allow": 1})", "allow"},
           {"[]", ""},
       }) {
    const auto& shown = body;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    const auto answer = put_egress(house, id, body);
    CHECK(answer.status == 400);
    CHECK(answer.body.text("field") == field);
  }
}

TEST_CASE("a put policy may name hosts in their own letters, as a create may") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  CHECK(put_egress(house, id, R"({"allowed_domains": ["bücher.example"]})").status == 202);
  CHECK(domains(house.get(id).body.find("egress_recorded")) == R"(["xn--bcher-kva.example"])");
  const auto refused = put_egress(house, id, R"({"allowed_domains": ["a.test", "ｏk.test"]})");
  CHECK(refused.status == 400);
  CHECK(refused.body.text("field") == "allowed_domains[1]");
}

TEST_CASE("a narrowing waits for a worker that is away, and is not called applied before") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  const auto answer = put_egress(house, id, kNarrow);
  CHECK(answer.status == 202);
  CHECK_FALSE(*answer.body.find("applied")->as_bool());
  CHECK(domains(house.get(id).body.find("egress")) == R"(["a.test","*.b.test"])");
  CHECK_FALSE(*house.get(id).body.find("egress_narrowing")->find("applied")->as_bool());
  worker->connect();
  CHECK(House::eventually(
      [&] { return domains(house.get(id).body.find("egress")) == R"(["a.test"])"; }));
  CHECK(orders_of(*worker, "narrow " + id) == 1);
}

TEST_CASE("a worker that came back with the wider policy is narrowed again") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  const std::string wide = worker->sandbox(id)->policy_hash;
  REQUIRE(put_egress(house, id, kNarrow).status == 200);
  worker->disconnect();
  worker->change(id, [&](auto& held) { held.policy_hash = wide; });
  worker->connect();
  CHECK(worker->wait_until([&] { return orders_of(*worker, "narrow " + id) == 2; }));
  CHECK(House::eventually(
      [&] { return *house.get(id).body.find("egress_narrowing")->find("applied")->as_bool(); }));
}

TEST_CASE("a sandbox that is being made is narrowed once it runs") {
  House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const auto begun = house.call("POST", "/v1/sandboxes?wait=false",
                                std::string(R"({"image": "x", )") + kWalled + "}");
  REQUIRE(begun.status == 202);
  const std::string id = begun.body.text("id");
  CHECK(put_egress(house, id, kNarrow).status == 202);
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  CHECK(orders_of(*worker, "narrow " + id) == 0);
  worker->release();
  CHECK(House::eventually(
      [&] { return domains(house.get(id).body.find("egress")) == R"(["a.test"])"; }));
}

TEST_CASE("a token of the sandbox itself changes nothing of its wall") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  const std::string token =
      house.call("POST", "/v1/sandboxes/" + id + "/tokens", "{}").body.text("token");
  const auto answer = house.call("PUT", "/v1/sandboxes/" + id + "/egress", kNarrow, token);
  CHECK(answer.status == 403);
  CHECK(answer.error() == "owner_required");
}

TEST_CASE("how a wall is made is shown once its worker told") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  CHECK(house.get(id).body.find("egress_structure")->is_null());
  worker->disconnect();
  worker->change(id, [](auto& held) { held.structure = "isolated-ns"; });
  worker->connect();
  CHECK(House::eventually(
      [&] { return house.get(id).body.text("egress_structure") == "isolated-ns"; }));
}

TEST_CASE("what a wall refuses is told to whoever follows it: all so far, then what is new") {
  House house;
  const auto worker = house.worker();
  const std::string id = made(house, kWalled);
  worker->change(id, [](auto& held) {
    held.denied = {{"evil.test", 443, "not_in_allow_list", 2, {}, {}}};
  });
  std::thread later([&] {
    // The second question for it came, so the first answer is told.
    const auto asked = [&] {
      std::size_t count = 0;
      for (const std::string& call : worker->guest_calls()) {
        count += call.find("/denied") != std::string::npos ? 1 : 0;
      }
      return count >= 2;
    };
    CHECK(worker->wait_until(asked));
    worker->change(id, [](auto& held) {
      held.denied.push_back({"other.test", 80, "not_in_allow_list", 1, {}, {}});
    });
  });
  const auto told = house.call("GET", "/v1/sandboxes/" + id + "/egress/denied/stream?lines=2");
  later.join();
  CHECK(told.status == 200);
  const auto second = told.text.find('\n') + 1;
  CHECK(told.text.substr(0, second).find("evil.test") != std::string::npos);
  CHECK(told.text.substr(second).find("other.test") != std::string::npos);
  CHECK(told.text.substr(second).find("evil.test") == std::string::npos);
  CHECK(house.call("GET", "/v1/sandboxes/" + id + "/egress/denied/stream?lines=0").status == 400);
}
