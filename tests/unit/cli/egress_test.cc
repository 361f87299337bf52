#include "cli/egress.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;       // NOLINT(google-build-using-namespace)
using namespace sandboxkit::cli;  // NOLINT(google-build-using-namespace)

namespace {

json::Value line(const char* host, int port, const char* reason = "not_in_allow_list") {
  return json::Object{{"host", host}, {"port", port}, {"reason", reason}};
}

}  // namespace

TEST_CASE("what was denied is suggested once, with a port where the default one does not do") {
  CHECK(json::dump(suggested_policy({line("a.test", 443), line("a.test", 80), line("b.test", 8080),
                                     line("a.test", 443, "port_not_allowed")})) ==
        R"({"allowed_domains":["a.test","b.test:8080"]})");
  CHECK(json::dump(suggested_policy({})) == R"({"allowed_domains":[]})");
}

TEST_CASE("an address is suggested as a network of its own, and what hides one is not") {
  CHECK(json::dump(suggested_policy({line("10.1.2.3", 443, "ip_literal"), line("fd00::1", 80),
                                     line("internal.test", 443, "resolved_address_denied")})) ==
        R"({"allowed_domains":[],"allowed_networks":["10.1.2.3/32:443","fd00::1/128:80"]})");
}

TEST_CASE("lines are whole however the stream is cut, and empty ones say nothing") {
  Lines lines;
  std::vector<std::string> got;
  for (const char* piece : {"fi", "rst\n\nsec", "ond\n", "rest"}) {
    lines.take(piece, [&](const std::string& each) { got.push_back(each); });
  }
  CHECK(got == std::vector<std::string>{"first", "second"});
}
