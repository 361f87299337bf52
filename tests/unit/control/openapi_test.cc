#include "control/openapi.h"

#include "base/text.h"
#include "control/refusals.h"
#include "control/route_table.h"
#include "json/value.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::set<std::string> documented_routes(const json::Value& document) {
  std::set<std::string> found;
  for (const auto& [path, methods] : *document.find("paths")->as_object()) {
    for (const auto& [method, operation] : *methods.as_object()) {
      std::string upper = method;
      std::ranges::transform(upper, upper.begin(),
                             [](char c) { return static_cast<char>(c - 32); });
      found.insert(upper + " " + path);
    }
  }
  return found;
}

/// Words in backticks in the paragraph of the architecture that lists the refusals.
std::set<std::string> named_refusals() {
  std::ifstream file(SANDBOXKIT_SOURCE_ROOT "/docs/architecture.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  const auto begin = all.find("Names of refusals:");
  REQUIRE(begin != std::string::npos);
  const std::string paragraph = all.substr(begin, all.find("\n\n", begin) - begin);
  std::set<std::string> names;
  const auto parts = split(paragraph, '`');
  static const std::set<std::string> kNotNames = {
      "validation_failed", "limit",    "used", "setting", "missing", "reason", "counts",
      "Retry-After",       "resource", "scope"};
  for (std::size_t i = 1; i < parts.size(); i += 2) {
    if (!kNotNames.contains(std::string(parts[i]))) {
      names.emplace(parts[i]);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("the OpenAPI document names exactly the routes of the table") {
  const auto document = json::parse(openapi_document());
  REQUIRE(document);
  std::set<std::string> table;
  for (const Route& route : routes()) {
    table.insert(std::string(route.method) + " " + route.pattern);
  }
  for (const std::string_view open : kOpenRoutes) {
    table.emplace(open);
  }
  CHECK(documented_routes(*document) == table);
}

TEST_CASE("the document names the query parameters that the table takes") {
  const auto document = json::parse(openapi_document());
  REQUIRE(document);
  for (const Route& route : routes()) {
    const json::Value* methods = document->find("paths")->find(route.pattern);
    REQUIRE(methods != nullptr);
    const json::Value* operation = methods->find(ascii_lower(route.method));
    REQUIRE(operation != nullptr);
    std::set<std::string> documented;
    if (const json::Value* parameters = operation->find("parameters")) {
      for (const json::Value& each : *parameters->as_array()) {
        if (each.text("in") == "query") {
          documented.insert(each.text("name"));
        }
      }
    }
    std::set<std::string> taken;
    for (const std::string_view word : split(route.query, ' ')) {
      if (!word.empty()) {
        taken.emplace(word);
      }
    }
    CAPTURE(route.pattern);
    CHECK(documented == taken);
  }
}

// Complaint 24: programs must read the text of a refusal.
TEST_CASE("every refusal that the architecture names is known, and documented with its status") {
  const auto document = json::parse(openapi_document());
  REQUIRE(document);
  const json::Value* answers = document->find("components")->find("responses");
  REQUIRE(answers != nullptr);
  std::set<std::string> known;
  for (const RefusalName& each : refusal_names()) {
    known.insert(each.name);
    CAPTURE(each.name);
    const json::Value* answer = answers->find(std::to_string(each.status));
    REQUIRE(answer != nullptr);
    CHECK(answer->text("description").find("`" + std::string(each.name) + "`") !=
          std::string::npos);
  }
  const auto named = named_refusals();
  CHECK(named.size() > 20);
  for (const std::string& name : named) {
    CAPTURE(name);
    CHECK(known.contains(name));
  }
}

TEST_CASE("only named stream paths are matched") {
  CHECK(match_stream("/v1/worker/tunnel"));
  CHECK(match_stream("/v1/sandboxes/a/exec")->guest_path == "/exec");
  CHECK(match_stream("/v1/sandboxes/a/rpc/process.Process/Start")->guest_path ==
        "/process.Process/Start");
  CHECK(match_stream("/v1/sandboxes/a/tcp/80")->port == 80);
  for (const char* path : {"/", "/v1/sandboxes/a", "/v1/sandboxes//exec", "/v1/sandboxes/a/exec/",
                           "/v1/sandboxes/a/rpc/x/Start", "/v1/sandboxes/a/rpc/process.Process/",
                           "/v1/sandboxes/a/tcp/0", "/v1/sandboxes/a/tcp/65536",
                           "/v1/sandboxes/a/tcp/80/x", "/v1/sandboxes/a/init"}) {
    CAPTURE(path);
    CHECK_FALSE(match_stream(path));
  }
}
