#include "sandboxkit/placement.h"

#include "base/text.h"
#include "policy/placement_rules.h"

#include <array>
#include <string>
#include <utility>

namespace sandboxkit {
namespace {

constexpr std::array kWorkerStates = {WorkerState::kReady,       WorkerState::kCordoned,
                                      WorkerState::kDraining,    WorkerState::kUnhealthy,
                                      WorkerState::kUnreachable, WorkerState::kLost};

/// What the filter found, said of `count` workers: "3 are not ready".
const char* phrase_of(Filter filter) {
  switch (filter) {
    case Filter::kTenant:
      return "serve another workspace";
    case Filter::kCapability:
      return "lack a capability that it needs";
    case Filter::kRuntime:
      return "lack its runtime";
    case Filter::kArch:
      return "have another architecture";
    case Filter::kTaint:
      return "have a taint that it does not tolerate";
    case Filter::kLabels:
      return "lack its labels";
    case Filter::kSize:
      return "are smaller than what it asks for";
    case Filter::kState:
      return "are not ready";
    case Filter::kSandboxCap:
      return "hold as many sandboxes as they may";
    case Filter::kCpu:
      return "have too few cores free";
    case Filter::kMemory:
      return "have too little memory free";
    case Filter::kStartSlots:
      return "are starting as many sandboxes as they may";
  }
  return "were passed over";
}

std::string percent(double share) {
  return std::to_string(static_cast<int>(share * 100 + 0.5)) + " %";
}

std::string explain_placement(const Placement& placement) {
  std::string text = "placed on worker " + quoted(placement.worker().str());
  if (placement.scores().empty()) {
    return text + ".";
  }
  const Score& best = placement.scores().front();
  text += best.own ? ": the workspace's own" : ": of the unscoped fleet";
  text += best.warm            ? ", a warm sandbox waits there"
          : best.image_present ? ", it has the image"
                               : ", it lacks the image";
  text += ", " + percent(best.load) + " of it in use then";
  return text + "; " + std::to_string(placement.scores().size()) + " candidate(s) were scored.";
}

using policy::kTolerationPrefix;

std::string explain_refusal(const PlacementRequest& request, const Refusal& refusal) {
  std::string text;
  if (refusal.code == RefusalCode::kNoCapacity) {
    text = refusal.counts.empty()
               ? "no worker has joined that workspace " + quoted(request.tenant.str()) +
                     " may use: join one, then try again"
               : "workers could run this, but none has room now";
  } else if (refusal.missing.starts_with(kTolerationPrefix)) {
    text = "every worker that workspace " + quoted(request.tenant.str()) +
           " may use has the taint " + quoted(refusal.missing.substr(kTolerationPrefix.size())) +
           ": tolerate it, or join a worker without it";
  } else if (!refusal.missing.empty()) {
    text = "no worker that workspace " + quoted(request.tenant.str()) + " may use offers " +
           quoted(refusal.missing) + ": ask for less, or join a worker that has it";
  } else {
    text = "no worker that workspace " + quoted(request.tenant.str()) +
           " may use offers all that this asks for together: ask for less, or join one that does";
  }
  const char* separator = "; of those it may use, ";
  for (const auto& [filter, count] : refusal.counts) {
    text += separator + std::to_string(count) + " " + phrase_of(filter);
    separator = ", ";
  }
  if (refusal.retry_after) {
    text += "; retry after " + std::to_string(refusal.retry_after->count()) + " s";
  }
  return text + ".";
}

}  // namespace

const char* name_of(WorkerState state) {
  switch (state) {
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kCordoned:
      return "cordoned";
    case WorkerState::kDraining:
      return "draining";
    case WorkerState::kUnhealthy:
      return "unhealthy";
    case WorkerState::kUnreachable:
      return "unreachable";
    case WorkerState::kLost:
      return "lost";
  }
  return "unknown";
}

std::string worker_state_names() {
  std::string names;
  for (const WorkerState state : kWorkerStates) {
    names += (names.empty() ? "" : ", ") + std::string(name_of(state));
  }
  return names;
}

Result<WorkerState> worker_state_from(std::string_view name) {
  for (const WorkerState state : kWorkerStates) {
    if (name == name_of(state)) {
      return state;
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               "state " + quoted(name) + " is none of " + worker_state_names(),
               {},
               "state"};
}

const char* name_of(Filter filter) {
  switch (filter) {
    case Filter::kTenant:
      return "tenant";
    case Filter::kCapability:
      return "capability";
    case Filter::kRuntime:
      return "runtime";
    case Filter::kArch:
      return "arch";
    case Filter::kTaint:
      return "taint";
    case Filter::kLabels:
      return "labels";
    case Filter::kSize:
      return "size";
    case Filter::kState:
      return "state";
    case Filter::kSandboxCap:
      return "sandbox_cap";
    case Filter::kCpu:
      return "cpu";
    case Filter::kMemory:
      return "memory";
    case Filter::kStartSlots:
      return "start_slots";
  }
  return "unknown";
}

const char* name_of(RefusalCode code) {
  switch (code) {
    case RefusalCode::kCapabilityUnavailable:
      return "worker_capability_unavailable";
    case RefusalCode::kNoCapacity:
      return "no_capacity";
  }
  return "unknown";
}

int status_of(RefusalCode code) {
  switch (code) {
    case RefusalCode::kCapabilityUnavailable:
      return 409;
    case RefusalCode::kNoCapacity:
      return 503;
  }
  return 500;
}

std::string explain(const PlacementRequest& request, const Decision& decision) {
  if (const auto* placement = std::get_if<Placement>(&decision)) {
    return explain_placement(*placement);
  }
  return explain_refusal(request, *std::get_if<Refusal>(&decision));
}

}  // namespace sandboxkit
