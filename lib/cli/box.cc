// sandboxkit box: a command of this machine behind walls of its kernel, without a controller.

#include "cli/box.h"

#include "sandboxkit/box.h"
#include "sandboxkit/grant_store.h"
#include "sandboxkit/system_eyes.h"

#include "agent/grant_log.h"
#include "base/random.h"
#include "base/text.h"
#include "box/git_excludes.h"
#include "box/kernel_calls.h"
#include "box/proxy.h"
#include "box/tree.h"
#include "cli/box_after.h"
#include "cli/box_profile.h"
#include "cli/box_relay.h"
#include "cli/child.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-redundant-declaration): POSIX has it declared by who uses it.
extern char** environ;

namespace sandboxkit::cli {
namespace {

constexpr std::uint16_t kProxyPort = 3128;
constexpr mode_t kOwnFolder = 0700;
constexpr std::size_t kRunNameLength = 16;
constexpr std::size_t kMaxSeedBytes = 1U << 20;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxRefusedLines = 20;
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

/// All that a run is made of, before it starts.
struct Prepared {
  LocalGate local;
  BoxProfile profile;
  GateGrants grants;
  BoxPlan plan;
  std::string state_dir;
  std::string home_folder;
  std::optional<EgressPolicy> egress;
  /// What tells the box's git what is held or hidden.
  std::map<std::string, std::string> git_variables{};
};

std::vector<std::string> host_variables() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    out.emplace_back(text.substr(0, text.find('=')));
  }
  return out;
}

std::string current_directory() {
  std::array<char, PATH_MAX> here{};
  return getcwd(here.data(), here.size()) != nullptr ? here.data() : "/";
}

/// Roots for the profile's places that are there.
std::vector<GateRoot> places_of(const BoxProfile& profile, const std::string& home) {
  std::vector<GateRoot> out;
  for (const GateRoot& place : profile.places) {
    const std::string path =
        place.path.starts_with("~/") ? home + place.path.substr(1) : place.path;
    const auto seen = system_eyes().look({.cwd = "/", .path = path});
    if (seen && seen->file) {
      out.push_back({seen->canonical, place.access});
    }
  }
  return out;
}

/// Grants that cannot be read grant nothing, and that is said.
Result<GateGrants> grants_of(const LocalGate& local) {
  agent::GrantLog log(local.state_folder);
  const auto store =
      GrantStore::open({.folder = local.state_folder, .roots = local.roots}, log, system_clock());
  if (!store) {
    return store.error();
  }
  const GrantsView view = (*store)->read();
  if (view.problem) {
    warn("grants do not count: " + view.problem->message);
  }
  std::vector<PermanentGrant> grants;
  for (const KeptGrant& kept : view.grants->grants) {
    grants.push_back(kept.grant);
  }
  return local.gate.compile(grants, {});
}

