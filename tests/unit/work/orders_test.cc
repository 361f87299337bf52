#include "work/orders.h"

#include "tests/unit/work/support.h"

#include <algorithm>
#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace sandboxkit::work {
namespace {

using namespace std::chrono_literals;
using testing::Bench;
using testing::FakeClock;
using testing::FakeDriver;
using testing::id;
using testing::MemoryJournal;
using testing::order;

constexpr auto kCreate = wire::DeliveryKind::kCreate;
constexpr auto kRemove = wire::DeliveryKind::kRemove;
constexpr auto kRenew = wire::DeliveryKind::kRenew;

struct World {
  MemoryJournal journal;
  FakeDriver driver;
  FakeClock clock;
  std::unique_ptr<Bench> bench;

  World() { restart(); }
  void restart(OrdersConfig config = {.tenant = "acme"}) {
    bench = nullptr;
    bench = std::make_unique<Bench>(journal, driver, clock, std::move(config));
    REQUIRE(bench->start());
  }
  std::string create(const std::string& sandbox, std::int64_t generation = 1) {
    return bench->outcome(order(kCreate, sandbox, generation, clock));
  }
  std::string remove(const std::string& sandbox, std::int64_t generation = 1) {
    return bench->outcome(order(kRemove, sandbox, generation, clock));
  }
  const SandboxReport* reported(const std::string& sandbox) {
    inventory = bench->orders.inventory();
    const auto found = std::ranges::find_if(
        inventory, [&](const SandboxReport& r) { return r.sandbox.str() == sandbox; });
    return found == inventory.end() ? nullptr : &*found;
  }
  std::vector<SandboxReport> inventory;
};

SandboxReport planted(const std::string& sandbox, std::int64_t generation,
                      SandboxState state = SandboxState::kRunning) {
  return SandboxReport{id<SandboxId>(sandbox), id<TenantId>("acme"), generation, state,
                       WallTime(std::chrono::hours(1'000'000))};
}

TEST_CASE("a create that is sent again has no second effect") {
  World w;
  CHECK(w.create("i1") == "running");
  CHECK(w.create("i1") == "running");
  CHECK(w.driver.count("create i1/1") == 1);
}

TEST_CASE("two equal creates at the same time make one sandbox and get one answer each") {
  World w;
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    w.bench->orders.deliver(order(kCreate, "i1", 1, w.clock), [&](const JobResult& result) {
      answers += result && *result == SandboxState::kRunning ? 1 : 100;
    });
  }
  CHECK(w.bench->until([&] { return answers == 2; }));
  CHECK(w.driver.count("create i1/1") == 1);
}

TEST_CASE("a remove ends the sandbox, is a success when sent again, and a late create stays out") {
  World w;
  CHECK(w.create("i1") == "running");
  CHECK(w.remove("i1") == "stopped");
  CHECK(w.remove("i1") == "stopped");
  CHECK_FALSE(w.driver.has("i1"));
  CHECK(w.create("i1") == "sandbox_not_running");
  CHECK(w.driver.count("create i1/1") == 1);
  CHECK(w.reported("i1") == nullptr);
}

TEST_CASE("a remove of what nobody knows is a success, and keeps its create out") {
  World w;
  CHECK(w.remove("i1") == "stopped");
  CHECK(w.create("i1") == "sandbox_not_running");
}

TEST_CASE("an order of another workspace is refused and touches nothing") {
  World w;
  CHECK(w.create("i1") == "running");
  for (const auto kind : {kCreate, kRemove, kRenew}) {
    CAPTURE(wire::name_of(kind));
    CHECK(w.bench->outcome(order(kind, "i1", 1, w.clock, "evil")) == "foreign_tenant");
    CHECK(w.bench->outcome(order(kind, "i2", 1, w.clock, "evil")) == "foreign_tenant");
  }
  CHECK(w.driver.has("i1"));
  CHECK(w.driver.calls() == std::vector<std::string>{"create i1/1"});
}

TEST_CASE("an unscoped worker still refuses to touch a sandbox in another workspace's name") {
  World w;
  w.restart({.tenant = ""});
  CHECK(w.create("i1") == "running");
  CHECK(w.bench->outcome(order(kCreate, "i2", 1, w.clock, "other")) == "running");
  CHECK(w.bench->outcome(order(kRemove, "i1", 1, w.clock, "other")) == "foreign_tenant");
  CHECK(w.driver.has("i1"));
}

