#include "policy/rate_limit.h"

#include <algorithm>
#include <map>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using policy::RateTable;
using std::chrono::milliseconds;

namespace {

const WallTime kStart{milliseconds{1'000'000'000}};

int taken_at_once(RateTable& table, const std::string& key, WallTime now) {
  int count = 0;
  while (count < 1000 && !table.take(key, now)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a bucket gives its burst at once, then its rate") {
  RateTable table({2, 5}, 4, 7);
  CHECK(taken_at_once(table, "a", kStart) == 5);
  CHECK(table.take("a", kStart) == milliseconds{500});
  CHECK(table.take("a", kStart + milliseconds{499}) == milliseconds{1});
  CHECK_FALSE(table.take("a", kStart + milliseconds{500}));
  CHECK(taken_at_once(table, "a", kStart + milliseconds{2'500}) == 4);
  CHECK(taken_at_once(table, "a", kStart + std::chrono::hours(1)) == 5);
}

TEST_CASE("every small history of one key agrees with the plain rule") {
  // Steps of 250 ms, 0 to 3 takes in each, over six steps: 4096 histories.
  for (int history = 0; history < 4096; ++history) {
    RateTable table({2, 3}, 1, 1);
    double tokens = 3;
    for (int step = 0; step < 6; ++step) {
      const WallTime now = kStart + milliseconds{250 * step};
      tokens = std::min(3.0, tokens + (step == 0 ? 0 : 0.5));
      for (int i = 0; i < (history >> (2 * step)) % 4; ++i) {
        CAPTURE(history);
        CAPTURE(step);
        const bool expected = tokens >= 1;
        REQUIRE(table.wait("k", now).has_value() != expected);
        REQUIRE(table.take("k", now).has_value() != expected);
        tokens -= expected ? 1 : 0;
      }
    }
  }
}

TEST_CASE("asking takes nothing, and a limit of zero is none") {
  RateTable table({1, 1}, 1, 1);
  CHECK_FALSE(table.wait("a", kStart));
  CHECK_FALSE(table.wait("a", kStart));
  CHECK_FALSE(table.take("a", kStart));
  CHECK(table.wait("a", kStart));
  RateTable off({0, 1}, 1, 1);
  CHECK(taken_at_once(off, "a", kStart) == 1000);
  CHECK_FALSE(off.wait("a", kStart));
}

TEST_CASE("a clock that steps back gives nothing and takes nothing for ever") {
  RateTable table({1, 2}, 1, 1);
  CHECK(taken_at_once(table, "a", kStart) == 2);
  const WallTime earlier = kStart - std::chrono::hours(5);
  CHECK(table.take("a", earlier) == milliseconds{1'000});
  CHECK_FALSE(table.take("a", earlier + milliseconds{1'000}));
}

TEST_CASE("whoever spent his tokens is not forgotten, however many others come") {
  RateTable table({0.001, 3}, 2, 99);
  CHECK(taken_at_once(table, "attacker", kStart) == 3);
  for (int i = 0; i < 10'000; ++i) {
    table.take("other" + std::to_string(i), kStart);
  }
  CHECK(table.wait("attacker", kStart));
}

TEST_CASE("a table full of spent keys lets a new key through instead of locking it out") {
  RateTable table({0.001, 1}, 1, 5);
  for (std::size_t i = 0; i < RateTable::kWays; ++i) {
    CHECK_FALSE(table.take("spent" + std::to_string(i), kStart));
  }
  CHECK(taken_at_once(table, "new", kStart) == 1000);
  for (std::size_t i = 0; i < RateTable::kWays; ++i) {
    CHECK(table.wait("spent" + std::to_string(i), kStart));
  }
  CHECK_FALSE(table.wait("new", kStart));
}

TEST_CASE("keys do not spend each other's tokens") {
  RateTable table({1, 1}, 1024, 3);
  for (int i = 0; i < 500; ++i) {
    CHECK_FALSE(table.take(std::to_string(i), kStart));
  }
}

TEST_CASE("an address counts as its owner's: IPv4 whole, IPv6 by its /64") {
  const std::map<std::string, std::string> rows = {{"192.0.2.7", "192.0.2.7"},
                                                   {"::ffff:192.0.2.7", "192.0.2.7"},
                                                   {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
                                                   {"2001:db8:1:2:ffff::9", "2001:db8:1:2::"},
                                                   {"2001:db8:1:3::1", "2001:db8:1:3::"},
                                                   {"::1", "::"},
                                                   {"", ""},
                                                   {"no address", "no address"}};
  for (const auto& [address, key] : rows) {
    const auto& shown = address;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    CHECK(policy::rate_key(address) == key);
  }
}
