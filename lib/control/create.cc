#include "control/create.h"

#include "base/fault_point.h"
#include "control/refusals.h"
#include "control/room.h"
#include "control/secrets.h"
#include "store/credentials.h"

#include <utility>
#include <vector>

namespace sandboxkit::control {
namespace {

/// How often the rows may disagree with the roster before a create gives up.
constexpr std::uint64_t kMaxProposals = 64;

/// Names the limit, what is used, and the setting that changes it.
net::ApiResponse refuse_excess(const policy::Excess& excess, const policy::Budget& own) {
  const std::string resource(excess.resource);
  const std::string scope(excess.scope);
  const bool of_deployment =
      scope == "workspace" && (resource == "sandboxes"   ? own.sandboxes < 0
                               : resource == "cpu_cores" ? own.cpu_cores < 0
                                                         : own.memory_mb < 0);
  const std::string setting =
      of_deployment ? "max_" + resource + "_per_workspace" : scope + ".max_" + resource;
  const auto number = [&](double value) {
    return resource == "cpu_cores" ? json::Value(value)
                                   : json::Value(static_cast<std::int64_t>(value));
  };
  return refuse("concurrency_limit",
                "the " + scope + " has reached its limit of " + resource +
                    " at once; end a sandbox, or raise `" + setting + "`",
                {{"resource", resource},
                 {"scope", scope},
                 {"limit", number(excess.limit)},
                 {"used", number(excess.used)},
                 {"setting", setting}});
}

/// Members of this class run inside of one write; `decision_` is what it leaves behind.
class Creation {
 public:
  Creation(Context& context, const CreateOrder& order, store::Tx& tx)
      : context_(context), order_(order), tx_(tx), now_(context.clock.now()) {}

  /// The steps in the order of the document; the first that decides ends it.
  Status run() {
    using Step = Status (Creation::*)();
    for (const Step step : {&Creation::replay_key, &Creation::reuse_name, &Creation::admit,
                            &Creation::place, &Creation::write_rows}) {
      if (auto status = (this->*step)(); !status) {
        return status;
      }
      if (decision_.refusal || decision_.existing) {
        return {};
      }
    }
    return {};
  }

  CreateDecision take() { return std::move(decision_); }
  /// The worker that the roster was told of; empty when none was taken.
  const std::string& worker() const { return worker_; }

 private:
  Status replay_key() {
    if (order_.idempotency_key.empty()) {
      return {};
    }
    auto found = tx_.idempotency(order_.caller.tenant, order_.idempotency_key);
    if (!found) {
      return found.error();
    }
    if (!*found) {
      return {};
    }
    if ((*found)->request_hash != order_.request_hash) {
      decision_.refusal =
          refuse("idempotency_mismatch", "this Idempotency-Key was used with another request");
      return {};
    }
    auto row = tx_.sandbox(order_.caller.tenant, (*found)->sandbox);
    if (!row) {
      return row.error();
    }
    if (*row) {
      decision_.row = std::move(**row);
      decision_.existing = true;
    } else {
      decision_.refusal = refuse(sandbox_not_found());
    }
    return {};
  }

  Status reuse_name() {
    if (order_.spec.name.empty()) {
      return {};
    }
    auto row = tx_.sandbox_by_name(order_.caller.tenant, order_.spec.name);
    if (!row) {
      return row.error();
    }
    if (!*row || is_ended((*row)->state)) {
      return {};
    }
    if ((*row)->state == "stopping") {
      decision_.refusal =
          refuse("name_taken", "the sandbox of this name is being removed; try again",
                 {{"sandbox", (*row)->id}}, "name");
    } else if ((*row)->spec_hash != spec_hash()) {
      decision_.refusal =
          refuse("spec_mismatch",
                 "a sandbox of this name runs with another spec; delete it or take another name",
                 {{"sandbox", (*row)->id}}, "name");
    } else {
      decision_.row = std::move(**row);
      decision_.existing = true;
      return remember_key(decision_.row.id);
    }
    return {};
  }

  Status admit() {
    auto check = check_limits(tx_, context_.config, order_.caller.tenant, order_.caller.credential,
                              {1, order_.spec.cpu_cores, order_.spec.memory_mb});
    if (!check) {
      return check.error();
    }
    if (check->excess) {
      decision_.refusal = refuse_excess(*check->excess, check->own);
    }
    return {};
  }

  /// The roster proposes, the rows decide: what it knows may be older than this transaction.
  Status place() {
    const PlacementRequest request = placement_request(order_.tenant, order_.spec);
    const Scheduler scheduler(context_.config.placement);
    for (std::uint64_t attempt = 0; attempt < kMaxProposals; ++attempt) {
      auto queueing = Roster::Queueing::kNever;
      Decision decision = context_.roster.schedule(request, order_.seed + attempt, queueing);
      if (waits_for_a_start_slot(decision)) {
        // A start slot frees within seconds: the order waits in the worker's queue, where
        // `create_wait` bounds it.
        queueing = Roster::Queueing::kForStartSlot;
        decision = context_.roster.schedule(request, order_.seed + attempt, queueing);
      }
      if (const auto* refusal = std::get_if<Refusal>(&decision)) {
        decision_.refusal = refuse(request, *refusal);
        return {};
      }
      auto taken = take(scheduler, request, std::get<Placement>(decision).worker().str(), queueing);
      if (!taken || *taken) {
        return taken ? Status{} : Status(taken.error());
      }
    }
    decision_.refusal = refuse("overloaded", "the fleet changes faster than it can be read; retry");
    return {};
  }

