#pragma once

#include "sandboxkit/driver.h"

#include "store/journal.h"
#include "tests/model/scene.h"
#include "wire/messages.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit::model {

/// What a worker is when it joins. Its owner may change the numbers, and the next heartbeat tells.
struct WorkerSetup {
  std::string id;
  std::string tenant{};  ///< "" serves every one.
  std::string credential{};
  std::int64_t max_sandboxes = 3;
  std::int64_t max_starting = 2;
  double cpu_cores = 4;
  std::int64_t memory_mb = 4096;
  std::set<std::string> images{};
};

/// One sandbox as the simulated engine has it.
struct EngineObject {
  std::string tenant;
  std::int64_t generation = 0;
  WallTime expires{};  ///< The label: as it was ordered, renewals are not in it.
  std::string policy_hash{};
  bool running = true;
  std::string reason{};
};

/// What is wrong with an engine for a while.
struct EngineFaults {
  bool full = false;         ///< Creates are answered "not now".
  bool broken = false;       ///< Creates fail with an answer that makes no sense.
  bool keeps = false;        ///< Removes are answered "not now".
  bool keeps_badly = false;  ///< Removes fail with an answer that makes no sense.
  bool slow = false;
};

/// A worker without threads, sockets and engine, which keeps the promises of lib/work/orders.h: it
/// journals before it acts, fences generations and tenants, ends what is past its time by itself,
/// tells ends, and takes back or removes what its journal does not know. Between any two of its
/// steps its process may end; journal and engine stay.
class SimWorker {
 public:
  using Answer = Result<SandboxState>;
  using Done = std::function<void(const Answer&)>;

  /// `soon`: something ended, a heartbeat should tell.
  SimWorker(Scene& scene, WorkerSetup setup, std::function<void()> soon,
            std::function<void()> restarted);

  const std::string& id() const { return setup_.id; }
  WorkerSetup& setup() { return setup_; }
  EngineFaults& faults() { return faults_; }
  const EngineFaults& faults() const { return faults_; }
  bool up() const { return up_; }
  std::uint64_t incarnation() const { return incarnation_; }
  WallTime up_since() const { return up_since_; }
  /// When it was last told another end of a sandbox's time: one that is over by then counts from
  /// there on.
  WallTime renewed_at(const std::string& sandbox) const {
    const auto found = renewed_at_.find(sandbox);
    return found == renewed_at_.end() ? WallTime{} : found->second;
  }
  const std::map<std::string, EngineObject>& engine() const { return engine_; }
  const std::map<std::string, store::JournalRow>& journal() const { return journal_; }

  void deliver(const wire::Delivery& delivery, Done done);
  std::vector<SandboxReport> inventory() const;
  void inventory_read();
  std::string heartbeat_body() const;

  void start();
  void stop();
  /// The process ends and comes back by itself.
  void restart();
  void lose_journal();
  /// The engine's own trouble: a sandbox dies, or vanishes without a trace.
  void kill_object(const std::string& sandbox, bool vanish);

 private:
  enum class Kind : std::uint8_t { kCreate, kRemove, kOther };
  struct Job {
    Kind kind = Kind::kOther;
    std::function<void()> run;
    Done done{};
  };
  struct Lane {
    Kind running = Kind::kOther;
    bool stop = false;
    Done done{};
    std::deque<Job> waiting{};
  };
  struct Orphan {
    SandboxReport report;
    WallTime seen{};
    std::optional<WallTime> told{};
  };

  /// The next step of this process, unless it ends before.
  void step(milliseconds delay, std::function<void()> work);
  void every(milliseconds interval, std::function<void()> work);
  void add(const std::string& sandbox, Job job);
  void start_next(const std::string& sandbox);
  void finish(const std::string& sandbox, const Answer& answer);

  const store::JournalRow* row_of(const std::string& sandbox) const;
  void put(store::JournalRow row);
  std::int64_t live() const;
  void create(const wire::Delivery& delivery);
  void begin_create(const wire::Delivery& delivery);
  void build(const wire::Delivery& delivery, const std::optional<store::JournalRow>& before);
  void undo_create(const wire::Delivery& delivery, const std::optional<store::JournalRow>& before,
                   const Error& error);
  void place_object(const wire::Delivery& delivery);
  void remove(const wire::Delivery& delivery);
  Answer renew(const wire::Delivery& delivery);
  void end(store::JournalRow row, const std::string& reason, Done then);
  void add_end(const store::JournalRow& row, const std::string& reason);
  std::optional<Error> remove_object(const std::string& sandbox, const std::string& reason);

  void adopt();
  void adopt_row(const store::JournalRow& row, const SandboxReport* report);
  void sweep();
  void reconcile();
  void compare_row(const store::JournalRow& row, const SandboxReport* report);
  void compare_report(const SandboxReport& report);
  void remove_rest(const std::string& sandbox);
  void name_orphan(const std::string& sandbox);
  std::map<std::string, SandboxReport> list() const;

  Scene& scene_;
  WorkerSetup setup_;
  std::function<void()> soon_;
  std::function<void()> restarted_;
  EngineFaults faults_;
  bool up_ = false;
  std::uint64_t incarnation_ = 0;
  WallTime up_since_{};
  std::map<std::string, WallTime> renewed_at_;

  // These two outlive the process.
  std::map<std::string, store::JournalRow> journal_;
  std::map<std::string, EngineObject> engine_;

  std::map<std::string, Lane> lanes_;
  std::map<std::string, Orphan> orphans_;
  std::map<std::string, WallTime> retry_at_;
};

}  // namespace sandboxkit::model
