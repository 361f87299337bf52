#pragma once

#include "sandboxkit/box.h"

#include "io/fd.h"

#include <map>
#include <string>
#include <vector>

namespace sandboxkit::box_test {

/// Made by main() before it becomes an ordinary user, and removed at the end.
std::string make_base();
void remove_base();
std::string& probe_program();

FileIdentity identity_of(const std::string& path);
bool exists(const std::string& path);
std::string text_of(const std::string& path);
void write_text(const std::string& path, const std::string& text);

/// A home with secrets, a work tree in it that is a repository, and a folder elsewhere, all on a
/// disk and in no place that boxes hide anyway.
class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const std::string& root() const { return root_; }
  std::string home() const { return root_ + "/home"; }
  std::string tree() const { return root_ + "/home/proj"; }
  std::string outside() const { return root_ + "/outside"; }

  /// A place of what is there now.
  BoxPlace place(const std::string& path, BoxAccess access) const;
  /// The tree with its protections, as the gate would plan it.
  BoxPlan plan() const;
  BoxOptions options() const;

 private:
  std::string root_;
};

struct Ran {
  Result<BoxEnd> end = Error{ErrorCode::kInternal, "never ran"};
  std::string output{};
};

/// Runs a command with its output in a pipe, without input.
Ran run(const BoxPlan& plan, BoxCommand command, const BoxOptions& options);
/// `sh -c TEXT` in the tree.
BoxCommand shell(const World& world, const std::string& text);

}  // namespace sandboxkit::box_test