  /// Whether the rows agree; then the worker is taken. The roster learns what they say either way.
  Result<bool> take(const Scheduler& scheduler, const PlacementRequest& request,
                    const std::string& worker, Roster::Queueing queueing) {
    auto row = tx_.worker(worker);
    auto use = tx_.use_of_worker(worker);
    if (!row || !use) {
      return row ? use.error() : row.error();
    }
    if (!*row) {
      context_.roster.changed(worker);
      return false;
    }
    auto view = scheduler_view(**row, *use, context_.roster.hearing(worker));
    if (!view) {
      return view.error();
    }
    WorkerView judged = *view;
    if (queueing == Roster::Queueing::kForStartSlot) {
      judged.starting = 0;
    }
    const bool fits = !scheduler.refusal_of(request, judged);
    if (fits) {
      worker_ = worker;
      view->sandboxes += 1;
      view->starting += 1;
      view->used_cpu_cores += request.cpu_cores;
      view->used_memory_mb += request.memory_mb;
    }
    context_.roster.put(*view);
    return fits;
  }

  static bool waits_for_a_start_slot(const Decision& decision) {
    const auto* refusal = std::get_if<Refusal>(&decision);
    return refusal != nullptr && refusal->code == RefusalCode::kNoCapacity &&
           refusal->counts.contains(Filter::kStartSlots);
  }

  Status write_rows() {
    store::SandboxRow row;
    row.id = order_.id;
    row.tenant = order_.caller.tenant;
    row.name = order_.spec.name;
    row.worker = worker_;
    row.spec = json::dump(wire::spec_to_json(order_.spec));
    row.spec_hash = spec_hash();
    if (const EgressPolicy* policy = order_.spec.egress.policy()) {
      row.policy_hash = store::sha256_hex(policy->canonical());
    }
    row.cpu_cores = order_.spec.cpu_cores;
    row.memory_mb = order_.spec.memory_mb;
    row.created_by = order_.caller.credential;
    row.created = now_;
    row.expires = now_ + order_.spec.timeout;
    store::DeliveryRow delivery{0, worker_, row.id, row.generation, "create"};
    delivery.created = delivery.not_before = now_;
    delivery.trace = wire::to_text(order_.caller.trace);
    for (const Status& status :
         {tx_.insert(row), lend(row), tx_.insert(delivery), remember_key(row.id),
          tx_.insert(audit_row(context_, order_.caller, "sandbox.create", row.id))}) {
      if (!status) {
        return status;
      }
    }
    decision_.row = std::move(row);
    return {};
  }

  Status lend(const store::SandboxRow& row) {
    return order_.spec.secrets.empty()
               ? Status()
               : insert_secrets(tx_, row, order_.spec.secrets, *context_.secrets_key);
  }

  Status remember_key(const std::string& sandbox) {
    if (order_.idempotency_key.empty()) {
      return {};
    }
    return tx_.insert(store::IdempotencyRow{order_.caller.tenant, order_.idempotency_key,
                                            order_.request_hash, sandbox, now_});
  }

  std::string spec_hash() const { return store::sha256_hex(canonical_text(order_.spec)); }

  Context& context_;
  const CreateOrder& order_;
  store::Tx& tx_;
  WallTime now_;
  std::string worker_;
  CreateDecision decision_;
};

}  // namespace

PlacementRequest placement_request(const TenantId& tenant, const SandboxSpec& spec) {
  PlacementRequest request{tenant, spec.image};
  request.cpu_cores = spec.cpu_cores;
  request.memory_mb = spec.memory_mb;
  request.needs_egress_wall = spec.egress.is_walled();
  request.runtime = spec.runtime;
  request.labels = spec.worker_labels;
  request.tolerations = {spec.tolerations.begin(), spec.tolerations.end()};
  if (!spec.secrets.empty()) {
    request.capabilities.insert("secrets");
  }
  if (spec.persistence == Persistence::kWorkspace) {
    request.capabilities.insert("persistence");
  }
  return request;
}

Result<CreateDecision> decide_create(Context& context, const CreateOrder& order) {
  if (auto fresh = context.roster.refresh(); !fresh) {
    return fresh.error();
  }
  CreateDecision decision;
  std::string proposed;
  const Status written = context.store.write([&](store::Tx& tx) -> Status {
    Creation creation(context, order, tx);
    auto status = creation.run();
    proposed = creation.worker();
    decision = creation.take();
    if (!proposed.empty()) {
      SANDBOXKIT_FAULT_POINT("control.create.before_commit");
    }
    return status;
  });
  if (!written) {
    context.roster.changed(proposed);  // It was told of a sandbox that is not.
    return written.error();
  }
  if (!proposed.empty()) {
    SANDBOXKIT_FAULT_POINT("control.create.committed");
  }
  return decision;
}

Result<store::SandboxRow> abort_create(Context& context, const std::string& tenant,
                                       const std::string& id) {
  store::SandboxRow current;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(context.config.create_wait).count();
  const std::string reason = std::string(kCreateTimeout) + ": the sandbox did not run within " +
                             std::to_string(seconds) + " s and is being removed";
  const Status written = context.store.write([&](store::Tx& tx) -> Status {
    auto found = tx.sandbox(tenant, id);
    if (!found || !*found) {
      return found ? Status(sandbox_not_found()) : Status(found.error());
    }
    current = std::move(**found);
    if (!is_waiting_to_run(current.state)) {
      return {};
    }
    auto begun = begin_removal(tx, current, reason, context.clock.now());
    return begun ? Status{} : Status(begun.error());
  });
  if (!written) {
    return written.error();
  }
  return current;
}

}  // namespace sandboxkit::control
