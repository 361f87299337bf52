#include "gate/desk.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace sandboxkit::gate {
namespace {

Settlement denied(std::string reason) { return {Ruling::kDenied, std::move(reason)}; }

DeskStep refused(std::string reason) { return {DeskNext::kDenied, std::move(reason), {}, {}}; }

}  // namespace

WallTime Desk::advance(WallTime now) {
  now_ = std::max(now_, now);
  std::erase_if(passes_, [&](const Pass& pass) { return pass.until <= now_; });
  std::erase_if(asked_at_, [&](WallTime at) { return at + kAskWindow <= now_; });
  const auto over = std::erase_if(
      grants_, [&](const Kept& kept) { return kept.grant.expires && *kept.grant.expires <= now_; });
  generation_ += over > 0 ? 1 : 0;
  return now_;
}

bool Desk::use_pass(const std::string& digest, const std::string& agent) {
  const auto found = std::ranges::find_if(
      passes_, [&](const Pass& pass) { return pass.digest == digest && pass.agent == agent; });
  if (found == passes_.end()) {
    return false;
  }
  passes_.erase(found);
  return true;
}

/// Equal requests of one agent wait for one prompt; while a budget is asked, all of them do.
const std::string* Desk::same_pending(const std::string& digest, const std::string& agent) const {
  for (const auto& [id, ask] : pending_) {
    const bool is_same = ask.prompt.digest == digest && ask.agent == agent;
    if (ask.prompt.kind == PromptKind::kBudget || is_same) {
      return &id;
    }
  }
  return nullptr;
}

DeskStep Desk::step(const Asked& asked, WallTime now) {
  advance(now);
  if (!stopped_.empty()) {
    return refused(stopped_);
  }
  if (asked.generation != generation_) {
    return {DeskNext::kAgain, {}, {}, {}};
  }
  if (refused_.contains(asked.digest)) {
    return refused("refused_before");
  }
  const std::string& agent = asked.question.session.agent;
  if (use_pass(asked.digest, agent)) {
    return {DeskNext::kPass, {}, {}, {}};
  }
  if (const std::string* id = same_pending(asked.digest, agent)) {
    return {DeskNext::kWait, {}, *id, {}};
  }
  return pending_.size() >= kMaxPending ? refused("too_many_asks") : ask(asked);
}

DeskStep Desk::ask(const Asked& asked) {
  const GateSession& session = asked.question.session;
  if (asked_at_.size() >= kMaxAsksInWindow) {
    Prompt prompt = make_budget_prompt(session, asked.id);
    pending_.emplace(asked.id, PendingAsk{prompt, session.agent, {}, false});
    return {DeskNext::kAsk, {}, asked.id, std::move(prompt)};
  }
  Grantable grants = grantable(asked.question);
  auto prompt = make_prompt(
      asked.question, {.id = asked.id, .digest = asked.digest, .can_keep = can_keep_}, grants);
  if (!prompt) {
    return refused("too_large_to_ask");
  }
  asked_at_.push_back(now_);
  pending_.emplace(asked.id, PendingAsk{*prompt, session.agent, std::move(grants), false});
  return {DeskNext::kAsk, {}, asked.id, std::move(prompt)};
}

const PendingAsk* Desk::pending(std::string_view id) const {
  const auto found = pending_.find(id);
  return found != pending_.end() ? &found->second : nullptr;
}

std::string Desk::problem_of(std::string_view id, const PromptReply& reply) const {
  const PendingAsk* ask = pending(id);
  if (ask == nullptr || reply.id != id) {
    return "the reply names another prompt";
  }
  if (reply.digest != ask->prompt.digest) {
    return "the reply names another request";
  }
  const bool is_offered = std::ranges::any_of(
      ask->prompt.offers, [&](const PromptOffer& offer) { return offer.choice == reply.choice; });
  if (!is_offered) {
    return std::string("`") + name_of(reply.choice) + "` was not offered";
  }
  if (reply.for_sub_agents && reply.choice != PromptChoice::kSession) {
    return "only a session's grant goes to sub-agents";
  }
  return {};
}

/// A person said it of one request: it lets one through, however many wait.
Settlement Desk::once(const PendingAsk& ask) {
  if (passes_.size() >= kMaxOnce) {
    passes_.erase(passes_.begin());
  }
  passes_.push_back({ask.prompt.digest, ask.agent, now_ + kOnceLife});
  return {Ruling::kPass, {}};
}

