#include "gate/sight.h"

#include "gate/path_text.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr std::uint32_t kAnyExecute = 0111;

bool starts_anywhere(const Rule& rule) { return rule.pattern.path().empty(); }

}  // namespace

Result<SeenPath> Sight::look(const LookAt& at) const { return needs_.eyes.look(at); }

const std::vector<const Rule*>& Sight::rules_for(const FileIdentity& object) {
  static const std::vector<const Rule*> kNone;
  if (needs_.objects == nullptr && !objects_) {
    objects_ = look_at_objects(needs_.rules, needs_.eyes);
  }
  const Objects& objects = needs_.objects != nullptr ? *needs_.objects : *objects_;
  const auto found = objects.find(object);
  return found != objects.end() ? found->second : kNone;
}

/// Every path that an item of the request makes, and the directories above it.
std::set<std::string> Sight::look_at_made() const {
  using enum GateOperation;
  std::set<std::string> made;
  const GateRequest& request = needs_.request;
  for (const GateItem& item : request.items) {
    const bool makes =
        item.operation == kCreate || item.operation == kWrite || item.operation == kSymlink;
    const bool moves = item.operation == kRename || item.operation == kLink;
    const std::string& path = moves ? item.to : item.target;
    if ((!makes && !moves) || path.empty() || path.size() > kMaxPathBytes ||
        path.find('\0') != std::string::npos) {
      continue;
    }
    const auto seen = look({.cwd = request.cwd.empty() ? "/" : request.cwd, .path = path});
    if (seen) {
      // A directory that comes brings the ones above it.
      for (std::string_view part = seen->canonical; part.size() > 1; part = parent_of(part)) {
        made.insert(std::string(part));
      }
    }
  }
  return made;
}

bool Sight::will_exist(const std::string& path) {
  if (!made_) {
    made_ = look_at_made();
  }
  return made_->contains(path) || exists(path);
}

/// Denials that begin at a place: their directories, into whatever they cover.
Status Sight::scan_anchored(Names& names) const {
  std::set<std::string> starts;
  std::vector<const Rule*> anchored;
  for_each_rule(needs_.rules, [&](const Rule& rule) {
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
    if (auto status = needs_.eyes.walk({.directory = start, .skip_unreadable = true}, visit);
        !status) {
      return status;
    }
  }
  return {};
}

/// Denials of names at any depth: the work tree.
Status Sight::scan_tree(Names& names) const {
  return needs_.eyes.walk({.directory = needs_.rules.session.tree, .skip_unreadable = true},
                          [&](const std::string& path, const FileFacts& facts) {
                            if (facts.type == FileType::kFile && facts.link_count > 1) {
                              const PathName name(path);
                              const bool covered = std::ranges::any_of(
                                  needs_.rules.denials.all(),
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
  const auto status = needs_.eyes.walk(
      {.directory = directory}, [&](const std::string& path, const FileFacts& facts) {
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
  const auto seen = needs_.eyes.look({.cwd = "/", .path = path, .last = LastLink::kKeep});
  return seen && seen->file;
}

std::optional<SeenPath> Sight::program(const std::string& cwd, const std::string& word) const {
  if (word.find('/') != std::string::npos) {
    auto seen = needs_.eyes.look({.cwd = cwd, .path = word});
    return seen ? std::optional(std::move(*seen)) : std::nullopt;
  }
  for (const std::string& directory : needs_.rules.session.program_dirs) {
    auto seen = needs_.eyes.look({.cwd = "/", .path = directory + "/" + word});
    if (seen && seen->file && seen->file->type == FileType::kFile &&
        (seen->file->mode & kAnyExecute) != 0) {
      return std::move(*seen);
    }
  }
  return std::nullopt;
}

}  // namespace sandboxkit::gate
