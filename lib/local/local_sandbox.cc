#include "local/local_sandbox.h"

#include "sandboxkit/system_eyes.h"

#include "base/text.h"
#include "box/git_excludes.h"
#include "box/live_sweep.h"
#include "docker/helper_call.h"
#include "docker/plan.h"
#include "json/value.h"
#include "local/local_stats.h"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sandboxkit::local {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kHelperTimeout{5000};
constexpr milliseconds kReadyCheck{5};
constexpr milliseconds kEndWait{2000};
constexpr int kGuestDescriptor = 3;
constexpr int kProgramDescriptor = 4;
constexpr const char* kPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

Result<std::pair<io::Fd, io::Fd>> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return io::error_from_errno("socketpair", errno);
  }
  return std::pair(io::Fd(ends[0]), io::Fd(ends[1]));
}

Error too_late() {
  return {ErrorCode::kDeadlineExceeded, "the sandbox did not come up in time", "create_timeout"};
}

/// Asks again until `holds`, the time is over or somebody stops it.
template <typename Predicate>
Status wait_until(steady_clock::time_point deadline, const std::stop_token& stop,
                  Predicate&& holds) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  while (!holds()) {
    if (stop.stop_requested()) {
      return Error{ErrorCode::kCancelled, "the create was stopped"};
    }
    if (steady_clock::now() >= deadline) {
      return too_late();
    }
    woken.wait_for(lock, stop, kReadyCheck, [] { return false; });
  }
  return {};
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status()
              : Status(Error{ErrorCode::kUnavailable, "cannot write " + sandboxkit::quoted(path)});
}

}  // namespace

std::string boxes_folder(const std::string& state_dir) { return state_dir + "/boxes"; }

LocalSandbox::LocalSandbox(LocalHost& host, const SandboxOrder& order)
    : host_(host),
      order_(order),
      egress_folder_(host.config.state_dir + "/sandboxes/" + order.sandbox.str() + "/egress"),
      deadline_(steady_clock::now() + host.config.create_timeout),
      policy_hash_(order.policy_hash) {}

LocalSandbox::~LocalSandbox() {
  if (session_) {
    session_->end();  // Whoever waits for an answer is told.
  }
  // On the hub's thread, as everything else of these is there.
  host_.hub.run([this] {
    if (box_) {
      host_.hub.loop().remove(box_->end_descriptor());
    } else if (child_.pidfd) {
      host_.hub.loop().remove(child_.pidfd.get());
    }
    if (link_) {
      link_->close();
    }
  });
  if (child_.pidfd) {
    pollfd gone{child_.pidfd.get(), POLLIN, 0};
    ::poll(&gone, 1, static_cast<int>(kEndWait.count()));  // It ends with its link.
    ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
    siginfo_t ignored{};
    ::waitid(P_PIDFD, static_cast<id_t>(child_.pidfd.get()), &ignored, WEXITED);
  }
  const std::int64_t began_ns = box_ ? box_->began_ns() : 0;
  box_.reset();
  if (boxed_) {
    look_through_tree(began_ns);
  }
  if (proxy_) {
    proxy_->close();
  }
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(egress_folder_).parent_path(), ignored);
}

Result<std::shared_ptr<LocalSandbox>> LocalSandbox::start(LocalHost& host,
                                                          const SandboxOrder& order,
                                                          std::stop_token stop, Ended on_end) {
  std::shared_ptr<LocalSandbox> sandbox(new LocalSandbox(host, order));
  auto pair = socket_pair();
  if (!pair) {
    return pair.error();
  }
  const bool off = host.config.mode == PermissionMode::kOff;
  Status done = sandbox->start_session();
  done = done ? (off ? sandbox->start_plain(pair->second.get())
                     : sandbox->start_box(pair->second.get()))
              : done;
  pair->second.reset();
  done = done && order.spec.egress.is_walled() ? sandbox->start_proxy(stop) : done;
  done = done ? sandbox->start_guest(std::move(pair->first), stop) : done;
  if (!done) {
    return done.error();
  }
  sandbox->watch_end(std::move(on_end));
  return sandbox;
}

GateSession LocalSandbox::session_of_box() const {
  GateSession session = host_.session;
  session.session = order_.sandbox.str();
  session.agent = host_.config.agent;
  session.box_is_active = host_.config.mode != PermissionMode::kOff;
  return session;
}

GatePolicy LocalSandbox::policy_of_box() const {
  GatePolicy policy = host_.policy;
  if (const EgressPolicy* egress = order_.spec.egress.policy()) {
    policy.egress = *egress;
  }
  return policy;
}

