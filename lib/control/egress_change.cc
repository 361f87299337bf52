#include "control/egress_change.h"

#include "control/find.h"
#include "control/refusals.h"
#include "control/secrets.h"
#include "json/reader.h"
#include "store/credentials.h"
#include "wire/unicode_names.h"

#include <utility>

namespace sandboxkit::control {
namespace {

constexpr std::size_t kMaxIdBytes = 64;

std::string text_of(const EgressPolicy& policy) {
  return json::dump(wire::egress_to_json(Egress::walled(policy)));
}

/// What is in force, or was ordered to be.
Result<EgressPolicy> ordered_policy(const store::SandboxRow& row) {
  if (!row.narrowing.empty()) {
    return stored_policy(row.narrowing);
  }
  const auto spec = json::parse(row.spec);
  const json::Value* egress = spec ? spec->find("egress") : nullptr;
  return egress != nullptr ? stored_policy(json::dump(*egress)) : stored_policy("");
}

const std::string& ordered_hash(const store::SandboxRow& row) {
  return row.narrowing.empty() ? row.policy_hash : row.narrowing_hash;
}

Status queue_narrowing(store::Tx& tx, const store::SandboxRow& row, WallTime now,
                       const std::string& trace) {
  if (auto dropped = tx.drop_deliveries(row.id, "narrow"); !dropped) {
    return dropped;
  }
  store::DeliveryRow narrow{0, row.worker, row.id, row.generation, "narrow"};
  narrow.created = narrow.not_before = now;
  narrow.trace = trace;
  return tx.insert(narrow);
}

/// Why the wall cannot be narrowed now; nullopt when it can.
Result<std::optional<net::ApiResponse>> narrowing_refusal(const store::SandboxRow& row,
                                                          const EgressPolicy& policy) {
  if (row.policy_hash.empty()) {
    return std::optional(refuse("cannot_retrofit",
                                "this sandbox was made without a wall, and none can be built "
                                "around it while it runs; record the policy for the next creation",
                                {{"sandbox", row.id}}, "apply"));
  }
  if (is_ended(row.state) || row.state == "stopping") {
    return std::optional(refuse_ended(row));
  }
  const auto current = ordered_policy(row);
  if (!current) {
    return current.error();
  }
  const std::vector<std::string> beyond = policy.beyond(*current);
  if (beyond.empty()) {
    return std::optional<net::ApiResponse>();
  }
  json::Array entries(beyond.begin(), beyond.end());
  return std::optional(refuse("policy_widens",
                              "a running sandbox's policy can only be narrowed, and these entries "
                              "allow more than is in force; record it for the next creation",
                              {{"entries", std::move(entries)}, {"sandbox", row.id}}, "apply"));
}

/// Whether anything had to be ordered.
Result<bool> order_narrowing(store::Tx& tx, const Caller& caller, const EgressPolicy& policy,
                             store::SandboxRow& row, WallTime now) {
  const std::string hash = store::sha256_hex(policy.canonical());
  if (hash == ordered_hash(row)) {
    return false;
  }
  row.narrowing = text_of(policy);
  row.narrowing_hash = hash;
  row.narrowing_state = "pending";
  auto queued = queue_narrowing(tx, row, now, wire::to_text(caller.trace));
  return queued ? Result<bool>(true) : queued.error();
}

}  // namespace

Result<EgressChange> egress_change_from(const json::Value& body) {
  json::Reader reader(body, "");
  const auto apply = reader.optional_string("apply", kMaxIdBytes);
  if (apply && *apply != "now" && *apply != "next_creation") {
    return Error{ErrorCode::kInvalidArgument, "apply must be `next_creation` or `now`",
                 "invalid_argument", "apply"};
  }
  if (body.as_object() == nullptr) {
    return reader.finish().error();
  }
  json::Object policy;
  for (const auto& [name, value] : *body.as_object()) {
    if (name != "apply") {
      policy.emplace_back(name, value);
    }
  }
  const auto ascii = wire::with_ascii_domains(json::Value(std::move(policy)), "");
  auto egress = ascii ? wire::egress_from_json(*ascii, "") : Result<Egress>(ascii.error());
  if (!egress) {
    return egress.error();
  }
  return EgressChange{*egress->policy(), apply == "now"};
}

Status request_egress(const Context& context, store::Tx& tx, const Caller& caller,
                      const EgressChange& change, store::SandboxRow& row,
                      std::optional<net::ApiResponse>& refusal) {
  refusal.reset();
  const WallTime now = context.clock.now();
  auto found = tx.sandbox(caller.tenant, row.id);
  if (!found || !*found) {
    return found ? Status(sandbox_not_found()) : Status(found.error());
  }
  row = std::move(**found);
  if (row.state == "deleted") {
    refusal = refuse_ended(row);
    return {};
  }
  bool changed = false;
  if (change.now) {
    auto why_not = narrowing_refusal(row, change.policy);
    if (!why_not || *why_not) {
      refusal = why_not ? std::move(*why_not) : std::nullopt;
      return why_not ? Status{} : Status(why_not.error());
    }
    auto ordered = order_narrowing(tx, caller, change.policy, row, now);
    if (!ordered) {
      return ordered.error();
    }
    changed = *ordered;
  }
  std::string recorded = text_of(change.policy);
  changed |= recorded != row.next_egress;
  if (!changed) {
    return {};
  }
  row.next_egress = std::move(recorded);
  if (auto written = tx.update_sandbox(row, row.state); !written) {
    return written.error();
  }
  return tx.insert(audit_row(context, caller, "sandbox.egress", row.id));
}

Status align_wall(store::Tx& tx, store::SandboxRow& row, const SandboxReport& report,
                  WallTime now) {
  if (row.state != "running" || report.state != SandboxState::kRunning) {
    return {};
  }
  bool changed = !report.structure.empty() && report.structure != row.structure;
  if (changed) {
    row.structure = report.structure;
  }
  if (!row.narrowing.empty()) {
    const bool in_force = report.policy_hash == row.narrowing_hash;
    const std::string state = in_force ? "in_force" : "pending";
    changed |= row.narrowing_state != state;
    row.narrowing_state = state;
    const auto queued = tx.has_delivery(row.id, "narrow");
    if (!queued) {
      return queued.error();
    }
    if (!in_force && !*queued) {
      if (auto ordered = queue_narrowing(tx, row, now, ""); !ordered) {
        return ordered;
      }
    }
  }
  if (!changed) {
    return {};
  }
  auto written = tx.update_sandbox(row, row.state);
  return written ? Status{} : Status(written.error());
}

Result<json::Value> with_recorded_egress(store::Store& store, const Caller& caller,
                                         json::Value body) {
  const json::Value* egress = body.find("egress");
  if (egress == nullptr || egress->find("recorded_of") == nullptr) {
    return body;
  }
  json::Reader reader(*egress, "egress");
  const std::string id = reader.required_string("recorded_of", kMaxIdBytes);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  auto row = find_sandbox(store, caller, id);
  if (!row) {
    return row.error();
  }
  auto recorded = json::parse(row->next_egress);
  if (row->next_egress.empty() || !recorded) {
    return Error{ErrorCode::kConflict,
                 "no policy was recorded for the next creation of this sandbox",
                 "no_recorded_egress", "egress.recorded_of"};
  }
  json::Object members = *body.as_object();
  for (auto& [name, value] : members) {
    if (name == "egress") {
      value = std::move(*recorded);
    }
  }
  return json::Value(std::move(members));
}

}  // namespace sandboxkit::control
