// The address classes of the wall, block by block, against the oracle's table.

#include "sandboxkit/egress.h"

#include "policy/egress_address.h"
#include "tests/unit/policy/egress_oracle.h"

#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using sandboxkit::EgressPolicy;
using sandboxkit::EgressReason;
using sandboxkit::EgressTarget;
using sandboxkit::IpAddress;
namespace oracle = sandboxkit::egress_oracle;

namespace {

/// Asks as the proxy does, by an allowed name and one of its answers.
bool is_refused(const oracle::Address& address) {
  static const EgressPolicy kPolicy =
      EgressPolicy::create(std::vector<std::string>{"ok.test"}, {}).value();
  static const EgressTarget kTarget = EgressTarget::from_authority("ok.test:443").value();
  const auto parsed = IpAddress::parse(oracle::text(address)).value();
  const auto verdict = kPolicy.decide_address(kTarget, parsed);
  CHECK((verdict.reason == EgressReason::kAddressClass) != verdict.allowed);
  return !verdict.allowed;
}

/// `address` of version 4 in the forms of version 6 that carry one.
std::vector<std::string> embedded_forms(const oracle::Address& address) {
  const std::string quad = oracle::text(address);
  const auto high = static_cast<unsigned>(address.number >> 16U);
  const auto low = static_cast<unsigned>(address.number & 0xffffU);
  std::array<char, 16> groups{};
  std::snprintf(groups.data(), groups.size(), "%x:%x", high, low);
  const std::string hex = groups.data();
  return {"::" + quad,           "::ffff:0:" + quad,      "64:ff9b::" + quad,  "64:ff9b:1::" + quad,
          "2002:" + hex + "::1", "2001:0:" + hex + "::1", "fe80::5efe:" + quad};
}

}  // namespace

TEST_CASE(
    "each block is refused from its first address to its last, and its neighbours by theirs") {
  std::size_t checked = 0;
  for (const std::string& text : oracle::special_blocks()) {
    CAPTURE(text);
    const oracle::Block block = oracle::block(text);
    const oracle::Address first = block.first();
    const oracle::Address last = block.last();
    const oracle::Address middle{first.v6, first.number + (last.number - first.number) / 2};
    CHECK(is_refused(first));
    CHECK(is_refused(middle));
    CHECK(is_refused(last));
    const oracle::Number top = first.v6 ? ~oracle::Number(0) : 0xffffffffU;
    if (first.number != 0) {
      const oracle::Address before{first.v6, first.number - 1};
      CHECK(is_refused(before) == oracle::is_special(before));
      ++checked;
    }
    if (last.number != top) {
      const oracle::Address after{last.v6, last.number + 1};
      CHECK(is_refused(after) == oracle::is_special(after));
      ++checked;
    }
  }
  CHECK(checked > 60);
}

TEST_CASE("an address of version 4 hides in no form of version 6") {
  for (const char* text : {"127.0.0.1", "10.0.0.5", "169.254.169.254", "192.168.1.1", "8.8.8.8"}) {
    const oracle::Address inner = *oracle::address(text);
    // Mapped means the address itself; it is judged as that.
    const auto mapped = IpAddress::parse("::ffff:" + std::string(text));
    REQUIRE(mapped.has_value());
    CHECK_FALSE(mapped->is_v6);
    CHECK(is_refused(*oracle::address("::ffff:" + std::string(text))) == oracle::is_special(inner));
    // Every other form is a translator's, and refused whatever it carries.
    for (const std::string& form : embedded_forms(inner)) {
      CAPTURE(form);
      CHECK(is_refused(*oracle::address(form)));
    }
  }
}

TEST_CASE("random addresses are refused exactly where the oracle's table has them") {
  std::mt19937_64 random(7);
  std::size_t wrong = 0;
  std::size_t special = 0;
  for (int i = 0; i < 40000; ++i) {
    oracle::Address address{i % 2 == 0, random()};
    if (address.v6) {
      address.number = (address.number << 64U) | random();
      // Half of them in 2000::/3, where the public addresses are.
      if (i % 4 == 0) {
        address.number = (address.number >> 3U) | (oracle::Number(1) << 125U);
      }
      if (address.number >> 32U == 0xffff) {
        continue;
      }
    } else {
      address.number &= 0xffffffffU;
    }
    const bool expected = oracle::is_special(address);
    wrong += is_refused(address) != expected;
    special += expected;
  }
  CHECK(wrong == 0);
  CHECK(special > 5000);
  CHECK(special < 35000);
}