/// The owner's list with what the profile and the person name.
Result<std::optional<EgressPolicy>> egress_of(const BoxRunOptions& options,
                                              const BoxProfile& profile, const BoxPlan& plan) {
  std::vector<std::string> domains;
  std::vector<std::string> networks = options.allow_networks;
  if (plan.egress) {
    domains = plan.egress->allowed_domains();
    const auto& more = plan.egress->allowed_networks();
    networks.insert(networks.end(), more.begin(), more.end());
  }
  domains.insert(domains.end(), profile.domains.begin(), profile.domains.end());
  domains.insert(domains.end(), options.allow.begin(), options.allow.end());
  for (auto* list : {&domains, &networks}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  if (domains.empty() && networks.empty()) {
    return std::optional<EgressPolicy>();
  }
  auto policy = EgressPolicy::create(domains, networks);
  if (!policy) {
    return policy.error();
  }
  const bool strict = plan.egress && plan.egress->strict_tls();
  return std::optional(strict ? policy->with_strict_tls() : *std::move(policy));
}

Result<std::string> make_folder(const std::string& parent, const std::string& name) {
  const io::Fd above = box::open_canonical(parent);
  if (!above || (mkdirat(above.get(), name.c_str(), kOwnFolder) != 0 && errno != EEXIST)) {
    return io::error_from_errno(("folder " + quoted(parent + "/" + name)).c_str(), errno);
  }
  return parent + "/" + name;
}

/// Copies one file of the home into the box's, once. Both are looked up through no link: what a
/// box wrote there may be anything.
Status seed(const std::string& from, const std::string& to, const std::string& file) {
  const io::Fd home = box::open_canonical(from);
  const io::Fd source(home ? box::open_place(home.get(), file.c_str(),
                                             O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
                                             box::kNoLinks | RESOLVE_BENEATH)
                           : -1);
  if (!source) {
    return {};  // There is nothing to bring.
  }
  const auto text = read_all(source.get(), kMaxSeedBytes);
  if (!text) {
    return text.error();
  }
  std::string folder = to;
  const auto parts = split(file, '/');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto made = make_folder(folder, std::string(parts[i]));
    if (!made) {
      return made.error();
    }
    folder = *made;
  }
  const io::Fd parent = box::open_canonical(folder);
  const io::Fd target(parent ? box::open_place(parent.get(), std::string(parts.back()).c_str(),
                                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                               box::kNoLinks, S_IRUSR | S_IWUSR)
                             : -1);
  if (!target && errno == EEXIST) {
    return {};
  }
  if (!target || !write_all(target.get(), *text)) {
    return io::error_from_errno(("seed " + quoted(file)).c_str(), errno);
  }
  return {};
}

/// The box's home: one for each profile and tree, kept between runs. Empty: in memory.
Result<std::string> home_folder_of(const BoxRunOptions& options, const Prepared& prepared) {
  if (options.profile.empty() || options.fresh_home) {
    return std::string();
  }
  const auto homes = make_folder(prepared.state_dir, "homes");
  if (!homes) {
    return homes.error();
  }
  const FileIdentity& tree = prepared.local.session.tree_identity;
  auto home = make_folder(*homes, prepared.profile.name + "-" + std::to_string(tree.device) + "-" +
                                      std::to_string(tree.inode));
  if (!home) {
    return home.error();
  }
  for (const std::string& file : prepared.profile.seeds) {
    const GateRequest request{.cwd = prepared.local.session.home,
                              .items = {{.operation = GateOperation::kRead,
                                         .target = prepared.local.session.home + file.substr(1)}}};
    const auto decision =
        prepared.local.gate.decide(request, prepared.grants, system_eyes(), system_clock().now());
    if (decision.answer == GateAnswer::kDeny) {
      return Error{ErrorCode::kPermissionDenied, "the profile would bring " + quoted(file) +
                                                     ", which is denied: " + explain(decision)};
    }
    if (Status brought = seed(prepared.local.session.home, *home, file.substr(2)); !brought) {
      return brought.error();
    }
  }
  return home;
}

Result<Prepared> prepare(const BoxRunOptions& options) {
  BoxProfile profile;
  if (!options.profile.empty()) {
    auto loaded = load_box_profile(options.profile);
    if (!loaded) {
      return loaded.error();
    }
    profile = *std::move(loaded);
  }
  GateSessionOptions session = options.session;
  session.tree = session.tree.empty() ? current_directory() : session.tree;
  session.agent = profile.name.empty() ? "box" : profile.name;
  session.added_roots = places_of(profile, session.home.empty() ? variable("HOME") : session.home);
  auto local = local_gate(session);
  if (!local) {
    return local.error();
  }
  warn_of_tree(local->session.tree);
  auto grants = grants_of(*local);
  if (!grants) {
    return grants.error();
  }
  auto plan = local->gate.plan_box(*grants, system_eyes(), system_clock().now(),
                                   {.staged = options.staged || options.review,
                                    .allow_nested = options.allow_nested || profile.allow_nested,
                                    .host_variables = host_variables()});
  if (!plan) {
    return plan.error();
  }
  auto egress = egress_of(options, profile, *plan);
  if (!egress) {
    return egress.error();
  }
  // The store made the gate's folder, and looked whose it is.
  auto state = make_folder(local->state_folder, "box");
  if (!state) {
    return state.error();
  }
  Prepared out{*std::move(local), std::move(profile), *std::move(grants),
               *std::move(plan),  *std::move(state),  "",
               *std::move(egress)};
  auto home = home_folder_of(options, out);
  if (!home) {
    return home.error();
  }
  out.home_folder = *std::move(home);
  auto hidden = box::hide_from_git(out.plan, out.state_dir);
  if (!hidden) {
    return hidden.error();
  }
  out.git_variables = std::move(*hidden);
  return out;
}

