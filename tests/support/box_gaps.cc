#include "tests/support/box_gaps.h"

#include "gate/operations.h"
#include "gate/path_text.h"

#include <algorithm>

namespace sandboxkit::box_test {
namespace {

using enum GateOperation;

bool is_granted(const BoxPlace* place) {
  return place != nullptr && (place->branch == GateBranch::kPermanentGrant ||
                              place->branch == GateBranch::kSessionGrant);
}

bool is_move(GateOperation operation) { return operation == kRename || operation == kLink; }

SeenPath look(const Compared& compared, const std::string& path, LastLink last) {
  auto seen = compared.eyes.look({.cwd = "/", .path = path, .last = last});
  return seen ? std::move(*seen) : SeenPath{};
}

/// What the item makes, or would: the target of a move.
SeenPath made(const Compared& compared) {
  const GateItem& item = compared.item;
  if (item.operation == kExec) {
    return look(compared, item.argv.front(), LastLink::kFollow);
  }
  return is_move(item.operation) ? look(compared, item.to, LastLink::kKeep)
                                 : look(compared, item.target, LastLink::kFollow);
}

/// Whether a name rule is about what comes to be, or about what a directory brings to its new
/// place.
bool meets_name_rule(const Compared& compared, const SeenPath& target) {
  const SeenPath source = look(compared, compared.item.target, LastLink::kKeep);
  const bool brings_directory =
      is_move(compared.item.operation) && source.file && source.file->type == FileType::kDirectory;
  if (compared.view.name_rule(target.canonical, brings_directory) != nullptr) {
    return true;
  }
  bool meets = false;
  if (brings_directory) {
    const auto status = compared.eyes.walk(
        {.directory = source.canonical}, [&](const std::string& path, const FileFacts& facts) {
          meets = meets ||
                  compared.view.name_rule(target.canonical + path.substr(source.canonical.size()),
                                          facts.type == FileType::kDirectory) != nullptr;
          return WalkStep::kInto;
        });
    meets = meets && status.has_value();
  }
  return meets;
}

/// Whether an item is about a link whose own name the plan protects.
bool touches_link_place(const Compared& compared) {
  const auto is_link = [&](const std::string& path) {
    const std::string plain = gate::plain_path("/", path);
    return std::ranges::any_of(compared.plan.places, [&](const BoxPlace& place) {
      return place.type == FileType::kLink && gate::covers(place.path, plain);
    });
  };
  return is_link(compared.item.target) ||
         (is_move(compared.item.operation) && is_link(compared.item.to));
}

std::optional<Gap> wider(const Compared& compared) {
  const GateItem& item = compared.item;
  const GateItemDecision& decisive = compared.decision.decisive;
  const SeenPath target = made(compared);
  if (decisive.reason == "privilege") {
    return Gap::kPrivilege;
  }
  if (decisive.reason == "bare_repository") {
    return Gap::kNewRepository;
  }
  const bool makes = !gate::only_reads(item.operation) && item.operation != kDelete &&
                     item.operation != kMeta && item.operation != kExec;
  if (makes && !target.file && meets_name_rule(compared, target)) {
    return Gap::kNewName;
  }
  const auto is_named = [&](const std::string& link) {
    return compared.view.name_rule(link, false) != nullptr;
  };
  if (target.file && std::ranges::any_of(target.links, is_named)) {
    return Gap::kLinkName;
  }
  if (decisive.reason == "contains_denied" && makes) {
    const SeenPath source = look(compared, item.target, LastLink::kKeep);
    const bool is_link =
        item.operation == kSymlink || (source.file && source.file->type == FileType::kLink);
    return is_link ? std::optional(Gap::kLinkOnTheWay) : std::nullopt;
  }
  if (target.canonical == "/" && gate::only_reads(item.operation)) {
    return Gap::kRootNames;
  }
  const bool reads = gate::only_reads(item.operation) || item.operation == kExec;
  if (reads && compared.view.place_of(target.canonical) == nullptr) {
    return Gap::kWhereAllRead;
  }
  if (touches_link_place(compared)) {
    return Gap::kLinkReplaced;
  }
  const bool by_changes = !reads && compared.writes;
  const bool by_grant = is_granted(compared.view.place_of(target.canonical));
  if (((reads && compared.reads) || by_changes || by_grant) &&
      decisive.branch != GateBranch::kHardlock) {
    return Gap::kRightsComeWhole;
  }
  return std::nullopt;
}

std::optional<Gap> stricter(const Compared& compared) {
  const GateItem& item = compared.item;
  const SeenPath source =
      look(compared, item.target,
           gate::keeps_last_link(item.operation) ? LastLink::kKeep : LastLink::kFollow);
  const SeenPath target = made(compared);
  const auto is_unseen = [&](const std::string& link) {
    const BoxPlace* place = compared.view.place_of(link);
    return place == nullptr || place->access == BoxAccess::kHide ||
           gate::covers(compared.plan.home, link);
  };
  if (std::ranges::any_of(source.links, is_unseen) ||
      std::ranges::any_of(target.links, is_unseen)) {
    return Gap::kLinkOutside;
  }
  if (is_move(item.operation)) {
    const std::string_view from = item.operation == kRename ? gate::parent_of(source.canonical)
                                                            : std::string_view(source.canonical);
    if (compared.view.mount_of(from) != compared.view.mount_of(gate::parent_of(target.canonical))) {
      return Gap::kOtherMount;
    }
  }
  if (item.operation == kLink && !compared.makes_hard_links) {
    return Gap::kNoHardLinks;
  }
  const bool goes = item.operation == kDelete || item.operation == kRename;
  const BoxPlace* held = compared.view.mount_of(source.canonical);
  const BoxPlace* replaced = compared.view.mount_of(target.canonical);
  const auto holds = [](const BoxPlace* place, const SeenPath& seen) {
    return place != nullptr && place->path == seen.canonical && place->access == BoxAccess::kPin;
  };
  if ((goes && holds(held, source)) || (is_move(item.operation) && holds(replaced, target))) {
    return Gap::kHolds;
  }
  if (item.operation == kExec && !compared.reads) {
    return Gap::kHiddenProgram;
  }
  const bool by_grant = compared.decision.decisive.branch == GateBranch::kPermanentGrant ||
                        compared.decision.decisive.branch == GateBranch::kSessionGrant;
  // A place cannot be taken away, and what may be changed below a directory that may not is one.
  const bool is_place =
      held != nullptr && held->path == source.canonical && held->access == BoxAccess::kReadWrite;
  if (by_grant || (goes && is_place)) {
    return Gap::kGrantRoundedDown;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Gap> gap_of(const Compared& compared) {
  return compared.box_allows ? wider(compared) : stricter(compared);
}

}  // namespace sandboxkit::box_test