// Complaint 42: what was replaced still runs on the client that was lost.
TEST_CASE("an order for an older generation is a conflict, a newer one replaces the sandbox") {
  World w;
  CHECK(w.create("i1", 2) == "running");
  CHECK(w.create("i1", 1) == "generation_conflict");
  CHECK(w.remove("i1", 1) == "generation_conflict");
  CHECK(w.bench->outcome(order(kRenew, "i1", 1, w.clock)) == "generation_conflict");
  CHECK(w.create("i1", 3) == "running");
  CHECK(w.driver.calls() == std::vector<std::string>{"create i1/2", "remove i1", "create i1/3"});
}

wire::Delivery narrowing(const World& w, const std::string& sandbox, const std::string& hash,
                         const std::vector<std::string>& domains = {}) {
  wire::Delivery delivery = order(wire::DeliveryKind::kNarrow, sandbox, 1, w.clock);
  delivery.egress = *EgressPolicy::create(domains, {});
  delivery.policy_hash = hash;
  return delivery;
}

TEST_CASE("a narrowing reaches the driver, and what is in force is reported from then on") {
  World w;
  CHECK(w.create("i1") == "running");
  CHECK(w.reported("i1")->policy_hash == "0123abcd");
  CHECK(w.bench->outcome(narrowing(w, "i1", "narrow-1")) == "running");
  CHECK(w.bench->outcome(narrowing(w, "i1", "narrow-1")) == "running");
  CHECK(w.driver.count("narrow i1 narrow-1") == 2);
  CHECK(w.reported("i1")->policy_hash == "narrow-1");
  w.restart();
  CHECK(w.reported("i1")->policy_hash == "narrow-1");
}

TEST_CASE("a narrowing that the driver refuses leaves the journal as it was") {
  World w;
  CHECK(w.create("i1") == "running");
  CHECK(w.bench->outcome(narrowing(w, "i1", "wider", {"a.test"})) == "policy_widens");
  CHECK(w.reported("i1")->policy_hash == "0123abcd");
}

TEST_CASE("what does not run, or runs in another generation, is neither narrowed nor lent to") {
  World w;
  CHECK(w.bench->outcome(narrowing(w, "i1", "x")) == "sandbox_not_found");
  CHECK(w.bench->outcome(order(wire::DeliveryKind::kLend, "i1", 1, w.clock)) ==
        "sandbox_not_found");
  CHECK(w.create("i1", 2) == "running");
  CHECK(w.bench->outcome(narrowing(w, "i1", "x")) == "generation_conflict");
  CHECK(w.bench->outcome(order(wire::DeliveryKind::kLend, "i1", 1, w.clock)) ==
        "generation_conflict");
  CHECK(w.remove("i1", 2) == "stopped");
  CHECK(w.bench->outcome(order(wire::DeliveryKind::kLend, "i1", 2, w.clock)) ==
        "sandbox_not_running");
}

TEST_CASE("secrets pass through to the driver and are kept nowhere on the way") {
  World w;
  CHECK(w.create("i1") == "running");
  wire::Delivery lend = order(wire::DeliveryKind::kLend, "i1", 1, w.clock);
  lend.secrets = {
      {.name = "A", .domain = "a.test", .key = "Authorization", .value = "s3cret-value"}};
  CHECK(w.bench->outcome(lend) == "running");
  REQUIRE(w.driver.lent("i1").size() == 1);
  CHECK(w.driver.lent("i1").front().value == "s3cret-value");
  for (const auto& [id, row] : w.journal.rows) {
    CHECK((row.reason + row.policy_hash + row.state).find("s3cret") == std::string::npos);
  }
  for (const Event& event : w.bench->events.told()) {
    std::string text = event.name + event.message;
    for (const auto& [name, value] : event.fields) {
      text += value;
    }
    CHECK(text.find("s3cret") == std::string::npos);
  }
}

TEST_CASE("a create that failed leaves the journal as it was, and can be sent again") {
  World w;
  w.driver.fail_creates(Error{ErrorCode::kNotFound, "no such image", "image_not_found"});
  CHECK(w.create("i1") == "image_not_found");
  CHECK(w.bench->state("i1") == "absent");
  CHECK(w.reported("i1") == nullptr);
  w.driver.fail_creates(std::nullopt);
  CHECK(w.create("i1") == "running");
  w.driver.fail_creates(Error{ErrorCode::kUnavailable, "no engine", "engine_unavailable"});
  CHECK(w.create("i1", 2) == "engine_unavailable");
  CHECK(w.bench->ledger.get("i1")->generation == 1);
  CHECK(w.bench->ledger.get("i1")->state == "ended");
}

