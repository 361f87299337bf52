#include "wire/trace.h"

#include "store/store.h"
#include "tests/unit/control/house.h"

#include <algorithm>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

const std::string kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const std::map<std::string, std::string> kIds = {{"X-Request-Id", "job-7"},
                                                 {"traceparent", kParent}};

std::string id_of(const Answer& answer) {
  const auto found = answer.headers.find("x-request-id");
  return found == answer.headers.end() ? std::string() : found->second;
}

}  // namespace

TEST_CASE("every answer carries a request id: the caller's own, or one that is made") {
  const House house;
  const auto made = house.call("GET", "/v1/sandboxes");
  CHECK(wire::is_request_id(id_of(made)));
  CHECK(id_of(made) != id_of(house.call("GET", "/v1/sandboxes")));
  for (const auto& [target, key, status] :
       {std::tuple<std::string, std::string, int>{"/v1/sandboxes", "<owner>", 200},
        {"/v1/sandboxes", "sk_no", 401},
        {"/v1/nothing", "<owner>", 404},
        {"/v1/sandboxes/inone/exec", "<owner>", 405},
        {"/v1/sandboxes/inone/files?path=/", "<owner>", 404},
        {"/healthz", "", 200},
        {"/%zz", "<owner>", 400}}) {
    const auto& shown = target;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    CHECK(house.call("GET", target, {}, key).status == status);
    CHECK(wire::is_request_id(id_of(house.call("GET", target, {}, key))));
    CHECK(id_of(house.call("GET", target, {}, key, kIds)) == "job-7");
  }
  const auto bad = house.call("GET", "/v1/sandboxes", {}, "<owner>", {{"X-Request-Id", "a b"}});
  CHECK(wire::is_request_id(id_of(bad)));
}

TEST_CASE("the ids of a call go with its orders to the worker") {
  House house;
  const auto worker = house.worker();
  const std::string id = house.create({}, "<owner>", kIds).body.text("id");
  house.call("POST", "/v1/sandboxes/" + id + "/timeout", R"({"timeout_seconds": 60})", "<owner>",
             kIds);
  house.call("GET", "/v1/sandboxes/" + id + "/stats", {}, "<owner>", kIds);
  house.call("POST", "/v1/sandboxes/" + id + "/exec", "{}", "<owner>", kIds);
  house.call("DELETE", "/v1/sandboxes/" + id, {}, "<owner>", kIds);
  REQUIRE(worker->orders().size() == 3);
  for (const wire::Trace& trace : worker->traces()) {
    CHECK(trace == wire::Trace{"job-7", kParent});
  }
  REQUIRE(worker->guest_calls().size() == 2);
  for (const std::string& call : worker->guest_calls()) {
    CAPTURE(call);
    CHECK(call.find("request-id=job-7") != std::string::npos);
    CHECK(call.find("traceparent=" + kParent) != std::string::npos);
  }
}

TEST_CASE("an order that waits for its worker keeps the ids over a restart") {
  House house;
  auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  CHECK(house.call("DELETE", "/v1/sandboxes/" + id, {}, "<owner>", kIds).status == 202);
  house.restart();
  worker->connect();
  REQUIRE(worker->wait_until([&] { return worker->orders().size() == 2; }));
  CHECK(worker->traces().back() == wire::Trace{"job-7", kParent});
}
