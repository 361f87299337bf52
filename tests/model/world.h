#pragma once

#include "store/sqlite.h"
#include "tests/model/invariants.h"
#include "tests/model/model_store.h"
#include "tests/model/sim_controller.h"
#include "tests/model/sim_worker.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit::model {

/// How large a world is and what is scarce in it.
struct Shape {
  const char* name = "tiny";
  int tenants = 2;
  int workers = 2;
  int unscoped = 1;  ///< So many of the workers serve every workspace.
  std::int64_t worker_sandboxes = 3;
  std::int64_t tenant_sandboxes = 3;
  std::int64_t key_sandboxes = 2;  ///< Of every second key.
  double cpu_overcommit = 1;
  int names = 2;
  int keys = 3;  ///< Idempotency keys in use at one time.
};

/// One deployment: a controller over a real store, workers, callers, and what goes wrong.
class World final : public Wires {
 public:
  World(std::uint64_t seed, const Shape& shape);
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// One thing happens, then a little time passes.
  void operation();
  /// All that is broken is whole again, nobody asks for anything: everything must be explained.
  void rest();
  const Scene& scene() const { return scene_; }

  void ask_inventory(const std::string& worker, std::uint64_t epoch, Inventory done) override;
  void send_order(const std::string& worker, std::uint64_t epoch, const std::string& body,
                  Answer done) override;
  void hang_up(const std::string& worker) override;

 private:
  struct Link {
    bool tunnel = true;       ///< A tunnel can be dialled, and one that stands carries bytes.
    bool heartbeat = true;    ///< Heartbeats arrive.
    std::uint64_t epoch = 0;  ///< Of the tunnel that stands; 0: none.
    std::uint64_t worker_incarnation = 0;
    int attempt = 0;
    bool dialling = false;
    bool beat_planned = false;
  };
  struct Member {
    std::unique_ptr<SimWorker> worker;
    Link link;
  };
  struct KnownSandbox {
    std::string tenant;
    std::string id;
  };

  void set_up();
  void join(const std::string& tenant);
  void advance(milliseconds time);
  Member* member(const std::string& worker);
  SimWorker& any_worker();
  Link& link_of(const SimWorker& worker) { return members_.at(worker.id()).link; }

  // Wires
  bool carries(const std::string& worker, std::uint64_t epoch);
  void dial(const std::string& worker, milliseconds delay);
  void cut(const std::string& worker);
  void beat(const std::string& worker);
  void plan_beat(const std::string& worker, milliseconds delay);
  void worker_restarted(const std::string& worker);

  // Operations (ops.cc)
  struct Operation {
    const char* name;
    int weight;
    void (World::*run)();
  };
  static const std::vector<Operation>& operations();
  void op_create();
  void op_replay();
  void op_delete();
  void op_renew();
  void op_cut();
  void op_mute();
  void op_heal();
  void op_restart_worker();
  void op_stop_worker();
  void op_lose_journal();
  void op_kill_object();
  void op_fault();
  void op_images();
  void op_caps();
  void op_limits();
  void op_cordon();
  void op_drain();
  void op_taint();
  void op_remove_worker();
  void op_revoke();
  void op_join();
  void op_crash_controller();
  void op_long_wait();
  void op_jump();
  void op_recreate();
  void meanwhile();
  control::CreateOrder any_order();
  SandboxSpec any_spec();
  control::Caller caller_of(const std::string& tenant);
  void note_order(const control::CreateOrder& order);
  void ask_create(const control::CreateOrder& order);
  void note_created(const control::CreateOrder& order, const SimController::Told& told);
  void remember(KnownSandbox sandbox);
  const KnownSandbox* any_sandbox();
  Status write(const std::function<Status(store::Tx&)>& body);
  void heal(SimWorker& worker);

  Scene scene_;
  const Shape shape_;
  std::filesystem::path folder_;
  std::unique_ptr<store::Store> real_store_;
  /// For what no part of the controller does yet.
  std::unique_ptr<store::Connection> direct_;
  std::unique_ptr<ModelStore> store_;
  std::unique_ptr<SimController> controller_;
  std::map<std::string, Member> members_;
  std::unique_ptr<Invariants> invariants_;
  std::vector<std::string> tenants_;
  std::vector<KnownSandbox> sandboxes_;  ///< The last ones that were ordered.
  std::vector<control::CreateOrder> keyed_;
  int last_worker_ = 0;
  int last_sandbox_ = 0;
  int last_key_ = 0;
};

}  // namespace sandboxkit::model
