#include "agent/asking.h"

#include "audit/key.h"
#include "base/random.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::agent {
namespace {

/// A request waits for so many answers at most: each "once" of its equals lets one of them through.
constexpr int kMaxRounds = 64;
/// Mode or tree became another one while a person was asked: it is judged again.
constexpr const char* kChanged = "changed";
constexpr std::size_t kPromptIdChars = 26;

bool allows(PromptChoice choice) {
  switch (choice) {
    case PromptChoice::kOnce:
    case PromptChoice::kSession:
    case PromptChoice::kAlwaysThis:
    case PromptChoice::kAlwaysFolder:
    case PromptChoice::kContinue:
      return true;
    case PromptChoice::kNo:
    case PromptChoice::kNoForSession:
    case PromptChoice::kStop:
      return false;
  }
  return false;
}

bool is_open(const GateItemDecision& item) { return item.answer == GateAnswer::kAsk; }

/// What was open is answered.
void answer(GateDecision& decision, GateAnswer answer, GateBranch branch,
            const std::string& reason) {
  for (GateItemDecision& item : decision.items) {
    if (is_open(item)) {
      item.answer = answer;
      item.branch = branch;
      item.reason = reason;
    }
  }
  decision.decisive.answer = answer;
  decision.decisive.branch = branch;
  decision.decisive.reason = reason;
  decision.answer = answer;
}

}  // namespace

void Ticket::settle(gate::Settlement settlement) {
  const std::lock_guard lock(mutex_);
  settlement_ = std::move(settlement);
  settled_.notify_all();
}

std::optional<gate::Settlement> Ticket::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, std::move(stop), [this] { return settlement_.has_value(); });
  return settlement_;
}

GateOutcome Asking::run() {
  const auto number = core_.state.with([](Core::State& state) { return ++state.requests; });
  request_id_ = "r" + std::to_string(number);
  for (int i = 0; i < kMaxRounds; ++i) {
    if (auto outcome = round()) {
      return std::move(*outcome);
    }
  }
  return refuse_unseen("changes");
}

std::optional<GateOutcome> Asking::round() {
  const auto stopped = core_.state.with([this](const Core::State& state) {
    mode_ = state.mode;
    return state.desk.stopped();
  });
  if (!stopped.empty()) {
    return refuse_unseen(stopped);
  }
  const WallTime now = core_.parts.clock.now();
  const auto bench = session_.bench(now);
  if (!bench) {
    return refuse_unseen(bench.error().reason.empty() ? "cannot_see" : bench.error().reason);
  }
  mode_ = bench->mode;
  GateDecision decision =
      bench->gate->decide(judging_.request, bench->grants, judging_.eyes, now, bench->objects);
  if (!decision.judged) {
    return GateOutcome{std::move(decision)};
  }
  if (decision.answer != GateAnswer::kAsk) {
    return conclude(std::move(decision));
  }
  return ask(*bench, std::move(decision));
}

std::optional<GateOutcome> Asking::ask(const AgentSession::Impl::Bench& bench,
                                       GateDecision decision) {
  gate_ = bench.gate;
  principal_ = bench.session;
  const std::string digest =
      "sha256:" + audit::sha256_hex(gate::canonical_text(judging_.request, decision));
  if (digest == allowed_digest_ && bench.session.tree_identity == allowed_tree_) {
    answer(decision, GateAnswer::kAllow, GateBranch::kSessionGrant, "granted");
    return conclude(std::move(decision));
  }
  const gate::Question question{*bench.gate, judging_.request, decision, bench.session};
  const gate::DeskStep step = next_step(question, digest, bench.generation);
  std::optional<gate::Settlement> settlement;
  switch (step.next) {
    case gate::DeskNext::kDenied:
      return refuse(std::move(decision), step.reason);
    case gate::DeskNext::kPass:
      answer(decision, GateAnswer::kAllow, GateBranch::kAsk, "allowed_once");
      return conclude(std::move(decision));
    case gate::DeskNext::kAgain:
      return std::nullopt;
    case gate::DeskNext::kAsk:
      settlement = put_to_person(step, decision);
      break;
    case gate::DeskNext::kWait:
      settlement = wait_for(step.id);
      break;
  }
  if (!settlement) {
    return refuse(std::move(decision), "cancelled");
  }
  if (settlement->ruling == gate::Ruling::kDenied) {
    return refuse(std::move(decision), settlement->reason);
  }
  // Judged again, as much may have changed while a person thought about it.
  if (settlement->ruling == gate::Ruling::kAllowed) {
    allowed_digest_ = digest;
    allowed_tree_ = bench.session.tree_identity;
  }
  return std::nullopt;
}

