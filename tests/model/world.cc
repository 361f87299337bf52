// Time, wires, rest. What happens in a world: ops.cc.
#include "tests/model/world.h"

#include "control/rows.h"
#include "io/http_server.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace sandboxkit::model {
namespace {

constexpr milliseconds kHeartbeat{10'000};
constexpr milliseconds kLeastGap{200};
constexpr milliseconds kCreateWait{20'000};
constexpr milliseconds kRest{90'000};
/// A worker whose way is free has dialled by then.
constexpr milliseconds kReconnect{40'000};

std::filesystem::path make_folder() {
  const bool in_memory = std::filesystem::is_directory("/dev/shm");
  const auto base =
      in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
  std::string name = (base / "sandboxkit-model-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder in " + base.string());
  }
  return name;
}

ControllerConfig config_of(const Shape& shape, const std::filesystem::path& folder) {
  ControllerConfig config{folder.string()};
  config.placement.cpu_overcommit = shape.cpu_overcommit;
  config.max_sandboxes_per_workspace = shape.tenant_sandboxes;
  config.create_wait = kCreateWait;
  return config;
}

/// What a worker's routes make of a job's result.
Result<control::WorkerAnswer> answer_of(const SimWorker::Answer& result) {
  if (result) {
    return control::WorkerAnswer{200, json::dump(wire::delivery_answer_to_json(*result))};
  }
  const Error& error = result.error();
  const int status = io::status_of(error.code);
  return control::WorkerAnswer{status, io::error_body(status, reason_of(error), error.message, {})};
}

Error stream_reset() {
  return Error{ErrorCode::kUnavailable, "the stream was reset", "stream_reset"};
}

}  // namespace

World::World(std::uint64_t seed, const Shape& shape)
    : scene_(seed), shape_(shape), folder_(make_folder()) {
  auto opened = store::open_sqlite((folder_ / "controller.db").string());
  if (!opened) {
    std::filesystem::remove_all(folder_);
    throw std::runtime_error(opened.error().message);
  }
  real_store_ = std::move(*opened);
  auto direct = store::Connection::open((folder_ / "controller.db").string(),
                                        store::Connection::Mode::kReadWrite);
  if (!direct) {
    throw std::runtime_error(direct.error().message);
  }
  direct_ = std::move(*direct);
  store_ = std::make_unique<ModelStore>(scene_, *real_store_);
  controller_ = std::make_unique<SimController>(scene_, *store_, config_of(shape_, folder_), *this);
  invariants_ = std::make_unique<Invariants>(scene_, *store_, controller_->config());
  set_up();
}

World::~World() {
  controller_.reset();
  store_.reset();
  direct_.reset();
  real_store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void World::set_up() {
  for (int i = 0; i < shape_.tenants; ++i) {
    const std::string tenant = "t" + std::to_string(i);
    tenants_.push_back(tenant);
    const Status written = write([&](store::Tx& tx) -> Status {
      store::WorkspaceRow workspace{tenant, tenant, scene_.clock.now()};
      if (auto inserted = tx.insert(workspace); !inserted) {
        return inserted;
      }
      for (const bool limited : {false, true}) {
        store::CredentialRow key{tenant + (limited ? "-b" : "-a"), "sk", "x", tenant, "owner"};
        key.created = scene_.clock.now();
        key.max_sandboxes = limited ? shape_.key_sandboxes : -1;
        if (auto inserted = tx.insert(key); !inserted) {
          return inserted;
        }
      }
      return {};
    });
    if (!written) {
      throw std::runtime_error(written.error().message);
    }
  }
  controller_->start();
  invariants_->controller_started();
  for (int i = 0; i < shape_.workers; ++i) {
    join(i < shape_.unscoped ? std::string() : tenants_[i % tenants_.size()]);
  }
  advance(seconds(30));
  store_->set_meanwhile([this] { meanwhile(); });
  store_->set_crashes(shape_.tenants == 2 ? 1'500 : 400);
}

Status World::write(const std::function<Status(store::Tx&)>& body) {
  return store_->real().write(body);
}

void World::join(const std::string& tenant) {
  WorkerSetup setup{"w-" + std::to_string(++last_worker_), tenant};
  setup.credential = setup.id + "-wk";
  setup.max_sandboxes = shape_.worker_sandboxes;
  setup.cpu_cores = static_cast<double>(shape_.worker_sandboxes);
  setup.images = {"base"};
  store::WorkerRow row{setup.id, tenant};
  row.name = setup.id;
  row.joined = scene_.clock.now();
  row.arch = "amd64";
  row.runtimes = R"(["runc"])";
  row.max_sandboxes = setup.max_sandboxes;
  row.max_starting = setup.max_starting;
  row.cpu_cores = setup.cpu_cores;
  row.memory_mb = setup.memory_mb;
  store::CredentialRow credential{setup.credential, "wk", "x", tenant};
  credential.worker = setup.id;
  credential.created = row.joined;
  const Status written = write([&](store::Tx& tx) -> Status {
    auto inserted = tx.insert(row);
    return inserted ? tx.insert(credential) : inserted;
  });
  if (!written) {
    throw std::runtime_error(written.error().message);
  }
  const std::string id = setup.id;
  scene_.say({id}, id + " joins for `" + tenant + "`");
  Member& joined = members_[id];
  joined.worker = std::make_unique<SimWorker>(
      scene_, std::move(setup), [this, id] { plan_beat(id, kLeastGap); },
      [this, id] { worker_restarted(id); });
  invariants_->joined(id, *joined.worker);
  invariants_->heard(id);
  joined.worker->start();
}

World::Member* World::member(const std::string& worker) {
  const auto found = members_.find(worker);
  return found == members_.end() ? nullptr : &found->second;
}

SimWorker& World::any_worker() {
  auto place = members_.begin();
  std::advance(place, scene_.dice.below(static_cast<std::int64_t>(members_.size())));
  return *place->second.worker;
}

void World::advance(milliseconds time) {
  const WallTime until = scene_.clock.now() + time;
  bool was_up = controller_->up();
  while (scene_.agenda.run_one(until)) {
    if (controller_->up() && !was_up) {
      invariants_->controller_started();
    }
    was_up = controller_->up();
    for (const auto& [id, each] : members_) {
      invariants_->online(id, controller_->online(id));
    }
    invariants_->look_at_rows();
  }
  invariants_->look_at_engines();
}

// --- Wires

bool World::carries(const std::string& worker, std::uint64_t epoch) {
  Member* found = member(worker);
  return found != nullptr && found->link.tunnel && found->link.epoch == epoch &&
         found->worker->up() && found->link.worker_incarnation == found->worker->incarnation();
}

void World::ask_inventory(const std::string& worker, std::uint64_t epoch, Inventory done) {
  scene_.agenda.after(scene_.dice.time(1, 80), [this, worker, epoch, done = std::move(done)] {
    if (!carries(worker, epoch)) {
      return;
    }
    SimWorker& asked = *member(worker)->worker;
    auto reports = asked.inventory();
    asked.inventory_read();
    scene_.agenda.after(scene_.dice.time(1, 80), [this, worker, epoch, done, reports] {
      if (carries(worker, epoch)) {
        done(scene_.mishap(10) ? Result<std::vector<SandboxReport>>(stream_reset()) : reports);
      }
    });
  });
}

void World::send_order(const std::string& worker, std::uint64_t epoch, const std::string& body,
                       Answer done) {
  scene_.agenda.after(scene_.dice.time(1, 80), [this, worker, epoch, body, done = std::move(done)] {
    if (!carries(worker, epoch)) {
      return;
    }
    const auto value = json::parse(body);
    const auto delivery =
        value ? wire::delivery_from_json(*value) : Result<wire::Delivery>(value.error());
    if (!delivery) {
      throw Violation("what the controller orders can be read", {worker}, delivery.error().message);
    }
    member(worker)->worker->deliver(
        *delivery, [this, worker, epoch, done](const SimWorker::Answer& result) {
          scene_.agenda.after(scene_.dice.time(1, 80), [this, worker, epoch, done, result] {
            if (carries(worker, epoch)) {
              done(scene_.mishap(8) ? Result<control::WorkerAnswer>(stream_reset())
                                    : answer_of(result));
            }
          });
        });
  });
}

void World::hang_up(const std::string& worker) {
  if (Member* found = member(worker)) {
    const std::uint64_t epoch = std::exchange(found->link.epoch, 0);
    scene_.agenda.after(milliseconds(0),
                        [this, worker, epoch] { controller_->closed(worker, epoch); });
    dial(worker, scene_.dice.time(100, 1'500));
  }
}

/// The tunnel breaks without a word: each side notices in its own time.
void World::cut(const std::string& worker) {
  Link& link = members_.at(worker).link;
  const std::uint64_t epoch = std::exchange(link.epoch, 0);
  if (epoch != 0) {
    scene_.agenda.after(scene_.dice.time(10, 15'000),
                        [this, worker, epoch] { controller_->closed(worker, epoch); });
  }
  dial(worker, scene_.dice.time(10, 15'000));
}

void World::dial(const std::string& worker, milliseconds delay) {
  Link& planned = members_.at(worker).link;
  if (planned.dialling) {
    return;
  }
  planned.dialling = true;
  scene_.agenda.after(delay, [this, worker] {
    Member& each = members_.at(worker);
    Link& link = each.link;
    link.dialling = false;
    if (!each.worker->up() || link.epoch != 0) {
      return;
    }
    if (link.tunnel && controller_->up()) {
      link.worker_incarnation = each.worker->incarnation();
      link.epoch = controller_->attach(worker, each.worker->setup().credential);
      if (link.epoch != 0) {
        link.attempt = 0;
        return plan_beat(worker, kLeastGap);
      }
    }
    const std::int64_t longest = std::min<std::int64_t>(15'000, 200LL << std::min(link.attempt, 7));
    ++link.attempt;
    dial(worker, scene_.dice.time(0, longest));
  });
}

void World::worker_restarted(const std::string& worker) {
  invariants_->disturbed(worker);
  Link& link = members_.at(worker).link;
  const std::uint64_t epoch = std::exchange(link.epoch, 0);
  if (epoch != 0) {
    scene_.agenda.after(scene_.dice.time(0, 1'000),
                        [this, worker, epoch] { controller_->closed(worker, epoch); });
  }
  link.attempt = 0;
  dial(worker, scene_.dice.time(0, 300));
  beat(worker);
}

void World::plan_beat(const std::string& worker, milliseconds delay) {
  Link& link = members_.at(worker).link;
  if (link.beat_planned) {
    return;
  }
  link.beat_planned = true;
  scene_.agenda.after(delay, [this, worker] {
    Member& each = members_.at(worker);
    each.link.beat_planned = false;
    if (!each.worker->up() || !each.link.heartbeat || !controller_->up()) {
      return;
    }
    scene_.agenda.after(scene_.dice.time(1, 60), [this, worker,
                                                  body = each.worker->heartbeat_body()] {
      if (controller_->heartbeat(worker, members_.at(worker).worker->setup().credential, body)) {
        invariants_->heard(worker);
      }
    });
  });
}

void World::beat(const std::string& worker) {
  SimWorker& beating = *members_.at(worker).worker;
  plan_beat(worker, milliseconds(1));
  scene_.agenda.after(kHeartbeat + scene_.dice.time(-1'000, 1'000),
                      [this, worker, incarnation = beating.incarnation()] {
                        const SimWorker& now = *members_.at(worker).worker;
                        if (now.up() && now.incarnation() == incarnation) {
                          beat(worker);
                        }
                      });
}

// --- Rest

void World::heal(SimWorker& worker) {
  worker.faults() = {};
  invariants_->disturbed(worker.id());
  Link& link = link_of(worker);
  link.tunnel = link.heartbeat = true;
  link.attempt = 0;
  if (!worker.up()) {
    worker.start();
  }
  if (link.epoch == 0) {
    dial(worker.id(), scene_.dice.time(0, 1'000));
  }
}

void World::rest() {
  scene_.quiet = true;
  scene_.say({}, "rest");
  if (!controller_->up()) {
    controller_->start();
    invariants_->controller_started();
  }
  for (const auto& [id, each] : members_) {
    heal(*each.worker);
  }
  advance(kReconnect);
  for (const auto& [id, each] : members_) {
    if (!controller_->online(id) && !invariants_->is_gone(id)) {
      throw Violation("a worker whose way is free comes back", {id}, id + " is away");
    }
  }
  advance(kRest);
  invariants_->everything_explained();
  scene_.quiet = false;
}

}  // namespace sandboxkit::model
