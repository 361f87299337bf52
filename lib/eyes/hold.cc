#include "eyes/hold.h"

#include "eyes/path_walk.h"

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sandboxkit::eyes {
namespace {

/// The kernel's own link to a descriptor: it leads to the object and resolves no name.
std::string link_of(const io::Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

/// The last name of a path of which nothing else is missing, or empty.
std::string missing_name(const HeldPath& held) {
  const std::string folder = name_of_held(held.place);
  const std::string front = folder == "/" ? folder : folder + "/";
  if (folder.empty() || held.seen.file || !held.seen.canonical.starts_with(front)) {
    return {};
  }
  std::string name = held.seen.canonical.substr(front.size());
  return name.find('/') == std::string::npos ? name : std::string();
}

}  // namespace

Result<HeldPath> hold_path(const LookAt& at) {
  const std::string path = at.path.starts_with('/') ? at.path : at.cwd + "/" + at.path;
  const bool wants_directory = path.ends_with('/') || path.ends_with("/.");
  PathWalk walk(wants_directory ? LastLink::kFollow : at.last);
  auto seen = walk.follow(path);
  if (!seen) {
    return seen.error();
  }
  return HeldPath{std::move(*seen), walk.take_last()};
}

std::string name_of_held(const io::Fd& place) {
  std::array<char, PATH_MAX> name{};
  const ssize_t size = readlink(link_of(place).c_str(), name.data(), name.size());
  return size > 0 && static_cast<std::size_t>(size) < name.size()
             ? std::string(name.data(), static_cast<std::size_t>(size))
             : std::string();
}

Result<io::Fd> open_held(const HeldPath& held, OpenHow how) {
  io::Fd file(open(link_of(held.place).c_str(), how.flags | O_CLOEXEC | O_NOCTTY));
  return file ? Result<io::Fd>(std::move(file)) : io::error_from_errno("open", errno);
}

Result<io::Fd> create_held(const HeldPath& held, CreateHow how) {
  const std::string name = missing_name(held);
  if (name.empty()) {
    return Error{ErrorCode::kNotFound, "the folder does not exist, or moved while it was judged"};
  }
  open_how asked{};
  asked.flags = static_cast<std::uint64_t>(how.flags) | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY;
  asked.mode = how.mode;
  asked.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  io::Fd file(static_cast<int>(
      syscall(SYS_openat2, held.place.get(), name.c_str(), &asked, sizeof(asked))));
  return file ? Result<io::Fd>(std::move(file)) : io::error_from_errno("create", errno);
}

}  // namespace sandboxkit::eyes
