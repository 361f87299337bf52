#include "docker/builder.h"

#include "base/fault_point.h"
#include "base/guarded.h"
#include "base/text.h"
#include "docker/helper_call.h"
#include "docker/trust.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kHelperLook{250};
constexpr milliseconds kHealthTimeout{5000};

Status make_folder(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  // The umask does not count: other users' processes in the containers pass through.
  if (problem || chmod(path.c_str(), 0755) != 0) {
    return Error{ErrorCode::kUnavailable, "cannot make the folder " + sandboxkit::quoted(path)};
  }
  return {};
}

Status write_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  const io::Fd file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) {
    return io::error_from_errno("cannot write the egress policy", errno);
  }
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file.get(), text.data() + written, text.size() - written);
    if (count < 0) {
      return io::error_from_errno("cannot write the egress policy", errno);
    }
    written += static_cast<std::size_t>(count);
  }
  return fchmod(file.get(), 0644) == 0 && std::rename(part.c_str(), path.c_str()) == 0
             ? Status()
             : Status(io::error_from_errno("cannot write the egress policy", errno));
}

Status link_folder(const std::string& path, const std::string& target) {
  std::error_code problem;
  std::filesystem::create_directory_symlink(target, path, problem);
  return problem ? Status(Error{ErrorCode::kUnavailable, "cannot name the folder " +
                                                             sandboxkit::quoted(target) + " " +
                                                             sandboxkit::quoted(path)})
                 : Status();
}

const char* name_of(Part part) { return part == Part::kSandbox ? "guest" : "egress proxy"; }

/// One run. Each step is a member, so that what it brings stays with the run.
class Run {
 public:
  Run(EngineClient& engine, LinkHub& hub, Built start, const BuildLimits& limits)
      : engine_(engine), hub_(hub), built_(std::move(start)), limits_(limits) {}

  Result<Built> all(const Plan& plan) {
    if (Status done = steps(plan); !done) {
      return done.error();
    }
    return std::move(built_);
  }

 private:
  Status steps(const Plan& plan) {
    for (const Step& step : plan) {
      // What another branch met is what the caller hears of.
      if (limits_.stop.stop_requested() || failed_) {
        return Error{ErrorCode::kCancelled, "the create was cancelled"};
      }
      if (remaining() <= milliseconds{0}) {
        return timed_out();
      }
      if (Status done = std::visit([&](const auto& s) { return act(s); }, step); !done) {
        return done.error();
      }
    }
    return {};
  }

  milliseconds remaining() const {
    return std::chrono::duration_cast<milliseconds>(limits_.deadline - steady_clock::now());
  }

  static Error timed_out() {
    return Error{ErrorCode::kDeadlineExceeded, "the sandbox was not up in time", "create_timeout"};
  }

  std::shared_ptr<HelperLink>& link(Part part) {
    return part == Part::kSandbox ? built_.guest : built_.egress;
  }

  /// A call that makes something is not cut short: what became of it would not be known.
  Result<json::Value> make(const Step& step) {
    auto request = request_of(step, built_.ids);
    request->timeout = limits_.call_timeout;
    return engine_.call(*request);
  }

  /// A call on what stands may take as long as the whole create: a start is most of it.
  Status change(const Step& step) {
    auto request = request_of(step, built_.ids);
    request->timeout = std::max(remaining(), milliseconds{1});
    request->stop = limits_.stop;
    const auto answer = engine_.call(*request);
    if (!answer && reason_of(answer.error()) == "engine_timeout") {
      return timed_out();
    }
    return answer ? Status() : Status(answer.error());
  }

  Status act(const MakeFolder& step) { return make_folder(step.path); }
  Status act(const WriteFile& step) { return write_file(step.path, step.text); }
  Status act(const LinkFolder& step) { return link_folder(step.path, step.target); }

  /// A branch writes what no other one reads. The error that came first is the one that counts.
  Status act(const AtOnce& step) {
    Guarded<std::optional<Error>> first;
    std::vector<std::future<void>> others;
    for (const Branch& branch : step.branches) {
      others.push_back(std::async(std::launch::async, [this, &branch, &first] {
        if (const Status done = steps(branch.steps); !done) {
          first.with([&](auto& error) { error = error ? error : done.error(); });
          failed_ = true;
        }
      }));
    }
    for (std::future<void>& other : others) {
      other.get();
    }
    const auto error = first.with([](const auto& met) { return met; });
    return error ? Status(*error) : Status();
  }

  Status act(const KeepProxy& step) {
    built_.proxy = ProxyProcess::make(hub_, step.program, step.folder);
    built_.egress = built_.proxy;
    return {};
  }

  Status act(const OpenLink& step) {
    auto opened = step.takes_listener ? open_guest_of_proxy(hub_, step.socket_path, built_.proxy)
                                      : hub_.open(step.socket_path);
    if (!opened) {
      return opened.error();
    }
    link(step.part) = std::move(*opened);
    if (step.part == Part::kSidecar && built_.sidecar_pid > 0) {
      built_.egress->expect_pid(built_.sidecar_pid);
    }
    return {};
  }

  Status act(const CreateNetwork& step) {
    auto answer = make(step);
    if (!answer) {
      return answer.error();
    }
    built_.ids.wall = answer->text("Id");
    SANDBOXKIT_FAULT_POINT("docker.wall.made");
    return {};
  }

  Status act(const CreateContainer& step) {
    auto answer = make(step);
    if (!answer) {
      return answer.error();
    }
    switch (step.part) {
      case Part::kSandbox:
        built_.ids.sandbox = answer->text("Id");
        SANDBOXKIT_FAULT_POINT("docker.sandbox.made");
        break;
      case Part::kSidecar:
        built_.ids.sidecar = answer->text("Id");
        SANDBOXKIT_FAULT_POINT("docker.sidecar.made");
        break;
      case Part::kAnchor:
        built_.ids.anchor = answer->text("Id");
        break;
    }
    return {};
  }

