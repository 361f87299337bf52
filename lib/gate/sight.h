#pragma once

#include "sandboxkit/file_eyes.h"

#include "gate/access.h"
#include "gate/rules.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit::gate {

/// What one request's judge saw, so that each question to the file system is asked once and all
/// items are judged by the same answers.
class Sight {
 public:
  Sight(const PermissionGate::Rules& rules, const FileEyes& eyes) : rules_(rules), eyes_(eyes) {}

  Result<SeenPath> look(const LookAt& at) const;

  /// The rules whose one literal place is this object. Source: the inode rule, 4.2.
  const std::vector<const Rule*>& rules_for(const FileIdentity& object);

  /// Protected names of a file that has several.
  Result<std::vector<std::string>> protected_names(const FileIdentity& object);

  /// Everything below a directory, as it is and, with `moved_to`, as it will be called.
  Result<std::vector<Below>> below(const std::string& directory,
                                   const std::optional<std::string>& moved_to) const;

  /// Notes what the request makes, for the shape of a bare repository over several items.
  void note_made(const std::string& path) { made_.insert(path); }
  bool exists(const std::string& path) const;
  bool will_exist(const std::string& path) const { return made_.contains(path) || exists(path); }

  /// The program that a word names: by its path, or in the session's program folders.
  std::optional<SeenPath> program(const std::string& cwd, const std::string& word) const;

 private:
  using Objects = std::map<FileIdentity, std::vector<const Rule*>>;
  using Names = std::map<FileIdentity, std::vector<std::string>>;
  void add_object(const Rule& rule, const std::string& path, Objects& objects) const;
  Status scan_anchored(Names& names) const;
  Status scan_tree(Names& names) const;

  const PermissionGate::Rules& rules_;
  const FileEyes& eyes_;
  std::optional<Objects> objects_;
  std::optional<Result<Names>> names_;
  std::set<std::string> made_;
};

}  // namespace sandboxkit::gate
