#include "policy/egress_table.h"

#include "tests/unit/policy/egress_oracle.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using sandboxkit::policy::NameTable;

namespace {

struct Meter {
  std::size_t bytes = 0;
  std::size_t lookups = 0;
  std::size_t compared_bytes = 0;
  void hashed_byte() { ++bytes; }
  void looked_up() { ++lookups; }
  void compared(std::size_t count) { compared_bytes += count; }
};

template <typename Hash>
std::vector<std::size_t> found(const NameTable<Hash>& table, std::string_view host, Meter& meter) {
  std::vector<std::size_t> out;
  table.visit(
      host, [&](const auto& entries) { out.insert(out.end(), entries.begin(), entries.end()); },
      meter);
  return out;
}

/// Every name collides with every other.
struct OneForAll {
  static constexpr std::uint64_t kOfNothing = 1;
  static std::uint64_t with(std::uint64_t hash, char /*c*/) { return hash; }
};

std::string longest_host(std::string tail) {
  while (tail.size() + 2 <= 253) {
    tail = "a." + tail;
  }
  return tail;
}

}  // namespace

TEST_CASE("names are found by their ends, the farthest first and the own name last") {
  NameTable<> table;
  table.add("b.test", true, 0);
  table.add("a.b.test", true, 1);
  table.add("c.a.b.test", false, 2);
  table.add("c.a.b.test", true, 3);
  table.add("c.a.b.test", false, 4);
  Meter meter;
  CHECK(found(table, "c.a.b.test", meter) == std::vector<std::size_t>{0, 1, 2, 4});
  CHECK(found(table, "d.c.a.b.test", meter) == std::vector<std::size_t>{0, 1, 3});
  CHECK(found(table, "b.test", meter).empty());
  CHECK(found(table, "test", meter).empty());
  CHECK(found(table, "xb.test", meter).empty());
  CHECK(found(NameTable<>(), "a.test", meter).empty());
}

TEST_CASE("a look-up costs one pass and one step a label, whatever the policy holds") {  // 20
  for (const std::size_t rules : {std::size_t{1}, std::size_t{16}, std::size_t{256}}) {
    CAPTURE(rules);
    NameTable<> table;
    for (std::size_t i = 0; i < rules; ++i) {
      // As long as an entry can be, and unlike the host only in its first label.
      table.add("n" + std::to_string(i) + longest_host("test").substr(12), true, i);
    }
    const std::string host = longest_host("test");
    const auto labels = static_cast<std::size_t>(std::ranges::count(host, '.')) + 1;
    REQUIRE(host.size() >= 252);
    REQUIRE(labels == 125);
    Meter meter;
    CHECK(found(table, host, meter).empty());
    CHECK(meter.bytes <= host.size());
    CHECK(meter.lookups <= labels);
    CHECK(meter.compared_bytes == 0);
  }
}

TEST_CASE("what matches is compared once, and no byte is read past the longest entry") {
  NameTable<> table;
  table.add("b.test", true, 0);
  table.add("ok.test", false, 1);
  Meter meter;
  CHECK(found(table, longest_host("b.test"), meter) == std::vector<std::size_t>{0});
  CHECK(meter.bytes == std::string("ok.test").size());
  CHECK(meter.lookups == 2);
  CHECK(meter.compared_bytes == std::string("b.test").size());
}

TEST_CASE("names whose hashes are all the same are told apart all the same") {
  NameTable<OneForAll> table;
  table.add("a.test", false, 0);
  table.add("b.test", false, 1);
  table.add("b.test", true, 2);
  table.add("b.test", false, 3);
  Meter meter;
  CHECK(found(table, "a.test", meter) == std::vector<std::size_t>{0});
  CHECK(found(table, "b.test", meter) == std::vector<std::size_t>{1, 3});
  CHECK(found(table, "a.b.test", meter) == std::vector<std::size_t>{2});
  CHECK(found(table, "c.test", meter).empty());
}
