#include "sandboxkit/offline.h"

#include "sandboxkit/fleet_index.h"

#include "base/text.h"
#include "json/reader.h"
#include "json/value.h"
#include "policy/egress_check.h"
#include "wire/fleet.h"
#include "wire/unicode_names.h"

#include <utility>

namespace sandboxkit {
namespace {

constexpr json::Limits kPolicyLimits{.max_bytes = 1U << 20, .max_depth = 4, .max_values = 2000};

Error in_document(const char* document, Error error) {
  error.message = std::string(document) + ": " + error.message;
  return error;
}

/// The placement's seed: moved on by the sandboxes that stand on what the tenant may use, so that
/// it follows from the fleet alone, and from nothing of other tenants' workers.
std::uint64_t seed_of(const wire::FleetDocument& fleet, const TenantId& tenant) {
  std::uint64_t seed = fleet.seed;
  for (const WorkerView& worker : fleet.workers) {
    if (worker.scope.serves(tenant)) {
      seed += static_cast<std::uint64_t>(worker.sandboxes);
    }
  }
  return seed;
}

/// Takes from the chosen worker what the sandbox will use.
void apply(FleetIndex& fleet, const PlacementRequest& request, const Placement& placement) {
  WorkerView chosen = *fleet.find(placement.worker());
  chosen.sandboxes += 1;
  chosen.starting += 1;
  chosen.used_cpu_cores += request.cpu_cores;
  chosen.used_memory_mb += request.memory_mb;
  const auto warm = chosen.warm.find(request.image);
  if (warm != chosen.warm.end() && warm->second > 0) {
    warm->second -= 1;
  }
  fleet.put(std::move(chosen));
}

std::string words_of(const policy::EgressAnswer& answer) {
  std::string words = (answer.allowed ? "allow " : "deny  ") + answer.target;
  if (!answer.rule.empty()) {
    words += " by `" + answer.rule + "`";
  }
  words += " (" + answer.reason + ")";
  return answer.message.empty() ? words : words + ": " + answer.message;
}

}  // namespace

Result<std::vector<OfflineDecision>> place_offline(const OfflinePlacement& placement) {
  auto fleet = wire::parse_fleet(placement.fleet);
  if (!fleet) {
    return in_document("fleet", fleet.error());
  }
  const auto request = wire::parse_placement_request(placement.create);
  if (!request) {
    return in_document("create", request.error());
  }
  std::uint64_t seed = seed_of(*fleet, request->tenant);
  FleetIndex index(fleet->policy);
  for (WorkerView& worker : fleet->workers) {
    index.put(std::move(worker));
  }
  const Scheduler scheduler(fleet->policy);
  std::vector<OfflineDecision> decisions;
  for (std::size_t i = 0; i < placement.repeat; ++i) {
    const Decision decision = scheduler.schedule(*request, index, seed);
    const auto* placed = std::get_if<Placement>(&decision);
    decisions.push_back(OfflineDecision{placed != nullptr, json::dump(wire::to_json(decision)),
                                        explain(*request, decision)});
    if (placed != nullptr) {
      apply(index, *request, *placed);
      ++seed;  // One sandbox more on what the tenant may use.
    }
  }
  return decisions;
}

Result<EgressPolicy> parse_egress_policy(std::string_view text) {
  const auto read = json::parse(text, kPolicyLimits);
  if (!read) {
    return read.error();
  }
  const auto value = wire::with_ascii_domains(*read, "");
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  const auto domains = reader.optional_strings("allowed_domains", EgressPolicy::kMaxDomains,
                                               EgressPolicy::kMaxEntryBytes);
  const auto networks = reader.optional_strings("allowed_networks", EgressPolicy::kMaxNetworks,
                                                EgressPolicy::kMaxEntryBytes);
  const bool strict_tls = reader.optional_bool("strict_tls").value_or(false);
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  const std::vector<std::string> none;
  auto policy = EgressPolicy::create(domains ? *domains : none, networks ? *networks : none);
  return policy && strict_tls ? policy->with_strict_tls() : policy;
}

OfflineDecision check_egress_offline(const EgressPolicy& policy,
                                     const OfflineEgressQuestion& question) {
  const policy::EgressAnswer answer = policy::check_egress(
      policy, policy::EgressQuestion{.target = question.target,
                                     .resolved = question.resolved,
                                     .tls_server_name = question.tls_server_name});
  // The target as it was asked, so that a program finds its question again.
  const json::Value line =
      json::Object{{"target", question.target},
                   {"decision", answer.allowed ? "allow" : "deny"},
                   {"rule", answer.rule.empty() ? json::Value() : json::Value(answer.rule)},
                   {"reason", answer.reason}};
  return OfflineDecision{answer.allowed, json::dump(line), words_of(answer)};
}

}  // namespace sandboxkit
