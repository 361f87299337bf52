#pragma once

#include "sandboxkit/file_eyes.h"

#include "gate/access.h"
#include "gate/objects.h"
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
  struct Needs {
    const PermissionGate::Rules& rules;
    const FileEyes& eyes;
    const GateRequest& request;
    Narrowing narrowing;
    /// What somebody saw of the denied places; nullptr: they are looked at when it matters.
    const Objects* objects;
  };
  explicit Sight(const Needs& needs) : needs_(needs) {}

  Narrowing narrowing() const { return needs_.narrowing; }

  Result<SeenPath> look(const LookAt& at) const;

  /// The rules whose one literal place is this object. Source: the inode rule, 4.2.
  const std::vector<const Rule*>& rules_for(const FileIdentity& object);

  /// Protected names of a file that has several.
  Result<std::vector<std::string>> protected_names(const FileIdentity& object);

  /// Everything below a directory, as it is and, with `moved_to`, as it will be called.
  Result<std::vector<Below>> below(const std::string& directory,
                                   const std::optional<std::string>& moved_to) const;

  bool exists(const std::string& path) const;
  /// Whether it will after the request: the shape of a bare repository is made by several items.
  bool will_exist(const std::string& path);

  /// The program that a word names: by its path, or in the session's program folders.
  std::optional<SeenPath> program(const std::string& cwd, const std::string& word) const;

 private:
  using Names = std::map<FileIdentity, std::vector<std::string>>;
  std::set<std::string> look_at_made() const;
  Status scan_anchored(Names& names) const;
  Status scan_tree(Names& names) const;

  const Needs needs_;
  std::optional<Objects> objects_;
  std::optional<Result<Names>> names_;
  std::optional<std::set<std::string>> made_;
};

}  // namespace sandboxkit::gate