  Status act(const JoinWall& step) {
    Status joined = change(step);
    SANDBOXKIT_FAULT_POINT("docker.sidecar.joined");
    return joined;
  }

  Status act(const TrustAuthority& step) {
    return trust_authority(engine_, built_.ids.sandbox, step.certificate, step.roots);
  }

  Status act(const StartContainer& step) {
    if (Status started = change(step); !started) {
      return started;
    }
    if (step.part == Part::kAnchor) {
      return {};
    }
    if (step.part == Part::kSandbox) {
      SANDBOXKIT_FAULT_POINT("docker.sandbox.started");
    } else {
      SANDBOXKIT_FAULT_POINT("docker.sidecar.started");
    }
    const auto state = inspect_state(engine_, built_.ids.of(step.part));
    if (!state) {
      return state.error();
    }
    if (step.part == Part::kSidecar) {
      built_.sidecar_pid = state->pid;
    }
    if (link(step.part)) {  // A wall that waits has none yet.
      link(step.part)->expect_pid(state->pid);
    }
    return {};
  }

  Status act(const AwaitHelper& step) {
    const std::string& container = built_.ids.of(step.part);
    while (!link(step.part)->wait_ready(std::clamp(remaining(), milliseconds{0}, kHelperLook),
                                        limits_.stop)) {
      if (limits_.stop.stop_requested()) {
        return Error{ErrorCode::kCancelled, "the create was cancelled"};
      }
      if (remaining() <= milliseconds{0}) {
        return timed_out();
      }
      const auto state = inspect_state(engine_, container);
      if (!state) {
        return state.error();
      }
      if (!state->running) {
        return ended(step.part, *state);
      }
      if (built_.proxy && built_.proxy->given_up()) {
        return Error{ErrorCode::kUnavailable,
                     "the sandbox gave its proxy no socket: " + built_.proxy->problem()};
      }
      link(step.part)->expect_pid(state->pid);
    }
    if (step.part == Part::kSandbox) {
      SANDBOXKIT_FAULT_POINT("docker.guest.connected");
      return {};
    }
    Status serves = check_health(step.policy_hash);
    SANDBOXKIT_FAULT_POINT("docker.sidecar.serves");
    return serves;
  }

  Status act(const AwaitProxy& /*step*/) {
    ProxyProcess& proxy = *built_.proxy;
    while (!proxy.wait_ready(std::clamp(remaining(), milliseconds{0}, kHelperLook), limits_.stop)) {
      // Who does not serve at the first start will not at the second one.
      if (const std::string problem = proxy.problem(); !problem.empty()) {
        return Error{ErrorCode::kUnavailable, "the egress proxy does not serve: " + problem};
      }
      if (limits_.stop.stop_requested()) {
        return Error{ErrorCode::kCancelled, "the create was cancelled"};
      }
      if (remaining() <= milliseconds{0}) {
        return timed_out();
      }
    }
    return check_health("");
  }

  /// An empty hash: any policy, because the process was given its folder at birth.
  Status check_health(const std::string& policy_hash) {
    auto connection = built_.egress->connect();
    if (!connection) {
      return connection.error();
    }
    const auto reply = call_helper(std::move(*connection), {"/health"}, kHealthTimeout);
    if (!reply) {
      return reply.error();
    }
    if (reply->status < 200 || reply->status >= 300) {
      return Error{ErrorCode::kUnavailable, "the egress proxy does not serve: it answered status " +
                                                std::to_string(reply->status)};
    }
    const std::string* serves = reply->headers.find("X-Sandboxkit-Policy-Hash");
    if (!policy_hash.empty() && (serves == nullptr || *serves != policy_hash)) {
      return Error{ErrorCode::kInternal, "the egress proxy serves another policy than its own"};
    }
    return {};
  }

  Error ended(Part part, const ContainerState& state) {
    const auto log = engine_.send(EngineCall{.target = "/containers/" + built_.ids.of(part) +
                                                       "/logs?stdout=1&stderr=1&tail=5"});
    const std::string words = log && log->status == 200 ? read_log(log->body) : std::string();
    return Error{ErrorCode::kUnavailable,
                 std::string("the ") + name_of(part) + " ended before it answered (" +
                     end_reason(state) + ")" + (words.empty() ? "" : ": " + words),
                 "guest_unavailable"};
  }

  EngineClient& engine_;
  LinkHub& hub_;
  Built built_;
  const BuildLimits& limits_;
  std::atomic<bool> failed_ = false;  // In a branch: the others end at their next step.
};

}  // namespace

Result<Built> run_plan(EngineClient& engine, LinkHub& hub, const Plan& plan, Built start,
                       const BuildLimits& limits) {
  return Run(engine, hub, std::move(start), limits).all(plan);
}

Result<std::shared_ptr<HelperLink>> open_guest_of_proxy(
    LinkHub& hub, const std::string& socket_path, const std::shared_ptr<ProxyProcess>& proxy) {
  return hub.open(socket_path, [weak = std::weak_ptr(proxy)](io::Fd listener) {
    const auto kept = weak.lock();
    return kept && kept->take_listener(std::move(listener));
  });
}

Result<ContainerState> inspect_state(EngineClient& engine, const std::string& container) {
  auto answer = engine.get("/containers/" + container + "/json");
  if (!answer) {
    return answer.error();
  }
  return read_state(*answer);
}

}  // namespace sandboxkit::docker