/// Who commits, from git itself, in one call: its configuration stays outside.
void add_git_identity(std::map<std::string, std::string>& environment) {
  auto git =
      Child::start({"git", "config", "--global", "--null", "--get-regexp", "^user\\.(name|email)$"},
                   Child::Pipe::kFromOutput);
  const auto text = git ? read_all(git->fd(), 2 * kMaxNameBytes) : Result<std::string>(git.error());
  if (!git || !git->finish() || !text) {
    return;
  }
  std::map<std::string, std::string> found;
  for (const std::string_view entry : split(*text, '\0')) {
    // `user.name`, a line feed, and the value; the last one of a key counts.
    const auto end = entry.find('\n');
    const std::string_view value =
        trim(end == std::string_view::npos ? std::string_view() : entry.substr(end + 1));
    const std::string ending = entry.substr(0, end) == "user.name" ? "NAME" : "EMAIL";
    if (!value.empty()) {
      found["GIT_AUTHOR_" + ending] = value;
      found["GIT_COMMITTER_" + ending] = value;
    }
  }
  environment.merge(found);  // What was named otherwise stays.
}

std::vector<std::string> environment_of(const BoxRunOptions& options, const Prepared& prepared) {
  std::map<std::string, std::string> out;
  const auto pass = [&](const std::string& name) {
    if (std::getenv(name.c_str()) != nullptr) {
      out[name] = variable(name.c_str());
    }
  };
  std::ranges::for_each(prepared.plan.variables, pass);
  std::ranges::for_each(prepared.profile.variables, pass);
  for (const auto& [name, value] : prepared.profile.environment) {
    out[name] = value;
  }
  add_git_identity(out);
  for (const auto& [name, value] : prepared.git_variables) {
    out[name] = value;
  }
  out["HOME"] = prepared.local.session.home;
  out["TMPDIR"] = "/tmp";
  out["SANDBOXKIT_BOX"] = "1";
  const std::string path = variable("PATH");
  out["PATH"] = path.empty() ? kDefaultPath : path;
  if (prepared.egress) {
    const std::string proxy = "http://127.0.0.1:" + std::to_string(kProxyPort);
    for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}) {
      out[name] = proxy;
    }
    out["NO_PROXY"] = out["no_proxy"] = "127.0.0.1,localhost,::1";
  }
  for (const std::string& entry : options.env) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      pass(entry);
    } else {
      out[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  std::vector<std::string> list;
  for (const auto& [name, value] : out) {
    list.push_back(name + "=" + value);
  }
  return list;
}

/// The way out, when there is one, and its folder.
class Way {
 public:
  Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  ~Way() {
    proxy_.reset();
    if (!name_.empty()) {
      const io::Fd above = box::open_canonical(state_dir_);
      static_cast<void>(box::remove_all(above.get(), name_).has_value());
    }
  }

  Status open(const BoxRunOptions& options, const Prepared& prepared, Box& running) {
    io::Fd listener(running.take_listener());
    if (!listener) {
      return {};
    }
    state_dir_ = prepared.state_dir;
    name_ = "proxy-" + system_random().text(kRunNameLength, kBase36);
    const auto folder = make_folder(state_dir_, name_);
    if (!folder) {
      return folder.error();
    }
    auto proxy = box::Proxy::start(
        {.program = options.egress_binary.empty() ? SANDBOXKIT_HELPER_DIR "/sandboxkit-egress"
                                                  : options.egress_binary,
         .folder = *folder,
         .policy = *prepared.egress,
         .hosts = options.hosts,
         .port = kProxyPort},
        std::move(listener));
    if (!proxy) {
      return proxy.error();
    }
    proxy_.emplace(*std::move(proxy));
    return {};
  }

  /// Says what it refused.
  void close() {
    if (!proxy_) {
      return;
    }
    proxy_->stop();
    const auto refused = proxy_->refused();
    for (std::size_t i = 0; i < std::min(refused.size(), kMaxRefusedLines); ++i) {
      warn("refused " + refused[i].target + " (" + refused[i].reason + "), " +
           std::to_string(refused[i].count) + " times");
    }
  }

 private:
  std::string state_dir_;
  std::string name_;
  std::optional<box::Proxy> proxy_;
};

int tell_kernel() {
  const BoxKernel kernel = probe_box();
  print_line(std::string("strength: ") + name_of(kernel.strength()));
  print_line("landlock: " + std::to_string(kernel.landlock_abi));
  print_line(std::string("staged: ") + (kernel.overlay ? "yes" : "no"));
  for (const std::string& problem : kernel.problems) {
    print_line("missing: " + problem);
  }
  return kernel.strength() == BoxStrength::kNone ? kExitUnavailable : kExitOk;
}

int run_prepared(const BoxRunOptions& options, const Prepared& prepared) {
  hold_signals();
  BoxCommand command{.argv = options.command,
                     .cwd = current_directory(),
                     .environment = environment_of(options, prepared)};
  if (is_terminal(kStandardInput) && is_terminal(kStandardOutput)) {
    const WindowSize size = window_size(kStandardInput);
    command.terminal = BoxTerminalSize{static_cast<std::uint16_t>(size.columns),
                                       static_cast<std::uint16_t>(size.rows)};
  }
  if (!prepared.egress) {
    warn("it reaches nothing: --allow names what it may");
  }
  const bool has_way = prepared.egress.has_value();
  if (has_way && geteuid() == 0) {
    return fail(usage_error("a box of root gets no way out: run it as an ordinary user"));
  }
  auto started = Box::start(prepared.plan, command,
                            {.state_dir = prepared.state_dir,
                             .home_folder = prepared.home_folder,
                             .listener_port = has_way ? kProxyPort : std::uint16_t{0},
                             .root = options.allow_root ? BoxRoot::kAllow : BoxRoot::kRefuse});
  if (!started) {
    return fail(started.error());
  }
  Box& running = **started;
  const std::int64_t began_ns = running.began_ns();
  const BoxStaged staged = running.staged();
  Way way;
  if (const Status opened = way.open(options, prepared, running); !opened) {
    return fail(opened.error());
  }
  const auto end = relay_box(running);
  started->reset();
  way.close();
  const BoxAfter after{prepared.plan, prepared.local.gate, prepared.grants, options.review};
  if (staged.dir.empty()) {
    finish_live(after, began_ns);
  } else {
    finish_staged(after, staged);
  }
  return end ? end->exit_code : fail(end.error());
}

}  // namespace

int run_box(const BoxRunOptions& options) {
  if (options.probe) {
    return tell_kernel();
  }
  if (options.command.empty()) {
    return fail(usage_error("a box needs a command, after `--`"));
  }
  if (options.live && (options.staged || options.review)) {
    return fail(
        usage_error("--live changes the tree at once: it goes with neither --staged nor "
                    "--review"));
  }
  const auto prepared = prepare(options);
  return prepared ? run_prepared(options, *prepared) : fail(prepared.error());
}

}  // namespace sandboxkit::cli
