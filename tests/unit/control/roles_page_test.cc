#include "base/text.h"
#include "control/openapi.h"
#include "control/route_table.h"
#include "json/value.h"
#include "policy/access.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

constexpr const char* kPage = SANDBOXKIT_SOURCE_ROOT "/docs/roles.md";

constexpr const char* kIntroduction =
    "# Roles\n"
    "\n"
    "What each credential may do: the one table that the controller asks (`lib/policy/access`), "
    "route by route. This page is written by\n"
    "a test, which fails when the two differ; `SANDBOXKIT_ACCEPT=1 meson test -C build control` "
    "writes it anew.\n"
    "\n"
    "`yes`: allowed, on what is the caller's: an owner's, a member's and a sandbox token's own "
    "workspace, a sandbox token's one sandbox by\n"
    "its id, the operator's unscoped workers. What is another's is answered like what is not there "
    "(404). Else the name of the refusal:\n"
    "401 for `unauthenticated`, 403 for the others. Owners and members hold `sk_` keys, a sandbox "
    "token is a `sk_` as well, the operator's\n"
    "is `op_`, a worker's `wk_`, a join token `jn_`. `GET /healthz` and `GET /openapi.json` need "
    "no "
    "credential.\n"
    "\n";

constexpr policy::Role kShown[] = {policy::Role::kOwner,   policy::Role::kMember,
                                   policy::Role::kSandbox, policy::Role::kOperator,
                                   policy::Role::kWorker,  policy::Role::kJoinToken,
                                   policy::Role::kNobody};

std::string cell_of(policy::Role role, policy::Action action) {
  const Status may = policy::check(role, action);
  return may ? "yes" : "`" + may.error().reason + "`";
}

std::string page() {
  std::string text = kIntroduction;
  text += "| route | action |";
  std::string line = "|---|---|";
  for (const policy::Role role : kShown) {
    text += std::string(" ") + policy::name_of(role) + " |";
    line += "---|";
  }
  text += "\n" + line + "\n";
  for (const Route& route : routes()) {
    text += std::string("| `") + route.method + " " + route.pattern + "` | `" +
            policy::name_of(route.action) + "` |";
    for (const policy::Role role : kShown) {
      text += " " + cell_of(role, route.action) + " |";
    }
    text += "\n";
  }
  return text;
}

std::string read_page() {
  std::ifstream file(kPage);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the page of roles shows the table of roles") {
  if (std::getenv("SANDBOXKIT_ACCEPT") != nullptr) {
    std::ofstream(kPage) << page();
  }
  CHECK(read_page() == page());
}

TEST_CASE("each operation of the OpenAPI document names the roles that the table lets through") {
  const auto document = json::parse(openapi_document());
  REQUIRE(document);
  for (const Route& route : routes()) {
    CAPTURE(route.method);
    CAPTURE(route.pattern);
    const json::Value* methods = document->find("paths")->find(route.pattern);
    REQUIRE(methods != nullptr);
    const json::Value* operation = methods->find(ascii_lower(route.method));
    REQUIRE(operation != nullptr);
    json::Array expected;
    for (const policy::Role role : kShown) {
      if (policy::decide(role, route.action) == policy::Access::kAllowed) {
        expected.emplace_back(policy::name_of(role));
      }
    }
    const json::Value* named = operation->find("x-roles");
    REQUIRE(named != nullptr);
    CHECK(json::dump(*named) == json::dump(json::Value(expected)));
  }
}
