// What follows from the walk: repositories by their shape, names that must not come to be, and
// directories that must stay where they are.

#include "gate/path_text.h"
#include "gate/place_finder.h"
#include "gate/protection.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr const char* kBareRule = "HEAD, objects, refs";

// Files whose being there means something to git: an empty one would break every command.
// Source: bypass B45.
constexpr std::array<std::string_view, 2> kMarkerNames = {"commondir", "gitdir"};

std::string leaf_text(const Rule& rule) { return std::string(leaf_of(rule.pattern.text())); }

}  // namespace

void PlaceFinder::put_absent(const std::string& path, const Rule& rule) {
  const bool is_marker = std::ranges::find(kMarkerNames, leaf_of(path)) != kMarkerNames.end();
  if (is_marker || places_.contains(path) ||
      access_at(std::string(parent_of(path))) != BoxAccess::kReadWrite ||
      is_excepted(rules_, rule, GateOperation::kCreate, PathName(path)) || sight_.exists(path)) {
    return;
  }
  places_.emplace(path, BoxPlace{.path = path,
                                 .access = BoxAccess::kAbsent,
                                 .type = FileType::kFile,
                                 .branch = GateBranch::kMandatoryDenial,
                                 .rule = rule.pattern.text()});
}

/// A whole bare repository: what git runs from it cannot be changed. Source: bypass B11.
void PlaceFinder::protect_loaded(const std::string& directory, const Shape& shape) {
  for (const std::string& path : shape.loaded) {
    const auto seen = eyes_.look({.cwd = "/", .path = path, .last = LastLink::kKeep});
    if (!seen || !seen->file) {
      continue;
    }
    State state;
    state.access = BoxAccess::kReadOnly;
    state.branch = GateBranch::kMandatoryDenial;
    state.rule = kBareRule;
    if (const auto place = places_.find(path);
        place == places_.end() || place->second.access == BoxAccess::kReadWrite) {
      put(path, *seen->file, state);
    }
    for (auto place = places_.upper_bound(path);
         place != places_.end() && covers(path, place->first); ++place) {
      place->second.access = std::min(place->second.access, BoxAccess::kReadOnly);
    }
  }
  for (const char* name : {"config", "hooks"}) {
    const std::string path = directory + "/" + name;
    if (!places_.contains(path) && !sight_.exists(path)) {
      places_.emplace(path, BoxPlace{.path = path,
                                     .access = BoxAccess::kAbsent,
                                     .type = FileType::kFile,
                                     .branch = GateBranch::kMandatoryDenial,
                                     .rule = kBareRule});
    }
  }
}

void PlaceFinder::protect_bare_repositories() {
  for (const auto& [directory, shape] : shapes_) {
    if (access_at(directory) != BoxAccess::kReadWrite) {
      continue;
    }
    const std::array<std::pair<bool, const char*>, 3> parts = {
        std::pair{shape.head, "HEAD"}, {shape.objects, "objects"}, {shape.refs, "refs"}};
    const auto there = std::ranges::count_if(parts, [](const auto& part) { return part.first; });
    if (there == static_cast<std::ptrdiff_t>(parts.size())) {
      protect_loaded(directory, shape);
    } else if (there + 1 == static_cast<std::ptrdiff_t>(parts.size()) && !shape.loaded.empty()) {
      // The last part would make one of it, with what stands there already.
      const auto* missing =
          std::ranges::find_if(parts, [](const auto& part) { return !part.first; });
      const std::string path = directory + "/" + missing->second;
      places_.try_emplace(path, BoxPlace{.path = path,
                                         .access = BoxAccess::kAbsent,
                                         .type = FileType::kFile,
                                         .branch = GateBranch::kMandatoryDenial,
                                         .rule = kBareRule});
    }
  }
}

/// Names that stand directly in a directory that is there: `hooks` in an existing `.git`.
void PlaceFinder::add_absent_in(const std::string& directory, const PathName& name) {
  for (auto [at, end] = named_in_.equal_range(name.folded.back()); at != end; ++at) {
    const auto& parts = at->second->pattern.parts();
    const std::size_t above = parts.size() - 2;
    const bool fits = name.folded.size() >= above &&
                      std::equal(parts.begin() + 1, parts.end() - 1,
                                 name.folded.end() - static_cast<std::ptrdiff_t>(above));
    if (fits) {
      put_absent(directory + "/" + leaf_text(*at->second), *at->second);
    }
  }
}

void PlaceFinder::add_absent_names() {
  std::set<std::string> keys;
  for (const auto& [key, rule] : named_in_) {
    keys.insert(key);
  }
  std::vector<std::string> found;
  for (const auto& [path, directory] : directories_) {
    if (states_[directory.state].access == BoxAccess::kReadWrite) {
      found.push_back(path);
    }
  }
  for (const std::string& path : found) {
    const PathName name(path);
    if (!name.folded.empty() && keys.contains(name.folded.back())) {
      add_absent_in(path, name);
    }
  }
  for (const Listed& listed : index_.all()) {
    const Rule& rule = *listed.rule;
    if (listed.branch == GateBranch::kAsk || !rule.pattern.is_literal() ||
        rule.spares_directories || !rule.operations.has(GateOperation::kCreate)) {
      continue;
    }
    if (!rule.pattern.is_bare_name()) {
      if (!rule.pattern.path().empty() &&
          directories_.contains(std::string(parent_of(rule.pattern.path())))) {
        put_absent(rule.pattern.path(), rule);
      }
      continue;
    }
    for (const Start& start : starts_) {
      if (start.access == BoxAccess::kReadWrite && start.facts.type == FileType::kDirectory) {
        put_absent(start.path + "/" + rule.pattern.text(), rule);
      }
    }
  }
}

bool PlaceFinder::leads_to_denied(const std::string& directory) const {
  const PathName name(directory);
  return std::ranges::any_of(anchored_, [&](const Rule* rule) {
    return rule->pattern.reaches_below(name) &&
           !is_excepted(rules_, *rule, GateOperation::kDelete, name);
  });
}

/// A directory above something protected that was moved would take it out of its place.
/// Source: bypass B9.
void PlaceFinder::add_pins() {
  std::set<std::string> pinned;
  const auto pin_above = [&](const std::string& path) {
    for (std::string at(parent_of(path)); at.size() > 1; at = parent_of(at)) {
      if (places_.contains(at) || pinned.contains(at) || access_at(at) != BoxAccess::kReadWrite) {
        return;
      }
      pinned.insert(at);
    }
  };
  for (const auto& [path, place] : places_) {
    pin_above(path);
  }
  // Rules that begin elsewhere do not reach in here; those that do are few.
  std::erase_if(anchored_, [&](const Rule* rule) {
    return std::ranges::none_of(starts_, [&](const Start& start) {
      return start.access == BoxAccess::kReadWrite &&
             (rule->pattern.reaches_below(PathName(start.path)) ||
              covers(start.path, rule->pattern.path()));
    });
  });
  if (!anchored_.empty()) {
    for (const auto& [path, directory] : directories_) {
      if (states_[directory.state].access == BoxAccess::kReadWrite && !places_.contains(path) &&
          leads_to_denied(path)) {
        pinned.insert(path);
        pin_above(path);
      }
    }
  }
  for (const std::string& path : pinned) {
    places_.emplace(path, BoxPlace{.path = path,
                                   .access = BoxAccess::kPin,
                                   .identity = directories_.at(path).identity,
                                   .type = FileType::kDirectory,
                                   .branch = GateBranch::kMandatoryDenial,
                                   .rule = "holds what is denied"});
  }
}

}  // namespace sandboxkit::gate
