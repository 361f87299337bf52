#pragma once

#include "sandboxkit/box_plan.h"

#include "gate/box_view.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sandboxkit::box_test {

/// Where a box and the gate answer differently, and are known to. Everything else is a defect.
/// docs/gate.md tells of each.
enum class Gap : std::uint8_t {
  // The box lets through what the gate does not.
  kNewName,          ///< A protected name that comes to be; the review or sweep finds it.
  kNewRepository,    ///< Files that make a bare repository of a directory.
  kLinkOnTheWay,     ///< A link where a protected name would lie below.
  kRootNames,        ///< What the names in `/` are.
  kWhereAllRead,     ///< Names hidden at any depth, below /usr and its like.
  kRightsComeWhole,  ///< What may be read may be seen and run, what may be changed changes wholly.
  kLinkName,         ///< What a link of a protected name leads to, changed through the link.
  kLinkReplaced,     ///< A link of a protected name, where a mount cannot stand.
  kPrivilege,        ///< Programs that would change who one is start, and gain nothing.
  // The box is stricter.
  kOtherMount,        ///< Moves and hard links between two places; copying works.
  kGrantRoundedDown,  ///< A grant of less than a right, of what is not there, or of a place itself.
  kHolds,             ///< A directory above what cannot be changed is neither moved nor replaced.
  kHiddenProgram,     ///< What must not be read does not run either.
  kNoHardLinks,       ///< A profile of seatbelt lets nobody make a hard link.
  kLinkOutside,       ///< A way through a link that lies where the box shows nothing.
};

inline constexpr std::array<const char*, 15> kGapNames = {
    "new_name",     "new_repository", "link_on_the_way", "root_names",    "where_all_read",
    "rights_whole", "link_name",      "link_replaced",   "privilege",     "other_mount",
    "rounded_down", "holds",          "hidden_program",  "no_hard_links", "link_outside"};

inline const char* name_of(Gap gap) { return kGapNames[static_cast<std::size_t>(gap)]; }

/// One question with both answers.
struct Compared {
  const GateItem& item;
  const GateDecision& decision;
  bool box_allows;
  /// Whether the gate would let the same path be read, and be written.
  bool reads;
  bool writes;
  const gate::BoxView& view;
  const BoxPlan& plan;
  const FileEyes& eyes;
  bool makes_hard_links = true;
};

/// The gap that explains a difference; nullopt: nothing does.
std::optional<Gap> gap_of(const Compared& compared);

}  // namespace sandboxkit::box_test