Status LocalSandbox::start_session() {
  AgentSessionOptions options{.session = session_of_box(),
                              .policy = policy_of_box(),
                              .mode = host_.config.mode,
                              .state_folder = host_.config.gate_dir,
                              .policy_source = host_.config.gate_dir + "/policy.json",
                              .box = host_.box,
                              .ask_timeout = host_.config.ask_timeout};
  auto session = AgentSession::start(
      std::move(options), {.eyes = system_eyes(), .clock = host_.clock, .handler = &host_.prompts});
  if (!session) {
    return session.error();
  }
  session_ = std::move(*session);
  return {};
}

std::vector<std::string> LocalSandbox::environment(bool walled) const {
  std::map<std::string, std::string> names{{"PATH", kPath},
                                           {"HOME", host_.session.home},
                                           {"LANG", "C.UTF-8"},
                                           {"SANDBOXKIT_BOX", order_.sandbox.str()}};
  if (walled) {
    const std::string proxy =
        "http://" + std::string(docker::kLoopback) + ":" + std::to_string(docker::kProxyPort);
    for (const char* name : {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"}) {
      names[name] = proxy;
    }
    names["NO_PROXY"] = names["no_proxy"] = "localhost,127.0.0.1,::1";
  }
  for (const auto& [name, value] : order_.spec.env) {
    names[name] = value;
  }
  std::vector<std::string> list;
  for (const auto& [name, value] : names) {
    list.push_back(name + "=" + value);
  }
  return list;
}

Status LocalSandbox::start_box(int control) {
  auto gate = PermissionGate::create(session_of_box(), policy_of_box(), host_.config.mode);
  if (!gate) {
    return gate.error();
  }
  const GrantSnapshot kept = host_.grants.snapshot();
  auto grants = gate->compile(*kept.grants, {});
  if (!grants) {
    return grants.error();
  }
  auto plan = gate->plan_box(*grants, system_eyes(), host_.clock.now(),
                             {.staged = false, .allow_nested = false});
  if (!plan) {
    return plan.error();
  }
  const std::string boxes = boxes_folder(host_.config.state_dir);
  const auto git = box::hide_from_git(*plan, boxes);
  if (!git) {
    return git.error();
  }
  std::vector<std::string> variables = environment(true);
  for (const auto& [name, value] : *git) {
    variables.push_back(name + "=" + value);
  }
  // By a descriptor, as the box need not show where our programs are.
  const io::Fd guest(::open(host_.config.guest_binary.c_str(), O_RDONLY | O_CLOEXEC));
  if (!guest) {
    return io::error_from_errno(("open " + host_.config.guest_binary).c_str(), errno);
  }
  const BoxCommand command{
      .argv = {"/proc/self/fd/" + std::to_string(kProgramDescriptor), "--link-fd",
               std::to_string(kGuestDescriptor)},
      .cwd = host_.session.tree,
      .environment = std::move(variables),
      .descriptors = {{control, kGuestDescriptor}, {guest.get(), kProgramDescriptor}}};
  BoxOptions options{.state_dir = boxes};
  options.listener_port = docker::kProxyPort;
  options.root = host_.config.allow_root ? BoxRoot::kAllow : BoxRoot::kRefuse;
  options.start_limit = host_.config.create_timeout;
  auto box = Box::start(*plan, command, options);
  if (!box) {
    return box.error();
  }
  box_ = std::move(*box);
  boxed_ = std::make_shared<const BoxedRules>(
      BoxedRules{std::move(*gate), std::move(*grants), std::move(*plan)});
  return host_.trail->started(box_of());
}

BoxOf LocalSandbox::box_of() const {
  SessionBox box = host_.box;
  box.id = order_.sandbox.str();
  return {order_.sandbox.str(), host_.config.agent, std::move(box)};
}

/// What a program made under names that nobody may make must not be there for the person's own
/// programs.
void LocalSandbox::look_through_tree(std::int64_t began_ns) {
  host_.trail->ended(box_of(), report().reason);
  const auto swept = box::sweep_live_run(
      {boxed_->plan, boxed_->gate, boxed_->grants, system_eyes(), host_.clock.now()}, began_ns);
  swept ? host_.trail->found(box_of(), *swept) : host_.trail->not_swept(box_of(), swept.error());
}

Status LocalSandbox::start_plain(int control) {
  auto child = io::spawn({.program = host_.config.guest_binary,
                          .arguments = {"--link-fd", std::to_string(kGuestDescriptor)},
                          .descriptors = {control},
                          .environment = environment(false)});
  if (!child) {
    return child.error();
  }
  child_ = std::move(*child);
  return {};
}

Status LocalSandbox::start_proxy(const std::stop_token& stop) {
  DockerDriverConfig config{.controller = host_.config.controller,
                            .worker = host_.config.worker,
                            .state_dir = host_.config.state_dir,
                            .guest_binary = host_.config.guest_binary,
                            .egress_binary = host_.config.egress_binary};
  config.dns_servers = host_.config.dns_servers;
  config.egress_hosts = host_.config.egress_hosts;
  std::error_code problem;
  std::filesystem::create_directories(egress_folder_, problem);
  const Status written = problem
                             ? Status(Error{ErrorCode::kUnavailable,
                                            "cannot make " + sandboxkit::quoted(egress_folder_)})
                             : write_file(egress_folder_ + docker::kPolicyFile,
                                          docker::isolated_policy_json({config, order_}, {}));
  if (!written) {
    return written;
  }
  io::Fd listener(box_->take_listener());
  if (!listener) {
    return Error{ErrorCode::kUnavailable, "the box has no socket for its egress proxy"};
  }
  proxy_ = docker::ProxyProcess::make(host_.hub, host_.config.egress_binary, egress_folder_);
  bool taken = false;
  host_.hub.run([&] { taken = proxy_->take_listener(std::move(listener)); });
  const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - steady_clock::now());
  if (!taken || !proxy_->wait_ready(left, stop)) {
    return Error{ErrorCode::kUnavailable, "the egress proxy does not serve: " + proxy_->problem(),
                 "wall_unavailable"};
  }
  return {};
}

