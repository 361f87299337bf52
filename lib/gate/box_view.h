#pragma once

#include "sandboxkit/box_plan.h"

#include "gate/pattern.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

/// What a box does with one operation.
enum class BoxOutcome : std::uint8_t {
  kDenied,
  /// It meets something of the box's own, which is gone afterwards: nothing of the host's.
  kOwn,
  /// It meets the host's object.
  kAllowed,
};

/// A plan, asked as a kernel would be: it knows places and links, and nothing of rules, but for the
/// review of names that came to be where the plan is staged.
/// Thread-safety: immutable; it must not outlive the plan and the eyes.
class BoxView {
 public:
  BoxView(const BoxPlan& plan, const FileEyes& eyes);

  /// One item that is no command; relative paths are of `cwd`. An exec is asked by the
  /// path that its first word is.
  BoxOutcome outcome(const GateItem& item, const std::string& cwd) const;

  /// The place that decides for a path; null where only the fixed surroundings do.
  const BoxPlace* place_of(std::string_view path) const;
  /// The innermost place above or at the path: two paths lie in one mount where it is the same.
  const BoxPlace* mount_of(std::string_view path) const;
  /// Whether a name rule is about the path itself or what lies above it.
  const BoxNameRule* name_rule(const std::string& path, bool is_directory) const;

 private:
  enum class Shown : std::uint8_t { kHidden, kOwn, kReadOnly, kReadWrite, kMadeByBox };
  struct Named {
    const BoxNameRule* rule;
    PathPattern pattern;
    std::vector<PathPattern> except;
  };
  struct Object {
    SeenPath seen;
    /// Every link that leads there can be seen in the box.
    bool is_reached;
  };

  Shown shown(std::string_view path) const;
  bool is_place(std::string_view path) const { return places_.contains(path); }
  Object find(const std::string& cwd, const std::string& path, LastLink last) const;
  BoxOutcome reading(const Object& object) const;
  BoxOutcome changing(const Object& object) const;
  BoxOutcome making(const Object& object) const;
  BoxOutcome taking_away(const Object& object) const;
  BoxOutcome moving(const GateItem& item, const std::string& cwd) const;
  bool brings_reviewed(const SeenPath& from, const std::string& to) const;
  BoxOutcome on_path(const GateItem& item, const std::string& cwd) const;
  bool dials(const std::string& target) const;

  const BoxPlan& plan_;
  const FileEyes& eyes_;
  std::map<std::string_view, const BoxPlace*> places_{};
  std::vector<Named> names_{};
};

}  // namespace sandboxkit::gate
