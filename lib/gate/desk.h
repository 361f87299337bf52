#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/gate_grant.h"
#include "sandboxkit/gate_prompt.h"

#include "gate/prompt.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::gate {

/// Source of all of them: design of the permission gate, 4.6.
inline constexpr std::chrono::hours kSessionGrantLife{8};
inline constexpr std::chrono::seconds kOnceLife{60};
inline constexpr std::size_t kMaxAsksInWindow = 10;
inline constexpr std::chrono::minutes kAskWindow{1};
/// Memory that an agent could fill; what does not fit is refused or asked again, never allowed.
inline constexpr std::size_t kMaxSessionGrants = 1024;
inline constexpr std::size_t kMaxRefusals = 4096;
inline constexpr std::size_t kMaxOnce = 64;
inline constexpr std::size_t kMaxPending = 32;
inline constexpr std::size_t kMaxAgents = 256;

/// What is to be done with a request that the gate would ask.
enum class DeskNext : std::uint8_t {
  kDenied,  ///< `reason` says why; nobody is asked.
  kPass,    ///< A person said "once" to exactly this, and this was the use of it.
  kAsk,     ///< `prompt` goes to a person, then `settle` or `give_up`.
  kWait,    ///< Somebody else asks already, under `id`.
  kAgain,   ///< Grants changed since it was judged: judge it again.
};

struct DeskStep {
  DeskNext next = DeskNext::kDenied;
  /// `refused_before`, `stopped`, `too_many_asks`, `too_large_to_ask`.
  std::string reason{};
  std::string id{};
  std::optional<Prompt> prompt{};
};

/// What an answer came to, for everybody who waits for that prompt.
enum class Ruling : std::uint8_t {
  kDenied,   ///< `reason` says why.
  kAllowed,  ///< Exactly this is allowed from now on.
  kPass,     ///< It is allowed one time, to who comes first with exactly this.
  kAgain,    ///< Judge it again: the answer was about something else.
};

struct Settlement {
  Ruling ruling = Ruling::kDenied;
  std::string reason{};
};

/// A request that waits for a person.
struct PendingAsk {
  Prompt prompt;
  /// The agent's name as it is; the prompt has it escaped.
  std::string agent;
  Grantable grants;
  /// Mode or tree became another one while it was open: a yes is about something that is no more.
  bool is_void = false;
};

/// What one session remembers of its questions: grants of the session, answers for once, refusals,
/// prompts that are open, and how often it asked. Pure: time and ids are given.
///
/// Its time never goes back: a clock that is set back makes nothing live longer.
/// Thread-safety: one thread at a time.
class Desk {
 public:
  /// `can_keep`: whether permanent grants may be offered.
  Desk(std::string session, bool can_keep) : session_(std::move(session)), can_keep_(can_keep) {}

  /// `digest` is of the request's `canonical_text`; `id` is a fresh one, for a prompt.
  struct Asked {
    const Question& question;
    std::string digest;
    std::string id;
    /// Of the grants that it was judged by, so that an answer that came meanwhile is seen.
    std::uint64_t generation;
  };
  DeskStep step(const Asked& asked, WallTime now);

  const PendingAsk* pending(std::string_view id) const;
  /// What is wrong with a reply to this prompt; empty when it counts.
  std::string problem_of(std::string_view id, const PromptReply& reply) const;
  /// A reply that counts, to a prompt that is open.
  Settlement settle(const PromptReply& reply, WallTime now);
  /// Nobody answered: `timeout`, `no_handler`, `handler_error`, `cancelled`.
  Settlement give_up(std::string_view id, const std::string& reason);

  /// The grants of an agent: its own, and those of its parents that were given to sub-agents too.
  std::vector<SessionGrant> grants_of(const std::string& agent, WallTime now) const;
  /// Given by the embedding program. Errors: kResourceExhausted.
  Status give(const std::string& agent, std::vector<GrantedUse> uses, WallTime now);
  /// Counts up with every change of what `grants_of` may say.
  std::uint64_t generation() const { return generation_; }
  std::size_t grant_count() const { return grants_.size(); }

  /// Errors: kConflict for a name that is taken, kResourceExhausted.
  Status add_agent(const std::string& agent, const std::string& parent);

  /// The mode or the work tree is another one: grants and answers for once are over. Refusals stay.
  /// Returns the ids of what is over.
  std::vector<std::string> forget_grants();
  /// The session is over, or a person stopped it: whatever it asks is refused.
  void stop(const std::string& reason);
  const std::string& stopped() const { return stopped_; }

 private:
  struct Kept {
    SessionGrant grant;
    bool for_sub_agents;
  };
  struct Pass {
    std::string digest;
    std::string agent;
    WallTime until;
  };
  WallTime advance(WallTime now);
  bool use_pass(const std::string& digest, const std::string& agent);
  const std::string* same_pending(const std::string& digest, const std::string& agent) const;
  DeskStep ask(const Asked& asked);
  bool descends(const std::string& agent, const std::string& from) const;
  Settlement allow(const PendingAsk& ask, const PromptReply& reply);
  Settlement once(const PendingAsk& ask);

  std::string session_;
  bool can_keep_;
  WallTime now_{};
  std::uint64_t generation_ = 0;
  std::uint64_t next_grant_ = 0;
  std::string stopped_;
  std::vector<Kept> grants_;
  std::vector<Pass> passes_;
  std::set<std::string> refused_;
  std::vector<WallTime> asked_at_;
  std::map<std::string, PendingAsk, std::less<>> pending_;
  std::map<std::string, std::string> parents_;
};

}  // namespace sandboxkit::gate
