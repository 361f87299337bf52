#include "sandboxkit/box.h"

#include "sandboxkit/box_changes.h"

#include "base/random.h"
#include "base/text.h"
#include "box/filter.h"
#include "box/grants.h"
#include "box/journal.h"
#include "box/kernel_calls.h"
#include "box/start.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace sandboxkit {
namespace {

using box::Launch;
using std::chrono::milliseconds;

constexpr std::size_t kMaxWords = 100'000;
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
constexpr std::array<const char*, 5> kHidden{"/home", "/root", "/run", "/tmp", "/var/tmp"};
constexpr mode_t kOwnFolder = 0700;
constexpr std::size_t kRunNameLength = 16;

Error wrong(const char* field, std::string why) {
  return {ErrorCode::kInvalidArgument, std::move(why), "", field};
}

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

Status check(const BoxCommand& command) {
  if (command.argv.empty() || command.argv.front().empty()) {
    return wrong("argv", "a box needs a command");
  }
  if (command.argv.size() + command.environment.size() > kMaxWords) {
    return wrong("argv", "more than " + std::to_string(kMaxWords) + " words and variables");
  }
  if (std::ranges::any_of(command.argv, has_nul)) {
    return wrong("argv", "a word holds a NUL");
  }
  for (const std::string& variable : command.environment) {
    if (has_nul(variable) || variable.find('=') == std::string::npos || variable.front() == '=') {
      return wrong("environment", quoted(variable) + " is no NAME=VALUE");
    }
  }
  if (!command.cwd.starts_with('/') || has_nul(command.cwd)) {
    return wrong("cwd", quoted(command.cwd) + " is no absolute path");
  }
  return {};
}

/// The descriptors of the launch, by the command's numbers.
Result<std::vector<box::Descriptor>> descriptors_of(const BoxCommand& command) {
  std::vector<box::Descriptor> out;
  for (const BoxDescriptor& one : command.descriptors) {
    if (one.theirs < 0 || one.theirs > box::kMaxTheirs || fcntl(one.ours, F_GETFD) < 0) {
      return wrong("descriptors", "descriptor " + std::to_string(one.ours) + " as " +
                                      std::to_string(one.theirs) + " cannot be passed");
    }
    if (!command.terminal || one.theirs > STDERR_FILENO) {
      out.push_back({one.ours, one.theirs});
    }
  }
  std::ranges::sort(out, {}, &box::Descriptor::theirs);
  const auto twice = std::ranges::adjacent_find(out, {}, &box::Descriptor::theirs);
  if (twice != out.end()) {
    return wrong("descriptors", std::to_string(twice->theirs) + " is there twice");
  }
  return out;
}

std::vector<std::string> candidates_of(const BoxCommand& command) {
  const std::string& program = command.argv.front();
  if (program.find('/') != std::string::npos) {
    return {program};
  }
  std::string_view path = kDefaultPath;
  for (const std::string& variable : command.environment) {
    if (variable.starts_with("PATH=")) {
      path = std::string_view(variable).substr(std::string_view("PATH=").size());
    }
  }
  std::vector<std::string> out;
  for (const std::string_view folder : split(path, ':')) {
    // An empty entry means the working folder, where an agent may put programs: not looked at.
    if (!folder.empty()) {
      out.push_back(std::string(folder) + "/" + program);
    }
  }
  return out;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) {
    out.push_back(const_cast<char*>(text.c_str()));  // execve does not write to them.
  }
  out.push_back(nullptr);
  return out;
}

/// As this machine has them: on some `/home` is a link.
std::vector<std::string> hidden_places() {
  std::vector<std::string> out;
  for (const char* path : kHidden) {
    std::array<char, PATH_MAX> real{};
    if (realpath(path, real.data()) != nullptr) {
      out.emplace_back(real.data());
    }
  }
  return out;
}

