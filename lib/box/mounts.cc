// The mount namespace of a box, by descriptors alone: no path is resolved twice, and none through
// a link. Runs between clone and exec.

#include "box/kernel_calls.h"
#include "box/launch.h"
#include "box/point.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace sandboxkit::box {
namespace {

constexpr unsigned kSafe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr mode_t kFolderMode = 0755;
/// Empty files in the file system of areas: one that nobody may read, one that all may.
constexpr const char* kClosedFile = "closed";
constexpr const char* kEmptyFile = "empty";
constexpr mode_t kReadable = 0444;
constexpr std::size_t kLayerTextBytes = 64;

class Mounts {
 public:
  explicit Mounts(Launch& launch) : launch_(launch), layout_(launch.layout) {}

  void build() {
    root_ = open_place(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    // What is mounted here is not seen outside, and what is mounted outside is not seen here.
    if (root_ < 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      fail_inside(launch_, Stage::kPrivate, errno);
    }
    for (std::size_t i = 0; i < layout_.steps.size(); ++i) {
      if (layout_.steps[i].kind == StepKind::kShow) {
        take(i);
      } else if (layout_.steps[i].in_overlay && layout_.steps[i].identity) {
        const Handle judged(open_step(i, layout_.steps[i].source.c_str(), true));
      }
    }
    if (set_mount(root_, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, true) != 0) {
      fail_inside(launch_, Stage::kRoot, errno);
    }
    make_memory();
    mount_proc();
    for (std::size_t i = 0; i < layout_.steps.size(); ++i) {
      carry_out(i);
    }
    syscall(SYS_close, memory_);
    syscall(SYS_close, root_);
  }

 private:
  [[noreturn]] void fail(std::size_t index, int error_number) {
    const bool is_other = error_number == ELOOP || error_number == ESTALE;
    fail_inside(launch_, is_other ? Stage::kChanged : Stage::kPlace, error_number, index);
  }

  static bool is_type(FileType type, mode_t mode) {
    switch (type) {
      case FileType::kDirectory:
        return S_ISDIR(mode);
      case FileType::kFile:
        return S_ISREG(mode);
      case FileType::kLink:
        return S_ISLNK(mode);
      case FileType::kSocket:
        return S_ISSOCK(mode);
      case FileType::kOther:
        return true;
    }
    return false;
  }

  /// The object of a step, which must be the one that was judged. An overlay answers with numbers
  /// of its own: what lies in one was compared on the host before.
  int open_step(std::size_t index, const char* path, bool compare) {
    const Step& step = layout_.steps[index];
    const int fd = open_place(root_, path, O_PATH | O_NOFOLLOW, kNoLinks);
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0) {
      fail(index, errno == ENOENT ? ESTALE : errno);
    }
    const bool is_same =
        !step.identity || !compare ||
        (status.st_dev == step.identity->device && status.st_ino == step.identity->inode);
    if (!is_same || !is_type(step.type, status.st_mode) ||
        (step.is_device && !S_ISCHR(status.st_mode))) {
      fail(index, ESTALE);
    }
    return fd;
  }

  /// Copies a mount of the host before it is out of sight.
  void take(std::size_t index) {
    const Step& step = layout_.steps[index];
    const Handle source(open_step(index, step.source.c_str(), true));
    const int mount =
        step.overlay.empty() ? copy(step, source.get()) : overlay(index, source.get());
    if (mount < 0) {
      fail(index, errno);
    }
    launch_.shown[index] = mount;
  }

  static int copy(const Step& step, int source) {
    const bool is_directory = step.type == FileType::kDirectory;
    const int mount = clone_mount(source, "", is_directory);
    if (mount < 0) {
      return -1;
    }
    unsigned set = step.is_device ? static_cast<unsigned>(MOUNT_ATTR_NOSUID) : kSafe;
    if (step.access == BoxAccess::kReadOnly && !step.is_device) {
      set |= MOUNT_ATTR_RDONLY;
    }
    if (set_mount(mount, set, 0, is_directory) != 0) {
      return -1;
    }
    // Only here, not below: what the host has mounted there without changes stays so.
    if (step.access == BoxAccess::kReadWrite &&
        set_mount(mount, 0, MOUNT_ATTR_RDONLY, false) != 0) {
      return -1;
    }
    return mount;
  }