/// What is kept for ever is kept by somebody else, before this.
Settlement Desk::allow(const PendingAsk& ask, const PromptReply& reply) {
  ++generation_;
  if (reply.choice != PromptChoice::kSession) {
    return {Ruling::kAllowed, {}};
  }
  if (grants_.size() + ask.grants.exact.size() > kMaxSessionGrants) {
    return once(ask);
  }
  for (const GrantedUse& use : ask.grants.exact) {
    grants_.push_back({{.id = ask.prompt.id + "." + std::to_string(++next_grant_),
                        .use = use,
                        .session = session_,
                        .agent = ask.agent,
                        .expires = now_ + kSessionGrantLife},
                       reply.for_sub_agents});
  }
  return {Ruling::kAllowed, {}};
}

Settlement Desk::settle(const PromptReply& reply, WallTime now) {
  advance(now);
  const auto found = pending_.find(reply.id);
  if (found == pending_.end()) {
    return denied("handler_error");
  }
  const PendingAsk ask = std::move(found->second);
  pending_.erase(found);
  if (!stopped_.empty()) {
    return denied(stopped_);
  }
  switch (reply.choice) {
    case PromptChoice::kNo:
      return denied("refused");
    case PromptChoice::kNoForSession:
      if (refused_.size() < kMaxRefusals) {
        refused_.insert(ask.prompt.digest);
      }
      return denied("refused");
    case PromptChoice::kOnce:
      return ask.is_void ? Settlement{Ruling::kAgain, {}} : once(ask);
    case PromptChoice::kSession:
    case PromptChoice::kAlwaysThis:
    case PromptChoice::kAlwaysFolder:
      return ask.is_void ? Settlement{Ruling::kAgain, {}} : allow(ask, reply);
    case PromptChoice::kContinue:
      asked_at_.clear();
      return {Ruling::kAgain, {}};
    case PromptChoice::kStop:
      stop("stopped");
      return denied(stopped_);
  }
  return denied("handler_error");
}

Settlement Desk::give_up(std::string_view id, const std::string& reason) {
  if (const auto found = pending_.find(id); found != pending_.end()) {
    pending_.erase(found);
  }
  return denied(stopped_.empty() ? reason : stopped_);
}

bool Desk::descends(const std::string& agent, const std::string& from) const {
  std::string above = agent;
  // Nobody is its own parent: `add_agent` takes new names only.
  for (auto found = parents_.find(above); found != parents_.end(); found = parents_.find(above)) {
    above = found->second;
    if (above == from) {
      return true;
    }
  }
  return false;
}

std::vector<SessionGrant> Desk::grants_of(const std::string& agent, WallTime now) const {
  std::vector<SessionGrant> found;
  for (const Kept& kept : grants_) {
    const bool is_over = kept.grant.expires && *kept.grant.expires <= std::max(now, now_);
    const bool is_its =
        kept.grant.agent == agent || (kept.for_sub_agents && descends(agent, kept.grant.agent));
    if (!is_over && is_its) {
      found.push_back(kept.grant);
      found.back().agent = agent;
    }
  }
  return found;
}

Status Desk::give(const std::string& agent, std::vector<GrantedUse> uses, WallTime now) {
  advance(now);
  if (grants_.size() + uses.size() > kMaxSessionGrants) {
    return Error{ErrorCode::kResourceExhausted,
                 "a session holds at most " + std::to_string(kMaxSessionGrants) + " grants"};
  }
  for (GrantedUse& use : uses) {
    grants_.push_back({{.id = "start." + std::to_string(++next_grant_),
                        .use = std::move(use),
                        .session = session_,
                        .agent = agent,
                        .expires = now_ + kSessionGrantLife},
                       false});
  }
  ++generation_;
  return {};
}

Status Desk::add_agent(const std::string& agent, const std::string& parent) {
  const bool is_taken =
      agent == parent || parents_.contains(agent) ||
      std::ranges::any_of(parents_, [&](const auto& entry) { return entry.second == agent; });
  if (is_taken) {
    return Error{
        ErrorCode::kConflict, "the session has an agent of this name already", {}, "agent"};
  }
  if (parents_.size() >= kMaxAgents) {
    return Error{ErrorCode::kResourceExhausted,
                 "a session has at most " + std::to_string(kMaxAgents) + " agents",
                 {},
                 "agent"};
  }
  parents_.emplace(agent, parent);
  return {};
}

std::vector<std::string> Desk::forget_grants() {
  std::vector<std::string> ids;
  for (Kept& kept : grants_) {
    ids.push_back(std::move(kept.grant.id));
  }
  grants_.clear();
  passes_.clear();
  for (auto& [id, ask] : pending_) {
    ask.is_void = true;
  }
  ++generation_;
  return ids;
}

void Desk::stop(const std::string& reason) {
  forget_grants();
  if (stopped_.empty()) {
    stopped_ = reason;
  }
}

}  // namespace sandboxkit::gate
