#include "config/render.h"
#include "daemons/controller/options.h"
#include "daemons/worker/options.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;

namespace {

constexpr const char* kPage = SANDBOXKIT_SOURCE_ROOT "/docs/configuration.md";

std::string page_text() {
  std::ifstream file(kPage);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Puts the table between its two marks; SANDBOXKIT_ACCEPT=1 writes the page anew.
void check_block(const std::string& daemon, const std::string& table) {
  const std::string begin = "<!-- options of " + daemon + ": rendered, see tests/unit/config -->\n";
  const std::string end = "<!-- end -->\n";
  const std::string page = page_text();
  const auto from = page.find(begin);
  REQUIRE(from != std::string::npos);
  const auto to = page.find(end, from);
  REQUIRE(to != std::string::npos);
  std::string wanted = page;
  wanted.replace(from, to - from, begin + table);
  if (std::getenv("SANDBOXKIT_ACCEPT") != nullptr) {
    std::ofstream(kPage) << wanted;
  } else {
    INFO("an option changed: run this test with SANDBOXKIT_ACCEPT=1 and commit the page");
    CHECK(page == wanted);
  }
}

}  // namespace

TEST_CASE("the page of the configuration holds the controller's options as they are") {
  daemons::ControllerOptions options;
  check_block("sandboxkit-controller", config::markdown(daemons::table_of(options)));
}

TEST_CASE("the page of the configuration holds the worker's options as they are") {
  daemons::WorkerOptions options;
  check_block("sandboxkit-worker", config::markdown(daemons::table_of(options)));
}
