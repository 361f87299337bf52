#include "gate/protection.h"

#include "gate/path_text.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace sandboxkit::gate {
namespace {

/// Whether a name is denied, of an object that is a directory or not.
bool hits(const Rule& rule, const PathName& name, bool is_directory) {
  return rule.spares_directories ? !is_directory && rule.pattern.matches_whole(name)
                                 : rule.pattern.matches(name);
}

std::optional<Denied> by_name(const Rule& rule, const Access& access) {
  const auto denied = [&](const char* reason, std::string via = {}) {
    return Denied{rule.pattern.text(), rule.source, reason, std::move(via)};
  };
  const bool is_directory = access.seen.file && access.seen.file->type == FileType::kDirectory;
  if (hits(rule, access.canonical, is_directory)) {
    return denied("denied");
  }
  for (const PathName& name : access.other_names) {
    // Another name of a directory is a link to it: for that name it is no directory.
    if (hits(rule, name, /*is_directory=*/false)) {
      return denied("denied", name.text);
    }
  }
  return std::nullopt;
}

std::optional<Denied> by_object(const Rule& rule, const std::vector<const Rule*>& of_objects) {
  if (std::ranges::find(of_objects, &rule) == of_objects.end()) {
    return std::nullopt;
  }
  return Denied{rule.pattern.text(), rule.source, "same_object"};
}

std::optional<Denied> by_what_it_holds(const PermissionGate::Rules& all, const Rule& rule,
                                       const Access& access) {
  const auto denied = [&](std::string via) {
    return Denied{rule.pattern.text(), rule.source, "contains_denied", std::move(via)};
  };
  for (const Below& below : access.below) {
    if (hits(rule, below.name, below.is_directory) &&
        !is_excepted(all, rule, access.operation, below.name)) {
      return denied(below.name.text);
    }
  }
  if (access.makes_link && rule.pattern.leads_through(access.canonical)) {
    return denied({});
  }
  if (access.operation != GateOperation::kDelete) {
    return std::nullopt;
  }
  const bool above = rule.pattern.reaches_below(access.canonical) ||
                     std::ranges::any_of(access.other_names, [&](const PathName& name) {
                       return rule.pattern.reaches_below(name);
                     });
  return above ? std::optional(denied({})) : std::nullopt;
}

bool is_spared(const Rule& rule, const Access& access) {
  return !rule.spared_for_reading.empty() && only_reads(access.operation) &&
         covers(rule.spared_for_reading, access.canonical.text);
}

/// Whether names count that are not the access's own: what is below it, or comes to be.
bool takes_or_brings(const Access& access) {
  return access.operation == GateOperation::kDelete || access.makes_link || !access.below.empty();
}

/// The rules that may deny something by its names or as an object, in their order.
Numbers may_deny(const RuleList& rules, const Access& access,
                 const std::vector<const Rule*>& of_objects) {
  Numbers numbers;
  rules.index().find(access.canonical, numbers);
  for (const PathName& name : access.other_names) {
    rules.index().find(name, numbers);
  }
  for (const Rule* rule : of_objects) {
    if (const auto number = rules.number_of(rule)) {
      numbers.push_back(*number);
    }
  }
  put_in_order(numbers);
  return numbers;
}

/// What makes a directory a repository, and what is dangerous in one.
constexpr std::array<std::string_view, 3> kShape = {"head", "objects", "refs"};
constexpr std::array<std::string_view, 2> kLoaded = {"config", "hooks"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool has_shape(const std::string& directory, Sight& sight, bool afterwards) {
  return std::ranges::all_of(std::array<const char*, 3>{"HEAD", "objects", "refs"},
                             [&](const char* part) {
                               const std::string path = directory + "/" + part;
                               return afterwards ? sight.will_exist(path) : sight.exists(path);
                             });
}

}  // namespace

bool is_excepted(const PermissionGate::Rules& all, const Rule& rule, GateOperation operation,
                 const PathName& canonical) {
  return !rule.is_hardlock && std::ranges::any_of(all.exceptions, [&](const Exception& exception) {
    return (exception.lifts.empty() || exception.lifts == rule.pattern.text()) &&
           exception.operations.has(operation) && exception.pattern.matches(canonical);
  });
}

std::vector<const Rule*> rules_of_objects(const Access& access, Sight& sight) {
  std::vector<const Rule*> found;
  const auto add = [&](const FileIdentity& identity) {
    const auto& rules = sight.rules_for(identity);
    found.insert(found.end(), rules.begin(), rules.end());
  };
  if (access.seen.file) {
    add(access.seen.file->identity);
  }
  std::ranges::for_each(access.seen.above, add);
  return found;
}

std::optional<Denied> first_denial(const RuleList& rules, const Protection& protection) {
  // By names: clang captures no structured binding.
  const PermissionGate::Rules& all = protection.all;
  const Access& access = protection.access;
  const auto& of_objects = protection.of_objects;
  const auto denial_of = [&](const Rule& rule) -> std::optional<Denied> {
    const bool is_meant =
        rule.operations.has(access.operation) || rule.operations.has(access.asked);
    if (!is_meant || is_spared(rule, access) ||
        is_excepted(all, rule, access.operation, access.canonical)) {
      return std::nullopt;
    }
    if (auto denied = by_name(rule, access)) {
      return denied;
    }
    if (auto denied = by_object(rule, of_objects)) {
      return denied;
    }
    return by_what_it_holds(all, rule, access);
  };
  if (protection.narrowing == Narrowing::kNone || takes_or_brings(access)) {
    for (const Rule& rule : rules.all()) {
      if (auto denied = denial_of(rule)) {
        return denied;
      }
    }
    return std::nullopt;
  }
  for (const std::uint32_t number : may_deny(rules, access, of_objects)) {
    if (auto denied = denial_of(rules.all()[number])) {
      return denied;
    }
  }
  return std::nullopt;
}

std::optional<Denied> takes_root_away(const PermissionGate::Rules& all, const Access& access) {
  if (access.operation != GateOperation::kDelete) {
    return std::nullopt;
  }
  for (const std::string& root : all.own_roots) {
    if (covers(access.canonical.text, root)) {
      return Denied{root, "roots", "contains_denied"};
    }
  }
  return std::nullopt;
}

std::optional<Denied> in_bare_repository(const Access& access, Sight& sight) {
  if (only_reads(access.operation)) {
    return std::nullopt;
  }
  const auto& names = access.canonical.folded;
  std::string directory;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_leaf = i + 1 == names.size();
    // `hooks` covers what is below it, the others are files or matter by themselves.
    const bool loaded = is_one_of(names[i], kLoaded) && (is_leaf || names[i] == "hooks");
    const bool shaping = is_leaf && is_one_of(names[i], kShape);
    if (loaded && has_shape(directory, sight, /*afterwards=*/true)) {
      return Denied{"HEAD, objects, refs", "built in", "bare_repository", directory};
    }
    if (shaping && !has_shape(directory, sight, /*afterwards=*/false) &&
        has_shape(directory, sight, /*afterwards=*/true) &&
        (sight.exists(directory + "/config") || sight.exists(directory + "/hooks"))) {
      return Denied{"HEAD, objects, refs", "built in", "bare_repository", directory};
    }
    directory += "/" + access.canonical.exact[i];
  }
  return std::nullopt;
}

}  // namespace sandboxkit::gate