  static void name_descriptor(char* text, int fd) {
    constexpr const char* kFolder = "/proc/self/fd/";
    std::size_t at = std::strlen(kFolder);
    std::memcpy(text, kFolder, at);
    std::array<char, 16> digits{};
    std::size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + fd % 10);
      fd /= 10;
    } while (fd != 0);
    while (count > 0) {
      text[at++] = digits[--count];
    }
    text[at] = '\0';
  }

  /// Layers are named by descriptors, which no swap of a path can change.
  int overlay(std::size_t index, int lower) {
    const Step& step = layout_.steps[index];
    const Handle run(open_place(root_, launch_.run_dir.c_str(), O_PATH | O_DIRECTORY, kNoLinks));
    const Handle folder(
        run ? open_place(run.get(), step.overlay.c_str(), O_PATH | O_DIRECTORY, kNoLinks) : -1);
    const Handle upper(folder ? open_place(folder.get(), "upper", O_PATH | O_DIRECTORY, kNoLinks)
                              : -1);
    const Handle work(folder ? open_place(folder.get(), "work", O_PATH | O_DIRECTORY, kNoLinks)
                             : -1);
    const Handle context(open_filesystem("overlay"));
    std::array<char, kLayerTextBytes> lower_text{};
    std::array<char, kLayerTextBytes> upper_text{};
    std::array<char, kLayerTextBytes> work_text{};
    if (!upper || !work || !context) {
      fail_inside(launch_, Stage::kOverlay, errno, index);
    }
    name_descriptor(lower_text.data(), lower);
    name_descriptor(upper_text.data(), upper.get());
    name_descriptor(work_text.data(), work.get());
    if (configure(context.get(), "source", "sandboxkit") != 0 ||
        configure(context.get(), "userxattr", nullptr) != 0 ||
        configure(context.get(), "lowerdir", lower_text.data()) != 0 ||
        configure(context.get(), "upperdir", upper_text.data()) != 0 ||
        configure(context.get(), "workdir", work_text.data()) != 0) {
      fail_inside(launch_, Stage::kOverlay, errno, index);
    }
    const int mount = make_mount(context.get(), kSafe);
    if (mount < 0) {
      fail_inside(launch_, Stage::kOverlay, errno, index);
    }
    return mount;
  }

  /// One file system in memory for all areas; it is attached first, as older kernels copy no mount
  /// that has no place.
  void make_memory() {
    const Handle context(open_filesystem("tmpfs"));
    const Handle target(open_place(root_, "dev", O_PATH | O_DIRECTORY, kNoLinks));
    if (!context || !target || configure(context.get(), "mode", "0755") != 0) {
      fail_inside(launch_, Stage::kMemory, errno);
    }
    memory_ = make_mount(context.get(), kSafe);
    if (memory_ < 0 || attach_mount(memory_, target.get()) != 0) {
      fail_inside(launch_, Stage::kMemory, errno);
    }
    for (const Area& area : layout_.areas) {
      if (mkdirat(memory_, area.folder.c_str(), kFolderMode) != 0 ||
          fchmodat(memory_, area.folder.c_str(), area.mode, 0) != 0) {
        fail_inside(launch_, Stage::kMemory, errno);
      }
    }
    const Handle closed(openat(memory_, kClosedFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0));
    const Handle empty(
        openat(memory_, kEmptyFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadable));
    if (!closed || !empty) {
      fail_inside(launch_, Stage::kMemory, errno);
    }
  }

  void mount_proc() {
    const Handle context(open_filesystem("proc"));
    const Handle target(open_place(root_, "proc", O_PATH | O_DIRECTORY, kNoLinks));
    const Handle mount(context ? make_mount(context.get(), kSafe | MOUNT_ATTR_NOEXEC) : -1);
    if (!mount || !target || attach_mount(mount.get(), target.get()) != 0) {
      fail_inside(launch_, Stage::kProc, errno);
    }
  }

  void carry_out(std::size_t index) {
    const Step& step = layout_.steps[index];
    switch (step.kind) {
      case StepKind::kArea:
        return attach_area(index);
      case StepKind::kFolder:
        return make_way(index, FileType::kDirectory);
      case StepKind::kShow: {
        make_way(index, step.type);
        const Handle mount(launch_.shown[index]);
        return attach(index, mount.get());
      }
      case StepKind::kRepeat:
        return repeat(index);
      case StepKind::kHideDirectory:
        return cover(index, layout_.areas[step.area].folder.c_str(), 0);
      case StepKind::kHideFile:
        return cover(index, kClosedFile, MOUNT_ATTR_RDONLY);
      case StepKind::kHold:
        return cover(index, kEmptyFile, MOUNT_ATTR_RDONLY);
      case StepKind::kPlaceholder:
        return hold_place(index);
      case StepKind::kSeal:
        return seal(index);
    }
  }

  void attach_area(std::size_t index) {
    const Step& step = layout_.steps[index];
    const Area& area = layout_.areas[step.area];
    const Handle target(
        open_place(root_, step.path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW, kNoLinks));
    if (!target && errno == ENOENT && area.optional) {
      return;
    }
    const Handle mount(target ? clone_folder(area.folder.c_str()) : -1);
    if (!mount || attach_mount(mount.get(), target.get()) != 0) {
      fail(index, errno);
    }
  }

  int clone_folder(const char* name) const {
    const Handle folder(open_place(memory_, name, O_PATH | O_NOFOLLOW, kNoLinks));
    return folder ? clone_mount(folder.get(), "", false) : -1;
  }

  void make_way(std::size_t index, FileType type) {
    const Handle point(make_point(root_, layout_.steps[index].path.c_str(), type, -1));
    if (!point) {
      fail(index, errno);
    }
  }

  void attach(std::size_t index, int mount) {
    const Handle target(
        open_place(root_, layout_.steps[index].path.c_str(), O_PATH | O_NOFOLLOW, kNoLinks));
    if (!target || attach_mount(mount, target.get()) != 0) {
      fail(index, errno);
    }
  }

  void repeat(std::size_t index) {
    const Step& step = layout_.steps[index];
    const Handle target(open_step(index, step.path.c_str(), !step.in_overlay));
    Handle mount(step.overlay.empty() ? copy(step, target.get()) : overlay(index, target.get()));
    if (!mount || attach_mount(mount.get(), target.get()) != 0) {
      fail(index, errno);
    }
  }

  void cover(std::size_t index, const char* with, std::uint64_t attributes) {
    const Step& step = layout_.steps[index];
    const Handle target(open_step(index, step.path.c_str(), !step.in_overlay));
    const Handle mount(clone_folder(with));
    if (!mount || set_mount(mount.get(), attributes, 0, false) != 0 ||
        attach_mount(mount.get(), target.get()) != 0) {
      fail(index, errno);
    }
  }

  /// In the overlay: the host never sees it.
  void hold_place(std::size_t index) {
    const char* path = layout_.steps[index].path.c_str();
    const Handle made(
        open_place(root_, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kNoLinks, 0));
    if (!made && errno != EEXIST) {
      fail(index, errno);
    }
    cover(index, kEmptyFile, MOUNT_ATTR_RDONLY);
  }

  void seal(std::size_t index) {
    const Step& step = layout_.steps[index];
    const Handle area(open_place(root_, step.path.c_str(), O_PATH | O_DIRECTORY, kNoLinks));
    if (step.path == "dev" && area && !finish_devices(area.get())) {
      fail(index, errno);
    }
    if (!area || set_mount(area.get(), MOUNT_ATTR_RDONLY, 0, false) != 0) {
      fail(index, errno);
    }
  }

  /// Terminals of the box alone, and the usual links.
  static bool finish_devices(int dev) {
    const Handle context(open_filesystem("devpts"));
    if (!context || configure(context.get(), "ptmxmode", "0666") != 0 ||
        configure(context.get(), "mode", "0620") != 0) {
      return false;
    }
    const Handle mount(make_mount(context.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
    const Handle target(open_place(dev, "pts", O_PATH | O_DIRECTORY, kNoLinks));
    return mount && target && attach_mount(mount.get(), target.get()) == 0 &&
           symlinkat("pts/ptmx", dev, "ptmx") == 0 && symlinkat("/proc/self/fd", dev, "fd") == 0 &&
           symlinkat("/proc/self/fd/0", dev, "stdin") == 0 &&
           symlinkat("/proc/self/fd/1", dev, "stdout") == 0 &&
           symlinkat("/proc/self/fd/2", dev, "stderr") == 0;
  }

  Launch& launch_;
  const Layout& layout_;
  int root_ = -1;
  int memory_ = -1;
};

}  // namespace

void build_mounts(Launch& launch) { Mounts(launch).build(); }

}  // namespace sandboxkit::box
