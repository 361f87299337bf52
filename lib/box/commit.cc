// Changes of a staged run, made on the host one by one.

#include "sandboxkit/box_changes.h"

#include "base/random.h"
#include "box/kernel_calls.h"
#include "box/tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace sandboxkit {
namespace {

constexpr mode_t kPermissions = 0777;  // Neither set-user-id nor set-group-id.
constexpr mode_t kOwnFile = 0600;
constexpr std::size_t kPiece = 64 * 1024;
constexpr std::size_t kTemporaryLength = 16;
constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE
constexpr int kMaxLevels = 256;
constexpr const char* kMeanwhile = "it changed on the host since the run began";

std::string words(const char* what) { return std::string(what) + ": " + strerror(errno); }

/// One overlay's two sides.
struct Sides {
  std::string root;
  io::Fd host;
  io::Fd upper;
};

/// Where one change goes.
struct Spot {
  io::Fd parent;        ///< On the host.
  io::Fd upper_parent;  ///< Empty where only something went.
  std::string name;
};

bool copy_bytes(int from, int to) {
  std::array<char, kPiece> buffer{};
  for (ssize_t got = 0; (got = read(from, buffer.data(), buffer.size())) != 0;) {
    if (got < 0) {
      return false;
    }
    for (ssize_t done = 0; done < got;) {
      const ssize_t written = write(to, buffer.data() + done, static_cast<std::size_t>(got - done));
      if (written <= 0) {
        return false;
      }
      done += written;
    }
  }
  return true;
}

std::string temporary_name() {
  return ".sandboxkit-" + system_random().text(kTemporaryLength, kBase36);
}

/// Puts `made` in the place of the name; what was there goes, unless nothing may be there.
std::string put(const Spot& spot, const std::string& made, bool is_new) {
  const long done = syscall(SYS_renameat2, spot.parent.get(), made.c_str(), spot.parent.get(),
                            spot.name.c_str(), is_new ? kNoReplace : 0U);
  if (done == 0) {
    return {};
  }
  const std::string why = errno == EEXIST ? kMeanwhile : words("rename");
  unlinkat(spot.parent.get(), made.c_str(), 0);
  return why;
}

std::string put_file(const Spot& spot, bool is_new) {
  const io::Fd from(box::open_place(spot.upper_parent.get(), spot.name.c_str(),
                                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK, box::kNoLinks));
  struct stat status {};
  if (!from || fstat(from.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return words("read the new file");
  }
  const std::string made = temporary_name();
  const io::Fd to(openat(spot.parent.get(), made.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  if (!to) {
    return words("make a file");
  }
  const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
  if (!copy_bytes(from.get(), to.get()) || fchmod(to.get(), status.st_mode & kPermissions) != 0 ||
      futimens(to.get(), times.data()) != 0) {
    const std::string why = words("write the new file");
    unlinkat(spot.parent.get(), made.c_str(), 0);
    return why;
  }
  return put(spot, made, is_new);
}

std::string put_link(const Spot& spot, const std::string& text, bool is_new) {
  const std::string made = temporary_name();
  if (text.empty() || symlinkat(text.c_str(), spot.parent.get(), made.c_str()) != 0) {
    return words("make a link");
  }
  return put(spot, made, is_new);
}

std::string make_directory(const Spot& spot) {
  struct stat status {};
  if (fstatat(spot.upper_parent.get(), spot.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return words("read the new directory");
  }
  if (mkdirat(spot.parent.get(), spot.name.c_str(), status.st_mode & kPermissions) != 0) {
    return errno == EEXIST ? kMeanwhile : words("make a directory");
  }
  return {};
}

/// Whether nothing in a directory changed since.
bool is_old(int parent, const std::string& name, std::int64_t began_ns, int level) {
  struct stat status {};
  if (level > kMaxLevels || fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      box::changed_ns(status) > began_ns) {
    return false;
  }
  if (!S_ISDIR(status.st_mode)) {
    return true;
  }
  const io::Fd below(
      box::open_place(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, box::kNoLinks));
  const auto names = below ? box::names_in(below.get())
                           : Result<std::vector<std::string>>(Error{ErrorCode::kUnavailable, ""});
  return names && std::ranges::all_of(*names, [&](const std::string& entry) {
           return is_old(below.get(), entry, began_ns, level + 1);
         });
}

std::string take_away(const Spot& spot, std::int64_t began_ns) {
  if (!is_old(spot.parent.get(), spot.name, began_ns, 0)) {
    return kMeanwhile;
  }
  const Status removed = box::remove_all(spot.parent.get(), spot.name);
  return removed ? "" : removed.error().message;
}

class Commit {
 public:
  explicit Commit(const BoxStaged& staged) : staged_(staged) {
    for (std::size_t i = 0; i < staged.roots.size(); ++i) {
      sides_.push_back({staged.roots[i], box::open_canonical(staged.roots[i]),
                        box::open_canonical(staged.dir + "/o" + std::to_string(i) + "/upper")});
    }
  }

  /// Empty when it was made; else why not.
  std::string make(const BoxChange& change) {
    const auto side = std::ranges::find_if(sides_, [&](const Sides& one) {
      return change.path.starts_with(one.root + "/") && one.host && one.upper;
    });
    if (side == sides_.end()) {
      return "it lies in no place of the run";
    }
    const auto [folder, name] = box::parted(change.path.substr(side->root.size() + 1));
    Spot spot{box::open_below(side->host.get(), folder), box::open_below(side->upper.get(), folder),
              name};
    if (!spot.parent) {
      return words("its directory on the host");
    }
    if (change.kind == BoxChange::Kind::kRemoved) {
      return take_away(spot, staged_.began_ns);
    }
    const bool is_new = change.kind == BoxChange::Kind::kMade;
    if (!is_new && !is_old(spot.parent.get(), name, staged_.began_ns, 0)) {
      return kMeanwhile;
    }
    switch (change.type) {
      case FileType::kDirectory:
        return make_directory(spot);
      case FileType::kFile:
        return put_file(spot, is_new);
      case FileType::kLink:
        return put_link(spot, change.link, is_new);
      case FileType::kSocket:
      case FileType::kOther:
        return "it is neither a file nor a directory nor a link";
    }
    return "it is nothing that can be made";
  }

 private:
  const BoxStaged& staged_;
  std::vector<Sides> sides_;
};

}  // namespace

std::vector<BoxRefusal> commit_box_changes(const BoxStaged& staged,
                                           const std::vector<BoxChange>& changes,
                                           const BoxJudge& judge) {
  Commit commit(staged);
  std::vector<BoxRefusal> refused;
  std::string closed;  // A directory that did not come to be.
  for (const BoxChange& change : changes) {
    std::string why;
    if (!closed.empty() && change.path.starts_with(closed + "/")) {
      why = "its directory was refused";
    } else if (why = judge(change); why.empty()) {
      why = commit.make(change);
    }
    if (!why.empty()) {
      if (closed.empty() || !change.path.starts_with(closed + "/")) {
        closed = change.path;
      }
      refused.push_back({change, std::move(why)});
    }
  }
  return refused;
}

}  // namespace sandboxkit
