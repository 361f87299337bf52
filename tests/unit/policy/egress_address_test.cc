#include "policy/egress_address.h"

#include <string>

#include <doctest/doctest.h>

using sandboxkit::IpAddress;
using sandboxkit::policy::special_class;

TEST_CASE("an address in its plain spelling reads back in its shortest form") {
  const struct {
    const char* text;
    const char* canonical;
  } rows[] = {
      {"0.0.0.0", "0.0.0.0"},
      {"255.255.255.255", "255.255.255.255"},
      {"::", "::"},
      {"::1", "::1"},
      {"1::", "1::"},
      {"2001:DB8::1", "2001:db8::1"},
      {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
      {"0:0:0:1:0:0:0:0", "0:0:0:1::"},
      {"1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"},
      {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
      {"64:ff9b::192.0.2.1", "64:ff9b::c000:201"},
      {"::ffff:127.0.0.1", "127.0.0.1"},
      {"0:0:0:0:0:ffff:7f00:1", "127.0.0.1"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto address = IpAddress::parse(row.text);
    REQUIRE(address.has_value());
    CHECK(address->to_string() == row.canonical);
    CHECK(IpAddress::parse(address->to_string()) == address);
  }
}

TEST_CASE("an odd spelling of an address is no address") {
  for (const char* text : {"",
                           "1",
                           "127.1",
                           "127.0.0",
                           "127.0.0.1.",
                           ".127.0.0.1",
                           "127.0.0.01",
                           "0177.0.0.1",
                           "0x7f.0.0.1",
                           "2130706433",
                           "256.0.0.1",
                           "1.2.3.4.5",
                           " 1.2.3.4",
                           "1.2.3.4 ",
                           "1.2.3.+4",
                           "::1%eth0",
                           "fe80::1%25lo",
                           ":",
                           ":::",
                           "1:2",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "1::2::3",
                           ":1::2",
                           "1::2:",
                           "12345::",
                           "g::",
                           "1.2.3.4::",
                           "::1.2.3",
                           "::ffff:1.2.3.4.5",
                           "1:2:3:4:5:6:7::8:9",
                           "::1:2:3:4:5:6:7:8",
                           "[::1]",
                           "::-1",
                           "::0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(IpAddress::parse(text).has_value());
  }
  CHECK_FALSE(IpAddress::parse(std::string_view("127.0.0.1\0", 10)).has_value());
}

TEST_CASE("each special block is refused at both ends and not beside them") {
  const struct {
    const char* first;
    const char* last;
    const char* name;
  } rows[] = {
      {"0.0.0.0", "0.255.255.255", "this_network"},
      {"10.0.0.0", "10.255.255.255", "private"},
      {"100.64.0.0", "100.127.255.255", "carrier_nat"},
      {"100.100.100.200", "100.100.100.200", "cloud_metadata"},
      {"127.0.0.0", "127.255.255.255", "loopback"},
      {"169.254.0.0", "169.254.255.255", "link_local"},
      {"169.254.169.254", "169.254.169.254", "cloud_metadata"},
      {"168.63.129.16", "168.63.129.16", "cloud_metadata"},
      {"172.16.0.0", "172.31.255.255", "private"},
      {"192.0.0.0", "192.0.0.255", "protocol_assignments"},
      {"192.0.2.0", "192.0.2.255", "documentation"},
      {"192.88.99.0", "192.88.99.255", "relay_6to4"},
      {"192.168.0.0", "192.168.255.255", "private"},
      {"198.18.0.0", "198.19.255.255", "benchmarking"},
      {"198.51.100.0", "198.51.100.255", "documentation"},
      {"203.0.113.0", "203.0.113.255", "documentation"},
      {"224.0.0.0", "239.255.255.255", "multicast"},
      {"240.0.0.0", "255.255.255.255", "reserved"},
      {"::ffff:10.0.0.5", "::ffff:10.0.0.5", "private"},
      {"::", "::", "embedded_ipv4"},
      {"::1", "::1", "loopback"},
      {"::2", "::ffff:ffff", "embedded_ipv4"},
      {"64:ff9b::", "64:ff9b::ffff:ffff", "embedded_ipv4"},
      {"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "embedded_ipv4"},
      {"100::", "100::ffff:ffff:ffff:ffff", "discard"},
      {"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "protocol_assignments"},
      {"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
      {"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "embedded_ipv4"},
      {"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private"},
      {"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link_local"},
      {"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site_local"},
      {"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"},
      {"4000::", "5eff::", "unallocated"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    CHECK(special_class(IpAddress::parse(row.first).value()) == row.name);
    CHECK(special_class(IpAddress::parse(row.last).value()) == row.name);
  }
}

TEST_CASE("public addresses on both sides of the special blocks have no class") {
  for (const char* text :
       {"1.0.0.0",        "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",    "126.255.255.255", "128.0.0.0",       "169.253.255.255",
        "169.255.0.0",    "168.63.129.15",   "172.15.255.255",  "172.32.0.0",
        "192.0.1.0",      "192.0.3.0",       "192.167.255.255", "192.169.0.0",
        "198.17.255.255", "198.20.0.0",      "223.255.255.255", "::ffff:8.8.8.8",
        "2001:200::",     "2001:db9::",      "2003::",          "2606:4700::1",
        "3ffe::1"}) {
    CAPTURE(text);
    CHECK(special_class(IpAddress::parse(text).value()).empty());
  }
}
