// What a staged run changed: the upper layers of its overlays, read when nothing writes there.

#include "sandboxkit/box_changes.h"

#include "box/kernel_calls.h"
#include "box/tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include <sys/sysmacros.h>
#include <sys/xattr.h>

namespace sandboxkit {
namespace {

constexpr int kMaxLevels = 256;
constexpr std::size_t kPiece = 64 * 1024;
constexpr mode_t kPermissions = 0777;

FileType type_of(mode_t mode) {
  if (S_ISDIR(mode)) {
    return FileType::kDirectory;
  }
  if (S_ISREG(mode)) {
    return FileType::kFile;
  }
  if (S_ISLNK(mode)) {
    return FileType::kLink;
  }
  return S_ISSOCK(mode) ? FileType::kSocket : FileType::kOther;
}

/// The overlay's sign for a name that is gone.
bool is_whiteout(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == makedev(0, 0);
}

bool is_opaque(const io::Fd& directory) {
  std::array<char, 8> value{};
  const ssize_t size =
      fgetxattr(directory.get(), "user.overlay.opaque", value.data(), value.size());
  return size == 1 && value[0] == 'y';
}

bool same_bytes(int a, int b) {
  std::array<char, kPiece> left{};
  std::array<char, kPiece> right{};
  for (off_t at = 0;;) {
    const ssize_t got = pread(a, left.data(), left.size(), at);
    if (got < 0 || pread(b, right.data(), right.size(), at) != got) {
      return false;
    }
    if (got == 0) {
      return true;
    }
    if (!std::equal(left.begin(), left.begin() + got, right.begin())) {
      return false;
    }
    at += got;
  }
}

class Reading {
 public:
  Reading(const BoxStaged& staged, std::vector<BoxChange>& out)
      : held_(staged.held.begin(), staged.held.end()), out_(out) {}

  /// `lower` is empty where the host has nothing.
  Status read(const io::Fd& upper, const io::Fd& lower, const std::string& path, int level) {
    if (level > kMaxLevels) {
      return Error{ErrorCode::kTooLarge, "the run nested directories too deep"};
    }
    const auto names = box::names_in(upper.get());
    if (!names) {
      return names.error();
    }
    for (const std::string& name : *names) {
      if (Status one = meet(upper, lower, {path, name}, level); !one) {
        return one;
      }
    }
    return is_opaque(upper) && lower ? add_what_is_gone(*names, lower, path) : Status();
  }

 private:
  struct Name {
    const std::string& folder;
    const std::string& last;
    std::string path() const { return folder + "/" + last; }
  };

  Status add(BoxChange change) {
    if (out_.size() >= kMaxBoxChanges) {
      return Error{ErrorCode::kTooLarge,
                   "the run changed more than " + std::to_string(kMaxBoxChanges) + " names"};
    }
    out_.push_back(std::move(change));
    return {};
  }

