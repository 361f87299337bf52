#include "policy/placement_blocks.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

struct Item {
  int key;
  int weight;
};

struct ByKey {
  bool operator()(const Item& a, const Item& b) const { return a.key < b.key; }
};

struct Heaviest {
  int weight = -1;
  void add(const Item& item) { weight = std::max(weight, item.weight); }
};

using List = policy::BlockList<Item, ByKey, Heaviest>;

/// The entries in order; checks what each block promises on the way.
std::vector<int> keys_of(const List& list) {
  std::vector<int> keys;
  for (const auto& block : list.blocks()) {
    REQUIRE_FALSE(block.entries.empty());
    REQUIRE(block.entries.size() <= List::kMaxBlock);
    int heaviest = -1;
    for (const Item& item : block.entries) {
      keys.push_back(item.key);
      heaviest = std::max(heaviest, item.weight);
    }
    REQUIRE(block.summary.weight == heaviest);
  }
  return keys;
}

}  // namespace

TEST_CASE("a block list holds what a set would, in its order, with true summaries") {
  for (unsigned seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    List list;
    std::set<int> plain;
    // Grows first, shrinks then, so that blocks are split and joined.
    for (int step = 0; step < 6000; ++step) {
      const int key = static_cast<int>(random() % 2000);
      const Item item{key, static_cast<int>(random() % 1000)};
      const bool grow = (step < 3000) == (random() % 4 != 0);
      if (plain.contains(key)) {
        grow ? list.replace(item) : list.erase(item);
        grow ? std::size_t{0} : plain.erase(key);
      } else if (grow) {
        list.insert(item);
        plain.insert(key);
      }
      if (step % 250 == 0) {
        REQUIRE(keys_of(list) == std::vector<int>(plain.begin(), plain.end()));
        REQUIRE(list.size() == plain.size());
      }
    }
    while (!plain.empty()) {
      list.erase({*plain.begin(), 0});
      plain.erase(plain.begin());
    }
    CHECK(list.empty());
  }
}

TEST_CASE("a block list that shrank does not keep a block for each entry that is left") {
  List list;
  for (int key = 0; key < 5000; ++key) {
    list.insert({key, key});
  }
  for (int key = 0; key < 5000; ++key) {
    if (key % 50 != 0) {
      list.erase({key, 0});
    }
  }
  REQUIRE(list.size() == 100);
  CHECK(list.blocks().size() <= 4);
}