gate::DeskStep Asking::next_step(const gate::Question& question, const std::string& digest,
                                 std::uint64_t generation) {
  const std::string id = "p_" + system_random().text(kPromptIdChars, kBase36);
  const WallTime now = core_.parts.clock.now();
  return core_.state.with([&](Core::State& state) {
    gate::DeskStep step = state.desk.step({question, digest, id, generation}, now);
    if (step.next == gate::DeskNext::kAsk) {
      state.tickets.emplace(id, std::make_shared<Ticket>());
    }
    return step;
  });
}

/// What it came to for who asked first; a leader that went away leaves nothing to the others.
std::optional<gate::Settlement> Asking::wait_for(const std::string& id) {
  const auto ticket = core_.state.with([&](const Core::State& state) {
    const auto found = state.tickets.find(id);
    return found != state.tickets.end() ? found->second : nullptr;
  });
  if (!ticket) {
    return gate::Settlement{.ruling = gate::Ruling::kAgain};
  }
  auto settlement = ticket->wait(stop_);
  const bool is_leaders_own = settlement && settlement->ruling == gate::Ruling::kDenied &&
                              settlement->reason == "cancelled";
  if (is_leaders_own) {
    settlement->ruling = gate::Ruling::kAgain;
  }
  return settlement;
}

gate::Settlement Asking::put_to_person(const gate::DeskStep& step, const GateDecision& decision) {
  const Prompt& prompt = *step.prompt;
  const Status noted = core_.trail.asked(actor(), prompt, decision);
  Heard heard = noted || (mode_ == PermissionMode::kPrompt && only_reads_files(decision))
                    ? hear(prompt)
                    : Heard{.failure = "audit_unavailable"};
  heard = recorded(prompt, std::move(heard), decision);
  if (heard.reply) {
    keep(prompt, *heard.reply);
  }
  const WallTime now = core_.parts.clock.now();
  auto [settlement, ticket] = core_.state.with([&](Core::State& state) {
    auto settled = heard.reply ? state.desk.settle(*heard.reply, now)
                               : state.desk.give_up(step.id, heard.failure);
    if (settled.reason == kChanged) {
      settled = {gate::Ruling::kAgain, {}};
    }
    auto node = state.tickets.extract(step.id);
    return std::pair(std::move(settled), std::move(node.mapped()));
  });
  ticket->settle(settlement);
  return std::move(settlement);
}

Asking::Heard Asking::hear(const Prompt& prompt) {
  if (core_.parts.handler == nullptr) {
    return {.failure = "no_handler"};
  }
  std::stop_source either;
  const std::stop_callback by_caller(stop_, [&] { either.request_stop(); });
  const std::stop_callback by_end(core_.ended.get_token(), [&] { either.request_stop(); });
  const auto deadline = std::chrono::steady_clock::now() + core_.options.ask_timeout;
  Result<PromptReply> reply = Error{ErrorCode::kInternal, "the handler threw"};
  try {
    reply = core_.parts.handler->ask(prompt, deadline, either.get_token());
  } catch (...) {
    // An embedder's defect is nobody's yes.
    return {.failure = "handler_error"};
  }
  if (either.stop_requested()) {
    return {.failure = "cancelled"};
  }
  const bool is_late = std::chrono::steady_clock::now() > deadline;
  if (is_late || (!reply && reply.error().code == ErrorCode::kDeadlineExceeded)) {
    return {.failure = "timeout"};
  }
  if (!reply) {
    return {.failure = "handler_error"};
  }
  return core_.state.with([&](const Core::State& state) -> Heard {
    const gate::PendingAsk* ask = state.desk.pending(prompt.id);
    if (!state.desk.problem_of(prompt.id, *reply).empty()) {
      return {.failure = "handler_error"};
    }
    return ask->is_void && allows(reply->choice) ? Heard{.failure = kChanged} : Heard{*reply, {}};
  });
}

