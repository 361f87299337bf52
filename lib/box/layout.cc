#include "box/layout.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sandboxkit::box {
namespace {

constexpr std::array<const char*, 6> kDevices{"null", "zero", "full", "random", "urandom", "tty"};
constexpr std::uint32_t kShared = 01777;
constexpr std::uint32_t kPlain = 0755;
constexpr std::uint32_t kOwn = 0700;

bool is_canonical(std::string_view path) {
  if (path.size() < 2 || path.front() != '/' || path.back() == '/' ||
      path.find('\0') != std::string_view::npos) {
    return false;
  }
  const auto names = split(path.substr(1), '/');
  return std::ranges::none_of(
      names, [](std::string_view name) { return name.empty() || name == "." || name == ".."; });
}

/// Whether `path` is `above` or lies below it.
bool covers(std::string_view above, std::string_view path) {
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

Error wrong(std::size_t index, const std::string& path, const char* why) {
  return {ErrorCode::kInvalidArgument, quoted(path) + " " + why, "",
          "places[" + std::to_string(index) + "]"};
}

/// What is seen at a place and below it so far.
struct View {
  /// Nothing of the host's own is seen here: an area, a hidden directory, the box's home.
  bool is_ours;
  BoxAccess access;
  bool staged = false;
};

class Builder {
 public:
  explicit Builder(const LayoutInput& input) : input_(input) {}

  Result<Layout> run() {
    if (input_.plan.places.size() > kMaxPlaces) {
      return Error{ErrorCode::kInvalidArgument,
                   "more than " + std::to_string(kMaxPlaces) + " places", "", "places"};
    }
    for (const std::string* path : {&input_.plan.home, &input_.plan.scratch}) {
      if (!path->empty() && !is_canonical(*path)) {
        return Error{ErrorCode::kInvalidArgument, quoted(*path) + " is no canonical path", "",
                     path == &input_.plan.home ? "home" : "scratch"};
      }
    }
    if (input_.plan.home.empty() && !input_.home_folder.empty()) {
      return Error{ErrorCode::kInvalidArgument, "a folder for the home needs a home", "", "home"};
    }
    views_[""] = {false, BoxAccess::kReadOnly};
    if (Status hidden = hide_above_areas(); !hidden) {
      return hidden.error();
    }
    add_areas();
    add_devices();
    add_home();
    for (std::size_t i = 0; i < input_.plan.places.size(); ++i) {
      if (Status added = add_place(i); !added) {
        return added.error();
      }
    }
    add_sockets();
    for (const std::string& path : sealed_) {
      out_.steps.push_back({.kind = StepKind::kSeal, .path = path});
    }
    return std::move(out_);
  }

 private:
  /// What is hidden above an area (`/var`) comes first: the area stands in it.
  Status hide_above_areas() {
    std::vector<std::string> areas = input_.hidden;
    areas.push_back(input_.plan.home);
    for (std::size_t i = 0; i < input_.plan.places.size(); ++i) {
      const BoxPlace& place = input_.plan.places[i];
      const bool is_above = std::ranges::any_of(areas, [&](const std::string& area) {
        return area != place.path && covers(place.path, area);
      });
      if (place.access == BoxAccess::kHide && is_above) {
        if (Status added = add_place(i); !added) {
          return added;
        }
        early_.insert(i);
      }
    }
    return {};
  }

  void add_area(const std::string& path, std::uint32_t mode, bool optional) {
    if (view_of(path).is_ours) {
      out_.steps.push_back({.kind = StepKind::kFolder, .path = path.substr(1)});
    }
    const std::size_t index = out_.areas.size();
    out_.areas.push_back({path.substr(1), "a" + std::to_string(index), mode, optional});
    out_.steps.push_back({.kind = StepKind::kArea, .path = path.substr(1), .area = index});
    views_[path] = {true, BoxAccess::kReadWrite};
  }

  void add_areas() {
    const std::set<std::string> hidden(input_.hidden.begin(), input_.hidden.end());
    for (const std::string& path : hidden) {
      const bool shared = path != "/root" && path != "/run" && path != "/home";
      add_area(path, shared ? kShared : kPlain, true);
      out_.writable.push_back(path);
    }
    const std::string& home = input_.plan.home;
    if (!home.empty() && !can_make(home)) {
      add_area(home, kOwn, false);
      out_.writable.push_back(home);
    }
    for (const std::string& path : {home, input_.plan.scratch}) {
      if (!path.empty() && can_make(path)) {
        out_.steps.push_back({.kind = StepKind::kFolder, .path = path.substr(1)});
      }
    }
  }

  void add_devices() {
    add_area("/dev", kPlain, false);
    for (const char* device : kDevices) {
      const std::string path = std::string("dev/") + device;
      out_.steps.push_back({.kind = StepKind::kShow,
                            .path = path,
                            .source = path,
                            .type = FileType::kOther,
                            .is_device = true});
    }
    out_.steps.push_back({.kind = StepKind::kFolder, .path = "dev/pts"});
    add_area("/dev/shm", kShared, false);
    out_.writable.push_back("/dev/shm");
    sealed_.push_back("dev");
  }

  void add_home() {
    if (!input_.home_folder.empty()) {
      out_.steps.push_back({.kind = StepKind::kShow,
                            .path = input_.plan.home.substr(1),
                            .source = input_.home_folder.substr(1),
                            .access = BoxAccess::kReadWrite});
      views_[input_.plan.home] = {true, BoxAccess::kReadWrite};
      out_.writable.push_back(input_.plan.home);
    }
  }

  /// Whether the command may make it itself.
  bool can_make(const std::string& path) const {
    const View& view = view_of(path);
    return view.is_ours && view.access == BoxAccess::kReadWrite;
  }

  /// The nearest view above the path, or its own.
  const View& view_of(const std::string& path) const {
    for (std::string above = path;; above.resize(above.rfind('/'))) {
      if (const auto found = views_.find(above); found != views_.end()) {
        return found->second;
      }
    }
  }

  Status add_place(std::size_t index) {
    if (early_.contains(index)) {
      return {};
    }
    const BoxPlace& place = input_.plan.places[index];
    if (!is_canonical(place.path)) {
      return wrong(index, place.path, "is no canonical path below the root");
    }
    if (!seen_.insert(place.path).second) {
      return wrong(index, place.path, "is there twice");
    }
    const auto after = seen_.lower_bound(place.path + "/");
    if (after != seen_.end() && covers(place.path, *after)) {
      return wrong(index, place.path, "comes after what lies below it");
    }
    if (covers(place.path, "/dev") || covers(place.path, "/proc") || covers("/proc", place.path) ||
        covers("/dev", place.path)) {
      // The box has its own; the plan's words about the host's say nothing more.
      return place.access == BoxAccess::kReadWrite
                 ? Status(wrong(index, place.path, "is the box's own and cannot be given"))
                 : Status();
    }
    const View base = view_of(place.path);
    if (base.is_ours) {
      return add_shown(index, place);
    }
    return add_visible(index, place, base);
  }

  Status add_shown(std::size_t index, const BoxPlace& place) {
    if (place.access != BoxAccess::kReadOnly && place.access != BoxAccess::kReadWrite) {
      return {};  // Nothing of the host is seen there anyway.
    }
    if (place.type != FileType::kDirectory && place.type != FileType::kFile) {
      return wrong(index, place.path, "is neither a file nor a directory");
    }
    Step step{.kind = StepKind::kShow,
              .path = place.path.substr(1),
              .source = place.path.substr(1),
              .access = place.access,
              .type = place.type,
              .identity = place.identity,
              .place = index};
    show(std::move(step), place);
    return {};
  }

  void show(Step step, const BoxPlace& place) {
    const bool writes = place.access == BoxAccess::kReadWrite;
    const bool staged = input_.plan.staged && writes && place.type == FileType::kDirectory;
    if (staged) {
      step.overlay = "o" + std::to_string(overlays_++);
    }
    if (writes) {
      out_.writable.push_back(place.path);
    }
    views_[place.path] = {false, place.access, staged};
    out_.steps.push_back(std::move(step));
  }

  Status add_visible(std::size_t index, const BoxPlace& place, const View& base) {
    Step step{.kind = StepKind::kRepeat,
              .path = place.path.substr(1),
              .source = place.path.substr(1),
              .access = place.access,
              .type = place.type,
              .identity = place.identity,
              .in_overlay = base.staged,
              .place = index};
    const bool base_writes = base.access == BoxAccess::kReadWrite;
    switch (place.access) {
      case BoxAccess::kReadOnly:
        if (base_writes) {
          add(std::move(step), place, BoxAccess::kReadOnly, base);
        }
        return {};
      case BoxAccess::kPin:
        if (base_writes) {
          add(std::move(step), place, BoxAccess::kReadWrite, base);
        }
        return {};
      case BoxAccess::kReadWrite:
        // Below an overlay everything goes there already.
        if (base.staged && base_writes) {
          return {};
        }
        if (base.staged) {
          return wrong(index, place.path,
                       "may be written inside of what may not, in a staged tree");
        }
        show(std::move(step), place);
        return {};
      case BoxAccess::kHide:
        hide(std::move(step), place);
        return {};
      case BoxAccess::kAbsent:
        return add_absent(index, std::move(step), place, base);
    }
    return {};
  }

  void add(Step step, const BoxPlace& place, BoxAccess seen, const View& base) {
    views_[place.path] = {false, seen, base.staged};
    out_.steps.push_back(std::move(step));
  }

  void hide(Step step, const BoxPlace& place) {
    if (place.type != FileType::kDirectory) {
      step.kind = StepKind::kHideFile;
      views_[place.path] = {false, BoxAccess::kReadOnly};
      out_.steps.push_back(std::move(step));
      return;
    }
    // An area of its own: what the plan shows below it gets its mount points there.
    const std::size_t area = out_.areas.size();
    out_.areas.push_back({step.path, "a" + std::to_string(area), kPlain, false});
    step.kind = StepKind::kHideDirectory;
    step.area = area;
    views_[place.path] = {true, BoxAccess::kReadOnly};
    sealed_.push_back(step.path);
    out_.steps.push_back(std::move(step));
  }

  Status add_absent(std::size_t index, Step step, const BoxPlace& place, const View& base) {
    if (base.access != BoxAccess::kReadWrite) {
      return {};  // Nobody can make it there.
    }
    step.identity.reset();
    step.type = FileType::kFile;
    step.kind = base.staged ? StepKind::kPlaceholder : StepKind::kHold;
    if (!base.staged) {
      out_.placeholders.push_back(index);
    }
    views_[place.path] = {false, BoxAccess::kReadOnly};
    out_.steps.push_back(std::move(step));
    return {};
  }

  void add_sockets() {
    for (const std::string& path : input_.plan.sockets) {
      if (is_canonical(path) && view_of(path).is_ours) {
        out_.steps.push_back({.kind = StepKind::kShow,
                              .path = path.substr(1),
                              .source = path.substr(1),
                              .type = FileType::kSocket});
      }
    }
  }

  const LayoutInput& input_;
  Layout out_;
  std::unordered_map<std::string, View> views_;
  std::set<std::string> seen_;
  std::set<std::size_t> early_;
  std::vector<std::string> sealed_;
  std::size_t overlays_ = 0;
};

}  // namespace

Result<Layout> lay_out(const LayoutInput& input) { return Builder(input).run(); }

}  // namespace sandboxkit::box
