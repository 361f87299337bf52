#include "control/route_table.h"
#include "tests/unit/control/access_world.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

/// What each route says to whoever may and asks well. A route that is not named here must still
/// refuse as the table says, and must not refuse whoever may.
const std::vector<Visit> kVisits = {
    {"POST", "/v1/sandboxes", R"({"image": "x", "egress": null})", 201},
    {"GET", "/v1/sandboxes", "", 200},
    {"GET", "/v1/sandboxes/{id}", "", 200},
    {"DELETE", "/v1/sandboxes/{id}", "", 204},
    {"POST", "/v1/sandboxes/{id}/timeout", R"({"timeout_seconds": 600})", 200},
    {"PUT", "/v1/sandboxes/{id}/egress", R"({"allowed_domains": []})", 202},
    {"GET", "/v1/sandboxes/{id}/egress/denied", "", 200},
    {"GET", "/v1/sandboxes/{id}/egress/denied/stream", "", 200},
    {"GET", "/v1/sandboxes/{id}/secrets", "", 200},
    {"PUT", "/v1/sandboxes/{id}/secrets/{name}", R"({"value_from": {"value": "v"}})", 409,
     "secrets_unavailable"},
    {"GET", "/v1/sandboxes/{id}/isolation", "", 200},
    {"GET", "/v1/sandboxes/{id}/stats", "", 200},
    {"POST", "/v1/sandboxes/{id}/tokens", "{}", 201},
    {"GET", "/v1/sandboxes/{id}/tokens", "", 200},
    {"DELETE", "/v1/sandboxes/{id}/tokens/{token}", "", 204},
    {"POST", "/v1/sandboxes/{id}/exec", R"({"command": ["true"]})", 200},
    {"GET", "/v1/sandboxes/{id}/files", "", 200},
    {"PUT", "/v1/sandboxes/{id}/files", "bytes", 200},
    {"DELETE", "/v1/sandboxes/{id}/files", "", 200},
    {"POST", "/v1/sandboxes/{id}/rpc/{service}/{method}", "{}", 200},
    {"GET", "/v1/sandboxes/{id}/tcp/{port}", "", 426, "upgrade_required"},
    {"GET", "/v1/workers", "", 200},
    {"GET", "/v1/workers/{id}", "", 200},
    {"POST", "/v1/workers/{id}/cordon", "", 200},
    {"POST", "/v1/workers/{id}/uncordon", "", 200},
    {"POST", "/v1/workers/{id}/drain", "{}", 200},
    {"PUT", "/v1/workers/{id}/taints", R"({"taints": []})", 200},
    {"DELETE", "/v1/workers/{id}", "", 204},
    {"POST", "/v1/join-tokens", R"({"workspace": ""})"},
    {"GET", "/v1/join-tokens", "", 200},
    {"DELETE", "/v1/join-tokens/{id}", "", 204},
    {"POST", "/v1/keys", R"({"role": "member"})", 201},
    {"GET", "/v1/keys", "", 200},
    {"DELETE", "/v1/keys/{id}", "", 204},
    {"POST", "/v1/workspaces", R"({"id": "third"})", 201},
    {"GET", "/v1/workspaces", "", 200},
    {"PUT", "/v1/workspaces/{id}/limits", "{}", 200},
    {"GET", "/v1/audit", "", 200},
    {"GET", "/v1/approvals", "", 200},
    {"POST", "/v1/approvals/{id}", R"({"answer": "no", "digest": "x"})", 404, "approval_not_found"},
    {"POST", "/v1/worker/join", "{}", 201},
    {"POST", "/v1/worker/heartbeat", R"({"sandboxes": []})", 200},
    {"GET", "/v1/worker/tunnel", "", 426, "upgrade_required"},
};

Visit visit_of(const Route& route) {
  const auto found = std::ranges::find_if(kVisits, [&](const Visit& each) {
    return each.method == route.method && each.pattern == route.pattern;
  });
  return found == kVisits.end() ? Visit{route.method, route.pattern, "{}"} : *found;
}

/// All but what differs from call to call by itself.
std::map<std::string, std::string> stable_headers(const Answer& answer) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : answer.headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (lower != "date" && !lower.ends_with("request-id") && !lower.starts_with("x-ratelimit") &&
        !lower.starts_with("ratelimit")) {
      headers[lower] = value;
    }
  }
  return headers;
}

void check_refused(const Answer& answer, const Error& expected) {
  CHECK(answer.error() == expected.reason);
  CHECK(answer.status == (expected.code == ErrorCode::kUnauthenticated ? 401 : 403));
}

/// A worker's credential and a join token are told apart from their routes before those are looked
/// at: everywhere else it is one answer.
Status expected_of(policy::Role role, const Route& route) {
  const Status may = policy::check(role, route.action);
  const bool narrow = role == policy::Role::kWorker || role == policy::Role::kJoinToken;
  return !may && narrow ? policy::check(role, policy::Action::kListSandboxes) : may;
}

}  // namespace

// Complaint 11: one tenant lists and ends another one's sandboxes.
// Complaint 12: a data-plane route without the check of the owner.
TEST_CASE(
    "every route answers every visitor about own, foreign and absent objects as the table says") {
  AccessWorld world;
  for (const Visitor& visitor : world.visitors()) {
    for (const Route& route : routes()) {
      const Visit visit = visit_of(route);
      const Status may = expected_of(visitor.role, route);
      CAPTURE(visitor.name);
      CAPTURE(visit.method);
      CAPTURE(visit.pattern);
      Visitor caller = visitor;
      const auto own = world.call(visit, world.own(visit, caller), caller, false);
      CAPTURE(own.text);
      if (!may) {
        check_refused(own, may.error());
      } else if (visit.status != 0) {
        CHECK(own.status == visit.status);
        CHECK(own.error() == visit.error);
      } else {
        CHECK(own.status != 0);
        const std::set<int> refusals = {401, 403, 404};
        CHECK_FALSE(refusals.contains(own.status));
      }
      const bool has_object = visit.pattern.find("{id}") != std::string::npos;
      if (!has_object || visit.pattern.starts_with("/v1/workspaces")) {
        continue;
      }
      const auto absent = world.call(visit, world.absent(visit), visitor, true);
      CAPTURE(absent.text);
      if (may) {
        CHECK(absent.status == 404);
        CHECK(absent.error().ends_with("_not_found"));
        CHECK(absent.error() != "route_not_found");
      } else {
        check_refused(absent, may.error());
      }
      for (const std::string& path : world.foreign(visit, visitor)) {
        CAPTURE(path);
        const auto foreign = world.call(visit, path, visitor, true);
        CHECK(foreign.status == absent.status);
        CHECK(foreign.text == absent.text);
        CHECK(stable_headers(foreign) == stable_headers(absent));
      }
    }
  }
}

TEST_CASE(
    "a route's worth of visitors is not lost: every route of the table is known to this test") {
  for (const Visit& visit : kVisits) {
    CAPTURE(visit.method);
    CAPTURE(visit.pattern);
    CHECK(std::ranges::any_of(routes(), [&](const Route& each) {
      return each.method == visit.method && each.pattern == visit.pattern;
    }));
  }
}
