#include "policy/isolation_card.h"

#include "base/text.h"
#include "policy/hardening.h"
#include "policy/isolation_card_lines.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::policy {
namespace {

constexpr std::size_t kListedItems = 8;
constexpr const char* kKernelHole = "a hole in that kernel is a hole in the sandbox";

void add_root(const CardFacts& facts, CardLines& lines) {
  const Hardening hardening = hardening_of(facts.spec.profile);
  const std::vector<std::string> kept(hardening.capabilities.begin(), hardening.capabilities.end());
  const bool hardened = facts.spec.profile == HardeningProfile::kHardened;
  std::string statement =
      hardened ? "Not root: its processes run as user 1000 without any capability, and "
                 "no-new-privileges keeps programs of its image from raising them."
               : "Root inside of its container is possible: its image's sudo works, so "
                 "no-new-privileges is off. Of root's capabilities it keeps " +
                     listed(kept) + "; no wall depends on that.";
  lines.push_back({CardTopic::kRoot,
                   std::move(statement),
                   KnownBy::kDeclared,
                   {},
                   {{"profile", std::string(name_of(facts.spec.profile))},
                    {"first_process", std::string(hardening.user)},
                    {"no_new_privileges", hardening.no_new_privileges},
                    {"capabilities", kept}}});
}

void add_files(const CardFacts& facts, CardLines& lines) {
  std::string statement;
  switch (facts.spec.persistence) {
    case Persistence::kEphemeral:
      statement = "No other run shares its files: it writes to a disk of its own, which began as " +
                  quoted(facts.spec.image) + ".";
      break;
    case Persistence::kWorkspace:
      statement =
          "It was ordered with a disk that outlives it; which other runs use that disk is not "
          "recorded.";
      break;
  }
  lines.push_back({CardTopic::kFiles,
                   std::move(statement),
                   KnownBy::kDeclared,
                   {},
                   {{"persistence", std::string(name_of(facts.spec.persistence))},
                    {"image", facts.spec.image}}});
}

/// Of a box the files stay: they are a person's.
std::string what_goes(const CardFacts& facts) {
  return is_agent_mode(facts) ? "its processes and its network"
                              : "its processes, its disk and its network";
}

std::string end_statement(const CardFacts& facts) {
  const std::string reason = facts.reason.empty() ? "" : " (" + facts.reason + ")";
  const std::string record = "The controller keeps its record, environment values included, for " +
                             std::to_string(facts.record_kept.count() / 24) + " days after its end";
  switch (facts.state) {
    case SandboxState::kLost:
      return "Its worker was lost" + reason +
             ": whether it still runs there, and what is left of it, is not known. That worker "
             "ends it by itself at " +
             to_rfc3339(facts.expires) + ". " + record + ".";
    case SandboxState::kStopped:
    case SandboxState::kError:
    case SandboxState::kDeleted:
      return "It ended" + (facts.ended ? " at " + to_rfc3339(*facts.ended) : std::string()) +
             reason + ". Its worker removes " + what_goes(facts) + " with it. " + record + ".";
    case SandboxState::kStopping:
      return "It is being ended" + reason + ": its worker removes " + what_goes(facts) + ". " +
             record + ".";
    case SandboxState::kPending:
    case SandboxState::kStarting:
    case SandboxState::kRunning:
    case SandboxState::kPaused:
      break;
  }
  return "Unless it is renewed it ends at " + to_rfc3339(facts.expires) +
         ": its worker sees to that, also while the controller is away. With it go " +
         what_goes(facts) + (is_agent_mode(facts) ? ". " : ", and what was lent to it. ") + record +
         ".";
}

void add_end(const CardFacts& facts, CardLines& lines) {
  CardLine line{CardTopic::kEnd, end_statement(facts)};
  line.details = {{"state", std::string(name_of(facts.state))},
                  {"expires_at", to_rfc3339(facts.expires)}};
  if (facts.ended) {
    line.details.push_back({"ended_at", to_rfc3339(*facts.ended)});
  }
  lines.push_back(std::move(line));
}

void add_kernel(const CardFacts& facts, CardLines& lines) {
  const std::string& runtime = facts.spec.runtime;
  CardLine kernel{CardTopic::kKernel, ""};
  if (runtime.empty()) {
    kernel.statement =
        "Count on one kernel with its worker: it was ordered with the engine's default runtime, "
        "and which one that is was not told; " +
        std::string(kKernelHole) + ".";
  } else if (shares_kernel(runtime)) {
    kernel.statement = "It shares its worker's kernel (runtime " + quoted(runtime) +
                       "): " + std::string(kKernelHole) + ".";
  } else {
    kernel.statement = "It was ordered with the runtime " + quoted(runtime) +
                       ". What that puts between it and its worker's kernel was not tried.";
  }
  kernel.details = {{"runtime", runtime},
                    {"shared_kernel", std::string(runtime.empty()          ? "assumed"
                                                  : shares_kernel(runtime) ? "yes"
                                                                           : "unknown")}};
  lines.push_back(std::move(kernel));
  lines.push_back({CardTopic::kKernel,
                   "System calls are filtered (seccomp): a list of what may be called, and sockets "
                   "of four families alone: unix, IPv4, IPv6 and netlink.",
                   KnownBy::kDeclared,
                   {},
                   {{"seccomp", std::string("sandboxkit")}}});
  if (facts.worker) {
    const bool every = facts.worker->serves_every_workspace;
    lines.push_back({CardTopic::kKernel,
                     every ? "Its worker runs sandboxes of every workspace beside it."
                           : "Its worker runs sandboxes of this workspace alone.",
                     KnownBy::kDeclared,
                     {},
                     {{"serves_every_workspace", every}}});
  }
}

void add_access(const CardFacts& facts, CardLines& lines) {
  CardLine who{CardTopic::kAccess, ""};
  const std::string members = "Owners and members of the workspace " + quoted(facts.workspace);
  const std::string tokens =
      "who holds a token for it alone" +
      (facts.tokens ? " (tokens that count: " + std::to_string(facts.tokens->size()) + ")"
                    : std::string());
  who.statement = is_over(facts.state)
                      ? members + " may read its record, and so may " + tokens + "."
                      : members + " may open it, and so may " + tokens +
                            "; other workspaces and the operator's credential may not.";
  who.details = {{"workspace", facts.workspace}};
  if (facts.tokens) {
    who.details.push_back({"tokens", *facts.tokens});
  }
  lines.push_back(std::move(who));
  lines.push_back({CardTopic::kAccess,
                   "Who administers its worker's machine or engine can look inside; nothing here "
                   "protects it from them."});
}

/// A statement about a sandbox that does not run now is about what held.
void put_into_the_past(const CardFacts& facts, CardLines& lines) {
  const char* before = facts.state == SandboxState::kLost ? "As last known: "
                       : facts.started                    ? "While it ran: "
                                                          : "As it was ordered: ";
  for (CardLine& line : lines) {
    line.statement = before + line.statement;
  }
}

}  // namespace

