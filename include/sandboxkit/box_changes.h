#pragma once

#include "sandboxkit/box.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sandboxkit {

/// What became of one name while a box ran.
struct BoxChange {
  enum class Kind : std::uint8_t { kMade, kChanged, kRemoved };
  Kind kind;
  /// On the host; canonical but for what does not exist there yet.
  std::string path;
  /// Of a removed one: what it was.
  FileType type;
  /// The text of a link.
  std::string link{};
};

SANDBOXKIT_API const char* name_of(BoxChange::Kind kind);

/// What a staged run changed, parents before what lies below them. A file that was only touched is
/// no change. Nothing may write there any more: wait for the box's end first.
///
/// Limits: kMaxBoxChanges. Errors: kTooLarge, and what keeps the folder from being read.
SANDBOXKIT_API Result<std::vector<BoxChange>> list_box_changes(const BoxStaged& staged);
inline constexpr std::size_t kMaxBoxChanges = 200'000;

/// Why a change was not made on the host.
struct BoxRefusal {
  BoxChange change;
  std::string why;
};

/// Says why a change must not be made; empty: it may.
using BoxJudge = std::function<std::string(const BoxChange&)>;

/// Makes changes of a staged run on the host, each by itself, in the order of the list: what one
/// was refused for keeps no other back, but what lies below it.
///
/// No path goes through a link or out of its root. A file comes whole or not at all, with its
/// permissions but set-user-id and set-group-id. Refused is what `judge` refuses, and what changed
/// on the host since the run began. Returns the refusals.
/// Blocking: as long as the file system does. Source: design of the permission gate, 2.5 and 4.8.
SANDBOXKIT_API std::vector<BoxRefusal> commit_box_changes(const BoxStaged& staged,
                                                          const std::vector<BoxChange>& changes,
                                                          const BoxJudge& judge);

/// Removes what a staged run left in the state folder. Errors: what could not be removed.
SANDBOXKIT_API Status remove_box_stage(const BoxStaged& staged);

/// What a live run left under a name that nobody may make.
struct BoxSweep {
  /// `NAME.sandboxkit-quarantine` now, in the same folder.
  std::vector<BoxChange> quarantined{};
  std::vector<BoxRefusal> left{};  ///< Could not be renamed: `why` is the system's word.
  /// Names that came, or changed, since `began`; at most kMaxBoxChanges.
  std::vector<BoxChange> changed{};
};

/// Looks through live places after a run and renames what `judge` refuses of what is new.
/// Errors: kTooLarge for more entries than kMaxSweepEntries, and what keeps it from being complete.
SANDBOXKIT_API Result<BoxSweep> sweep_box_places(const std::vector<std::string>& places,
                                                 std::int64_t began_ns, const BoxJudge& judge);
inline constexpr std::size_t kMaxSweepEntries = 1'000'000;

}  // namespace sandboxkit
