#include "docker/subnets.h"

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

namespace {
Subnet net(const char* text) { return *Subnet::parse(text); }
}  // namespace

TEST_CASE("a network reads back as it was written") {
  for (const char* text : {"10.231.0.0/16", "0.0.0.0/0", "192.0.2.255/32"}) {
    CAPTURE(text);
    CHECK(net(text).to_string() == text);
  }
}

TEST_CASE("text that is no network is refused") {
  for (const char* text : {"", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.1/8", "::/0",
                           "10.0.0.0/08", "a/8", "10.0.0.0/-1", "10.0.0.0/8 "}) {
    CAPTURE(text);
    CHECK_FALSE(Subnet::parse(text).has_value());
  }
}

TEST_CASE("networks overlap when one holds the other") {
  CHECK(net("10.0.0.0/8").overlaps(net("10.1.2.0/29")));
  CHECK(net("10.1.2.0/29").overlaps(net("10.0.0.0/8")));
  CHECK_FALSE(net("10.1.2.0/29").overlaps(net("10.1.2.8/29")));
  CHECK(net("0.0.0.0/0").overlaps(net("192.0.2.0/24")));
}

TEST_CASE("a free block is the first one from the start on that nothing overlaps") {
  const std::vector<Subnet> taken{net("10.231.0.0/29"), net("10.231.0.16/28")};
  CHECK(free_subnet(net("10.231.0.0/24"), 29, taken, 0)->to_string() == "10.231.0.8/29");
  CHECK(free_subnet(net("10.231.0.0/24"), 29, taken, 2)->to_string() == "10.231.0.32/29");
  CHECK(free_subnet(net("10.231.0.0/24"), 29, taken, 31)->to_string() == "10.231.0.248/29");
  CHECK(free_subnet(net("10.231.0.0/24"), 29, taken, 32)->to_string() == "10.231.0.8/29");
}

TEST_CASE("a pool that is full, or overlapped as a whole, has no free block") {
  CHECK_FALSE(free_subnet(net("10.231.0.0/29"), 29, std::vector{net("10.231.0.0/30")}, 0));
  CHECK_FALSE(free_subnet(net("10.231.0.0/16"), 29, std::vector{net("10.0.0.0/8")}, 77));
  CHECK_FALSE(free_subnet(net("10.231.0.0/24"), 16, {}, 0));
}

TEST_CASE("every block of a small pool is found once and no two overlap") {
  const Subnet pool = net("10.231.0.0/24");
  for (std::uint32_t start = 0; start < 40; ++start) {
    std::vector<Subnet> taken;
    while (const auto block = free_subnet(pool, 29, taken, start)) {
      for (const Subnet& other : taken) {
        REQUIRE_FALSE(block->overlaps(other));
      }
      REQUIRE(pool.overlaps(*block));
      taken.push_back(*block);
    }
    CHECK(taken.size() == 32);
  }
}

TEST_CASE("the subnets of an engine's networks are read, other shapes are stepped over") {
  const auto networks = json::parse(R"([
    {"IPAM": {"Config": [{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}]}},
    {"IPAM": {"Config": null}}, {"Name": "host"},
    {"IPAM": {"Config": [{"Subnet": "fd00::/64"}, {"Subnet": "10.9.0.0/24"}]}}])");
  const auto found = subnets_of_networks(*networks);
  REQUIRE(found.size() == 2);
  CHECK(found[0].to_string() == "172.17.0.0/16");
  CHECK(found[1].to_string() == "10.9.0.0/24");
}

TEST_CASE("the host's routes are read, the default route is left out") {
  const auto found = subnets_of_routes(
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
      "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
      "broken line\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].to_string() == "192.168.0.0/24");
}