const char* name_of(CardTopic topic) {
  switch (topic) {
    case CardTopic::kRoot:
      return "root";
    case CardTopic::kReach:
      return "reach";
    case CardTopic::kWall:
      return "wall";
    case CardTopic::kLeftOpen:
      return "left_open";
    case CardTopic::kSecrets:
      return "secrets";
    case CardTopic::kFiles:
      return "files";
    case CardTopic::kEnd:
      return "end";
    case CardTopic::kKernel:
      return "kernel";
    case CardTopic::kAccess:
      return "access";
  }
  return "";
}

const char* name_of(KnownBy known) {
  switch (known) {
    case KnownBy::kDeclared:
      return "declared";
    case KnownBy::kProbed:
      return "probed";
    case KnownBy::kStructural:
      return "structural";
  }
  return "";
}

bool is_over(SandboxState state) {
  return state == SandboxState::kStopped || state == SandboxState::kError ||
         state == SandboxState::kLost || state == SandboxState::kDeleted;
}

std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kListedItems); ++i) {
    text += (i == 0 ? "" : ", ") + items[i];
  }
  return items.size() <= kListedItems
             ? text
             : text + " and " + std::to_string(items.size() - kListedItems) + " more";
}

std::vector<CardLine> isolation_card(const CardFacts& facts) {
  CardLines lines;
  const bool boxed = is_agent_mode(facts);
  for (const auto add : {boxed ? add_box_root : add_root, add_reach, add_wall, add_left_open,
                         boxed ? add_box_files : add_files, boxed ? add_box_kernel : add_kernel}) {
    add(facts, lines);
  }
  if (is_over(facts.state)) {
    put_into_the_past(facts, lines);
  }
  // These say themselves of when they are.
  for (const auto add : {add_secrets, add_end, add_access}) {
    add(facts, lines);
  }
  std::ranges::stable_sort(lines, {}, &CardLine::topic);
  return lines;
}

}  // namespace sandboxkit::policy
