#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/file_eyes.h"
#include "sandboxkit/gate.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit {

/// How a place looks from inside of a box.
enum class BoxAccess : std::uint8_t {
  /// A directory is empty but for the way to places below it, a file cannot be read; neither can be
  /// changed.
  kHide,
  kReadOnly,   ///< As it is, without any change; neither renamed nor removed.
  kReadWrite,  ///< As it is, changes reach the host (or the overlay, see `BoxPlan::staged`).
  kPin,        ///< As its surroundings allow, but it can be neither renamed nor removed.
  /// Does not exist, and cannot be made under this name. A back end that can only hold a name with
  /// something puts an empty file there that can be read and not changed, and takes it away after.
  kAbsent,
};

SANDBOXKIT_API const char* name_of(BoxAccess access);

/// One place with its access; what lies below has the same until another place says otherwise.
struct BoxPlace {
  /// Canonical and absolute.
  std::string path;
  BoxAccess access = BoxAccess::kHide;
  /// The object that was judged: a launcher that finds another one there refuses to start. Not
  /// given for kAbsent.
  FileIdentity identity{};
  /// A link means the link's own name, and is never followed: a back end that cannot keep a link
  /// from being replaced says so.
  FileType type = FileType::kDirectory;
  /// What said so, for reports: `work_tree`, a denial's pattern, a grant's id.
  GateBranch branch = GateBranch::kHardlock;
  std::string rule{};
};

/// A denial by name, at any depth below the rw places: enforced on what exists by places, and on
/// what comes to be by the overlay's review, the sweep after a run, or a profile's pattern.
struct BoxNameRule {
  /// As in GateRule, for canonical paths; case and Unicode are folded.
  std::string pattern;
  std::string source{};
  /// Only while it is no directory (`.git`).
  bool spares_directories = false;
  /// kHide: must not be read either. kReadOnly: must not be changed.
  BoxAccess access = BoxAccess::kReadOnly;
  /// kAsk: a person may let it through after the run; else it is denied.
  GateBranch branch = GateBranch::kMandatoryDenial;
  /// Patterns, exact, of canonical paths that the rule is not about.
  std::vector<std::string> except{};
  /// The same for reading alone.
  std::vector<std::string> except_reading{};
};

/// What a kernel is asked to enforce: the gate's answers for one session, with every `ask` a
/// denial. It is printed by back ends that know nothing of policies.
///
/// Around the places everything is fixed: `/` can be read and not changed, set-user-id programs
/// gain nothing; the home, `/root`, `/home`, `/run`, `/tmp`, `/var/tmp` and `/dev/shm` are empty
/// and the box's own; `/proc` shows the box alone; `/dev` has the harmless devices and an own
/// terminal. Source: design of the permission gate, 4.8.
struct BoxPlan {
  /// Parents before what lies below them, each path once.
  std::vector<BoxPlace> places{};
  std::vector<BoxNameRule> names{};
  /// The rw root, and where the agent's home and scratch are; canonical.
  std::string tree{};
  std::string home{};
  std::string scratch{};
  /// Changes of the rw places go to an overlay that is reviewed afterwards.
  bool staged = false;
  /// Unix sockets (canonical paths) that may be connected to. When empty, AF_UNIX sockets of the
  /// host cannot be reached at all.
  std::vector<std::string> sockets{};
  /// Names of the host's variables that may pass; everything else is not there.
  std::vector<std::string> variables{};
  /// What may be dialled, through the proxy alone. Absent: nothing; there is no interface but
  /// loopback either way.
  std::optional<EgressPolicy> egress{};
  /// Leaves what a sandbox of its own needs (unshare, mount) open inside.
  bool allow_nested = false;
};

/// What a plan is made with, beside the gate's own rules.
struct BoxChoices {
  bool staged = false;
  bool allow_nested = false;
  /// Names of the host's variables: those that the gate lets pass are in the plan.
  std::vector<std::string> host_variables{};
};

}  // namespace sandboxkit