/// An answer that cannot be written down allows reads, this once, and nothing else.
Asking::Heard Asking::recorded(const Prompt& prompt, Heard heard, const GateDecision& decision) {
  const bool allowed = heard.reply && allows(heard.reply->choice);
  const Status noted = core_.trail.answered(
      actor(), {.prompt = prompt,
                .allows = allowed,
                .reason = heard.reply ? name_of(heard.reply->choice) : heard.failure,
                .by = heard.reply ? heard.reply->by : ""});
  if (!allowed || prompt.kind == PromptKind::kBudget) {
    return heard;
  }
  const bool is_noted = noted && (heard.reply->choice != PromptChoice::kSession ||
                                  record_grant(prompt, *heard.reply));
  if (is_noted) {
    return heard;
  }
  if (mode_ != PermissionMode::kPrompt || !only_reads_files(decision)) {
    return {.failure = "audit_unavailable"};
  }
  heard.reply->choice = PromptChoice::kOnce;
  heard.reply->for_sub_agents = false;
  return heard;
}

gate::Grantable Asking::grantable(const Prompt& prompt) const {
  return core_.state.with([&](const Core::State& state) {
    const gate::PendingAsk* ask = state.desk.pending(prompt.id);
    return ask != nullptr ? ask->grants : gate::Grantable();
  });
}

bool Asking::record_grant(const Prompt& prompt, const PromptReply& reply) {
  return core_.trail
      .given(actor(), {.id = prompt.id,
                       .uses = grantable(prompt).exact,
                       .reason = reply.for_sub_agents ? "session_and_sub_agents" : "session",
                       .by = reply.by})
      .has_value();
}

/// Before the prompt is settled, so that an equal request finds the prompt or the grant. One that
/// cannot be kept allows what was asked, and nothing later.
void Asking::keep(const Prompt& prompt, const PromptReply& reply) {
  const gate::Grantable grants = grantable(prompt);
  const auto& uses = reply.choice == PromptChoice::kAlwaysFolder ? grants.folder : grants.exact;
  const bool is_always =
      reply.choice == PromptChoice::kAlwaysThis || reply.choice == PromptChoice::kAlwaysFolder;
  for (std::size_t i = 0; is_always && i < uses.size(); ++i) {
    const GrantToKeep grant{.use = uses[i],
                            .tree = principal_.tree,
                            .tree_identity = principal_.tree_identity,
                            .agent = session_.agent,
                            .by = reply.by,
                            .request = prompt.digest};
    const auto kept = core_.grants->add(*gate_, grant);
    if (!kept) {
      // A log that fails as well shows when the decision is written.
      static_cast<void>(core_.trail.not_kept(actor(), grant, kept.error()));
    }
  }
}

GateOutcome Asking::refuse(GateDecision decision, const std::string& reason) {
  answer(decision, GateAnswer::kDeny, GateBranch::kAsk, reason);
  return conclude(std::move(decision));
}

/// Denied before anything was judged.
GateOutcome Asking::refuse_unseen(const std::string& reason) {
  GateDecision decision;
  for (const GateItem& item : judging_.request.items) {
    GateItemDecision denied;
    denied.operation = item.operation;
    denied.requested = item.operation == GateOperation::kExec ? item.command : item.target;
    denied.branch = GateBranch::kAsk;
    denied.reason = reason;
    decision.items.push_back(std::move(denied));
  }
  if (decision.items.empty()) {
    decision.items.emplace_back().reason = reason;
  }
  decision.decisive = decision.items.front();
  return conclude(std::move(decision));
}

GateOutcome Asking::conclude(GateDecision decision) {
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - began_);
  const Status noted =
      core_.trail.decided(actor(), {.decision = decision,
                                    .object = judging_.object,
                                    .took_us = static_cast<std::uint64_t>(took.count())});
  GateOutcome outcome{std::move(decision)};
  if (noted || outcome.decision.answer == GateAnswer::kDeny) {
    return outcome;
  }
  // Source: the table of modes, 4.3.
  if (mode_ == PermissionMode::kPrompt && only_reads_files(outcome.decision)) {
    outcome.unaudited = true;
    return outcome;
  }
  for (GateItemDecision& item : outcome.decision.items) {
    item.answer = GateAnswer::kAsk;
  }
  answer(outcome.decision, GateAnswer::kDeny, GateBranch::kAsk, "audit_unavailable");
  return outcome;
}

}  // namespace sandboxkit::agent

namespace sandboxkit {

GateOutcome AgentSession::Impl::judge(const Judging& judging, std::stop_token stop) {
  return agent::Asking(*this, judging, std::move(stop)).run();
}

}  // namespace sandboxkit
