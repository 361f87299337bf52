// The walk: what each entry of the host may be in a box.

#include "gate/place_finder.h"

#include "base/text.h"
#include "gate/fold.h"
#include "gate/path_text.h"
#include "gate/protection.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sandboxkit::gate {
namespace {

using enum GateOperation;

constexpr std::array kReading = {kRead, kList, kStat};
constexpr std::array kChanging = {kWrite, kCreate, kDelete, kMeta, kRename, kLink, kSymlink};

bool names_changes(const Rule& rule) {
  return std::ranges::any_of(kChanging, [&](GateOperation op) { return rule.operations.has(op); });
}

/// A look that is not complete protects nothing. Source: bypass B44.
Error incomplete(const std::string& path, const Error& error) {
  Error told = error;
  told.message = "a box needs a whole look through " + quoted(path) + ": " + error.message;
  return told;
}

}  // namespace

bool Ground::shows(std::string_view path) const {
  const auto is_over = [&](const std::string& place) { return covers(place, path); };
  return std::ranges::none_of(own, is_over) &&
         std::ranges::none_of(hidden, is_over, &BoxPlace::path);
}

PlaceFinder::PlaceFinder(const PermissionGate::Rules& rules, const FileEyes& eyes, Ground ground,
                         std::vector<Start> starts)
    : rules_(rules),
      eyes_(eyes),
      sight_({rules, eyes, request_, Narrowing::kIndexed, nullptr}),
      index_(rules),
      ground_(std::move(ground)),
      starts_(std::move(starts)) {
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    starts_at_.emplace(starts_[i].path, i);
  }
  for (const Listed& listed : index_.all()) {
    const auto& parts = listed.rule->pattern.parts();
    if (listed.branch == GateBranch::kAsk) {
      continue;
    }
    if (!listed.rule->pattern.path().empty() && listed.rule->operations.has(kDelete)) {
      anchored_.push_back(listed.rule);
    }
    const bool is_plain =
        parts.size() > 2 && std::none_of(parts.begin() + 1, parts.end(),
                                         [](const auto& p) { return !PathPattern::is_text(p); });
    if (is_plain && listed.rule->pattern.path().empty() && listed.rule->operations.has(kCreate)) {
      named_in_.emplace(parts[parts.size() - 2], listed.rule);
    }
  }
}

void PlaceFinder::keep_sockets(const std::vector<std::string>& sockets) {
  sockets_.insert(sockets.begin(), sockets.end());
}

void PlaceFinder::add_start(State& state, const Start& start) const {
  const bool is_root = start.branch == GateBranch::kWorkTree;
  BoxAccess& level = is_root ? state.by_roots : state.by_grants;
  if (start.access > level) {
    level = start.access;
    state.allowed_by = start.branch;
    state.allowed_rule = start.rule;
  }
}

/// The six branches for all operations at once: denials, then what allows; the rest is not there.
void PlaceFinder::settle(State& state, const std::string& path) const {
  const Listed* reads = nullptr;
  const Listed* changes = nullptr;
  const Listed* excluded = nullptr;
  if (!state.hits.empty()) {
    const PathName name(path);
    for (const Listed& hit : state.hits) {
      if (hit.branch == GateBranch::kAsk) {
        excluded = names_changes(*hit.rule) && excluded == nullptr ? &hit : excluded;
        continue;
      }
      const auto denies = [&](GateOperation operation) {
        const bool is_spared = only_reads(operation) && !hit.rule->spared_for_reading.empty() &&
                               covers(hit.rule->spared_for_reading, path);
        return hit.rule->operations.has(operation) && !is_spared &&
               !is_excepted(rules_, *hit.rule, operation, name);
      };
      // Whoever may read a file may see what it is called: an exception for reading is enough.
      const bool hides =
          hit.rule->operations.has(kRead) ? denies(kRead) : std::ranges::any_of(kReading, denies);
      reads = reads == nullptr && hides ? &hit : reads;
      changes = changes == nullptr && std::ranges::any_of(kChanging, denies) ? &hit : changes;
    }
  }
  const BoxAccess by_roots =
      excluded == nullptr ? state.by_roots : std::min(state.by_roots, BoxAccess::kReadOnly);
  const BoxAccess most = changes == nullptr ? BoxAccess::kReadWrite : BoxAccess::kReadOnly;
  state.access =
      reads != nullptr ? BoxAccess::kHide : std::min(std::max(by_roots, state.by_grants), most);
  const Listed* why = reads != nullptr ? reads : changes != nullptr ? changes : excluded;
  const bool is_less = state.access != std::max(state.by_roots, state.by_grants);
  state.branch = why != nullptr && is_less ? why->branch : state.allowed_by;
  state.rule = why != nullptr && is_less ? why->rule->pattern.text() : state.allowed_rule;
}

