#include "tests/unit/box_kernel/disk.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace sandboxkit::box_test {
namespace {

namespace fs = std::filesystem;

void build(const Entry& entry) {
  fs::create_directories(fs::path(entry.path).parent_path());
  switch (entry.kind) {
    case Kind::kFile:
    case Kind::kProgram:
      std::ofstream(entry.path) << "of the host\n";
      return;
    case Kind::kDirectory:
      fs::create_directories(entry.path);
      return;
    case Kind::kLink:
      fs::create_symlink(entry.to, entry.path);
      return;
    case Kind::kHardLink:
      fs::create_hard_link(entry.to, entry.path);
      return;
  }
}

}  // namespace

std::string& base_folder() {
  static std::string folder;
  return folder;
}

std::string& probe_program() {
  static std::string path;
  return path;
}

Disk::Disk() {
  root_ = base_folder() + "/disk-XXXXXX";
  if (mkdtemp(root_.data()) == nullptr) {
    throw std::runtime_error("no folder for a disk");
  }
  world_ = world_at(root_);
  for (const Entry& entry : world_.entries) {
    build(entry);
  }
  fs::copy_file(probe_program(), probe());
}

Disk::~Disk() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

}  // namespace sandboxkit::box_test
