#include "sandboxkit/gate.h"

#include "base/text.h"
#include "gate/judge.h"
#include "gate/objects.h"
#include "gate/plain_scan.h"

#include <algorithm>
#include <utility>

namespace sandboxkit {
namespace {

constexpr std::size_t kMaxItems = 1024;

std::vector<GateItemDecision> judged(const gate::Judge& judge, const GateRequest& request) {
  if (request.items.empty() || request.items.size() > kMaxItems) {
    return {gate::refused(GateOperation::kUnknown, "", "malformed",
                          "a request has 1 to " + std::to_string(kMaxItems) + " items")};
  }
  std::vector<GateItemDecision> decisions;
  for (const GateItem& item : request.items) {
    if (!item.problem.empty() || item.operation == GateOperation::kUnknown) {
      decisions.push_back(gate::refused(item.operation, item.target, "malformed", item.problem));
    } else if (item.operation == GateOperation::kExec) {
      std::ranges::move(gate::judge_command(judge, request, item), std::back_inserter(decisions));
    } else {
      decisions.push_back(gate::judge_item(judge, request, item));
    }
  }
  return decisions;
}

GateDecision unjudged() {
  GateDecision decision;
  decision.answer = GateAnswer::kAllow;
  decision.judged = false;
  decision.decisive.answer = GateAnswer::kAllow;
  decision.decisive.branch = GateBranch::kAsk;
  decision.decisive.reason = "mode_off";
  return decision;
}

GateDecision decided(PermissionMode mode, const GateGrants::Compiled& grants, WallTime now,
                     const gate::Sight::Needs& needs) {
  if (mode == PermissionMode::kOff) {
    return unjudged();
  }
  gate::Sight sight(needs);
  const gate::Judge judge{needs.rules, grants, mode, now, sight};
  GateDecision decision;
  decision.items = judged(judge, needs.request);
  decision.decisive =
      *std::ranges::min_element(decision.items, std::ranges::less{}, &GateItemDecision::answer);
  decision.answer = decision.decisive.answer;
  return decision;
}

}  // namespace

GateGrants::GateGrants() : compiled_(std::make_shared<Compiled>()) {}
GateGrants::GateGrants(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

PermissionGate::PermissionGate(std::shared_ptr<const Rules> rules, PermissionMode mode)
    : rules_(std::move(rules)), mode_(mode) {}

GateDecision PermissionGate::decide(const GateRequest& request, const GateGrants& grants,
                                    const FileEyes& eyes, WallTime now,
                                    const ProtectedObjects& objects) const {
  // Another gate's objects say nothing of this one's rules.
  const bool are_ours = objects.seen_ != nullptr && objects.seen_->rules == rules_;
  return decided(mode_, *grants.compiled_, now,
                 {.rules = *rules_,
                  .eyes = eyes,
                  .request = request,
                  .narrowing = gate::Narrowing::kIndexed,
                  .objects = are_ours ? &objects.seen_->objects : nullptr});
}

GateDecision gate::PlainScan::decide(const PermissionGate& gate, const GateRequest& request,
                                     const GateGrants& grants, const FileEyes& eyes, WallTime now) {
  return decided(gate.mode_, *grants.compiled_, now,
                 {.rules = *gate.rules_,
                  .eyes = eyes,
                  .request = request,
                  .narrowing = Narrowing::kNone,
                  .objects = nullptr});
}

std::string explain(const GateDecision& decision) {
  if (!decision.judged) {
    return "allowed: the permission mode is off, so nothing was judged.";
  }
  const GateItemDecision& item = decision.decisive;
  std::string text = std::string(name_of(item.answer)) + ": " + name_of(item.operation) + " of " +
                     quoted(item.canonical.empty() ? item.requested : item.canonical) + " by " +
                     name_of(item.branch);
  if (!item.rule.empty()) {
    text += " " + quoted(item.rule);
  }
  if (!item.source.empty()) {
    text += " (" + item.source + ")";
  }
  text += ", " + item.reason;
  for (const std::string& via : item.via) {
    text += ", via " + quoted(via);
  }
  return text + ".";
}

}  // namespace sandboxkit
