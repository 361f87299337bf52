#include "box/bwrap.h"

#include "base/text.h"
#include "box/filter.h"
#include "box/journal.h"
#include "box/kernel_calls.h"
#include "io/fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace sandboxkit::box {
namespace {

constexpr std::array<const char*, 3> kPlaces{"/usr/bin/bwrap", "/bin/bwrap",
                                             "/usr/local/bin/bwrap"};
constexpr std::array<const char*, 5> kOwnPlaces{"/home", "/root", "/run", "/tmp", "/var/tmp"};
constexpr std::string_view kName = "bubblewrap ";
constexpr std::uint64_t kMaxVersionPart = 1'000'000;
constexpr std::size_t kMaxVersionBytes = 256;
constexpr int kMaxTheirs = 31;
/// Ours stand above all of the command's descriptors.
constexpr int kArgumentsFd = 64;
constexpr int kFilterFd = 65;
constexpr int kAboveAll = 70;
constexpr mode_t kClosed = 0;
constexpr mode_t kReadable = 0444;
constexpr int kSetUpFailed = 127;
// Names in the state folder.
constexpr const char* kClosedFile = "closed";
constexpr const char* kBlankFile = "blank";

Error unavailable(std::string why) {
  return {ErrorCode::kUnavailable, std::move(why), "bwrap_unavailable"};
}

Error wrong(const char* field, std::string why) {
  return {ErrorCode::kInvalidArgument, std::move(why), "", field};
}

/// The system's, whom only root could have put there.
bool is_trusted(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == 0 &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && (status.st_mode & S_IXOTH) != 0;
}

Result<std::string> version_text(const char* path) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return io::error_from_errno("pipe", errno);
  }
  io::Fd from(ends[0]);
  io::Fd to(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(to.get(), STDOUT_FILENO);
    execl(path, path, "--version", static_cast<char*>(nullptr));
    _exit(kSetUpFailed);
  }
  to.reset();
  if (pid < 0) {
    return io::error_from_errno("fork", errno);
  }
  std::string text(kMaxVersionBytes, '\0');
  const ssize_t got = read(from.get(), text.data(), text.size());
  from.reset();
  int status = 0;
  waitpid(pid, &status, 0);
  if (got <= 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return unavailable(std::string(path) + " does not tell its version");
  }
  text.resize(static_cast<std::size_t>(got));
  return text;
}

Status check(const BoxPlan& plan, const BoxCommand& command, const BoxOptions& options) {
  if (geteuid() == 0 && options.root == BoxRoot::kRefuse) {
    return Error{ErrorCode::kPermissionDenied,
                 "root's files would stand behind this one wall: run it as an ordinary user, or "
                 "allow root explicitly",
                 "box_root"};
  }
  if (command.argv.empty() || command.argv.front().empty()) {
    return wrong("argv", "a box needs a command");
  }
  if (command.terminal) {
    return wrong("terminal", "bubblewrap gives no terminal of its own; use the native box");
  }
  if (options.listener_port != 0 || !options.home_folder.empty() || options.takes_grants) {
    return wrong("options",
                 "bubblewrap gives no listener, takes no grants and no home of the host; use the "
                 "native box");
  }
  for (const BoxPlace& place : plan.places) {
    const std::string_view state = options.state_dir;
    if (place.access == BoxAccess::kReadWrite && state.starts_with(place.path) &&
        (state.size() == place.path.size() || state[place.path.size()] == '/')) {
      return wrong("state_dir", quoted(options.state_dir) + " lies in " + quoted(place.path) +
                                    ", which may be written");
    }
  }
  for (const BoxDescriptor& one : command.descriptors) {
    if (one.theirs < 0 || one.theirs > kMaxTheirs || fcntl(one.ours, F_GETFD) < 0) {
      return wrong("descriptors", "descriptor " + std::to_string(one.ours) + " as " +
                                      std::to_string(one.theirs) + " cannot be passed");
    }
  }
  return {};
}

