#include "agent/trail.h"

#include "gate/operations.h"
#include "gate/prompt.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::agent {
namespace {

audit::Verdict verdict_of(GateAnswer answer) {
  switch (answer) {
    case GateAnswer::kDeny:
      return audit::Verdict::kDeny;
    case GateAnswer::kAsk:
      return audit::Verdict::kAsk;
    case GateAnswer::kAllow:
      return audit::Verdict::kAllow;
  }
  return audit::Verdict::kDeny;
}

std::vector<audit::Item> items_of(const GateDecision& decision) {
  std::vector<audit::Item> items;
  for (const GateItemDecision& judged : decision.items) {
    items.push_back({.operation = name_of(judged.operation),
                     .requested = judged.requested,
                     .canonical = judged.canonical});
  }
  return items;
}

std::vector<audit::Item> items_of(const std::vector<GrantedUse>& uses) {
  std::vector<audit::Item> items;
  for (const GrantedUse& use : uses) {
    for (const GateOperation operation : use.operations) {
      items.push_back({.operation = name_of(operation), .requested = use.target, .argv = use.argv});
    }
  }
  return items;
}

}  // namespace

bool only_reads_files(const GateDecision& decision) {
  return !decision.items.empty() &&
         std::ranges::all_of(decision.items, gate::only_reads, &GateItemDecision::operation);
}

audit::Record Trail::record(audit::Kind kind, const Actor& actor) const {
  // Of a grant it would be read as the generation of the permanent ones.
  const bool is_of_grants = kind == audit::Kind::kGrant || kind == audit::Kind::kRevoke;
  return {.kind = kind,
          .session = session_,
          .agent = actor.agent,
          .request = actor.request,
          .policy_generation = is_of_grants ? std::nullopt : std::optional(generation_),
          .mode = name_of(actor.mode),
          .box = {box_.id, box_.backend, box_.strength}};
}

Status Trail::policy_loaded(const Actor& actor) {
  audit::Record record = this->record(audit::Kind::kPolicyLoad, actor);
  record.source = source_;
  return writer_.write(record);
}

Status Trail::mode_set(const Actor& actor) {
  return writer_.write(record(audit::Kind::kMode, actor));
}

Status Trail::decided(const Actor& actor, const Concluded& concluded) {
  const GateItemDecision& decisive = concluded.decision.decisive;
  audit::Record record = this->record(audit::Kind::kDecision, actor);
  record.items = items_of(concluded.decision);
  if (concluded.object && !record.items.empty()) {
    record.items.front().device = concluded.object->device;
    record.items.front().inode = concluded.object->inode;
  }
  record.decision = verdict_of(concluded.decision.answer);
  record.branch = name_of(decisive.branch);
  record.reason = decisive.reason;
  record.source = decisive.source;
  const bool by_grant = decisive.reason == "granted";
  (by_grant ? record.grant : record.rule) = decisive.rule;
  record.duration_us = concluded.took_us;
  return writer_.write(record);
}

Status Trail::asked(const Actor& actor, const Prompt& prompt, const GateDecision& decision) {
  audit::Record record = this->record(audit::Kind::kAsk, actor);
  record.items = items_of(decision);
  record.decision = audit::Verdict::kAsk;
  record.rule = prompt.digest;
  record.source = prompt.id;
  record.reason = prompt.kind == PromptKind::kBudget ? "budget" : decision.decisive.reason;
  return writer_.write(record);
}

Status Trail::answered(const Actor& actor, const Answer& answer) {
  audit::Record record = this->record(audit::Kind::kAnswer, actor);
  record.decision = answer.allows ? audit::Verdict::kAllow : audit::Verdict::kDeny;
  record.rule = answer.prompt.digest;
  record.source = answer.prompt.id;
  record.reason = answer.reason;
  record.by = answer.by;
  return writer_.write(record);
}

Status Trail::given(const Actor& actor, const Given& given) {
  audit::Record record = this->record(audit::Kind::kGrant, actor);
  record.items = items_of(given.uses);
  record.grant = given.id;
  record.reason = given.reason;
  record.by = given.by;
  return writer_.write(record);
}

Status Trail::not_kept(const Actor& actor, const GrantToKeep& grant, const Error& why) {
  audit::Record record = this->record(audit::Kind::kGrant, actor);
  record.items = items_of(std::vector{grant.use});
  record.decision = audit::Verdict::kDeny;
  record.rule = why.message;
  record.reason = "not_kept";
  record.by = grant.by;
  return writer_.write(record);
}

Status Trail::taken_back(const Actor& actor, const std::string& why) {
  audit::Record record = this->record(audit::Kind::kRevoke, actor);
  record.reason = why;
  return writer_.write(record);
}

}  // namespace sandboxkit::agent
