#pragma once

#include "tests/support/box_world.h"

#include <string>

namespace sandboxkit::box_test {

/// Made by main() before it becomes an ordinary user, and removed at the end.
std::string& base_folder();
std::string& probe_program();

/// The machine of the questions on a real disk, in a folder of its own.
class Disk {
 public:
  Disk();
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  const World& world() const { return world_; }
  std::string at(const std::string& name) const { return root_ + "/" + name; }
  /// The program that tries the questions, in the tree, where a box may run it.
  std::string probe() const { return world_.tree() + "/probe"; }

 private:
  std::string root_;
  World world_;
};

}  // namespace sandboxkit::box_test
