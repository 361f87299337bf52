#pragma once

#include "control/create.h"
#include "control/lifecycle.h"
#include "control/outbox.h"
#include "control/sweep.h"
#include "tests/model/model_store.h"
#include "tests/model/scene.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::model {

/// How a controller reaches workers: requests through tunnels, which may get lost.
class Wires {
 public:
  using Inventory = std::function<void(Result<std::vector<SandboxReport>>)>;
  using Answer = std::function<void(Result<control::WorkerAnswer>)>;

  virtual ~Wires() = default;
  virtual void ask_inventory(const std::string& worker, std::uint64_t epoch, Inventory done) = 0;
  virtual void send_order(const std::string& worker, std::uint64_t epoch, const std::string& body,
                          Answer done) = 0;
  /// The controller closes a tunnel.
  virtual void hang_up(const std::string& worker) = 0;
};

/// The controller's process: the real decisions (create, outbox, lifecycle, roster, sweep,
/// requests) over the real store, and in the place of loop, pool, tunnels and routes the order of
/// steps of deliverer.cc and of the routes, each step a piece of the agenda.
class SimController {
 public:
  /// What a caller is told; no answer at all when the controller crashed.
  struct Told {
    int status = 0;  ///< 0: it was cut off.
    store::SandboxRow row{};
  };
  using Caller = control::Caller;
  using Done = std::function<void(const Told&)>;

  SimController(Scene& scene, ModelStore& store, ControllerConfig config, Wires& wires);
  ~SimController();

  bool up() const { return up_; }
  void start();
  void crash();

  /// The tunnel of a worker stands; 0 when it is refused.
  std::uint64_t attach(const std::string& worker, const std::string& credential);
  void closed(const std::string& worker, std::uint64_t epoch);
  /// False when nobody listens or the credential is no good.
  bool heartbeat(const std::string& worker, const std::string& credential, const std::string& body);

  void create(const control::CreateOrder& order, bool wait, Done done);
  /// At once, inside of another piece of work, as another thread would.
  void create_now(const control::CreateOrder& order, bool wait, const Done& done);
  void remove(const Caller& caller, const std::string& sandbox, Done done);
  void renew(const Caller& caller, const std::string& sandbox, seconds timeout, Done done);
  void remove_worker(const Caller& caller, const std::string& worker, Done done);

  const ControllerConfig& config() const { return config_; }
  control::Context& context() { return *context_; }
  bool online(const std::string& worker) const;
  /// The rows of a worker were changed by other hands than the store's, and something is queued.
  void rows_changed(const std::string& worker);

 private:
  struct Lane {
    std::uint64_t epoch = 0;
    bool ready = false;
    bool reading = false;
    bool again = false;
    bool taking_inventory = false;
    int inventory_failures = 0;
    std::int64_t creating = 0;
    std::int64_t max_creating = 1;
    std::map<std::int64_t, control::Order> under_way;
  };
  struct Call {
    std::string worker;
    std::uint64_t epoch = 0;
    std::function<void(const Error&)> fail;
  };
  struct Wait {
    std::function<bool(const store::SandboxRow&)> done;
    std::function<void(const store::SandboxRow&)> on_done;
  };

  /// A piece of work of this process; a crash ends it, and all that is planned.
  void task(milliseconds delay, std::function<void()> work);
  void on_pool(std::function<void()> work);
  void sweep_for_ever();
  bool knows(const std::string& worker, const std::string& credential);

  Lane* lane_of(const std::string& worker, std::uint64_t epoch);
  std::uint64_t open_call(const std::string& worker, std::uint64_t epoch,
                          std::function<void(const Error&)> fail, milliseconds timeout);
  bool close_call(std::uint64_t call) { return calls_.erase(call) > 0; }
  void tell(const store::SandboxRow& row);
  void tell(const std::string& key, const store::SandboxRow& row);
  std::uint64_t add_wait(const std::string& key, milliseconds limit, Wait wait,
                         std::function<void()> on_timeout);
  bool cancel_wait(std::uint64_t ticket);

  void take_inventory(const std::string& worker, std::uint64_t epoch);
  void inventory_settled(const std::string& worker, std::uint64_t epoch,
                         std::optional<control::ReportOutcome> outcome);
  void settle_inventory(const std::string& worker, std::uint64_t epoch,
                        const std::vector<store::SandboxRow>& before,
                        const std::vector<SandboxReport>& reports);
  void check_inventory(const std::string& worker);
  void pump(const std::string& worker);
  void read_queue(const std::string& worker, std::uint64_t epoch);
  bool may_send(const Lane& lane, const control::Order& order) const;
  void dispatch(const std::string& worker, std::uint64_t epoch, const control::Due& due);
  void send(const std::string& worker, std::uint64_t epoch, const control::Order& order);
  void answered(const std::string& worker, std::uint64_t epoch, const control::Order& order,
                const Result<control::WorkerAnswer>& answer);
  void settle(const std::string& worker, std::uint64_t epoch, const control::Order& order,
              control::Verdict verdict, const std::string& failure);
  void order_settled(const std::string& worker, std::uint64_t epoch, std::int64_t seq);
  void settle_heartbeat(const std::string& worker, const control::Roster::Note& note,
                        const std::string& body);
  void wait_for_running(const control::CreateOrder& order, const std::string& id, int status,
                        const Done& done);
  void answer_existing(const control::CreateOrder& order, const store::SandboxRow& row, bool wait,
                       const Done& done);

  struct Parts;
  Scene& scene_;
  ModelStore& store_;
  const ControllerConfig config_;
  Wires& wires_;
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<control::Roster> roster_;
  std::unique_ptr<control::Context> context_;
  std::unique_ptr<control::SweepPass> sweep_;
  bool up_ = false;
  std::uint64_t incarnation_ = 0;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t last_call_ = 0;
  std::map<std::string, std::uint64_t> sessions_;
  std::map<std::string, Lane> lanes_;
  std::map<std::uint64_t, Call> calls_;
  std::map<std::uint64_t, std::pair<std::string, Wait>> waits_;
};

}  // namespace sandboxkit::model
