#include "control/outbox.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

Order order(std::int64_t seq, const std::string& tenant,
            wire::DeliveryKind kind = wire::DeliveryKind::kCreate) {
  return Order{.seq = seq, .kind = kind, .sandbox = "i", .tenant = tenant, .body = ""};
}

std::vector<std::int64_t> turns(std::vector<Order> orders,
                                const std::map<std::string, std::int64_t>& starting = {}) {
  put_in_turn(orders, starting);
  std::vector<std::int64_t> seqs;
  for (const Order& each : orders) {
    seqs.push_back(each.seq);
  }
  return seqs;
}

}  // namespace

// Complaint 17: one caller takes the queue.
TEST_CASE("workspaces take turns for start slots, however many creates one of them queued first") {
  CHECK(turns({order(1, "busy"), order(2, "busy"), order(3, "busy"), order(4, "calm"),
               order(5, "calm")}) == std::vector<std::int64_t>{1, 4, 2, 5, 3});
}

TEST_CASE("what a workspace has under way counts as turns that it took") {
  CHECK(turns({order(1, "busy"), order(2, "calm"), order(3, "calm")}, {{"busy", 2}}) ==
        std::vector<std::int64_t>{2, 3, 1});
}

TEST_CASE("removes and renewals wait for no create, and keep their order") {
  CHECK(turns({order(1, "a"), order(2, "a"), order(3, "a", wire::DeliveryKind::kRemove),
               order(4, "a", wire::DeliveryKind::kRenew)}) ==
        std::vector<std::int64_t>{3, 4, 1, 2});
}