/// Every place is still the object that was judged.
Status check_places(const BoxPlan& plan) {
  for (const BoxPlace& place : plan.places) {
    if (place.access == BoxAccess::kAbsent) {
      continue;
    }
    const io::Fd fd(open_place(
        AT_FDCWD, place.path.c_str(), O_PATH | O_NOFOLLOW,
        RESOLVE_NO_MAGICLINKS | (place.type == FileType::kLink ? 0U : RESOLVE_NO_SYMLINKS)));
    struct stat status {};
    if (!fd || fstat(fd.get(), &status) != 0 ||
        FileIdentity{status.st_dev, status.st_ino} != place.identity) {
      return Error{ErrorCode::kConflict,
                   "the place " + quoted(place.path) + " is not the object that was judged",
                   "box_place_changed"};
    }
  }
  return {};
}

/// By the clock that files are stamped with.
std::int64_t stamp_now() {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

/// An empty file of the state folder that stands in for others.
Status make_file(int folder, const char* name, mode_t mode) {
  const io::Fd file(
      openat(folder, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file && errno != EEXIST) {
    return io::error_from_errno("file of the state folder", errno);
  }
  struct stat status {};
  const bool is_ours = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(status.st_mode) && status.st_size == 0 &&
                       status.st_uid == geteuid() && fchmodat(folder, name, mode, 0) == 0;
  return is_ours ? Status()
                 : Status(wrong("state_dir",
                                "holds another file where `" + std::string(name) + "` should be"));
}

std::vector<std::string> own_places() {
  std::vector<std::string> out;
  for (const char* path : kOwnPlaces) {
    std::array<char, PATH_MAX> real{};
    if (realpath(path, real.data()) != nullptr) {
      out.emplace_back(real.data());
    }
  }
  return out;
}

/// A file in memory, to be read from its beginning, above all of the command's descriptors.
Result<io::Fd> memory_file(const char* name, const void* bytes, std::size_t size) {
  io::Fd file(memfd_create(name, MFD_CLOEXEC));
  if (!file || write(file.get(), bytes, size) != static_cast<ssize_t>(size) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return io::error_from_errno("file in memory", errno);
  }
  io::Fd high(fcntl(file.get(), F_DUPFD_CLOEXEC, kAboveAll));
  return high ? Result<io::Fd>(std::move(high))
              : Result<io::Fd>(io::error_from_errno("file in memory", errno));
}

/// What the child needs between fork and exec, where it may take no memory.
struct Birth {
  std::vector<BoxDescriptor> descriptors;  ///< `ours` stand above kAboveAll.
  int arguments;
  int filter;
  std::vector<char*> argv;
  const char* program;
  int report;
};

[[noreturn]] void be_born(const Birth& birth) {
  sigset_t none;
  sigemptyset(&none);
  bool is_ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                  sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
  for (int number = 1; number < NSIG; ++number) {
    signal(number, SIG_DFL);
  }
  unsigned first_closed = 0;
  for (const BoxDescriptor& one : birth.descriptors) {
    if (one.theirs > 0) {
      close_range(first_closed, static_cast<unsigned>(one.theirs) - 1);
    }
    is_ready = is_ready && dup2(one.ours, one.theirs) >= 0;
    first_closed = static_cast<unsigned>(one.theirs) + 1;
  }
  close_range(first_closed, kArgumentsFd - 1);
  is_ready = is_ready && dup2(birth.arguments, kArgumentsFd) >= 0 &&
             dup2(birth.filter, kFilterFd) >= 0 && dup2(birth.report, kFilterFd + 1) >= 0 &&
             fcntl(kFilterFd + 1, F_SETFD, FD_CLOEXEC) == 0;
  close_range(kFilterFd + 2, ~0U);
  std::array<char*, 1> no_environment{nullptr};
  if (is_ready) {
    execve(birth.program, birth.argv.data(), no_environment.data());
  }
  const int error_number = errno;
  if (write(kFilterFd + 1, &error_number, sizeof error_number) < 0) {
    _exit(kSetUpFailed);
  }
  _exit(kSetUpFailed);
}

class RunningBwrap final : public Box {
 public:
  RunningBwrap(pid_t pid, io::Fd pidfd, Placeholders placeholders, std::int64_t began_ns)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        placeholders_(std::move(placeholders)),
        began_ns_(began_ns) {}

  ~RunningBwrap() override {
    if (!end_) {
      // The box's first process dies with it, and all others with that one.
      syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
      siginfo_t info{};
      waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED);
    }
  }

  Result<std::optional<BoxEnd>> wait(std::optional<std::chrono::milliseconds> limit) override {
    if (end_) {
      return end_;
    }
    pollfd ready{pidfd_.get(), POLLIN, 0};
    const int limit_ms =
        limit ? static_cast<int>(std::clamp<std::int64_t>(limit->count(), 0, INT_MAX)) : -1;
    int got = 0;
    do {
      got = poll(&ready, 1, limit_ms);
    } while (got < 0 && errno == EINTR && !limit);
    if (got <= 0) {
      return std::optional<BoxEnd>();
    }
    siginfo_t info{};
    if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0) {
      return io::error_from_errno("wait for the box", errno);
    }
    end_ = info.si_code == CLD_EXITED ? BoxEnd{info.si_status, 0}
                                      : BoxEnd{128 + info.si_status, info.si_status};
    placeholders_.clear();
    return end_;
  }

  Status signal(int number) override {
    if (syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) != 0) {
      return io::error_from_errno("signal", errno);
    }
    return {};
  }

  Status grant(std::span<const BoxPlace> /*places*/) override {
    return Error{ErrorCode::kConflict,
                 "bubblewrap takes no grants while it runs: they count in the next box"};
  }
  Status revoke(const std::string& path) override {
    return Error{ErrorCode::kNotFound, quoted(path) + " was not granted"};
  }
  int terminal() const override { return -1; }
  Status resize(BoxTerminalSize /*size*/) override {
    return wrong("terminal", "the box has no terminal");
  }
  int take_listener() override { return -1; }
  int pid() const override { return pid_; }
  const BoxStaged& staged() const override { return nothing_staged_; }
  std::int64_t began_ns() const override { return began_ns_; }
  int end_descriptor() const override { return pidfd_.get(); }

 private:
  pid_t pid_;
  io::Fd pidfd_;
  Placeholders placeholders_;
  std::optional<BoxEnd> end_;
  BoxStaged nothing_staged_;
  std::int64_t began_ns_;
};

