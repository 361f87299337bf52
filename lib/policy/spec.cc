#include "sandboxkit/sandbox_spec.h"

#include "base/text.h"
#include "policy/lent_secret.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <string_view>

namespace sandboxkit {
namespace {

constexpr std::size_t kMaxRuntimeBytes = 64;
/// Ids are `i` and 20 characters: a name of that shape could shadow another sandbox's id.
constexpr std::size_t kIdBytes = 21;

Error invalid(std::string field, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), {}, std::move(field)};
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_made_of(std::string_view text, std::string_view punctuation) {
  return !text.empty() && is_alphanumeric(text.front()) && std::ranges::all_of(text, [&](char c) {
    return is_alphanumeric(c) || punctuation.find(c) != std::string_view::npos;
  });
}

bool looks_like_an_id(std::string_view name) {
  return name.size() == kIdBytes && name.front() == 'i' && std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

Status check_name(const SandboxSpec& spec) {
  if (spec.name.empty()) {
    return {};
  }
  if (spec.name.size() > SandboxSpec::kMaxNameBytes || !is_made_of(spec.name, "._-")) {
    return invalid("name", "name " + quoted(spec.name) +
                               " must be 1 to 63 letters, digits, `.`, `_` or `-`, the first one a "
                               "letter or a digit");
  }
  if (looks_like_an_id(spec.name)) {
    return invalid("name", "name " + quoted(spec.name) + " has the shape of a sandbox's id");
  }
  return {};
}

Status check_image(const SandboxSpec& spec) {
  if (spec.image.empty()) {
    return invalid("image", "image is required");
  }
  if (spec.image.size() > SandboxSpec::kMaxImageBytes || !is_made_of(spec.image, "._-/:@")) {
    return invalid("image", "image " + quoted(spec.image) +
                                " must be `repository[:tag]` or an image id, at most 255 bytes");
  }
  return {};
}

Status check_numbers(const SandboxSpec& spec) {
  // Written so that a NaN is refused.
  if (!(spec.cpu_cores > 0 && spec.cpu_cores <= SandboxSpec::kMaxCpuCores)) {
    return invalid("cpu_cores", "cpu_cores must be above 0 and at most 1024");
  }
  if (spec.memory_mb < SandboxSpec::kMinMemoryMb || spec.memory_mb > SandboxSpec::kMaxMemoryMb) {
    return invalid("memory_mb", "memory_mb must be 16 to 16777216");
  }
  if (spec.timeout < std::chrono::seconds{1} || spec.timeout > SandboxSpec::kMaxTimeout) {
    return invalid("timeout_seconds", "timeout_seconds must be 1 to 2592000 (30 days)");
  }
  return {};
}

struct MapRule {
  const char* field;
  /// What a key may not hold, besides control characters.
  std::string_view forbidden_in_key;
};

Status check_map(const std::map<std::string, std::string>& entries, const MapRule& rule) {
  if (entries.size() > SandboxSpec::kMaxMapEntries) {
    return invalid(rule.field, std::string(rule.field) + " has more than 64 entries");
  }
  for (const auto& [key, value] : entries) {
    const std::string path = std::string(rule.field) + "." + key.substr(0, 40);
    if (key.empty() || key.size() > SandboxSpec::kMaxMapKeyBytes || !is_utf8(key) ||
        has_control_characters(key) ||
        key.find_first_of(rule.forbidden_in_key) != std::string::npos) {
      return invalid(rule.field,
                     "key " + quoted(key) + " of " + rule.field +
                         " must be 1 to 128 printable bytes" +
                         (rule.forbidden_in_key.empty() ? "" : " without `=` or space"));
    }
    if (value.size() > SandboxSpec::kMaxMapValueBytes) {
      return invalid(path, "value of " + quoted(key) + " is longer than 4096 bytes");
    }
    if (value.find('\0') != std::string::npos || !is_utf8(value)) {
      return invalid(path, "value of " + quoted(key) + " must be UTF-8 without NUL");
    }
  }
  return {};
}

/// Length-prefixed, so that no value can imitate the next field.
void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(" ").append(std::to_string(value.size())).append(":");
  out.append(value).append("\n");
}

void append_map(std::string& out, std::string_view name,
                const std::map<std::string, std::string>& entries) {
  append_field(out, name, std::to_string(entries.size()));
  for (const auto& [key, value] : entries) {
    append_field(out, "key", key);
    append_field(out, "value", value);
  }
}

std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return std::string(text.data(), end);
}

