#pragma once

#include "sandboxkit/relax/unwalled_egress.h"

#include "control/context.h"
#include "control/create.h"
#include "control/lifecycle.h"
#include "control/roster.h"
#include "tests/unit/store/temporary_folder.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

namespace sandboxkit::control {

/// Time that stands still until a test moves it.
class StillClock final : public Clock {
 public:
  WallTime now() const override { return now_; }
  void pass(std::chrono::milliseconds time) { now_ += time; }

 private:
  WallTime now_{std::chrono::hours(24 * 365 * 50)};
};

struct NoEventsToTell final : EventSink {
  void tell(const Event&) override {}
};

/// What a create's transaction needs, with a real store, and without a server.
struct StoreWorld {
  TemporaryFolder folder;
  ControllerConfig config{folder.file("state")};
  StillClock clock;
  NoEventsToTell events;
  std::unique_ptr<store::Store> store = [this] {
    auto opened = store::open_sqlite(folder.file("controller.db"));
    REQUIRE(opened);
    return std::move(*opened);
  }();
  io::EventLoop loop;
  Pool pool{1, 16};
  Roster roster{config, clock, *store};
  Metrics metrics;
  Context context{config, clock, events, *store, loop, pool, roster, "c-1", metrics};
  int made = 0;

  StoreWorld() {
    store->on_change([this](const std::vector<std::string>& workers) {
      for (const std::string& worker : workers) {
        roster.changed(worker);
      }
    });
  }

  void add_worker(const std::string& id, const std::string& tenant) {
    store::WorkerRow row{id, tenant};
    row.name = id;
    row.arch = "amd64";
    row.cpu_cores = 64;
    row.memory_mb = 64 * 1024;
    row.max_sandboxes = 100;
    row.max_starting = 100;
    row.capabilities = R"(["egress"])";
    row.runtimes = R"(["runc"])";
    row.joined = clock.now();
    REQUIRE(store->write([&](store::Tx& tx) { return tx.insert(row); }));
    roster.set_online(id, true);
  }

  void change_worker(const std::string& id, const std::function<void(store::WorkerRow&)>& change) {
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      auto row = tx.worker(id);
      REQUIRE((row && *row));
      change(**row);
      return tx.update_heartbeat(**row);
    }));
  }

  CreateOrder order(const std::string& tenant) {
    auto id = TenantId::parse(tenant);
    REQUIRE(id);
    return CreateOrder{Caller{policy::Role::kOwner, tenant, "key"},
                       *id,
                       SandboxSpec{.image = "x", .egress = Egress::unwalled(UnwalledEgress{})},
                       "i" + std::to_string(++made),
                       "",
                       "",
                       static_cast<std::uint64_t>(made)};
  }

  Result<CreateDecision> decide(const CreateOrder& wanted) {
    return decide_create(context, wanted);
  }

  CreateDecision create(const std::string& tenant) {
    auto decision = decide(order(tenant));
    REQUIRE(decision);
    return std::move(*decision);
  }

  void end(const std::string& tenant, const std::string& id) {
    REQUIRE(store->write([&](store::Tx& tx) -> Status {
      auto row = tx.sandbox(tenant, id);
      REQUIRE((row && *row));
      auto done = end_sandbox(tx, **row, "deleted", "gone", clock.now());
      return done ? Status{} : Status(done.error());
    }));
  }

  store::Tx::Use use_of(const std::string& worker) {
    store::Tx::Use use;
    REQUIRE(store->read([&](store::Tx& tx) -> Status {
      use = *tx.use_of_worker(worker);
      return {};
    }));
    return use;
  }
};

}  // namespace sandboxkit::control
