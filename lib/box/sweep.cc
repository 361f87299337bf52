// After a live run: what stands under a name that nobody may make is set apart.

#include "sandboxkit/box_changes.h"

#include "box/kernel_calls.h"
#include "box/tree.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace sandboxkit {
namespace {

constexpr const char* kQuarantine = ".sandboxkit-quarantine";
constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE
constexpr int kMaxLevels = 256;
constexpr int kMaxSuffixes = 100;

FileType type_of(mode_t mode) {
  if (S_ISDIR(mode)) {
    return FileType::kDirectory;
  }
  if (S_ISREG(mode)) {
    return FileType::kFile;
  }
  return S_ISLNK(mode) ? FileType::kLink : FileType::kOther;
}

class Sweep {
 public:
  Sweep(std::int64_t began_ns, const BoxJudge& judge) : began_ns_(began_ns), judge_(judge) {}

  Status walk(const io::Fd& folder, const std::string& path, int level) {
    const auto names = box::names_in(folder.get());
    if (!names || level > kMaxLevels) {
      return names ? Status(Error{ErrorCode::kTooLarge, "directories are nested too deep"})
                   : Status(names.error());
    }
    for (const std::string& name : *names) {
      if (Status one = meet(folder, path, name, level); !one) {
        return one;
      }
    }
    return {};
  }

  BoxSweep take() { return std::move(out_); }

 private:
  Status meet(const io::Fd& folder, const std::string& path, const std::string& name, int level) {
    if (++entries_ > kMaxSweepEntries) {
      return Error{ErrorCode::kTooLarge, "more than " + std::to_string(kMaxSweepEntries) +
                                             " entries to be looked through"};
    }
    struct stat status {};
    if (fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT ? Status() : Status(io::error_from_errno("sweep", errno));
    }
    const std::string here = path + "/" + name;
    const bool is_directory = S_ISDIR(status.st_mode);
    if (box::changed_ns(status) > began_ns_) {
      BoxChange change{BoxChange::Kind::kChanged, here, type_of(status.st_mode)};
      if (!judge_(change).empty()) {
        set_apart(folder, name, std::move(change));
        return {};
      }
      if (!is_directory && out_.changed.size() < kMaxBoxChanges) {
        out_.changed.push_back(std::move(change));
      }
    }
    if (!is_directory) {
      return {};
    }
    const io::Fd below(box::open_place(folder.get(), name.c_str(),
                                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW, box::kNoLinks));
    if (!below) {
      // Closed to us: what is in it, git and editors of this user cannot read either.
      return errno == EACCES || errno == ENOENT ? Status()
                                                : Status(io::error_from_errno("sweep", errno));
    }
    return walk(below, here, level + 1);
  }

  void set_apart(const io::Fd& folder, const std::string& name, BoxChange change) {
    for (int i = 0; i < kMaxSuffixes; ++i) {
      const std::string other = name + kQuarantine + (i == 0 ? "" : "." + std::to_string(i));
      if (syscall(SYS_renameat2, folder.get(), name.c_str(), folder.get(), other.c_str(),
                  kNoReplace) == 0) {
        out_.quarantined.push_back(std::move(change));
        return;
      }
      if (errno != EEXIST) {
        break;
      }
    }
    out_.left.push_back({std::move(change), strerror(errno)});
  }

  std::int64_t began_ns_;
  const BoxJudge& judge_;
  std::size_t entries_ = 0;
  BoxSweep out_;
};

}  // namespace

Result<BoxSweep> sweep_box_places(const std::vector<std::string>& places, std::int64_t began_ns,
                                  const BoxJudge& judge) {
  Sweep sweep(began_ns, judge);
  for (const std::string& place : places) {
    const io::Fd folder = box::open_canonical(place);
    if (!folder) {
      if (errno == ENOTDIR) {
        continue;  // A file that may be written has no names in it.
      }
      return io::error_from_errno("sweep", errno);
    }
    if (Status walked = sweep.walk(folder, place, 0); !walked) {
      return walked.error();
    }
  }
  return sweep.take();
}

}  // namespace sandboxkit
