#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::config {

enum class Kind : std::uint8_t {
  kText,
  kInteger,
  kDecimal,
  kBoolean,
  kChoice,
  kList,   ///< In YAML a list; its flag may be repeated; in the environment split at commas.
  kPairs,  ///< As a list of `NAME=VALUE`, but a map in YAML, and a name stands in it once.
};

/// What a person reads of an option, and how it differs from the rule.
struct About {
  /// Its name in YAML; a dot leads into a section. Flag and variable follow from it:
  /// `log.level`, `--log-level`, `SANDBOXKIT_CONTROLLER_LOG_LEVEL`.
  std::string key;
  std::string help;
  /// Only where they differ from the rule.
  std::string flag{};
  std::string variable{};
  /// In place of the default value, where that depends on the machine ("the host's name").
  std::string default_words{};
  bool required = false;
  /// Its value is never printed, and a file that holds it must be closed for others.
  bool secret = false;
  /// False for what a file cannot say: where the file is.
  bool in_file = true;
};

/// One option of a daemon, with all of its names.
struct Option {
  About about;
  Kind kind = Kind::kText;
  /// What values it takes, for messages and documentation: `1 to 256`, `text or json`.
  std::string range{};
  /// Why a value is not taken, or "". A list's is asked for each item.
  std::function<std::string(std::string_view)> problem_of{};
  /// Takes values that `problem_of` passed: one, or for a list all; none clears it.
  std::function<void(const std::vector<std::string>&)> store{};
  /// What is stored now.
  std::function<std::vector<std::string>()> stored{};

  bool repeatable() const { return kind == Kind::kList || kind == Kind::kPairs; }
};

const char* name_of(Kind kind);

}  // namespace sandboxkit::config