bool covers(std::string_view above, std::string_view path) {
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

/// The journal and the overlays must be out of the command's reach.
Status check_state(const BoxPlan& plan, const BoxOptions& options) {
  for (const BoxPlace& place : plan.places) {
    if (place.access == BoxAccess::kReadWrite && covers(place.path, options.state_dir)) {
      return wrong("state_dir", quoted(options.state_dir) + " lies in " + quoted(place.path) +
                                    ", which may be written");
    }
  }
  return {};
}

/// Folders for the overlays of one run.
Result<std::string> make_run_dir(const std::string& state_dir, const box::Layout& layout) {
  const auto state = box::open_state(state_dir);
  if (!state) {
    return state.error();
  }
  const std::string name = "run-" + system_random().text(kRunNameLength, kBase36);
  bool made = mkdirat(state->get(), name.c_str(), kOwnFolder) == 0;
  for (const box::Step& step : layout.steps) {
    if (!step.overlay.empty()) {
      const std::string folder = name + "/" + step.overlay;
      made = made && mkdirat(state->get(), folder.c_str(), kOwnFolder) == 0 &&
             mkdirat(state->get(), (folder + "/upper").c_str(), kOwnFolder) == 0 &&
             mkdirat(state->get(), (folder + "/work").c_str(), kOwnFolder) == 0;
    }
  }
  if (!made) {
    return io::error_from_errno("folder of a staged run", errno);
  }
  return state_dir + "/" + name;
}

class RunningBox final : public Box {
 public:
  RunningBox(box::Started started, box::Placeholders placeholders, BoxStaged staged,
             std::int64_t began_ns)
      : started_(std::move(started)),
        placeholders_(std::move(placeholders)),
        staged_(std::move(staged)),
        began_ns_(began_ns) {}

  ~RunningBox() override {
    if (!end_) {
      box::end_process(started_.pidfd);
    }
    box::end_process(started_.broker_pidfd);
  }

  Result<std::optional<BoxEnd>> wait(std::optional<milliseconds> limit) override {
    if (end_) {
      return end_;
    }
    pollfd ready{started_.pidfd.get(), POLLIN, 0};
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
    if (waitid(P_PIDFD, static_cast<id_t>(started_.pidfd.get()), &info, WEXITED) != 0) {
      return io::error_from_errno("wait for the box", errno);
    }
    end_ = end_of(info);
    placeholders_.clear();
    return end_;
  }

  Status signal(int number) override {
    if (syscall(SYS_pidfd_send_signal, started_.pidfd.get(), number, nullptr, 0) != 0) {
      return io::error_from_errno("signal", errno);
    }
    return {};
  }

  Status grant(std::span<const BoxPlace> places) override {
    if (Status good = box::check_grants(places); !good) {
      return good;
    }
    for (const BoxPlace& below : places.subspan(1)) {
      if (Status done = ask(below, box::BrokerAct::kProtect); !done) {
        return done;
      }
    }
    const BoxPlace& place = places.front();
    Status given = ask(place, box::BrokerAct::kGive);
    if (given) {
      granted_.insert(place.path);
    }
    return given;
  }

  Status revoke(const std::string& path) override {
    if (!granted_.contains(path)) {
      return Error{ErrorCode::kNotFound, quoted(path) + " was not granted", "", "path"};
    }
    Status taken = box::ask_broker(started_, {path, box::BrokerAct::kTakeBack});
    if (taken) {
      granted_.erase(path);
    }
    return taken;
  }

  int terminal() const override { return started_.terminal.get(); }

  Status resize(BoxTerminalSize size) override {
    winsize window{};
    window.ws_col = size.columns;
    window.ws_row = size.rows;
    if (ioctl(started_.terminal.get(), TIOCSWINSZ, &window) != 0) {
      return io::error_from_errno("terminal size", errno);
    }
    return {};
  }

  int take_listener() override { return started_.listener.release(); }
  int pid() const override { return box::pid_of(started_); }
  const BoxStaged& staged() const override { return staged_; }
  std::int64_t began_ns() const override { return began_ns_; }
  int end_descriptor() const override { return started_.pidfd.get(); }

 private:
  Status ask(const BoxPlace& place, box::BrokerAct act) {
    return box::ask_broker(started_, {place.path, act, place.access, place.type, place.identity});
  }

  BoxEnd end_of(const siginfo_t& info) const {
    box::EndMessage message{};
    const ssize_t got = recv(started_.control.get(), &message, sizeof message, MSG_DONTWAIT);
    if (got == sizeof message && message.type == box::EndMessage{}.type) {
      const int status = message.wait_status;
      return WIFSIGNALED(status) ? BoxEnd{128 + WTERMSIG(status), WTERMSIG(status)}
                                 : BoxEnd{WEXITSTATUS(status), 0};
    }
    return info.si_code == CLD_EXITED ? BoxEnd{info.si_status, 0}
                                      : BoxEnd{128 + info.si_status, info.si_status};
  }

  box::Started started_;
  box::Placeholders placeholders_;
  std::set<std::string> granted_;
  BoxStaged staged_;
  std::int64_t began_ns_;
  std::optional<BoxEnd> end_;
};

/// Puts the identities of placeholders into the steps that stand on them.
void note_placeholders(box::Layout& layout, const std::vector<FileIdentity>& identities) {
  std::size_t next = 0;
  for (box::Step& step : layout.steps) {
    if (step.kind == box::StepKind::kHold) {
      step.identity = identities.at(next++);
    }
  }
}

/// What a reader of the overlays has to know.
BoxStaged staged_of(const box::Layout& layout, std::string dir, std::int64_t began_ns) {
  BoxStaged out{.dir = std::move(dir), .began_ns = began_ns};
  for (const box::Step& step : layout.steps) {
    if (!step.overlay.empty()) {
      out.roots.push_back("/" + step.path);
    }
    if (step.kind == box::StepKind::kPlaceholder) {
      out.held.push_back("/" + step.path);
    }
  }
  return out;
}

/// The fine clock: file systems stamp by it or by the coarse one, which stands some milliseconds
/// behind. The set-up takes longer than that, so nothing of the box is stamped before.
std::int64_t stamp_now() {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

Status check_user(const BoxOptions& options) {
  if (geteuid() == 0 && options.root == BoxRoot::kRefuse) {
    return Error{ErrorCode::kPermissionDenied,
                 "root's files would stand behind this one wall: run it as an ordinary user, or "
                 "allow root explicitly",
                 "box_root"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Box>> Box::start(const BoxPlan& plan, const BoxCommand& command,
                                        const BoxOptions& options) {
  for (Status checked : {check_user(options), check(command), check_state(plan, options)}) {
    if (!checked) {
      return checked.error();
    }
  }
  auto descriptors = descriptors_of(command);
  if (!descriptors) {
    return descriptors.error();
  }
  auto layout = box::lay_out({plan, hidden_places(), options.home_folder});
  if (!layout) {
    return layout.error();
  }
  auto filter =
      box::make_filter({.unix_sockets = !plan.sockets.empty(), .allow_nested = plan.allow_nested});
  if (!filter) {
    return filter.error();
  }
  std::vector<std::string> held;
  for (const std::size_t index : layout->placeholders) {
    held.push_back(plan.places[index].path);
  }
  const std::int64_t began_ns = stamp_now();
  auto placeholders = box::Placeholders::make(options.state_dir, held);
  if (!placeholders) {
    return placeholders.error();
  }
  note_placeholders(*layout, placeholders->identities());
  std::string run_dir;
  if (plan.staged) {
    auto made = make_run_dir(options.state_dir, *layout);
    if (!made) {
      return made.error();
    }
    run_dir = *std::move(made);
  }
  // Replaced by the terminal; until then the numbers are taken, so that nothing else gets them.
  io::Fd nothing;
  if (command.terminal) {
    nothing = io::Fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int target = STDERR_FILENO; target >= STDIN_FILENO; --target) {
      descriptors->insert(descriptors->begin(), {nothing.get(), target});
    }
  }
  const auto candidates = candidates_of(command);
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  Launch launch{.layout = *layout,
                .shown = std::vector<int>(layout->steps.size(), -1),
                .uid_map = uid + " " + uid + " 1",
                .gid_map = gid + " " + gid + " 1",
                .run_dir = run_dir.empty() ? "" : run_dir.substr(1),
                .listener_port = options.listener_port,
                .terminal = command.terminal.has_value(),
                .columns = command.terminal.value_or(BoxTerminalSize{}).columns,
                .rows = command.terminal.value_or(BoxTerminalSize{}).rows,
                .allow_nested = plan.allow_nested,
                .landlock_abi = box::landlock_abi(),
                .filter = *std::move(filter),
                .descriptors = *std::move(descriptors),
                .cwd = command.cwd,
                .argv = pointers_to(command.argv),
                .environment = pointers_to(command.environment)};
  for (const std::string& candidate : candidates) {
    launch.candidates.push_back(candidate.c_str());
  }
  launch.candidates.push_back(nullptr);
  auto started =
      box::start_process(launch, options.start_limit, command.argv.front(), options.takes_grants);
  if (!started) {
    if (plan.staged) {
      const Status gone = remove_box_stage(staged_of(*layout, std::move(run_dir), began_ns));
      return gone ? started.error() : gone.error();
    }
    return started.error();
  }
  return std::unique_ptr<Box>(std::make_unique<RunningBox>(
      *std::move(started), *std::move(placeholders),
      run_dir.empty() ? BoxStaged{} : staged_of(*layout, std::move(run_dir), began_ns), began_ns));
}

}  // namespace sandboxkit