PlaceFinder::State PlaceFinder::state_at(const std::string& path) const {
  State state;
  state.by_roots = ground_.shows(path) ? BoxAccess::kReadOnly : BoxAccess::kHide;
  for (const Start& start : starts_) {
    if (covers(start.path, path)) {
      add_start(state, start);
    }
  }
  state.hits = index_.covering(path);
  settle(state, path);
  return state;
}

BoxAccess PlaceFinder::access_at(const std::string& path) const {
  const auto place = places_.find(path);
  if (place != places_.end() && place->second.access != BoxAccess::kPin) {
    return place->second.access;
  }
  const auto found = directories_.find(path);
  return found != directories_.end() ? states_[found->second.state].access : state_at(path).access;
}

void PlaceFinder::add_hits_of(State& state, const FileIdentity& object) {
  for (const Rule* rule : sight_.rules_for(object)) {
    state.hits.push_back(*std::ranges::find(index_.all(), rule, &Listed::rule));
  }
}

/// A start may lie in another mount of something protected. Source: bypass B8.
Status PlaceFinder::add_objects_above(State& state, const std::string& path) {
  const auto seen = eyes_.look({.cwd = "/", .path = path, .last = LastLink::kKeep});
  if (!seen) {
    return incomplete(path, seen.error());
  }
  for (const FileIdentity& object : seen->above) {
    add_hits_of(state, object);
  }
  return {};
}

/// Denials also know a file by its other names, where those are protected. Source: bypass B5.
Status PlaceFinder::add_other_names(State& state, const std::string& path, const FileFacts& facts) {
  add_hits_of(state, facts.identity);
  if (facts.type != FileType::kFile || facts.link_count < 2) {
    return {};
  }
  const auto names = sight_.protected_names(facts.identity);
  if (!names) {
    return incomplete(path, names.error());
  }
  for (const std::string& name : *names) {
    const PathName other(name);
    for (const Listed& listed : index_.all()) {
      const auto& pattern = listed.rule->pattern;
      const bool hits =
          listed.rule->spares_directories ? pattern.matches_whole(other) : pattern.matches(other);
      if (hits && listed.branch != GateBranch::kAsk && name != path) {
        state.hits.push_back(listed);
      }
    }
  }
  return {};
}

void PlaceFinder::put(const std::string& path, const FileFacts& facts, const State& state) {
  places_.insert_or_assign(path, BoxPlace{.path = path,
                                          .access = state.access,
                                          .identity = facts.identity,
                                          .type = facts.type,
                                          .branch = state.branch,
                                          .rule = state.rule});
}

void PlaceFinder::note_shape(const std::string& path) {
  const std::string_view leaf = leaf_of(path);
  const std::string folded = fold(leaf);
  const std::string directory(parent_of(path));
  if (leaf == "HEAD" || leaf == "objects" || leaf == "refs") {
    Shape& shape = shapes_[directory];
    shape.head = shape.head || leaf == "HEAD";
    shape.objects = shape.objects || leaf == "objects";
    shape.refs = shape.refs || leaf == "refs";
  } else if (folded == "config" || folded == "hooks") {
    shapes_[directory].loaded.push_back(path);
  }
}

