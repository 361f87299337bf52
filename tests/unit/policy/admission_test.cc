#include "policy/admission.h"

#include <array>
#include <limits>

#include <doctest/doctest.h>

using namespace sandboxkit::policy;  // NOLINT(google-build-using-namespace)

namespace {

std::optional<Excess> judge(const Usage& wanted, const Allowance& allowance) {
  return first_excess(wanted, std::array{allowance});
}

}  // namespace

TEST_CASE("a create is admitted up to the limit and not above it, in each resource") {
  const Usage one{1, 1, 512};
  CHECK_FALSE(judge(one, {"workspace", {20, 8, 4096}, {19, 7, 3584}}));
  const auto sandboxes = judge(one, {"workspace", {20, 8, 4096}, {20, 7, 3584}});
  REQUIRE(sandboxes);
  CHECK(sandboxes->resource == "sandboxes");
  CHECK(sandboxes->scope == "workspace");
  CHECK(sandboxes->limit == 20);
  CHECK(sandboxes->used == 20);
  CHECK(judge(one, {"workspace", {20, 8, 4096}, {19, 7.5, 3584}})->resource == "cpu_cores");
  CHECK(judge(one, {"workspace", {20, 8, 4096}, {19, 7, 3585}})->resource == "memory_mb");
}

TEST_CASE("a negative limit is none, and zero lets nothing in") {
  const Usage huge{1, 1e9, 1'000'000'000'000};
  CHECK_FALSE(judge(huge, {"workspace", {}, {1'000'000, 1e9, 1'000'000'000}}));
  CHECK(judge({1, 0.001, 1}, {"workspace", {0, -1, -1}, {}})->resource == "sandboxes");
  CHECK(judge({1, 0.001, 1}, {"workspace", {-1, 0, -1}, {}})->resource == "cpu_cores");
  CHECK(judge({1, 0.001, 1}, {"workspace", {-1, -1, 0}, {}})->resource == "memory_mb");
}

TEST_CASE("fractions that add up to the limit are admitted, and what is no number never is") {
  CHECK_FALSE(judge({1, 0.1, 1}, {"key", {-1, 0.3, -1}, {0, 0.2, 0}}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(judge({1, nan, 1}, {"key", {-1, 4, -1}, {}})->resource == "cpu_cores");
}

TEST_CASE("every allowance counts, and the first one that is broken is named") {
  const std::array allowances{Allowance{"workspace", {10, -1, -1}, {9, 0, 0}},
                              Allowance{"key", {2, -1, -1}, {2, 0, 0}}};
  const auto excess = first_excess({1, 1, 1}, allowances);
  REQUIRE(excess);
  CHECK(excess->scope == "key");
  CHECK(excess->limit == 2);
  CHECK_FALSE(first_excess({1, 1, 1}, {}));
}
