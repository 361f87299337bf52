#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/egress.h"
#include "sandboxkit/sandbox_spec.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sandboxkit::policy {

/// What a line of the isolation card is about; the card has its lines in this order.
enum class CardTopic : std::uint8_t {
  kRoot,
  kReach,
  kWall,
  kLeftOpen,  ///< What its wall does not close.
  kSecrets,
  kFiles,
  kEnd,
  kKernel,
  kAccess,
};

/// How a line is known, weakest first.
enum class KnownBy : std::uint8_t {
  kDeclared,    ///< It was ordered or recorded; nobody looked.
  kProbed,      ///< The worker tried it on its engine when it started, with another sandbox.
  kStructural,  ///< The worker read it back from its engine, of this very sandbox.
};

const char* name_of(CardTopic topic);
const char* name_of(KnownBy known);

/// One fact of a line for programs.
struct CardDetail {
  std::string name;
  std::variant<bool, std::int64_t, std::string, std::vector<std::string>> value;
};

struct CardLine {
  CardTopic topic;
  std::string statement;  ///< For people: whole sentences.
  KnownBy known = KnownBy::kDeclared;
  /// When whoever knows it told of it last, where that is known.
  std::optional<WallTime> at{};
  std::vector<CardDetail> details{};
};

/// What the controller has from the sandbox's worker.
struct CardWorker {
  bool serves_every_workspace;
  std::vector<std::string> capabilities;
  /// Its last report with this sandbox in it; nullopt when its reports are not of what runs now.
  std::optional<WallTime> reported{};
};

/// What is known of one sandbox. Times without a value are not known.
struct CardFacts {
  /// As it was ordered. `secrets` are those that are lent to it now.
  SandboxSpec spec;
  std::string workspace;
  SandboxState state;
  std::string reason{};
  WallTime expires{};
  std::optional<WallTime> started{};
  std::optional<WallTime> ended{};
  /// Hash of the policy in force.
  std::string policy_hash{};
  /// A narrower policy than the ordered one, in force or not yet.
  std::optional<EgressPolicy> narrowed{};
  bool narrowed_in_force = false;
  /// For the next creation.
  std::optional<EgressPolicy> recorded{};
  /// How its wall is made, as its worker read it back; empty: it has not told.
  std::string structure{};
  std::optional<CardWorker> worker{};  ///< nullopt: it was removed.
  /// Tokens that open this sandbox alone; nullopt: the reader may not know.
  std::optional<std::vector<std::string>> tokens{};
  std::chrono::hours record_kept{};  ///< After its end.
  WallTime now{};
};

/// The isolation card: what is known of how a sandbox is closed, line by line, and how each line is
/// known. It says nothing that is not in the facts, and no value of a secret or of a variable.
///
/// Blocking: never. Thread-safety: pure.
/// Source: design, section 10.
std::vector<CardLine> isolation_card(const CardFacts& facts);

}  // namespace sandboxkit::policy
