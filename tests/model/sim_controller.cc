// The process, its sessions, and what callers ask. Deliveries: sim_deliveries.cc.
#include "tests/model/sim_controller.h"

#include "control/refusals.h"
#include "control/requests.h"
#include "control/rows.h"

#include <utility>

namespace sandboxkit::model {
namespace {

constexpr milliseconds kSweepPause{1'000};
constexpr milliseconds kDeleteWait{30'000};
constexpr milliseconds kRenewWait{10'000};

struct NoEvents final : EventSink {
  void tell(const Event&) override {}
};

int status_of(const net::ApiResponse& response) { return response.status; }

SimController::Told settled_answer(const store::SandboxRow& row, int when_running) {
  return {row.state == "running" || row.state == "paused"   ? when_running
          : row.reason.starts_with(control::kCreateTimeout) ? 504
                                                            : 409,
          row};
}

}  // namespace

/// What a context holds and nothing here uses.
struct SimController::Parts {
  control::Metrics metrics;
  NoEvents events;
  io::EventLoop loop;
  control::Pool pool{1, 1};
};

SimController::SimController(Scene& scene, ModelStore& store, ControllerConfig config, Wires& wires)
    : scene_(scene),
      store_(store),
      config_(std::move(config)),
      wires_(wires),
      parts_(std::make_unique<Parts>()) {}

SimController::~SimController() = default;

void SimController::start() {
  up_ = true;
  ++incarnation_;
  roster_ = std::make_unique<control::Roster>(config_, scene_.clock, store_);
  store_.on_change([this](const std::vector<std::string>& workers) {
    for (const std::string& worker : workers) {
      roster_->changed(worker);
    }
  });
  context_ = std::make_unique<control::Context>(
      control::Context{config_, scene_.clock, parts_->events, store_, parts_->loop, parts_->pool,
                       *roster_, "c-model", parts_->metrics});
  sweep_ = std::make_unique<control::SweepPass>(
      *context_, control::SweepPass::Told{[this](const store::SandboxRow& row) { tell(row); },
                                          [this](const std::string& worker) { pump(worker); }});
  if (const auto loaded = roster_->load(); !loaded) {
    throw Violation("the store works", {}, loaded.error().message);
  }
  scene_.say({}, "the controller starts");
  sweep_for_ever();
}

void SimController::crash() {
  if (!up_) {
    return;
  }
  scene_.say({}, "the controller crashes");
  up_ = false;
  ++incarnation_;
  store_.on_change({});
  const auto sessions = std::exchange(sessions_, {});
  lanes_.clear();
  calls_.clear();
  waits_.clear();
  for (const auto& [worker, epoch] : sessions) {
    wires_.hang_up(worker);
  }
}

void SimController::task(milliseconds delay, std::function<void()> work) {
  scene_.agenda.after(delay, [this, incarnation = incarnation_, work = std::move(work)] {
    if (!up_ || incarnation != incarnation_) {
      return;
    }
    try {
      work();
    } catch (const ControllerCrash&) {
      crash();
    }
  });
}

void SimController::on_pool(std::function<void()> work) {
  // Mostly at once; now and then a thread has to wait for the disk.
  const auto delay = scene_.mishap(20) ? scene_.dice.time(100, 3'000) : scene_.dice.time(0, 15);
  task(delay, std::move(work));
}

void SimController::sweep_for_ever() {
  task(kSweepPause, [this] {
    sweep_for_ever();
    sweep_->run();
  });
}

bool SimController::knows(const std::string& worker, const std::string& credential) {
  bool known = false;
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    const auto row = tx.credential(credential);
    const auto standing = tx.worker(worker);
    known = row && *row && !(*row)->revoked && standing && *standing;
    return {};
  });
  return read && known;
}

bool SimController::online(const std::string& worker) const {
  return up_ && roster_->hearing(worker).online;
}

std::uint64_t SimController::attach(const std::string& worker, const std::string& credential) {
  if (!up_ || !knows(worker, credential)) {
    return 0;
  }
  if (const auto old = sessions_.find(worker); old != sessions_.end()) {
    closed(worker, old->second);
  }
  const std::uint64_t epoch = ++last_epoch_;
  sessions_[worker] = epoch;
  Lane lane;
  lane.epoch = epoch;
  lanes_[worker] = std::move(lane);
  scene_.say({worker}, "the tunnel of " + worker + " stands");
  task(milliseconds(0), [this, worker, epoch] { take_inventory(worker, epoch); });
  return epoch;
}

void SimController::closed(const std::string& worker, std::uint64_t epoch) {
  const auto found = sessions_.find(worker);
  if (!up_ || found == sessions_.end() || found->second != epoch) {
    return;
  }
  sessions_.erase(found);
  roster_->set_online(worker, false);
  scene_.say({worker}, "the tunnel of " + worker + " is closed");
  if (lane_of(worker, epoch) != nullptr) {
    lanes_.erase(worker);
  }
  std::vector<std::function<void(const Error&)>> failed;
  for (auto call = calls_.begin(); call != calls_.end();) {
    if (call->second.worker == worker && call->second.epoch == epoch) {
      failed.push_back(std::move(call->second.fail));
      call = calls_.erase(call);
    } else {
      ++call;
    }
  }
  for (const auto& fail : failed) {
    fail(control::worker_unreachable());
  }
}

bool SimController::heartbeat(const std::string& worker, const std::string& credential,
                              const std::string& body) {
  if (!up_ || !knows(worker, credential)) {
    return false;
  }
  roster_->heard(worker);
  const auto note = roster_->note_of(worker, body);
  if (!roster_->is_settled(worker, note)) {
    on_pool([this, worker, note, body] { settle_heartbeat(worker, note, body); });
  }
  return true;
}

void SimController::settle_heartbeat(const std::string& worker, const control::Roster::Note& note,
                                     const std::string& body) {
  const auto value = json::parse(body, wire::kInventoryLimits);
  const auto told =
      value ? wire::heartbeat_from_json(*value) : Result<wire::Heartbeat>(value.error());
  if (!told) {
    throw Violation("what a worker tells can be read", {worker}, told.error().message);
  }
  control::ReportOutcome outcome;
  const Status written = store_.write([&](store::Tx& tx) -> Status {
    auto row = tx.worker(worker);
    if (!row || !*row) {
      return row ? Status(control::worker_not_found()) : Status(row.error());
    }
    control::apply_facts(**row, told->facts);
    (*row)->last_heartbeat = scene_.clock.now();
    if (auto updated = tx.update_heartbeat(**row); !updated) {
      return updated;
    }
    auto settled =
        control::settle_heartbeat(tx, config_, worker, told->sandboxes, scene_.clock.now());
    if (!settled) {
      return settled.error();
    }
    outcome = std::move(*settled);
    return {};
  });
  if (!written) {
    return;
  }
  for (const store::SandboxRow& row : outcome.changed) {
    tell(row);
  }
  if (outcome.doubtful) {
    check_inventory(worker);
  } else if (outcome.changed.empty()) {
    roster_->settled(worker, note);
  }
}

// --- What callers ask

void SimController::create(const control::CreateOrder& order, bool wait, Done done) {
  task(milliseconds(0), [this, order, wait, done] { create_now(order, wait, done); });
}

void SimController::create_now(const control::CreateOrder& order, bool wait, const Done& done) {
  auto decision = control::decide_create(*context_, order);
  if (!decision) {
    return done({503});
  }
  if (decision->refusal) {
    return done({status_of(*decision->refusal)});
  }
  if (decision->existing) {
    return answer_existing(order, decision->row, wait, done);
  }
  if (wait) {
    wait_for_running(order, decision->row.id, 201, done);
  } else {
    done({202, decision->row});
  }
  pump(decision->row.worker);
}

void SimController::rows_changed(const std::string& worker) {
  store_.touch(worker);
  if (up_) {
    roster_->changed(worker);
    pump(worker);
  }
}

void SimController::answer_existing(const control::CreateOrder& order, const store::SandboxRow& row,
                                    bool wait, const Done& done) {
  if (!control::is_waiting_to_run(row.state)) {
    return done(settled_answer(row, 200));
  }
  if (!wait) {
    return done({202, row});
  }
  wait_for_running(order, row.id, 200, done);
  const Status ignored = store_.read([&](store::Tx& tx) -> Status {
    const auto found = tx.sandbox(row.tenant, row.id);
    if (found && *found) {
      tell(row.id, **found);
    }
    return {};
  });
  static_cast<void>(ignored);
}

void SimController::wait_for_running(const control::CreateOrder& order, const std::string& id,
                                     int status, const Done& done) {
  Wait wait;
  wait.done = [](const store::SandboxRow& row) { return !control::is_waiting_to_run(row.state); };
  wait.on_done = [done, status](const store::SandboxRow& row) {
    done(settled_answer(row, status));
  };
  add_wait(id, config_.create_wait, std::move(wait),
           [this, id, status, done, tenant = order.caller.tenant] {
             on_pool([this, id, status, done, tenant] {
               const auto aborted = control::abort_create(*context_, tenant, id);
               if (aborted) {
                 done(settled_answer(*aborted, status));
                 pump(aborted->worker);
               }
             });
           });
}

void SimController::remove(const Caller& caller, const std::string& sandbox, Done done) {
  task(milliseconds(0), [this, caller, sandbox, done] {
    Wait wait;
    wait.done = [](const store::SandboxRow& row) { return control::is_ended(row.state); };
    wait.on_done = [done](const store::SandboxRow& row) { done({204, row}); };
    const auto ticket = add_wait(sandbox, kDeleteWait, std::move(wait), [done] { done({202}); });
    store::SandboxRow row;
    row.id = sandbox;
    const Status written = store_.write(
        [&](store::Tx& tx) { return control::request_delete(*context_, tx, caller, row); });
    const bool waits = written && row.state == "stopping" && online(row.worker);
    if (written) {
      pump(row.worker);
      tell(row);
    }
    if (waits || !cancel_wait(ticket)) {
      return;
    }
    done({!written ? 404 : row.state == "stopping" ? 202 : 204, row});
  });
}

void SimController::renew(const Caller& caller, const std::string& sandbox, seconds timeout,
                          Done done) {
  task(milliseconds(0), [this, caller, sandbox, timeout, done] {
    const WallTime expires = scene_.clock.now() + timeout;
    Wait wait;
    wait.done = [expires](const store::SandboxRow& row) {
      return row.state != "running" || row.expires == expires;
    };
    wait.on_done = [done](const store::SandboxRow& row) {
      done({row.state == "running" ? 200 : 409, row});
    };
    const auto ticket =
        add_wait(sandbox + "/renew", kRenewWait, std::move(wait), [done] { done({202}); });
    store::SandboxRow row;
    row.id = sandbox;
    std::optional<net::ApiResponse> refusal;
    const Status written = store_.write([&](store::Tx& tx) {
      return control::request_renewal(*context_, tx, caller, expires, row, refusal);
    });
    const bool recorded = written && !refusal;
    if (recorded) {
      pump(row.worker);
    }
    if ((recorded && online(row.worker)) || !cancel_wait(ticket)) {
      return;
    }
    done({!written ? 404 : refusal ? 409 : 202, row});
  });
}

void SimController::remove_worker(const Caller& caller, const std::string& worker, Done done) {
  task(milliseconds(0), [this, caller, worker, done] {
    std::vector<store::SandboxRow> lost;
    const Status written = store_.write([&](store::Tx& tx) -> Status {
      auto row = tx.worker(worker);
      if (!row || !*row) {
        return row ? Status(control::worker_not_found()) : Status(row.error());
      }
      auto ended = control::request_worker_removal(*context_, tx, caller, **row);
      if (!ended) {
        return ended.error();
      }
      lost = std::move(*ended);
      return {};
    });
    if (written) {
      wires_.hang_up(worker);
      for (const store::SandboxRow& row : lost) {
        tell(row);
      }
    }
    done({written ? 204 : 404});
  });
}

// --- Calls that wait

void SimController::tell(const store::SandboxRow& row) {
  tell(row.id, row);
  if (row.state != "running") {
    tell(row.id + "/renew", row);
  }
}

void SimController::tell(const std::string& key, const store::SandboxRow& row) {
  std::vector<Wait> done;
  for (auto each = waits_.begin(); each != waits_.end();) {
    if (each->second.first == key && each->second.second.done(row)) {
      done.push_back(std::move(each->second.second));
      each = waits_.erase(each);
    } else {
      ++each;
    }
  }
  for (const Wait& wait : done) {
    wait.on_done(row);
  }
}

std::uint64_t SimController::add_wait(const std::string& key, milliseconds limit, Wait wait,
                                      std::function<void()> on_timeout) {
  const std::uint64_t ticket = ++last_call_;
  waits_.emplace(ticket, std::pair(key, std::move(wait)));
  task(limit, [this, ticket, on_timeout = std::move(on_timeout)] {
    if (cancel_wait(ticket)) {
      on_timeout();
    }
  });
  return ticket;
}

bool SimController::cancel_wait(std::uint64_t ticket) { return waits_.erase(ticket) > 0; }

}  // namespace sandboxkit::model