/// Starts the program; what it cannot begin with is told.
Result<std::pair<pid_t, io::Fd>> give_birth(Birth birth) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return io::error_from_errno("pipe", errno);
  }
  const io::Fd from(ends[0]);
  io::Fd to(fcntl(ends[1], F_DUPFD_CLOEXEC, kAboveAll));
  close(ends[1]);
  birth.report = to.get();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    be_born(birth);
  }
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  to.reset();
  if (pid < 0) {
    return io::error_from_errno("fork", fork_error);
  }
  int error_number = 0;
  const ssize_t got = read(from.get(), &error_number, sizeof error_number);
  io::Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (got != 0 || !pidfd) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return unavailable(std::string(birth.program) +
                       " does not start: " + io::error_from_errno("start", error_number).message);
  }
  return std::pair(pid, std::move(pidfd));
}

/// The arguments, and everything of ours that they name.
struct Prepared {
  gate::BwrapArguments arguments;
  Placeholders placeholders;
  io::Fd filter;
};

Result<Prepared> prepare(const BwrapProgram& program, const BoxPlan& plan,
                         const BoxCommand& command, const BoxOptions& options) {
  const auto state = open_state(options.state_dir);
  if (!state) {
    return state.error();
  }
  for (Status made : {make_file(state->get(), kClosedFile, kClosed),
                      make_file(state->get(), kBlankFile, kReadable)}) {
    if (!made) {
      return made.error();
    }
  }
  auto arguments = gate::bwrap_arguments({.plan = plan,
                                          .version = program.version,
                                          .cwd = command.cwd,
                                          .environment = command.environment,
                                          .own_places = own_places(),
                                          .closed_file = options.state_dir + "/" + kClosedFile,
                                          .blank_file = options.state_dir + "/" + kBlankFile,
                                          .has_placeholders = true,
                                          .filter_fd = kFilterFd});
  if (!arguments) {
    return arguments.error();
  }
  const auto rules =
      make_filter({.unix_sockets = !plan.sockets.empty(), .allow_nested = plan.allow_nested});
  if (!rules) {
    return rules.error();
  }
  auto filter = memory_file("filter", rules->data(), rules->size() * sizeof(sock_filter));
  if (!filter) {
    return filter.error();
  }
  if (auto same = check_places(plan); !same) {
    return same.error();
  }
  std::vector<std::string> held;
  for (const BoxPlace& place : plan.places) {
    if (place.access == BoxAccess::kAbsent) {
      held.push_back(place.path);
    }
  }
  auto placeholders = Placeholders::make(options.state_dir, held);
  if (!placeholders) {
    return placeholders.error();
  }
  return Prepared{std::move(*arguments), std::move(*placeholders), std::move(*filter)};
}

}  // namespace

