#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/export.h"
#include "sandboxkit/gate.h"
#include "sandboxkit/gate_files.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit {

/// How long a grant lives unless a person says otherwise.
inline constexpr std::chrono::hours kGrantLife{24 * 30};
/// The longest life that is not `never`.
inline constexpr std::chrono::hours kMaxGrantLife{24 * 3660};

/// A grant that a person is about to give. The tree is the session's: a grant is for one tree, by
/// path and by object, and for one agent.
struct NewGrant {
  GrantedUse use;
  std::string tree;
  FileIdentity tree_identity;
  std::string agent;
  bool needs_box = false;
  /// Absent: `never`, which is for the command on the host alone; a prompt does not offer it.
  std::optional<std::chrono::hours> life = kGrantLife;
  /// Who gives it (`tty:u@host`), the hash of the request that is answered, a person's own words.
  std::string by{};
  std::string request{};
  std::string note{};
};

/// A change that is about to happen.
struct GrantChange {
  enum class Kind : std::uint8_t { kGrant, kRevoke };
  Kind kind;
  /// The generation of the grants after it.
  std::uint64_t generation;
  KeptGrant grant;
  std::string by;
};

/// Where changes of grants are noted before they happen, and who knows the last one: a file of
/// grants that is older was put back.
/// Thread-safety: any thread.
class SANDBOXKIT_API GrantAudit {
 public:
  virtual ~GrantAudit() = default;
  /// On the disk when it returns. An error keeps the change from happening.
  virtual Status note(const GrantChange& change) = 0;
  /// The generation of the newest change that was noted, by whatever process; 0: none was.
  virtual Result<std::uint64_t> last_generation() = 0;
};

/// What counts at one moment.
struct GrantsView {
  /// Never null. The same object as long as nothing changed, so that it is compiled once.
  std::shared_ptr<const KeptGrants> grants;
  /// Why the file does not count, whole: `grants` is empty then, or the last good ones that this
  /// process saw. `reason` is `grants_ignored`; `field` says what about it: `owner`, `mode`,
  /// `type`, `size`, `mac`, `key`, `json`, `generation`, `file`. To be shown loudly.
  std::optional<Error> problem{};
};

/// The permanent grants of one person on one machine: `grants.json` in the gate's own folder.
///
/// The file counts whole or not at all: it belongs to this user with mode 0600, is signed with
/// `grants.key` (HMAC-SHA-256 over its exact bytes without `,"mac":"..."}` and line feed), and is
/// no older than the last change that the audit log knows. At first a file that does not count
/// grants nothing; later this process keeps what it last saw as good, unless the file is gone or
/// older. Nothing is read from a work tree.
///
/// Whoever holds one that is not const may give grants: hand it to what asks a person, and never
/// to what speaks for an agent.
///
/// Thread-safety: any thread. Several processes may use one folder.
/// Blocking: `add` and `remove` wait for the disk, and up to `kLockWait` for another process.
/// Source: design of the permission gate, 4.6.
class SANDBOXKIT_API GrantStore final {
 public:
  static constexpr std::chrono::seconds kLockWait{10};

  struct Options {
    /// `$XDG_STATE_HOME/sandboxkit/gate`; made, with mode 0700, when it is not there.
    std::string folder;
    /// Canonical: the trees and roots of sessions. The folder must lie in none of them, nor one
    /// of them in it.
    std::vector<std::string> roots{};
  };

  /// Finishes or takes back a change that a process was killed in, and looks what the audit knows.
  ///
  /// Errors: kInvalidArgument `bad_gate_folder` for a link, another user's folder, one that others
  /// may use, or one in a root; what the audit says. A file of grants that does not count is no
  /// error: `read` tells of it.
  /// Ownership: `audit` and `clock` outlive the store.
  static Result<std::unique_ptr<GrantStore>> open(const Options& options, GrantAudit& audit,
                                                  const Clock& clock);
  ~GrantStore();
  GrantStore(const GrantStore&) = delete;
  GrantStore& operator=(const GrantStore&) = delete;

  /// What counts now. Looks at the file's facts, and reads it when it changed: cheap enough to be
  /// asked for each request.
  GrantsView read() const;

  /// Gives a grant: noted in the audit, then in the file.
  ///
  /// Errors: kInvalidArgument: `gate.check_new` refuses the use (`shadowed`, `too_wide`, `runner`),
  /// or a text is no UTF-8, or the life is out of its bounds; kConflict `grants_ignored` while the
  /// file does not count (`remove_all` begins anew); kResourceExhausted at `kMaxKeptGrants`;
  /// kTooLarge at `kMaxGrantsBytes`; kUnavailable when another process holds the lock or the audit
  /// cannot be written. After any error nothing was given.
  Result<KeptGrant> add(const PermissionGate& gate, NewGrant grant);

  /// Takes grants back, all or none. Errors: kNotFound with the id; as above.
  Status remove(std::span<const std::string> ids, const std::string& by);
  /// Takes every grant back, and begins anew where the file does not count.
  Status remove_all(const std::string& by);

 private:
  struct Impl;
  explicit GrantStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether a kept grant counts for its tree as the tree is now.
enum class GrantState : std::uint8_t { kActive, kExpired, kStale };
SANDBOXKIT_API const char* name_of(GrantState state);
/// Stale: its tree is gone, or another one took its place. `eyes` look at the tree.
SANDBOXKIT_API GrantState state_of(const PermanentGrant& grant, const FileEyes& eyes, WallTime now);

/// What a work tree tries to say to the gate, which does not listen: a policy or grants of its own
/// (`.sandboxkit/policy.json`), a `.git` file that points elsewhere. One sentence each, to be shown
/// when a session begins; empty when there is nothing. Never an error: what cannot be read is told.
SANDBOXKIT_API std::vector<std::string> warnings_of_tree(const std::string& tree);

}  // namespace sandboxkit
