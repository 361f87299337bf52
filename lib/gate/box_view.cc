#include "gate/box_view.h"

#include "gate/operations.h"
#include "gate/path_text.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::gate {
namespace {

using enum GateOperation;

// Source: BoxPlan's contract.
constexpr std::string_view kOwnPlaces[] = {"/root", "/home",    "/run",
                                           "/tmp",  "/var/tmp", "/dev/shm"};
constexpr std::string_view kMadePlaces[] = {"/proc", "/dev"};

BoxOutcome both(BoxOutcome one, BoxOutcome other) { return std::min(one, other); }

bool is_missing(const SeenPath& seen) { return !seen.file; }

}  // namespace

BoxView::BoxView(const BoxPlan& plan, const FileEyes& eyes) : plan_(plan), eyes_(eyes) {
  for (const BoxPlace& place : plan.places) {
    places_.emplace(place.path, &place);
  }
  const Anchors anchors{plan.home, plan.tree, plan.scratch};
  for (const BoxNameRule& rule : plan.names) {
    auto pattern = PathPattern::compile(rule.pattern, anchors, Matching::kFolded);
    if (!pattern) {
      continue;
    }
    Named named{&rule, std::move(*pattern), {}};
    for (const std::string& except : rule.except) {
      if (auto lifted = PathPattern::compile(except, anchors, Matching::kExact)) {
        named.except.push_back(std::move(*lifted));
      }
    }
    names_.push_back(std::move(named));
  }
}

const BoxPlace* BoxView::mount_of(std::string_view path) const {
  for (std::string_view at = path;; at = parent_of(at)) {
    if (const auto found = places_.find(at); found != places_.end()) {
      return found->second;
    }
    if (at.size() <= 1) {
      return nullptr;
    }
  }
}

const BoxPlace* BoxView::place_of(std::string_view path) const {
  const BoxPlace* place = mount_of(path);
  while (place != nullptr && place->access == BoxAccess::kPin) {
    place = mount_of(parent_of(place->path));
  }
  return place;
}

const BoxNameRule* BoxView::name_rule(const std::string& path, bool is_directory) const {
  const PathName name(path);
  for (const Named& named : names_) {
    const bool hits = named.rule->spares_directories
                          ? !is_directory && named.pattern.matches_whole(name)
                          : named.pattern.matches(name);
    const auto is_lifted = [&](const PathPattern& pattern) { return pattern.matches(name); };
    if (hits && std::ranges::none_of(named.except, is_lifted)) {
      return named.rule;
    }
  }
  return nullptr;
}

BoxView::Shown BoxView::shown(std::string_view path) const {
  const BoxPlace* place = place_of(path);
  const std::size_t depth = place == nullptr ? 0 : place->path.size();
  const auto is_inner = [&](std::string_view own) {
    return covers(own, path) && own.size() > depth;
  };
  if (std::ranges::any_of(kMadePlaces, is_inner)) {
    return Shown::kMadeByBox;
  }
  if (is_inner(plan_.home) || std::ranges::any_of(kOwnPlaces, is_inner)) {
    return Shown::kOwn;
  }
  if (place == nullptr) {
    return Shown::kReadOnly;
  }
  switch (place->access) {
    case BoxAccess::kHide:
    case BoxAccess::kAbsent:
    case BoxAccess::kPin:
      return Shown::kHidden;
    case BoxAccess::kReadOnly:
      return Shown::kReadOnly;
    case BoxAccess::kReadWrite:
      return Shown::kReadWrite;
  }
  return Shown::kHidden;
}

BoxView::Object BoxView::find(const std::string& cwd, const std::string& path,
                              LastLink last) const {
  auto seen = eyes_.look({.cwd = cwd, .path = path, .last = last});
  if (!seen) {
    return {{}, false};
  }
  const bool is_reached = std::ranges::all_of(seen->links, [&](const std::string& link) {
    const Shown at = shown(link);
    return at == Shown::kReadOnly || at == Shown::kReadWrite;
  });
  return {std::move(*seen), is_reached};
}

BoxOutcome BoxView::reading(const Object& object) const {
  if (!object.is_reached) {
    return BoxOutcome::kDenied;
  }
  switch (shown(object.seen.canonical)) {
    case Shown::kHidden:
      return BoxOutcome::kDenied;
    case Shown::kOwn:
    case Shown::kMadeByBox:
      return BoxOutcome::kOwn;
    case Shown::kReadOnly:
    case Shown::kReadWrite:
      return BoxOutcome::kAllowed;
  }
  return BoxOutcome::kDenied;
}