Result<gate::BwrapVersion> parse_bwrap_version(std::string_view text) {
  const bool is_named = text.starts_with(kName);
  const auto parts = split(trim(is_named ? text.substr(kName.size()) : ""), '.');
  const auto major = parse_decimal(parts.front(), kMaxVersionPart);
  const auto minor = parts.size() > 1 ? parse_decimal(parts[1], kMaxVersionPart) : std::nullopt;
  if (!major || !minor) {
    return unavailable("this is no version of bubblewrap: " + quoted(text));
  }
  return gate::BwrapVersion{static_cast<int>(*major), static_cast<int>(*minor)};
}

Result<BwrapProgram> find_bwrap() {
  for (const char* path : kPlaces) {
    if (!is_trusted(path)) {
      continue;
    }
    const auto text = version_text(path);
    if (!text) {
      return text.error();
    }
    const auto version = parse_bwrap_version(*text);
    return version ? Result<BwrapProgram>(BwrapProgram{path, *version})
                   : Result<BwrapProgram>(version.error());
  }
  return unavailable("there is no /usr/bin/bwrap; install bubblewrap");
}

Result<BwrapBox> start_in_bwrap(const BwrapProgram& program, const BoxPlan& plan,
                                const BoxCommand& command, const BoxOptions& options) {
  if (auto status = check(plan, command, options); !status) {
    return status.error();
  }
  auto prepared = prepare(program, plan, command, options);
  if (!prepared) {
    return prepared.error();
  }
  const std::int64_t began_ns = stamp_now();
  const std::string joined = prepared->arguments.joined();
  auto arguments = memory_file("arguments", joined.data(), joined.size());
  if (!arguments) {
    return arguments.error();
  }
  std::vector<std::string> words{program.path, "--args", std::to_string(kArgumentsFd), "--"};
  words.insert(words.end(), command.argv.begin(), command.argv.end());
  Birth birth{.descriptors = command.descriptors,
              .arguments = arguments->get(),
              .filter = prepared->filter.get(),
              .argv = {},
              .program = program.path.c_str(),
              .report = -1};
  std::vector<io::Fd> copies;
  for (BoxDescriptor& one : birth.descriptors) {
    copies.emplace_back(fcntl(one.ours, F_DUPFD_CLOEXEC, kAboveAll));
    one.ours = copies.back().get();
  }
  std::ranges::sort(birth.descriptors, {}, &BoxDescriptor::theirs);
  for (std::string& word : words) {
    birth.argv.push_back(word.data());
  }
  birth.argv.push_back(nullptr);
  auto born = give_birth(std::move(birth));
  if (!born) {
    return born.error();
  }
  return BwrapBox{std::make_unique<RunningBwrap>(born->first, std::move(born->second),
                                                 std::move(prepared->placeholders), began_ns),
                  std::move(prepared->arguments.weaknesses)};
}

}  // namespace sandboxkit::box
