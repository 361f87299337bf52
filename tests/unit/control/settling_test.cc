// What reports and answers of workers do to rows, found by the model test (tests/model).
#include "control/outbox.h"
#include "control/requests.h"
#include "tests/unit/control/store_world.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

/// Workers whose sandboxes a test ends and brings back.
struct ReportWorld : StoreWorld {
  ReportWorld() {
    add_worker("w-1", "acme");
    add_worker("w-2", "acme");
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      store::WorkspaceRow workspace{"acme", "Acme", clock.now()};
      workspace.max_sandboxes = 1;
      return tx.insert(workspace);
    }));
  }

  store::SandboxRow row(const std::string& id) {
    store::SandboxRow found;
    REQUIRE(store->read([&](store::Tx& tx) -> Status {
      found = **tx.sandbox("acme", id);
      return {};
    }));
    return found;
  }

  store::SandboxRow run() {
    const auto pending = create("acme").row;
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      store::SandboxRow running = pending;
      running.state = "running";
      auto done = tx.update_sandbox(running, "pending");
      return done ? Status() : Status(done.error());
    }));
    return row(pending.id);
  }

  void lose(const std::string& worker) {
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      auto lost = lose_sandboxes(tx, worker, "worker lost", clock.now());
      return lost ? Status() : Status(lost.error());
    }));
  }

  /// The inventory of a worker that runs what the row says.
  ReportOutcome report_running(const store::SandboxRow& sandbox) {
    const SandboxReport report{*SandboxId::parse(sandbox.id), *TenantId::parse(sandbox.tenant),
                               sandbox.generation, SandboxState::kRunning, sandbox.expires};
    ReportOutcome outcome;
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      auto settled = settle_inventory(tx, config, sandbox.worker, {report}, {}, clock.now());
      if (!settled) {
        return settled.error();
      }
      outcome = std::move(*settled);
      return {};
    }));
    return outcome;
  }

  std::vector<Order> due(const std::string& worker) {
    Due found;
    REQUIRE(store->read([&](store::Tx& tx) -> Status {
      found = *read_due(tx, worker, clock.now());
      return {};
    }));
    return found.orders;
  }

  void answer(const std::string& worker, const Order& order, const Result<WorkerAnswer>& told) {
    const Verdict verdict = judge_answer(order, told, clock.now(), config.create_wait);
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      auto settled = settle_order(tx, worker, order, verdict, "", clock.now());
      return settled ? Status() : Status(settled.error());
    }));
  }
};

}  // namespace

TEST_CASE("a lost sandbox comes back when its worker does") {
  ReportWorld world;
  const auto sandbox = world.run();
  world.lose(sandbox.worker);
  REQUIRE(world.row(sandbox.id).state == "lost");
  CHECK(world.report_running(sandbox).strays.empty());
  CHECK(world.row(sandbox.id).state == "running");
}

TEST_CASE("a generation that is not the row's is removed, and says nothing about the row") {
  ReportWorld world;
  auto other = world.run();
  world.lose(other.worker);
  other.generation += 1;
  const auto outcome = world.report_running(other);
  REQUIRE(outcome.strays.size() == 1);
  CHECK(outcome.strays[0].generation == other.generation);
  CHECK(outcome.changed.empty());
  CHECK(world.row(other.id).state == "lost");
}

TEST_CASE("a lost sandbox does not come back beyond the limit of its workspace, it is removed") {
  ReportWorld world;
  const auto sandbox = world.run();
  world.lose(sandbox.worker);
  world.run();  // Takes the one place that the workspace has.
  const auto outcome = world.report_running(sandbox);
  CHECK(outcome.strays.size() == 1);
  CHECK(world.row(sandbox.id).state == "lost");
}

TEST_CASE("a lost sandbox does not come back onto a worker that is full by now, it is removed") {
  ReportWorld world;
  const auto sandbox = world.run();
  world.lose(sandbox.worker);
  world.change_worker(sandbox.worker, [](store::WorkerRow& row) { row.max_sandboxes = 0; });
  CHECK(world.report_running(sandbox).strays.size() == 1);
  CHECK(world.row(sandbox.id).state == "lost");
}

TEST_CASE("a worker that is cordoned keeps what comes back to it") {
  ReportWorld world;
  const auto sandbox = world.run();
  world.lose(sandbox.worker);
  REQUIRE(world.store->write([&](store::Tx& tx) -> Status {
    auto done = tx.set_worker_state(sandbox.worker, "cordoned");
    return done ? Status() : Status(done.error());
  }));
  CHECK(world.report_running(sandbox).strays.empty());
  CHECK(world.row(sandbox.id).state == "running");
}

TEST_CASE(
    "a create that was taken back is an error, also when its worker is lost before it is gone") {
  ReportWorld world;
  const auto row = world.create("acme").row;
  REQUIRE(abort_create(world.context, "acme", row.id));
  world.lose(row.worker);
  CHECK(world.row(row.id).state == "error");
  CHECK(world.row(row.id).reason.starts_with(kCreateTimeout));
}

TEST_CASE("a create that its worker stopped, and that nobody took back, is sent again") {
  ReportWorld world;
  const auto row = world.create("acme").row;
  world.answer(row.worker, world.due(row.worker)[0], WorkerAnswer{499, "{}"});
  CHECK(world.row(row.id).state == "pending");
  world.clock.pass(backoff(0) + std::chrono::milliseconds(1));
  CHECK(world.due(row.worker).size() == 1);
}

TEST_CASE("a remove that its worker refuses is tried until it is done, however often") {
  ReportWorld world;
  auto sandbox = world.run();
  const Caller caller{policy::Role::kOwner, "acme", "key"};
  REQUIRE(world.store->write(
      [&](store::Tx& tx) { return request_delete(world.context, tx, caller, sandbox); }));
  for (std::int64_t attempt = 0; attempt < 2 * kMaxAttempts; ++attempt) {
    CAPTURE(attempt);
    const auto orders = world.due(sandbox.worker);
    REQUIRE(orders.size() == 1);
    world.answer(sandbox.worker, orders[0], WorkerAnswer{500, "{}"});
    CHECK(world.row(sandbox.id).state == "stopping");
    world.clock.pass(backoff(attempt) + std::chrono::milliseconds(1));
  }
  world.answer(sandbox.worker, world.due(sandbox.worker)[0], WorkerAnswer{200, "{}"});
  CHECK(world.row(sandbox.id).state == "deleted");
  CHECK(world.due(sandbox.worker).empty());
}

TEST_CASE("a remove that no row waits for is given up in the end") {
  ReportWorld world;
  auto sandbox = world.run();
  world.lose(sandbox.worker);
  const Caller caller{policy::Role::kOwner, "acme", "key"};
  REQUIRE(world.store->write(
      [&](store::Tx& tx) { return request_delete(world.context, tx, caller, sandbox); }));
  REQUIRE(world.row(sandbox.id).state == "deleted");
  for (std::int64_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto orders = world.due(sandbox.worker);
    REQUIRE(orders.size() == 1);
    world.answer(sandbox.worker, orders[0], WorkerAnswer{500, "{}"});
    world.clock.pass(backoff(attempt) + std::chrono::milliseconds(1));
  }
  CHECK(world.due(sandbox.worker).empty());
}
