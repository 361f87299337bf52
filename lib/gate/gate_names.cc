#include "sandboxkit/gate.h"
#include "sandboxkit/gate_prompt.h"

#include "base/text.h"

#include <array>
#include <string>

namespace sandboxkit {
namespace {

constexpr std::array kOperationNames = {
    "read", "list", "stat",    "write", "create", "delete", "meta",   "rename", "link",   "symlink",
    "exec", "env",  "connect", "unix",  "listen", "signal", "ptrace", "mount",  "device", "unknown",
};
static_assert(kOperationNames.size() == static_cast<std::size_t>(GateOperation::kUnknown) + 1);

constexpr std::array kChoiceNames = {
    "no", "no_for_session", "once", "session", "always_this", "always_folder", "continue", "stop",
};
static_assert(kChoiceNames.size() == static_cast<std::size_t>(PromptChoice::kStop) + 1);

}  // namespace

const char* name_of(GateOperation operation) {
  const auto index = static_cast<std::size_t>(operation);
  return index < kOperationNames.size() ? kOperationNames[index] : "unknown";
}

Result<GateOperation> gate_operation_from(std::string_view name) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(GateOperation::kUnknown); ++i) {
    if (name == kOperationNames[i]) {
      return static_cast<GateOperation>(i);
    }
  }
  return Error{
      ErrorCode::kInvalidArgument, quoted(name) + " is no operation of the gate", {}, "op"};
}

const char* name_of(GateBranch branch) {
  switch (branch) {
    case GateBranch::kHardlock:
      return "hardlock";
    case GateBranch::kMandatoryDenial:
      return "mandatory_denial";
    case GateBranch::kWorkTree:
      return "work_tree";
    case GateBranch::kPermanentGrant:
      return "permanent_grant";
    case GateBranch::kSessionGrant:
      return "session_grant";
    case GateBranch::kAsk:
      return "ask";
  }
  return "unknown";
}

const char* name_of(GateAnswer answer) {
  switch (answer) {
    case GateAnswer::kDeny:
      return "deny";
    case GateAnswer::kAsk:
      return "ask";
    case GateAnswer::kAllow:
      return "allow";
  }
  return "deny";
}

const char* name_of(PermissionMode mode) {
  switch (mode) {
    case PermissionMode::kOff:
      return "off";
    case PermissionMode::kPrompt:
      return "prompt";
    case PermissionMode::kStrict:
      return "strict";
  }
  return "unknown";
}

Result<PermissionMode> permission_mode_from(std::string_view name) {
  for (const auto mode : {PermissionMode::kOff, PermissionMode::kPrompt, PermissionMode::kStrict}) {
    if (name == name_of(mode)) {
      return mode;
    }
  }
  return Error{
      ErrorCode::kInvalidArgument, quoted(name) + " is none of off, prompt, strict", {}, "mode"};
}

const char* name_of(PromptKind kind) {
  switch (kind) {
    case PromptKind::kRequest:
      return "request";
    case PromptKind::kBudget:
      return "budget";
  }
  return "unknown";
}

const char* name_of(PromptChoice choice) {
  const auto index = static_cast<std::size_t>(choice);
  return index < kChoiceNames.size() ? kChoiceNames[index] : "unknown";
}

std::optional<PromptChoice> prompt_choice_from(std::string_view name) {
  for (std::size_t i = 0; i < kChoiceNames.size(); ++i) {
    if (name == kChoiceNames[i]) {
      return static_cast<PromptChoice>(i);
    }
  }
  return std::nullopt;
}

}  // namespace sandboxkit
