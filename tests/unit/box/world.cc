#include "world.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::box_test {
namespace {

namespace fs = std::filesystem;

std::string& base() {
  static std::string folder;
  return folder;
}

FileType type_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) {
    return FileType::kDirectory;
  }
  return S_ISLNK(status.st_mode) ? FileType::kLink : FileType::kFile;
}

}  // namespace

std::string make_base() {
  std::string folder = fs::current_path().string() + "/box-test-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return {};
  }
  base() = folder;
  return folder;
}

void remove_base() {
  std::error_code ignored;
  fs::remove_all(base(), ignored);
}

std::string& probe_program() {
  static std::string path;
  return path;
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

FileIdentity identity_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    throw std::runtime_error("no " + path);
  }
  return {status.st_dev, status.st_ino};
}

std::string text_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

void write_text(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

World::World() {
  root_ = base() + "/w-XXXXXX";
  if (mkdtemp(root_.data()) == nullptr) {
    throw std::runtime_error("no folder for a world");
  }
  for (const char* file : {"home/.ssh/id_rsa", "home/.netrc", "home/.bashrc", "home/notes",
                           "home/proj/.env", "home/proj/src/a.c", "home/proj/.git/hooks/x",
                           "home/proj/.git/config", "home/proj/.git/index",
                           "home/proj/sub/.git/hooks/x", "outside/file", "outside/granted/file"}) {
    write_text(root_ + "/" + file, "of the host\n");
  }
  fs::create_symlink(home() + "/.ssh/id_rsa", tree() + "/link");
  fs::create_hard_link(home() + "/.bashrc", tree() + "/hl");
  fs::copy_file(probe_program(), tree() + "/probe");
}

World::~World() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

BoxPlace World::place(const std::string& path, BoxAccess access) const {
  BoxPlace out{.path = path, .access = access};
  struct stat status {};
  if (access != BoxAccess::kAbsent && lstat(path.c_str(), &status) == 0) {
    out.identity = {status.st_dev, status.st_ino};
    out.type = type_of(status);
  }
  return out;
}

BoxPlan World::plan() const {
  BoxPlan out;
  out.tree = tree();
  out.home = home();
  out.places = {place(tree(), BoxAccess::kReadWrite),
                place(tree() + "/.env", BoxAccess::kHide),
                place(tree() + "/.git", BoxAccess::kPin),
                place(tree() + "/.git/config", BoxAccess::kReadOnly),
                place(tree() + "/.git/hooks", BoxAccess::kReadOnly),
                place(tree() + "/.mcp.json", BoxAccess::kAbsent),
                place(tree() + "/hl", BoxAccess::kReadOnly),
                place(tree() + "/sub", BoxAccess::kPin),
                place(tree() + "/sub/.git", BoxAccess::kPin),
                place(tree() + "/sub/.git/hooks", BoxAccess::kReadOnly)};
  return out;
}

BoxOptions World::options() const {
  BoxOptions out;
  out.state_dir = root_ + "/state";
  return out;
}

BoxCommand shell(const World& world, const std::string& text) {
  return {.argv = {"sh", "-c", text}, .cwd = world.tree(), .environment = {"PATH=/usr/bin:/bin"}};
}

Ran run(const BoxPlan& plan, BoxCommand command, const BoxOptions& options) {
  constexpr std::chrono::seconds kLimit{30};
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  const io::Fd reading(ends[0]);
  io::Fd writing(ends[1]);
  const io::Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  command.descriptors = {{nothing.get(), 0}, {writing.get(), 1}, {writing.get(), 2}};
  Ran out;
  auto box = Box::start(plan, command, options);
  writing.reset();
  if (!box) {
    out.end = box.error();
    return out;
  }
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(reading.get(), buffer.data(), buffer.size())) > 0;) {
    out.output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const auto end = (*box)->wait(kLimit);
  if (end && *end) {
    out.end = **end;
  }
  return out;
}

}  // namespace sandboxkit::box_test
