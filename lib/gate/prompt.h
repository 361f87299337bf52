#pragma once

#include "sandboxkit/gate.h"
#include "sandboxkit/gate_prompt.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::gate {

inline constexpr std::size_t kMaxPromptLines = 64;
inline constexpr std::size_t kMaxPromptTextBytes = 32 * 1024;
/// The agent's own words are cut: they decide nothing.
inline constexpr std::size_t kMaxWhyBytes = 500;
/// `/srv` is no folder that is offered, `/srv/data` is.
inline constexpr std::size_t kMinFolderDepth = 2;

/// A request that the gate would ask about, with what it said.
struct Question {
  const PermissionGate& gate;
  const GateRequest& request;
  const GateDecision& decision;
  const GateSession& session;
};

/// What the digest of a request is made of: two requests with one text are the same request. A path
/// counts by its canonical name, whatever its spelling; a command, and an operation on two paths,
/// by their exact words and folder.
std::string canonical_text(const GateRequest& request, const GateDecision& decision);

/// What may be granted beyond this once; empty when anything in the request cannot be: an opaque
/// command, a program that was not found, two paths at once, or what `check_new` refuses.
struct Grantable {
  std::vector<GrantedUse> exact{};
  /// For the folder that the target stands in, one step up.
  std::vector<GrantedUse> folder{};
};
Grantable grantable(const Question& question);

/// A grant in words: "read /srv/data/x.csv", escaped.
std::string words_of(const GrantedUse& use);

struct PromptFacts {
  std::string id;
  std::string digest;
  /// Whether anybody keeps permanent grants.
  bool can_keep = false;
};
/// Nothing when it cannot be shown whole.
std::optional<Prompt> make_prompt(const Question& question, const PromptFacts& facts,
                                  const Grantable& grants);
Prompt make_budget_prompt(const GateSession& session, const std::string& id);

}  // namespace sandboxkit::gate
