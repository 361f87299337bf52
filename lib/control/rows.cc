#include "control/rows.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

namespace sandboxkit::control {
namespace {

json::Value time_or_null(const std::optional<WallTime>& time) {
  return time ? json::Value(to_rfc3339(*time)) : json::Value(nullptr);
}

json::Value text_or_null(const std::string& text) {
  return text.empty() ? json::Value(nullptr) : json::Value(text);
}

json::Value member_or_null(const json::Value& object, std::string_view name) {
  const json::Value* found = object.find(name);
  return found == nullptr ? json::Value(nullptr) : *found;
}

/// JSON text of a row that we wrote ourselves.
json::Value stored_json(const std::string& text) {
  auto parsed = json::parse(text);
  return parsed ? std::move(*parsed) : json::Value(nullptr);
}

/// A list that is stored as "" when there is none.
json::Value list_or_null(const std::string& text) {
  return text.empty() ? json::Value(nullptr) : stored_json(text);
}

/// A limit that is stored as a negative number when there is none.
template <typename Number>
json::Value limit_or_null(Number limit) {
  return limit < 0 ? json::Value(nullptr) : json::Value(limit);
}

std::string list_text(const std::vector<std::string>& items) {
  json::Array array(items.begin(), items.end());
  return json::dump(json::Value(std::move(array)));
}

std::set<std::string> stored_set(const std::string& text) {
  std::set<std::string> items;
  const json::Value value = stored_json(text);
  if (const json::Array* array = value.as_array()) {
    for (const json::Value& item : *array) {
      if (const std::string* name = item.as_string()) {
        items.insert(*name);
      }
    }
  }
  return items;
}

std::map<std::string, std::string> stored_map(const std::string& text) {
  std::map<std::string, std::string> items;
  const json::Value value = stored_json(text);
  if (const json::Object* object = value.as_object()) {
    for (const auto& [name, item] : *object) {
      items[name] = item.as_string() == nullptr ? std::string() : *item.as_string();
    }
  }
  return items;
}

/// The policy in a row's text with its hash, and what else the API says of it.
json::Value policy_view(const std::string& text, const json::Object& more) {
  json::Value policy = stored_json(text);
  if (policy.as_object() == nullptr) {
    return nullptr;
  }
  json::Object out = *policy.as_object();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

json::Value drain_view(const store::WorkerRow& row, const store::Tx::Use& use) {
  if (row.state != "draining") {
    return nullptr;
  }
  return json::Object{{"deadline", time_or_null(row.drain_until)},
                      {"remaining", use.sandboxes},
                      {"done", use.sandboxes == 0}};
}

}  // namespace

json::Value sandbox_view(const store::SandboxRow& row) {
  const json::Value spec = stored_json(row.spec);
  const bool narrowed = row.narrowing_state == "in_force";
  return json::Object{
      {"id", row.id},
      {"name", row.name},
      {"workspace", row.tenant},
      {"state", row.state},
      {"image", spec.text("image")},
      {"worker", row.worker},
      {"generation", row.generation},
      {"egress", narrowed ? stored_json(row.narrowing) : member_or_null(spec, "egress")},
      {"policy_hash", narrowed ? row.narrowing_hash : row.policy_hash},
      {"egress_structure", text_or_null(row.structure)},
      {"egress_narrowing",
       policy_view(row.narrowing, {{"policy_hash", row.narrowing_hash}, {"applied", narrowed}})},
      {"egress_recorded", policy_view(row.next_egress, {{"applies", "next_creation"}})},
      {"cpu_cores", row.cpu_cores},
      {"memory_mb", row.memory_mb},
      {"profile", spec.text("profile")},
      {"runtime", spec.text("runtime")},
      {"persistence", spec.text("persistence")},
      {"env", member_or_null(spec, "env")},
      {"metadata", member_or_null(spec, "metadata")},
      {"labels", member_or_null(spec, "labels")},
      {"tolerations", member_or_null(spec, "tolerations")},
      {"created_at", to_rfc3339(row.created)},
      {"started_at", time_or_null(row.started)},
      {"expires_at", to_rfc3339(row.expires)},
      {"ended_at", time_or_null(row.ended)},
      {"reason", row.reason},
  };
}

json::Value key_view(const store::CredentialRow& row) {
  return json::Object{{"id", row.id},
                      {"role", row.role},
                      {"name", row.name},
                      {"max_sandboxes", limit_or_null(row.max_sandboxes)},
                      {"max_cpu_cores", limit_or_null(row.max_cpu_cores)},
                      {"max_memory_mb", limit_or_null(row.max_memory_mb)},
                      {"created_at", to_rfc3339(row.created)},
                      {"expires_at", time_or_null(row.expires)},
                      {"last_used_at", time_or_null(row.last_used)}};
}

json::Value sandbox_token_view(const store::CredentialRow& row) {
  return json::Object{{"id", row.id},
                      {"sandbox", row.sandbox},
                      {"name", row.name},
                      {"created_at", to_rfc3339(row.created)},
                      {"expires_at", time_or_null(row.expires)},
                      {"last_used_at", time_or_null(row.last_used)}};
}

json::Value join_token_view(const store::CredentialRow& row) {
  return json::Object{{"id", row.id},
                      {"workspace", row.tenant},
                      {"name", text_or_null(row.worker)},
                      {"uses_left", row.uses_left},
                      {"capabilities", list_or_null(row.capabilities)},
                      {"networks", list_or_null(row.networks)},
                      {"created_at", to_rfc3339(row.created)},
                      {"expires_at", time_or_null(row.expires)}};
}

json::Value workspace_view(const store::WorkspaceRow& row) {
  return json::Object{{"id", row.id},
                      {"name", row.name},
                      {"max_sandboxes", limit_or_null(row.max_sandboxes)},
                      {"max_cpu_cores", limit_or_null(row.max_cpu_cores)},
                      {"max_memory_mb", limit_or_null(row.max_memory_mb)},
                      {"created_at", to_rfc3339(row.created)}};
}

WallTime last_heard(const store::WorkerRow& row, const Hearing& hearing) {
  return std::max({row.joined, hearing.controller_started, row.last_heartbeat.value_or(WallTime{}),
                   hearing.heard.value_or(WallTime{})});
}

WorkerState seen_state(const store::WorkerRow& row, const Hearing& hearing) {
  if (row.arch.empty() && row.state == "ready") {
    return WorkerState::kUnreachable;  // It joined, and has not yet said what it can.
  }
  const auto silence = hearing.now - last_heard(row, hearing);
  if (!hearing.online && silence > hearing.lost_after) {
    return WorkerState::kLost;
  }
  if (silence > hearing.unreachable_after) {
    return WorkerState::kUnreachable;
  }
  const WorkerState wanted = worker_state_from(row.state).value_or(WorkerState::kCordoned);
  // What its owner wants comes first: a worker that is drained is drained, sick or not.
  return wanted == WorkerState::kReady && !row.problem.empty() ? WorkerState::kUnhealthy : wanted;
}

json::Value worker_view(const store::WorkerRow& row, const store::Tx::Use& use,
                        const Hearing& hearing) {
  return json::Object{
      {"id", row.id},
      {"name", row.name},
      {"workspace", row.tenant},
      {"state", name_of(seen_state(row, hearing))},
      {"connected", hearing.online && !row.arch.empty()},
      {"problem", text_or_null(row.problem)},
      {"drain", drain_view(row, use)},
      {"taints", stored_json(row.taints)},
      {"engine", row.engine},
      {"arch", row.arch},
      {"cpu_cores", row.cpu_cores},
      {"memory_mb", row.memory_mb},
      {"max_sandboxes", row.max_sandboxes},
      {"max_starting", row.max_starting},
      {"sandboxes", use.sandboxes},
      {"used_cpu_cores", use.cpu_cores},
      {"used_memory_mb", use.memory_mb},
      {"capabilities", stored_json(row.capabilities)},
      {"runtimes", stored_json(row.runtimes)},
      {"labels", stored_json(row.labels)},
      {"joined_at", to_rfc3339(row.joined)},
      {"last_heartbeat_at", time_or_null(std::max(row.last_heartbeat, hearing.heard))}};
}

Result<WorkerView> scheduler_view(const store::WorkerRow& row, const store::Tx::Use& use,
                                  const Hearing& hearing) {
  auto id = WorkerId::parse(row.id);
  if (!id) {
    return id.error();
  }
  auto scope = WorkerScope::every_tenant();
  if (!row.tenant.empty()) {
    auto tenant = TenantId::parse(row.tenant);
    if (!tenant) {
      return tenant.error();
    }
    scope = WorkerScope::only(std::move(*tenant));
  }
  WorkerView view{std::move(*id), std::move(scope)};
  const WorkerState seen = seen_state(row, hearing);
  view.state = hearing.online || seen == WorkerState::kLost ? seen : WorkerState::kUnreachable;
  view.capabilities = stored_set(row.capabilities);
  view.labels = stored_map(row.labels);
  view.runtimes = stored_set(row.runtimes);
  view.arch = row.arch;
  view.cpu_cores = row.cpu_cores;
  view.memory_mb = row.memory_mb;
  view.used_cpu_cores = use.cpu_cores;
  view.used_memory_mb = use.memory_mb;
  view.sandboxes = use.sandboxes;
  view.max_sandboxes = row.max_sandboxes;
  view.starting = use.starting;
  view.max_starting = row.max_starting;
  view.images = stored_set(row.images);
  view.taints = stored_set(row.taints);
  return view;
}

void apply_facts(store::WorkerRow& row, const wire::WorkerFacts& facts) {
  row.max_sandboxes = facts.max_sandboxes;
  row.max_starting = facts.max_starting;
  row.problem = facts.problem;
  json::Object labels;
  for (const auto& [name, value] : facts.labels) {
    labels.emplace_back(name, value);
  }
  row.labels = json::dump(json::Value(std::move(labels)));
  if (!facts.problem.empty() && facts.driver.arch.empty()) {
    return;
  }
  row.engine = facts.driver.engine;
  row.arch = facts.driver.arch;
  row.cpu_cores = facts.driver.cpu_cores;
  row.memory_mb = facts.driver.memory_mb;
  auto capabilities = facts.driver.capabilities;
  if (!row.capability_cap.empty()) {
    std::erase_if(capabilities, [most = stored_set(row.capability_cap)](const std::string& each) {
      return !most.contains(each);
    });
  }
  row.capabilities = list_text(capabilities);
  row.runtimes = list_text(facts.driver.runtimes);
  row.images = list_text(facts.driver.images);
}

bool is_ended(const std::string& state) {
  static constexpr std::array<std::string_view, 4> kEnded = {"stopped", "error", "lost", "deleted"};
  return std::find(kEnded.begin(), kEnded.end(), state) != kEnded.end();
}

bool is_waiting_to_run(const std::string& state) {
  return state == "pending" || state == "starting";
}

}  // namespace sandboxkit::control
