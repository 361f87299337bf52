#include "gate/sight.h"

#include "gate/path_text.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr std::uint32_t kAnyExecute = 0111;

bool starts_anywhere(const Rule& rule) { return rule.pattern.path().empty(); }

/// Calls `visit` for every rule that denies something.
template <typename Visit>
void for_each_rule(const PermissionGate::Rules& rules, Visit visit) {
  for (const Rule& rule : rules.hardlocks) {
    visit(rule);
  }
  for (const Rule& rule : rules.denials) {
    visit(rule);
  }
}

}  // namespace

Result<SeenPath> Sight::look(const LookAt& at) const { return eyes_.look(at); }

void Sight::add_object(const Rule& rule, const std::string& path, Objects& objects) const {
  const auto seen = eyes_.look({.cwd = "/", .path = path});
  // What cannot be seen has no object that we could tell; its name stays denied.
  if (seen && seen->file) {
    objects[seen->file->identity].push_back(&rule);
  }
}

const std::vector<const Rule*>& Sight::rules_for(const FileIdentity& object) {
  static const std::vector<const Rule*> kNone;
  if (!objects_) {
    objects_.emplace();
    for_each_rule(rules_, [&](const Rule& rule) {
      if (rule.pattern.is_bare_name() && rule.pattern.is_literal() && !rule.spares_directories) {
        add_object(rule, rules_.session.home + "/" + rule.pattern.text(), *objects_);
      } else if (rule.pattern.is_literal() && !starts_anywhere(rule)) {
        add_object(rule, rule.pattern.path(), *objects_);
      }
    });
  }
  const auto found = objects_->find(object);
  return found != objects_->end() ? found->second : kNone;
}

/// Denials that begin at a place: their directories, into whatever they cover.
Status Sight::scan_anchored(Names& names) const {
  std::set<std::string> starts;
  std::vector<const Rule*> anchored;
  for_each_rule(rules_, [&](const Rule& rule) {
    // The kernel's own places have no files with two names.
    const bool has_files = !starts_anywhere(rule) && !covers("/proc", rule.pattern.path()) &&
                           !covers("/sys", rule.pattern.path()) &&
                           !covers("/dev", rule.pattern.path());
    if (has_files) {
      anchored.push_back(&rule);
      starts.insert(rule.pattern.path());
    }
  });
  const auto visit = [&](const std::string& path, const FileFacts& facts) {
    const PathName name(path);
    const bool covered = std::ranges::any_of(
        anchored, [&](const Rule* rule) { return rule->pattern.matches(name); });
    if (covered && facts.type == FileType::kFile && facts.link_count > 1) {
      names[facts.identity].push_back(path);
    }
    const bool leads_there = covered || std::ranges::any_of(anchored, [&](const Rule* rule) {
                               return rule->pattern.reaches_below(name);
                             });
    return leads_there ? WalkStep::kInto : WalkStep::kPast;
  };
  for (const std::string& start : starts) {
    // What we may not read, an agent of the same user may not either.
    if (auto status = eyes_.walk({.directory = start, .skip_unreadable = true}, visit); !status) {
      return status;
    }
  }
  return {};
}

/// Denials of names at any depth: the work tree.
Status Sight::scan_tree(Names& names) const {
  return eyes_.walk({.directory = rules_.session.tree, .skip_unreadable = true},
                    [&](const std::string& path, const FileFacts& facts) {
                      if (facts.type == FileType::kFile && facts.link_count > 1) {
                        const PathName name(path);
                        const bool covered = std::ranges::any_of(
                            rules_.denials,
                            [&](const Rule& rule) { return rule.pattern.matches(name); });
                        if (covered) {
                          names[facts.identity].push_back(path);
                        }
                      }
                      return WalkStep::kInto;
                    });
}

Result<std::vector<std::string>> Sight::protected_names(const FileIdentity& object) {
  if (!names_) {
    Names names;
    Status status = scan_anchored(names);
    if (status) {
      status = scan_tree(names);
    }
    names_.emplace(status ? Result<Names>(std::move(names)) : Result<Names>(status.error()));
  }
  if (!*names_) {
    return names_->error();
  }
  const auto found = (*names_)->find(object);
  return found != (*names_)->end() ? found->second : std::vector<std::string>();
}

Result<std::vector<Below>> Sight::below(const std::string& directory,
                                        const std::optional<std::string>& moved_to) const {
  std::vector<Below> all;
  const auto status =
      eyes_.walk({.directory = directory}, [&](const std::string& path, const FileFacts& facts) {
        const std::string called = moved_to ? *moved_to + path.substr(directory.size()) : path;
        all.push_back(Below{PathName(called), facts.type == FileType::kDirectory});
        return WalkStep::kInto;
      });
  if (!status) {
    return status.error();
  }
  return all;
}

bool Sight::exists(const std::string& path) const {
  const auto seen = eyes_.look({.cwd = "/", .path = path, .last = LastLink::kKeep});
  return seen && seen->file;
}

std::optional<SeenPath> Sight::program(const std::string& cwd, const std::string& word) const {
  if (word.find('/') != std::string::npos) {
    auto seen = eyes_.look({.cwd = cwd, .path = word});
    return seen ? std::optional(std::move(*seen)) : std::nullopt;
  }
  for (const std::string& directory : rules_.session.program_dirs) {
    auto seen = eyes_.look({.cwd = "/", .path = directory + "/" + word});
    if (seen && seen->file && seen->file->type == FileType::kFile &&
        (seen->file->mode & kAnyExecute) != 0) {
      return std::move(*seen);
    }
  }
  return std::nullopt;
}

}  // namespace sandboxkit::gate