TEST_CASE("a remove stops the create that is under way") {
  World w;
  w.driver.hold_creates();
  std::string created;
  std::string removed;
  w.bench->orders.deliver(order(kCreate, "i1", 1, w.clock), [&](const JobResult& result) {
    created = result ? "running" : reason_of(result.error());
  });
  REQUIRE(w.bench->until([&] { return w.driver.creates_under_way() == 1; }));
  w.bench->orders.deliver(order(kRemove, "i1", 1, w.clock), [&](const JobResult& result) {
    removed = result ? name_of(*result) : reason_of(result.error());
  });
  CHECK(w.bench->until([&] { return !removed.empty(); }));
  CHECK(created == "cancelled");
  CHECK(removed == "stopped");
  CHECK_FALSE(w.driver.has("i1"));
  w.driver.release_creates();
  CHECK(w.create("i1") == "sandbox_not_running");
}

TEST_CASE("removes run while every create thread is held") {
  World w;
  CHECK(w.create("old") == "running");
  w.driver.hold_creates();
  for (const char* name : {"a", "b", "c", "d"}) {
    w.bench->orders.deliver(order(kCreate, name, 1, w.clock), [](const JobResult&) {});
  }
  REQUIRE(w.bench->until([&] { return w.driver.creates_under_way() == 2; }));
  CHECK(w.remove("old") == "stopped");
  w.driver.release_creates();
}

// Complaint 31: time to live counts only while the API runs.
TEST_CASE("a sandbox whose time is over is removed and reported as stopped by its timeout") {
  World w;
  CHECK(w.create("i1") == "running");
  w.clock.advance(59min);
  w.bench->orders.sweep();
  w.bench->settle();
  CHECK(w.driver.has("i1"));
  w.clock.advance(1min);
  w.bench->orders.sweep();
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:timeout"; }));
  CHECK_FALSE(w.driver.has("i1"));
  REQUIRE(w.reported("i1") != nullptr);
  CHECK(w.reported("i1")->state == SandboxState::kStopped);
  CHECK(w.reported("i1")->reason == "timeout");
  CHECK(w.bench->until([&] { return !w.bench->ended.empty(); }));
}

// Complaint 32: a renewal races the end that it wants to move.
TEST_CASE("a renewed sandbox lives on, an ended one cannot be renewed") {
  World w;
  CHECK(w.create("i1") == "running");
  w.clock.advance(59min);
  CHECK(w.bench->outcome(order(kRenew, "i1", 1, w.clock)) == "running");
  w.clock.advance(30min);
  w.bench->orders.sweep();
  w.bench->settle();
  CHECK(w.bench->state("i1") == "running");
  CHECK(w.remove("i1") == "stopped");
  CHECK(w.bench->outcome(order(kRenew, "i1", 1, w.clock)) == "sandbox_not_running");
  CHECK(w.bench->outcome(order(kRenew, "i9", 1, w.clock)) == "sandbox_not_found");
}

TEST_CASE("a remove that the engine refused is tried again until it works") {
  World w;
  CHECK(w.create("i1") == "running");
  w.driver.fail_removes(Error{ErrorCode::kUnavailable, "no engine", "engine_unavailable"});
  CHECK(w.remove("i1") == "engine_unavailable");
  CHECK(w.bench->state("i1") == "removing:removed");
  w.driver.fail_removes(std::nullopt);
  w.bench->orders.sweep();
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:removed"; }));
}

TEST_CASE("an end that nobody ordered is journalled, cleaned up, and reported with its reason") {
  World w;
  CHECK(w.create("i1") == "running");
  w.driver.tell({id<SandboxId>("i1"), 1, SandboxState::kStopped, "exit 137"});
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:exit 137"; }));
  CHECK_FALSE(w.driver.has("i1"));
  CHECK(w.reported("i1")->reason == "exit 137");
  const auto found = w.bench->orders.find_running(id<SandboxId>("i1"), 1);
  REQUIRE_FALSE(found);
  CHECK(found.error().reason == "sandbox_not_running");
  CHECK(found.error().message.find("exit 137") != std::string::npos);
}