constexpr std::array kStates = {
    SandboxState::kPending, SandboxState::kStarting, SandboxState::kRunning,
    SandboxState::kPaused,  SandboxState::kStopping, SandboxState::kStopped,
    SandboxState::kError,   SandboxState::kLost,     SandboxState::kDeleted,
};

}  // namespace

const char* name_of(HardeningProfile profile) {
  switch (profile) {
    case HardeningProfile::kHardened:
      return "hardened";
    case HardeningProfile::kSudo:
      return "sudo";
  }
  return "unknown";
}

const char* name_of(Persistence persistence) {
  switch (persistence) {
    case Persistence::kEphemeral:
      return "ephemeral";
    case Persistence::kWorkspace:
      return "workspace";
  }
  return "unknown";
}

const char* name_of(SandboxState state) {
  switch (state) {
    case SandboxState::kPending:
      return "pending";
    case SandboxState::kStarting:
      return "starting";
    case SandboxState::kRunning:
      return "running";
    case SandboxState::kPaused:
      return "paused";
    case SandboxState::kStopping:
      return "stopping";
    case SandboxState::kStopped:
      return "stopped";
    case SandboxState::kError:
      return "error";
    case SandboxState::kLost:
      return "lost";
    case SandboxState::kDeleted:
      return "deleted";
  }
  return "unknown";
}

Result<SandboxState> sandbox_state_from(std::string_view name) {
  for (const SandboxState state : kStates) {
    if (name == name_of(state)) {
      return state;
    }
  }
  return invalid("state", "state " + quoted(name) +
                              " is none of pending, starting, running, paused, stopping, stopped, "
                              "error, lost, deleted");
}

Status validate(const SandboxSpec& spec) {
  if (auto status = check_image(spec); !status) {
    return status;
  }
  if (auto status = check_name(spec); !status) {
    return status;
  }
  if (auto status = check_numbers(spec); !status) {
    return status;
  }
  if (!spec.runtime.empty() &&
      (spec.runtime.size() > kMaxRuntimeBytes || !is_made_of(spec.runtime, "._-"))) {
    return invalid("runtime", "runtime " + quoted(spec.runtime) + " is no runtime's name");
  }
  if (spec.tolerations.size() > SandboxSpec::kMaxTolerations) {
    return invalid("tolerations", "tolerations must be at most 64");
  }
  for (std::size_t i = 0; i < spec.tolerations.size(); ++i) {
    if (!is_taint(spec.tolerations[i])) {
      return invalid("tolerations[" + std::to_string(i) + "]",
                     "toleration " + quoted(spec.tolerations[i]) + " is no taint's name");
    }
  }
  for (const auto& [entries, rule] : {std::pair{&spec.env, MapRule{"env", "= "}},
                                      std::pair{&spec.metadata, MapRule{"metadata", ""}},
                                      std::pair{&spec.worker_labels, MapRule{"labels", "= "}}}) {
    if (auto status = check_map(*entries, rule); !status) {
      return status;
    }
  }
  return policy::check_secrets(spec);
}

bool is_taint(std::string_view text) {
  return text.size() <= SandboxSpec::kMaxTaintBytes && is_made_of(text, "._-/=");
}

std::string canonical_text(const SandboxSpec& spec) {
  std::string out = "sandboxkit-spec/1\n";
  append_field(out, "image", spec.image);
  append_field(out, "egress", spec.egress.is_walled() ? "walled" : "unwalled");
  if (const EgressPolicy* policy = spec.egress.policy()) {
    append_field(out, "policy", policy->canonical());
  }
  append_field(out, "cpu_cores", shortest(spec.cpu_cores));
  append_field(out, "memory_mb", std::to_string(spec.memory_mb));
  append_field(out, "profile", name_of(spec.profile));
  append_field(out, "persistence", name_of(spec.persistence));
  append_field(out, "runtime", spec.runtime);
  append_map(out, "env", spec.env);
  append_map(out, "metadata", spec.metadata);
  append_map(out, "labels", spec.worker_labels);
  // As a set: neither order nor repetition makes another spec. Absent ones add nothing.
  for (const std::string& taint : std::set(spec.tolerations.begin(), spec.tolerations.end())) {
    append_field(out, "toleration", taint);
  }
  for (const LentSecret& secret : spec.secrets) {
    append_field(out, "secret", secret.name);
    append_field(out, "domain", secret.domain);
    append_field(out, "place", name_of(secret.place));
    append_field(out, "key", secret.key);
  }
  return out;
}

}  // namespace sandboxkit
