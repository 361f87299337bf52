#pragma once

#include "sandboxkit/box_plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::box {

inline constexpr std::size_t kMaxPlaces = 20'000;
inline constexpr std::size_t kNoIndex = static_cast<std::size_t>(-1);

/// A directory of the box's own memory, seen at `path`.
struct Area {
  std::string path;  ///< Without the first slash, as the kernel is asked below the root.
  /// Its folder in the file system that all areas share.
  std::string folder;
  std::uint32_t mode = 0755;
  /// One that a machine may lack.
  bool optional = false;
};

enum class StepKind : std::uint8_t {
  kArea,           ///< Area `area` is attached at `path`.
  kFolder,         ///< A directory is made in an area, with those above it.
  kShow,           ///< What the host has at `source` appears at `path`, which lies in an area.
  kRepeat,         ///< What is seen at `path` gets another access.
  kHideDirectory,  ///< An empty directory stands there.
  kHideFile,       ///< An empty file that nobody may read.
  kHold,           ///< An empty file that can be read and not changed, over a placeholder.
  kPlaceholder,    ///< As kHold, over a file that the box makes in its overlay.
  kSeal,           ///< Nothing more is put into the area at `path`.
};

/// One thing that the box's first process does, laid out before that process exists.
struct Step {
  StepKind kind;
  std::string path;  ///< Without the first slash.
  std::string source{};
  BoxAccess access = BoxAccess::kReadOnly;
  FileType type = FileType::kDirectory;
  /// Absent: any object will do (devices, sockets, which the plan names by path).
  std::optional<FileIdentity> identity{};
  bool is_device = false;
  /// What is seen at `path` is an overlay's, with numbers of its own.
  bool in_overlay = false;
  /// Changes go to the overlay in this folder of the run; empty: to the host.
  std::string overlay{};
  std::size_t area = kNoIndex;
  /// The place of the plan, for reports; kNoIndex: none.
  std::size_t place = kNoIndex;
};

/// What a box looks like, in the order in which it is built.
struct Layout {
  std::vector<Area> areas{};
  std::vector<Step> steps{};
  /// Places that may be written, for Landlock; absolute.
  std::vector<std::string> writable{};
  /// Names that must not come to be in a live tree, with their index in the plan: placeholders of
  /// the host stand there, which whoever starts the box has made.
  std::vector<std::size_t> placeholders{};
};

struct LayoutInput {
  const BoxPlan& plan;
  /// Canonical paths of /home, /root, /run, /tmp, /var/tmp as this machine has them.
  std::vector<std::string> hidden;
  /// A host's folder for the home; empty: none.
  std::string home_folder;
};

/// Errors: kInvalidArgument with the place (`places[3]`): too many, not canonical, twice, above a
/// place that came before it, the root itself, or an access that cannot be given there.
Result<Layout> lay_out(const LayoutInput& input);

}  // namespace sandboxkit::box