TEST_CASE("an event about an older generation changes nothing") {
  World w;
  CHECK(w.create("i1", 2) == "running");
  w.driver.tell({id<SandboxId>("i1"), 1, SandboxState::kStopped, "exit 0"});
  w.bench->settle();
  CHECK(w.bench->state("i1") == "running");
}

TEST_CASE("after a restart what runs goes on, and a create that is sent again is answered") {
  World w;
  CHECK(w.create("i1") == "running");
  w.restart();
  CHECK(w.bench->state("i1") == "running");
  CHECK(w.create("i1") == "running");
  CHECK(w.driver.count("create i1/1") == 1);
  CHECK(w.driver.count("remove i1") == 0);
}

TEST_CASE("after a restart a sandbox that the engine lost is reported as lost") {
  World w;
  CHECK(w.create("i1") == "running");
  w.driver.lose("i1");
  w.restart();
  CHECK(w.bench->state("i1") == "ended:lost");
  REQUIRE(w.reported("i1") != nullptr);
  CHECK(w.reported("i1")->state == SandboxState::kLost);
}

TEST_CASE(
    "a crash during a create: what is whole is kept, what is half made is removed and made anew") {
  World w;
  for (const char* name : {"whole", "half", "none"}) {
    w.journal.rows[name] = store::JournalRow{name, "acme", 1, kCreating};
    w.journal.rows[name].expires = w.clock.now() + 1h;
  }
  w.driver.plant(planted("whole", 1));
  w.driver.plant(planted("half", 1, SandboxState::kError));
  w.restart();
  CHECK(w.bench->state("whole") == "running");
  CHECK(w.bench->state("half") == "absent");
  CHECK(w.bench->state("none") == "absent");
  CHECK_FALSE(w.driver.has("half"));
  CHECK(w.create("half") == "running");
  CHECK(w.create("whole") == "running");
  CHECK(w.driver.count("create whole/1") == 0);
}

TEST_CASE(
    "a crash during a create, and an engine that keeps the rest: the create can be sent again") {
  World w;
  w.journal.rows["i1"] = store::JournalRow{"i1", "acme", 1, kCreating};
  w.journal.rows["i1"].expires = w.clock.now() + 1h;
  w.driver.plant(planted("i1", 1, SandboxState::kError));
  w.driver.fail_removes(Error{ErrorCode::kUnavailable, "the engine does not answer"});
  w.restart();
  w.driver.fail_removes(std::nullopt);
  CHECK(w.create("i1") == "running");
}

TEST_CASE("a crash during a create that is not sent again: what is left ends with its time") {
  World w;
  w.journal.rows["i1"] = store::JournalRow{"i1", "acme", 1, kCreating};
  w.journal.rows["i1"].expires = w.clock.now() + 1h;
  w.driver.plant(planted("i1", 1, SandboxState::kError));
  w.driver.fail_removes(Error{ErrorCode::kUnavailable, "the engine does not answer"});
  w.restart();
  w.driver.fail_removes(std::nullopt);
  w.clock.advance(2h);
  w.bench->orders.sweep();
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:timeout"; }));
  CHECK_FALSE(w.driver.has("i1"));
}

TEST_CASE("a crash during a remove: the remove goes on after the restart") {
  World w;
  CHECK(w.create("i1") == "running");
  w.journal.rows["i1"].state = kRemoving;
  w.journal.rows["i1"].reason = kReasonRemoved;
  w.restart();
  w.bench->orders.sweep();
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:removed"; }));
  CHECK_FALSE(w.driver.has("i1"));
}

// Complaint 30: processes outlive the orchestrator that knew of them.
TEST_CASE("what only the engine knows is removed after its grace") {
  World w;
  w.driver.plant(planted("orphan", 1));
  w.restart();
  CHECK(w.reported("orphan") != nullptr);
  w.clock.advance(59s);
  w.bench->orders.reconcile();
  w.bench->until([&] { return !w.bench->lanes.busy("orphan"); });
  CHECK(w.driver.has("orphan"));
  w.clock.advance(2s);
  w.bench->orders.reconcile();
  CHECK(w.bench->until([&] { return !w.driver.has("orphan"); }));
}

