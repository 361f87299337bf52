#pragma once

#include "sandboxkit/gate.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

enum class PromptKind : std::uint8_t {
  kRequest,  ///< May the agent do this?
  kBudget,   ///< The agent asks very often: may it go on, or is it stopped?
};

/// What a person may answer. Made by default it is a no.
enum class PromptChoice : std::uint8_t {
  kNo,            ///< This time.
  kNoForSession,  ///< And equal requests of this session are refused without being asked.
  kOnce,          ///< This request, one time, within a minute.
  kSession,       ///< Exactly this, until the session ends or for 8 hours.
  kAlwaysThis,    ///< Exactly this, for this tree and this agent.
  kAlwaysFolder,  ///< The same operations on everything in the target's own folder.
  kContinue,      ///< Of a budget: the agent may go on asking.
  kStop,          ///< Of a budget: everything that the session's agents ask is refused from now on.
};

SANDBOXKIT_API const char* name_of(PromptKind kind);
SANDBOXKIT_API const char* name_of(PromptChoice choice);
SANDBOXKIT_API std::optional<PromptChoice> prompt_choice_from(std::string_view name);

/// What the agent asked for, in its own spelling.
struct PromptAsk {
  GateOperation operation = GateOperation::kUnknown;
  /// A path, a variable, an address, or a command word by word.
  std::string text{};
  /// The other path of a rename or link, the text of a symlink.
  std::string to{};
};

/// What it comes to: one line for everything that was judged.
struct PromptItem {
  GateOperation operation = GateOperation::kUnknown;
  /// The canonical path, the program, the variable, the address.
  std::string name{};
  GateAnswer answer = GateAnswer::kDeny;
  std::string reason{};
  std::vector<std::string> via{};
};

/// One answer that is offered, with what it would allow from then on.
struct PromptOffer {
  PromptChoice choice = PromptChoice::kNo;
  std::vector<std::string> grants{};
};

/// A question to a person: a plain value that may travel to wherever the person is.
///
/// Every text in it is one line of UTF-8 without control, direction and invisible characters: those
/// are escaped (`\x1b`, `\u{202e}`), and a backslash is two. Nothing is cut but `untrusted_why`:
/// what is too large to be shown whole is refused and not asked.
/// Limits: 64 asks, 64 items, 32 KiB of text. Source: design of the permission gate, 4.6, B37.
struct Prompt {
  std::string id{};
  PromptKind kind = PromptKind::kRequest;
  /// SHA-256 of the canonical request: an answer names it, and so counts for nothing else.
  std::string digest{};
  std::string session{};
  std::string agent{};
  std::string tree{};
  std::string cwd{};
  std::vector<PromptAsk> asks{};
  std::vector<PromptItem> items{};
  /// The agent's own words. They may lie.
  std::string untrusted_why{};
  std::vector<PromptOffer> offers{};
};

struct PromptReply {
  /// Both are the prompt's.
  std::string id{};
  std::string digest{};
  PromptChoice choice = PromptChoice::kNo;
  /// Of kSession: for agents that this one starts as well.
  bool for_sub_agents = false;
  /// Who answered, for the audit log: `tty:u@host`.
  std::string by{};
};

/// Asks a person. An embedder's own: a terminal, a window, a controller far away.
/// Thread-safety: called from any thread, several prompts at once.
class SANDBOXKIT_API PromptHandler {
 public:
  virtual ~PromptHandler() = default;

  /// Errors: kDeadlineExceeded when nobody answered; any other when nobody could be asked. Both are
  /// a denial, and so is a reply that comes after the deadline, that names another prompt, or that
  /// was not offered.
  /// Blocking: until there is an answer, the deadline, or `stop`; then it returns soon.
  virtual Result<PromptReply> ask(const Prompt& prompt,
                                  std::chrono::steady_clock::time_point deadline,
                                  std::stop_token stop) = 0;
};

/// One line of JSON each, for a peer that carries prompts.
SANDBOXKIT_API std::string to_json(const Prompt& prompt);
SANDBOXKIT_API std::string to_json(const PromptReply& reply);

/// Limits: 256 KiB and those of Prompt; 4 KiB for a reply. Errors: kInvalidArgument, kTooLarge with
/// the field's path; also for a text that is not safe to be shown.
SANDBOXKIT_API Result<Prompt> parse_prompt(std::string_view json);
SANDBOXKIT_API Result<PromptReply> parse_prompt_reply(std::string_view json);

}  // namespace sandboxkit