Status LocalSandbox::start_guest(io::Fd control, const std::stop_token& stop) {
  host_.hub.run([&] { link_ = io::GuestLink::adopt(host_.hub.loop(), std::move(control)); });
  if (const Status ready = wait_until(deadline_, stop, [&] { return link_->ready(); }); !ready) {
    return ready;
  }
  auto connection = link_->connect();
  if (!connection) {
    return connection.error();
  }
  const json::Value body = json::Object{{"defaultWorkdir", host_.session.tree}};
  const auto reply =
      docker::call_helper(std::move(*connection), {"/init", json::dump(body)}, kHelperTimeout);
  if (!reply || reply->status != 204) {
    return reply ? Error{ErrorCode::kUnavailable, "the guest refused its settings"} : reply.error();
  }
  GateFrontParts parts;
  parts.judge = [session = session_](const GateRequest& request, const std::stop_token& asked) {
    return session->check(request, asked).decision;
  };
  parts.in_box = [rules = boxed_, &clock = host_.clock](const GateRequest& request) {
    return !rules ||
           rules->gate.decide(request, rules->grants, system_eyes(), clock.now()).answer ==
               GateAnswer::kAllow;
  };
  parts.open = [session = session_](const OpenRequest& request, const std::stop_token& asked) {
    return session->open(request, asked);
  };
  parts.connect = [link = link_] { return link->connect(); };
  parts.places = {host_.session.tree, host_.session.home};
  front_ = std::make_shared<GateFront>(host_.hub.loop(), host_.pool, std::move(parts));
  return {};
}

void LocalSandbox::watch_end(Ended on_end) {
  host_.hub.run([&] {
    const int descriptor = box_ ? box_->end_descriptor() : child_.pidfd.get();
    host_.hub.loop().add(descriptor, EPOLLIN,
                         [weak = weak_from_this(), on_end = std::move(on_end)](std::uint32_t) {
                           if (const auto self = weak.lock()) {
                             self->ended(on_end);
                           }
                         });
  });
}

void LocalSandbox::ended(const Ended& on_end) {
  host_.hub.loop().remove(box_ ? box_->end_descriptor() : child_.pidfd.get());
  std::string reason = "its guest ended";
  if (box_) {
    const auto end = box_->wait(milliseconds{0});
    if (end && *end) {
      reason = (*end)->signal != 0 ? "signal " + std::to_string((*end)->signal)
                                   : "exit " + std::to_string((*end)->exit_code);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    end_reason_ = reason;
  }
  on_end(reason);
}

Result<io::Fd> LocalSandbox::connect() {
  auto pair = socket_pair();
  if (!pair) {
    return pair.error();
  }
  host_.hub.loop().post(
      [front = front_, end = pair->second.release()] { front->serve(io::Fd(end)); });
  return std::move(pair->first);
}

SandboxReport LocalSandbox::report() const {
  const std::lock_guard lock(mutex_);
  SandboxReport report{.sandbox = order_.sandbox, .tenant = order_.tenant};
  report.generation = order_.generation;
  report.state = end_reason_.empty() ? SandboxState::kRunning : SandboxState::kStopped;
  report.expires_at = order_.expires_at;
  report.policy_hash = policy_hash_;
  report.structure = proxy_ ? kLocalStructure : "";
  report.reason = end_reason_;
  return report;
}

SandboxStats LocalSandbox::stats() const { return stats_of_box(box_ ? box_->pid() : child_.pid); }

void LocalSandbox::narrowed_to(const std::string& policy_hash) {
  const std::lock_guard lock(mutex_);
  policy_hash_ = policy_hash;
}

}  // namespace sandboxkit::local