TEST_CASE("what only the engine knows is kept when the controller names it") {
  World w;
  w.driver.plant(planted("orphan", 3));
  w.restart();
  CHECK(w.bench->orders.find_running(id<SandboxId>("orphan"), 3));
  CHECK(w.bench->state("orphan") == "running");
  w.clock.advance(2h);
  w.bench->orders.reconcile();
  w.bench->settle();
  CHECK(w.driver.has("orphan"));
}

TEST_CASE("a create that comes again builds anew what an earlier one left half made") {
  World w;
  w.driver.plant(planted("half", 1, SandboxState::kError));
  w.bench->orders.reconcile();  // The journal forgot it when the create failed.
  REQUIRE(w.bench->until([&] { return w.reported("half") != nullptr; }));
  CHECK(w.create("half") == "running");
  CHECK(w.driver.count("create half/1") == 1);
}

TEST_CASE("what only the engine knows is taken back when the controller saw it and let it be") {
  World w;
  w.driver.plant(planted("orphan", 3));
  w.driver.plant(planted("broken", 1, SandboxState::kError));
  w.restart();
  w.bench->orders.inventory_read();
  w.clock.advance(61s);
  w.bench->orders.reconcile();
  CHECK(w.bench->until([&] { return w.bench->state("orphan") == "running"; }));
  CHECK(w.bench->until([&] { return !w.driver.has("broken"); }));
  CHECK(w.driver.has("orphan"));
}

TEST_CASE("an end that the controller settled with a remove is not reported again") {
  World w;
  CHECK(w.create("i1") == "running");
  w.driver.tell({id<SandboxId>("i1"), 1, SandboxState::kStopped, "exit 1"});
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:exit 1"; }));
  CHECK(w.reported("i1") != nullptr);
  CHECK(w.remove("i1") == "stopped");
  CHECK(w.reported("i1") == nullptr);
}

// Complaint 33: said to run, but there is no container.
TEST_CASE("reconcile finds what the engine lost, and does not judge what changed meanwhile") {
  World w;
  CHECK(w.create("lost") == "running");
  w.clock.advance(1s);
  w.driver.lose("lost");
  w.bench->orders.reconcile();
  CHECK(w.bench->until([&] { return w.bench->state("lost") == "ended:lost"; }));
  CHECK(w.create("new") == "running");
  w.driver.lose("new");
  w.bench->orders.reconcile();
  w.bench->settle();
  CHECK(w.bench->state("new") == "running");
}

TEST_CASE("the journal is written before the driver acts: without it nothing is made") {
  World w;
  w.journal.full = true;
  CHECK(w.create("i1") == "store_unavailable");
  CHECK(w.driver.calls().empty());
}

TEST_CASE("a worker at its maximum refuses the next create, and takes it when there is room") {
  World w;
  w.restart({.tenant = "acme", .max_sandboxes = 2});
  CHECK(w.create("i1") == "running");
  CHECK(w.create("i2") == "running");
  CHECK(w.create("i3") == "no_capacity");
  CHECK(w.remove("i1") == "stopped");
  CHECK(w.create("i3") == "running");
}

TEST_CASE("a create whose time is over already is refused") {
  World w;
  auto late = order(kCreate, "i1", 1, w.clock);
  w.clock.advance(2h);
  CHECK(w.bench->outcome(late) == "sandbox_expired");
  CHECK(w.driver.calls().empty());
}

TEST_CASE("ended rows are reported for a day and then forgotten") {
  World w;
  CHECK(w.create("i1") == "running");
  w.driver.tell({id<SandboxId>("i1"), 1, SandboxState::kStopped, "exit 1"});
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "ended:exit 1"; }));
  w.clock.advance(25h);
  CHECK(w.reported("i1") == nullptr);
  w.bench->orders.reconcile();
  CHECK(w.bench->until([&] { return w.bench->state("i1") == "absent"; }));
}

TEST_CASE("too many orders for one sandbox are refused, not queued without end") {
  World w;
  w.driver.hold_creates();
  std::size_t overloaded = 0;
  for (std::size_t i = 0; i < Lanes::kMaxWaiting + 2; ++i) {
    w.bench->orders.deliver(order(kRenew, "i1", 1, w.clock), [&](const JobResult& result) {
      overloaded += !result && result.error().reason == "overloaded" ? 1U : 0U;
    });
  }
  CHECK(overloaded == 1);
  w.driver.release_creates();
  w.bench->until([&] { return !w.bench->lanes.busy("i1"); });
}

}  // namespace
}  // namespace sandboxkit::work