  Status meet(const io::Fd& upper, const io::Fd& lower, const Name& name, int level) {
    struct stat now {};
    struct stat before {};
    if (fstatat(upper.get(), name.last.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) {
      return io::error_from_errno("read a change", errno);
    }
    const bool was =
        lower && fstatat(lower.get(), name.last.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0;
    if (held_.contains(name.path()) && S_ISREG(now.st_mode) && now.st_size == 0) {
      return {};
    }
    if (is_whiteout(now)) {
      return was ? add({BoxChange::Kind::kRemoved, name.path(), type_of(before.st_mode)})
                 : Status();
    }
    const bool other_type = was && type_of(now.st_mode) != type_of(before.st_mode);
    if (other_type) {
      if (Status gone = add({BoxChange::Kind::kRemoved, name.path(), type_of(before.st_mode)});
          !gone) {
        return gone;
      }
    }
    const bool is_new = !was || other_type;
    return S_ISDIR(now.st_mode) ? enter(upper, lower, name, is_new, level)
                                : compare(upper, lower, name, now, is_new ? nullptr : &before);
  }

  static io::Fd open_directory(const io::Fd& parent, const std::string& name) {
    return io::Fd(box::open_place(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                                  box::kNoLinks));
  }

  Status enter(const io::Fd& upper, const io::Fd& lower, const Name& name, bool is_new, int level) {
    if (is_new) {
      if (Status made = add({BoxChange::Kind::kMade, name.path(), FileType::kDirectory}); !made) {
        return made;
      }
    }
    io::Fd below = open_directory(upper, name.last);
    // The run may have closed it to its user, which is us.
    if (!below && errno == EACCES && fchmodat(upper.get(), name.last.c_str(), S_IRWXU, 0) == 0) {
      below = open_directory(upper, name.last);
    }
    if (!below) {
      return io::error_from_errno("read a changed directory", errno);
    }
    const io::Fd under = is_new ? io::Fd() : open_directory(lower, name.last);
    return read(below, under, name.path(), level + 1);
  }

  Status compare(const io::Fd& upper, const io::Fd& lower, const Name& name, const struct stat& now,
                 const struct stat* before) {
    BoxChange change{before == nullptr ? BoxChange::Kind::kMade : BoxChange::Kind::kChanged,
                     name.path(), type_of(now.st_mode)};
    if (S_ISLNK(now.st_mode)) {
      change.link = box::link_text(upper.get(), name.last);
    }
    return before != nullptr && is_same(upper, lower, name, now, *before) ? Status()
                                                                          : add(std::move(change));
  }

  static bool is_same(const io::Fd& upper, const io::Fd& lower, const Name& name,
                      const struct stat& now, const struct stat& before) {
    if (S_ISLNK(now.st_mode)) {
      return box::link_text(upper.get(), name.last) == box::link_text(lower.get(), name.last);
    }
    if (!S_ISREG(now.st_mode) || now.st_size != before.st_size ||
        (now.st_mode & kPermissions) != (before.st_mode & kPermissions)) {
      return false;
    }
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
    const io::Fd a(box::open_place(upper.get(), name.last.c_str(), flags, box::kNoLinks));
    const io::Fd b(box::open_place(lower.get(), name.last.c_str(), flags, box::kNoLinks));
    return a && b && same_bytes(a.get(), b.get());
  }

  /// A directory that was removed and made again hides what the host has in it.
  Status add_what_is_gone(const std::vector<std::string>& names, const io::Fd& lower,
                          const std::string& path) {
    const auto before = box::names_in(lower.get());
    if (!before) {
      return before.error();
    }
    for (const std::string& name : *before) {
      struct stat status {};
      if (!std::ranges::binary_search(names, name) &&
          fstatat(lower.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
        if (Status gone =
                add({BoxChange::Kind::kRemoved, path + "/" + name, type_of(status.st_mode)});
            !gone) {
          return gone;
        }
      }
    }
    return {};
  }

  const std::set<std::string> held_;
  std::vector<BoxChange>& out_;
};

}  // namespace

const char* name_of(BoxChange::Kind kind) {
  switch (kind) {
    case BoxChange::Kind::kMade:
      return "made";
    case BoxChange::Kind::kChanged:
      return "changed";
    case BoxChange::Kind::kRemoved:
      return "removed";
  }
  return "changed";
}

Result<std::vector<BoxChange>> list_box_changes(const BoxStaged& staged) {
  std::vector<BoxChange> out;
  Reading reading(staged, out);
  for (std::size_t i = 0; i < staged.roots.size(); ++i) {
    const io::Fd upper = box::open_canonical(staged.dir + "/o" + std::to_string(i) + "/upper");
    const io::Fd lower = box::open_canonical(staged.roots[i]);
    if (!upper || !lower) {
      return io::error_from_errno("read what a run changed", errno);
    }
    if (Status read = reading.read(upper, lower, staged.roots[i], 0); !read) {
      return read.error();
    }
  }
  return out;
}

Status remove_box_stage(const BoxStaged& staged) {
  const auto [folder, name] = box::parted(staged.dir);
  const io::Fd above = box::open_canonical(folder);
  if (!above) {
    return io::error_from_errno("remove a staged run", errno);
  }
  return box::remove_all(above.get(), name);
}

}  // namespace sandboxkit
