#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/egress.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// How hard the sandbox is closed against its own code. Named on create and on the isolation card.
enum class HardeningProfile : std::uint8_t {
  kHardened,  ///< Unprivileged user, no capabilities, no-new-privileges: no way to root.
  kSudo,      ///< The image's sudo works: root inside of the container is possible.
};

/// What outlives the sandbox.
enum class Persistence : std::uint8_t {
  kEphemeral,  ///< All of its disk dies with it.
  kWorkspace,  ///< A named disk outlives it.
};

SANDBOXKIT_API const char* name_of(HardeningProfile profile);
SANDBOXKIT_API const char* name_of(Persistence persistence);

/// Where the proxy puts a lent secret into a request.
enum class SecretPlace : std::uint8_t {
  kHeader,  ///< A header's whole value.
  kBasic,   ///< `Authorization: Basic`, made from `user:password`.
  kQuery,   ///< A parameter of the query.
};

SANDBOXKIT_API const char* name_of(SecretPlace place);

/// A secret that a sandbox may use and never holds: its proxy adds the value to requests for one
/// domain, and the sandbox sees a placeholder.
///
/// Plain data; `validate` says whether it can be lent. Whoever prints one leaves out `value`.
struct LentSecret {
  static constexpr std::size_t kMaxNameBytes = 64;
  static constexpr std::size_t kMaxKeyBytes = 128;
  static constexpr std::size_t kMaxValueBytes = 4096;

  /// Unique in its sandbox, and a variable of its environment: a letter or `_`, then letters,
  /// digits and `_`.
  std::string name;
  /// `host[:port]`, lower case, no wildcard and no address; 443 without a port. Port 80 lends it to
  /// plain `http://`, where whoever carries the packets reads it.
  std::string domain;
  SecretPlace place = SecretPlace::kHeader;
  /// kHeader: the header's name. kQuery: the parameter's. kBasic: empty.
  std::string key{};
  /// kBasic: `user:password`. Never in a log, an answer, a canonical text, a label or on a disk.
  std::string value{};
  /// From then on the proxy refuses requests for the domain; the epoch: never.
  WallTime expires_at{};

  /// What the sandbox sees in its environment instead.
  std::string placeholder() const { return "sandboxkit-secret-" + name; }
};

/// Whether one secret is well formed, whatever sandbox it is for.
/// Errors: kInvalidArgument; `field` is the member's name, and no message holds the value. Pure.
SANDBOXKIT_API Status validate(const LentSecret& lent);

/// What a create asks for. Whose it is does not stand here: the tenant comes from the credential.
///
/// Plain data; `validate` says whether it can be built.
struct SandboxSpec {
  static constexpr std::size_t kMaxNameBytes = 63;
  static constexpr std::size_t kMaxImageBytes = 255;
  static constexpr std::size_t kMaxMapEntries = 64;
  static constexpr std::size_t kMaxMapKeyBytes = 128;
  static constexpr std::size_t kMaxMapValueBytes = 4096;
  static constexpr std::size_t kMaxTolerations = 64;
  static constexpr std::size_t kMaxTaintBytes = 64;
  static constexpr std::size_t kMaxSecrets = 16;
  static constexpr double kMaxCpuCores = 1024;
  static constexpr std::int64_t kMinMemoryMb = 16;
  static constexpr std::int64_t kMaxMemoryMb = 16LL * 1024 * 1024;
  static constexpr std::chrono::seconds kDefaultTimeout{3600};
  static constexpr std::chrono::seconds kMaxTimeout{30LL * 24 * 3600};

  /// Required: `repository[:tag]` or an image id that the worker's engine has.
  std::string image;
  /// Required: walled by a policy, or unwalled by a token.
  Egress egress;
  /// Unique in its workspace while the sandbox lives; empty: the id is its only name.
  std::string name{};
  /// Hints for placement and limits for the engine.
  double cpu_cores = 1;
  std::int64_t memory_mb = 512;
  /// 1 s .. 30 days, counted from the create; the worker ends the sandbox then.
  std::chrono::seconds timeout = kDefaultTimeout;
  HardeningProfile profile = HardeningProfile::kHardened;
  Persistence persistence = Persistence::kEphemeral;
  /// The engine's runtime (`runc`, `runsc`, ...); empty: the engine's default.
  std::string runtime{};
  /// Environment of every process that is started in the sandbox.
  std::map<std::string, std::string> env{};
  /// The caller's own notes; returned as they came, never read by us.
  std::map<std::string, std::string> metadata{};
  /// Labels that a worker must carry to run this.
  std::map<std::string, std::string> worker_labels{};
  /// Taints of a worker's owner that do not keep this away.
  std::vector<std::string> tolerations{};
  /// Lent to a walled sandbox, each for a domain that its policy allows: 0..16.
  std::vector<LentSecret> secrets{};
};

/// Whether a text can name a taint: 1 to 64 letters, digits, `.`, `_`, `-`, `/` or `=`, the first
/// one a letter or a digit. Pure.
SANDBOXKIT_API bool is_taint(std::string_view text);

/// Whether the spec is well formed.
/// Errors: kInvalidArgument with the field's path. Pure.
SANDBOXKIT_API Status validate(const SandboxSpec& spec);

/// Canonical text of what makes two creates "the same spec": all but name and timeout, and of a
/// secret all but its value and end, which a rotation changes.
SANDBOXKIT_API std::string canonical_text(const SandboxSpec& spec);

/// States of a sandbox, as every surface names them.
enum class SandboxState : std::uint8_t {
  kPending,
  kStarting,
  kRunning,
  kPaused,
  kStopping,
  kStopped,
  kError,
  kLost,
  kDeleted,
};

SANDBOXKIT_API const char* name_of(SandboxState state);
SANDBOXKIT_API Result<SandboxState> sandbox_state_from(std::string_view name);

}  // namespace sandboxkit
