#pragma once

#include "sandboxkit/controller.h"

#include "tests/model/model_store.h"
#include "tests/model/scene.h"
#include "tests/model/sim_worker.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit::model {

/// What must hold whatever happens. Rows are looked at after each piece of work that wrote them,
/// engines after each operation, and that everything is explained after a rest.
class Invariants {
 public:
  Invariants(Scene& scene, ModelStore& store, const ControllerConfig& config)
      : scene_(scene), store_(store), config_(config) {}

  // What the world tells.
  void joined(const std::string& id, SimWorker& worker) { workers_[id] = &worker; }
  /// It may be removed from now on; whether it is, its row says.
  void removal_asked(const std::string& id) { removal_asked_.insert(id); }
  void revoked(const std::string& id) { revoked_.insert(id); }
  /// Removed, or shut out: it need not come back.
  bool is_gone(const std::string& id) const { return is_removed(id) || revoked_.contains(id); }
  bool is_removed(const std::string& id) const { return removed_.contains(id); }
  void drains(const std::string& id, WallTime until) { drains_[id].insert(until); }
  /// A caller was told this sandbox for its idempotency key.
  void key_told(const std::string& tenant, const std::string& key, const std::string& sandbox);
  void disturbed(const std::string& id) { disturbed_[id] = scene_.clock.now(); }
  void heard(const std::string& id) { heard_[id] = scene_.clock.now(); }
  void controller_started() { controller_started_ = scene_.clock.now(); }
  void online(const std::string& id, bool online) { online_[id] = online; }
  void renewal_asked(const std::string& id) { ++renewals_asked_[id]; }
  void renewal_told(const std::string& id) { ++renewals_told_[id]; }

  /// The rows that the last piece of work wrote.
  void look_at_rows();
  void look_at_engines();
  /// After a rest: rows, engines, journals, audit, and what callers were told agree.
  void everything_explained();

  const std::map<std::string, store::SandboxRow>& rows() const { return rows_; }

 private:
  struct Seen {
    std::optional<store::WorkerRow> worker{};
    std::vector<store::SandboxRow> live{};
    store::Tx::Use use{};
  };
  Seen read_worker(const std::string& worker);
  void compare_row(const Seen& seen, const store::SandboxRow& row);
  void row_left(const std::string& worker, const std::string& id);
  void became_live(const Seen& seen, const store::SandboxRow& row, bool returned);
  void check_room(const Seen& seen, const store::SandboxRow& row);
  void check_limits(const store::SandboxRow& row);
  void check_use(const std::string& worker, const Seen& seen);
  void check_end(const store::SandboxRow& row, const std::string& before);
  void check_removed_end(const store::SandboxRow& row, const std::string& before);
  bool is_true(const store::SandboxRow& row) const;
  bool is_purged(const std::string& sandbox) const;
  bool is_drained(const std::string& worker) const;
  bool is_lost(const std::string& worker) const;
  void check_time(const SimWorker& worker, const std::string& sandbox, const EngineObject& object);
  void explain_rows(const std::string& worker);
  void explain_engine(const std::string& worker);
  void check_audit();
  void check_callers();
  [[noreturn]] void fail(const char* invariant, const store::SandboxRow& row,
                         const std::string& text) const;

  Scene& scene_;
  ModelStore& store_;
  const ControllerConfig& config_;
  std::map<std::string, SimWorker*> workers_;
  std::set<std::string> removal_asked_;
  std::set<std::string> removed_;
  std::set<std::string> revoked_;
  std::map<std::string, std::set<WallTime>> drains_;
  std::map<std::string, WallTime> disturbed_;
  std::map<std::string, WallTime> heard_;
  std::map<std::string, bool> online_;
  WallTime controller_started_{};
  /// Every row, as it was when it was last looked at.
  std::map<std::string, store::SandboxRow> rows_;
  std::map<std::string, std::set<std::string>> live_of_worker_;
  std::map<std::string, std::string> by_idempotency_key_;
  std::map<std::string, int> renewals_asked_;
  std::map<std::string, int> renewals_told_;
  std::map<std::string, std::int64_t> audit_read_;
  std::map<std::string, std::map<std::string, int>> audit_lines_;  ///< By action and target.
};

}  // namespace sandboxkit::model
