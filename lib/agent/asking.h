#pragma once

#include "agent/core.h"

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace sandboxkit::agent {

/// One request on its way through gate, desk and person.
class Asking {
 public:
  using Judging = AgentSession::Impl::Judging;

  Asking(AgentSession::Impl& session, const Judging& judging, std::stop_token stop)
      : session_(session), core_(*session.core), judging_(judging), stop_(std::move(stop)) {}

  GateOutcome run();

 private:
  std::optional<GateOutcome> round();
  std::optional<GateOutcome> ask(const AgentSession::Impl::Bench& bench, GateDecision decision);
  gate::DeskStep next_step(const gate::Question& question, const std::string& digest,
                           std::uint64_t generation);
  std::optional<gate::Settlement> wait_for(const std::string& id);
  gate::Settlement put_to_person(const gate::DeskStep& step, const GateDecision& decision);
  /// The reply, or why there is none that counts.
  struct Heard {
    std::optional<PromptReply> reply{};
    std::string failure{};
  };
  Heard hear(const Prompt& prompt);
  Heard recorded(const Prompt& prompt, Heard heard, const GateDecision& decision);
  bool record_grant(const Prompt& prompt, const PromptReply& reply);
  gate::Grantable grantable(const Prompt& prompt) const;
  void keep(const Prompt& prompt, const PromptReply& reply);

  GateOutcome conclude(GateDecision decision);
  GateOutcome refuse(GateDecision decision, const std::string& reason);
  GateOutcome refuse_unseen(const std::string& reason);
  Actor actor() const { return {session_.agent, mode_, request_id_}; }

  AgentSession::Impl& session_;
  Core& core_;
  const Judging& judging_;
  const std::stop_token stop_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::string request_id_;
  PermissionMode mode_ = PermissionMode::kStrict;
  std::shared_ptr<const PermissionGate> gate_;
  GateSession principal_{};
  /// What a person allowed for everybody who waited.
  std::string allowed_digest_;
  FileIdentity allowed_tree_{};
};

}  // namespace sandboxkit::agent