BoxOutcome BoxView::changing(const Object& object) const {
  const BoxOutcome read = reading(object);
  return read == BoxOutcome::kAllowed && shown(object.seen.canonical) != Shown::kReadWrite
             ? BoxOutcome::kDenied
             : read;
}

BoxOutcome BoxView::making(const Object& object) const {
  const bool is_reviewed =
      plan_.staged && is_missing(object.seen) && name_rule(object.seen.canonical, false) != nullptr;
  return is_reviewed ? BoxOutcome::kDenied : changing(object);
}

BoxOutcome BoxView::taking_away(const Object& object) const {
  const std::string above(parent_of(object.seen.canonical));
  if (!object.is_reached || is_place(object.seen.canonical)) {
    return BoxOutcome::kDenied;
  }
  return changing(Object{.seen = {.canonical = above}, .is_reached = true});
}

BoxOutcome BoxView::moving(const GateItem& item, const std::string& cwd) const {
  const Object from = find(cwd, item.target, LastLink::kKeep);
  const Object to = find(cwd, item.to, LastLink::kKeep);
  if (is_missing(from.seen) || !to.is_reached) {
    return BoxOutcome::kDenied;
  }
  const bool is_rename = item.operation == kRename;
  const std::string_view source = is_rename ? parent_of(from.seen.canonical) : from.seen.canonical;
  const BoxPlace* target = mount_of(parent_of(to.seen.canonical));
  if (mount_of(source) != target || is_place(to.seen.canonical)) {
    return BoxOutcome::kDenied;
  }
  if (plan_.staged && brings_reviewed(from.seen, to.seen.canonical)) {
    return BoxOutcome::kDenied;
  }
  return both(is_rename ? taking_away(from) : changing(from), making(to));
}

/// Whether a directory brings names to its new place that the review takes out.
bool BoxView::brings_reviewed(const SeenPath& from, const std::string& to) const {
  if (!from.file || from.file->type != FileType::kDirectory) {
    return false;
  }
  bool brings = false;
  const auto status = eyes_.walk(
      {.directory = from.canonical}, [&](const std::string& path, const FileFacts& facts) {
        brings = name_rule(to + path.substr(from.canonical.size()),
                           facts.type == FileType::kDirectory) != nullptr;
        return brings ? WalkStep::kStop : WalkStep::kInto;
      });
  return brings || !status;
}

bool BoxView::dials(const std::string& target) const {
  const auto parsed = EgressTarget::from_authority(target);
  if (!parsed || !plan_.egress) {
    return false;
  }
  const bool is_named = plan_.egress->decide(*parsed).allowed;
  return is_named &&
         (!parsed->address() || plan_.egress->decide_address(*parsed, *parsed->address()).allowed);
}

BoxOutcome BoxView::on_path(const GateItem& item, const std::string& cwd) const {
  const std::string& target =
      item.operation == kExec && !item.argv.empty() ? item.argv.front() : item.target;
  const std::string spelled = plain_path(cwd, target);
  if (std::ranges::any_of(kMadePlaces, [&](auto place) { return covers(place, spelled); })) {
    return BoxOutcome::kOwn;
  }
  if (item.operation == kRename || item.operation == kLink) {
    return moving(item, cwd);
  }
  const Object object =
      find(cwd, target, keeps_last_link(item.operation) ? LastLink::kKeep : LastLink::kFollow);
  if (item.operation == kUnix) {
    return std::ranges::binary_search(plan_.sockets, object.seen.canonical) ? BoxOutcome::kAllowed
                                                                            : BoxOutcome::kDenied;
  }
  if (only_reads(item.operation) || item.operation == kExec) {
    return reading(object);
  }
  if (item.operation == kDelete) {
    return taking_away(object);
  }
  return making(object);
}

BoxOutcome BoxView::outcome(const GateItem& item, const std::string& cwd) const {
  if (takes_path(item.operation)) {
    return on_path(item, cwd);
  }
  const auto answer = [](bool allowed) {
    return allowed ? BoxOutcome::kAllowed : BoxOutcome::kDenied;
  };
  if (item.operation == kEnv) {
    return answer(std::ranges::binary_search(plan_.variables, item.target));
  }
  if (item.operation == kConnect) {
    return answer(dials(item.target));
  }
  // A box has a loopback and processes of its own.
  return item.operation == kListen ? BoxOutcome::kOwn : BoxOutcome::kDenied;
}

}  // namespace sandboxkit::gate