Status PlaceFinder::meet(const std::string& path, const FileFacts& facts, bool is_top) {
  const bool is_directory = facts.type == FileType::kDirectory;
  const std::string parent(parent_of(path));
  const auto above = directories_.find(parent);
  const std::size_t above_state = above != directories_.end() ? above->second.state : 0;
  const BoxAccess outside =
      is_top && above == directories_.end() ? state_at(parent).access : states_[above_state].access;

  State state = is_top ? state_at(path) : states_[above_state];
  const std::size_t hits_above = state.hits.size();
  if (is_top) {
    if (auto status = add_objects_above(state, path); !status) {
      return status;
    }
  }
  for (const Listed& listed : index_.naming(path, is_directory)) {
    state.hits.push_back(listed);
  }
  if (auto status = add_other_names(state, path, facts); !status) {
    return status;
  }
  bool is_start = false;
  for (auto [at, end] = starts_at_.equal_range(path); at != end; ++at) {
    add_start(state, starts_[at->second]);
    is_start = is_start || starts_[at->second].is_chosen;
  }
  const bool differs = is_top || is_start || state.hits.size() != hits_above;
  if (!state.hits.empty() || is_start || is_top) {
    settle(state, path);
  }
  if (facts.type == FileType::kSocket && !sockets_.empty() && !sockets_.contains(path)) {
    state.access = BoxAccess::kHide;
    state.branch = GateBranch::kAsk;
    state.rule = "sockets";
  }
  if (state.access != outside || (is_start && state.access != BoxAccess::kHide)) {
    put(path, facts, state);
  }
  note_shape(path);
  if (is_directory) {
    const bool is_same = !differs && state.access == states_[above_state].access;
    if (!is_same) {
      states_.push_back(std::move(state));
    }
    directories_.insert_or_assign(
        path, Directory{facts.identity, is_same ? above_state : states_.size() - 1});
  }
  if (places_.size() > PermissionGate::kMaxPlaces) {
    return Error{ErrorCode::kTooLarge,
                 "a box would need more than " + std::to_string(PermissionGate::kMaxPlaces) +
                     " places; give it a smaller tree, or fewer roots and grants"};
  }
  return {};
}

Status PlaceFinder::search(const std::string& path, const FileFacts& facts, bool skip_unreadable) {
  if (directories_.contains(path)) {
    return {};
  }
  if (auto status = meet(path, facts, /*is_top=*/true); !status) {
    return status;
  }
  if (facts.type != FileType::kDirectory) {
    return {};
  }
  Status met;
  const auto status = eyes_.walk({.directory = path, .skip_unreadable = skip_unreadable},
                                 [&](const std::string& below, const FileFacts& its) {
                                   met = meet(below, its, /*is_top=*/false);
                                   return met ? WalkStep::kInto : WalkStep::kStop;
                                 });
  if (!met) {
    return met;
  }
  return status ? Status() : Status(incomplete(path, status.error()));
}

Status PlaceFinder::search_starts() {
  std::vector<const Start*> order;
  for (const Start& start : starts_) {
    order.push_back(&start);
  }
  // What lies above comes first and takes in what lies below it.
  std::ranges::stable_sort(order, {}, [](const Start* start) { return start->path.size(); });
  for (const Start* start : order) {
    if (!start->is_searched) {
      continue;
    }
    // What cannot be read there, an agent cannot read either; but it could make it readable where
    // it may change it.
    const bool is_changed = start->access == BoxAccess::kReadWrite;
    if (auto status = search(start->path, start->facts, !is_changed); !status) {
      return status;
    }
  }
  // The others have a place where their surroundings are hidden.
  for (const Start* start : order) {
    if (!start->is_searched && !directories_.contains(start->path)) {
      if (auto status = meet(start->path, start->facts, /*is_top=*/true); !status) {
        return status;
      }
    }
  }
  return {};
}

/// Hidden places that have one name, in what every program reads.
Status PlaceFinder::search_denials_elsewhere() {
  for (const Listed& listed : index_.all()) {
    const std::string& path = listed.rule->pattern.path();
    const bool hides = std::ranges::any_of(
        kReading, [&](GateOperation op) { return listed.rule->operations.has(op); });
    const bool is_shown = !path.empty() && hides && listed.branch != GateBranch::kAsk &&
                          state_at(path).by_roots != BoxAccess::kHide;
    if (!is_shown || directories_.contains(path)) {
      continue;
    }
    const auto seen = eyes_.look({.cwd = "/", .path = path, .last = LastLink::kKeep});
    if (!seen) {
      return incomplete(path, seen.error());
    }
    if (seen->file && seen->canonical == path) {
      if (auto status = search(path, *seen->file, /*skip_unreadable=*/true); !status) {
        return status;
      }
    }
  }
  return {};
}

Result<std::vector<BoxPlace>> PlaceFinder::find() {
  states_.emplace_back();
  for (const BoxPlace& place : ground_.hidden) {
    places_.emplace(place.path, place);
  }
  Status status = search_starts();
  if (status) {
    status = search_denials_elsewhere();
  }
  if (!status) {
    return status.error();
  }
  protect_bare_repositories();
  add_absent_names();
  add_pins();
  std::vector<BoxPlace> places;
  for (auto& [path, place] : places_) {
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace sandboxkit::gate
