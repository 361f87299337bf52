// sandboxkit grant: the permanent grants of the permission gate, on the host and by a person.

#include "cli/grant.h"

#include "sandboxkit/clock.h"
#include "sandboxkit/grant_store.h"
#include "sandboxkit/system_eyes.h"

#include "agent/grant_log.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "json/value.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <pwd.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr const char* kBoxMarker = "SANDBOXKIT_BOX";
constexpr std::size_t kMaxEnvironmentBytes = 1U << 20;
constexpr std::size_t kMaxHostName = 256;

/// Whether this process is inside of a box: by its own environment, or by that of the first process
/// of its pid namespace. A courtesy: the wall is that a box does not have the gate's folder.
bool is_in_box() {
  if (!variable(kBoxMarker).empty()) {
    return true;
  }
  const auto first = read_file("/proc/1/environ", kMaxEnvironmentBytes);
  return first && std::ranges::any_of(split(*first, '\0'), [](std::string_view entry) {
           return entry.starts_with(std::string(kBoxMarker) + "=");
         });
}

/// Who gives it: `tty:user@host`, or `cli:` where no terminal is.
std::string giver() {
  std::array<char, kMaxHostName> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) {
    host[0] = '\0';
  }
  const passwd* user = getpwuid(getuid());  // NOLINT(concurrency-mt-unsafe): one thread.
  const std::string name = user != nullptr ? user->pw_name : std::to_string(getuid());
  const std::string whole =
      (is_terminal(kStandardInput) ? "tty:" : "cli:") + name + "@" + host.data();
  return is_utf8(whole) ? whole : "cli:" + std::to_string(getuid());
}

std::string current_directory() {
  std::array<char, PATH_MAX> here{};
  return getcwd(here.data(), here.size()) != nullptr ? here.data() : "/";
}

GateSessionOptions session_with_tree(const GrantOptions& options) {
  GateSessionOptions session = options.session;
  if (session.tree.empty()) {
    session.tree = current_directory();
  }
  return session;
}

/// The store with what it notes changes in.
struct OpenStore {
  std::unique_ptr<agent::GrantLog> log;
  std::unique_ptr<GrantStore> store;
};

Result<OpenStore> open_store(const std::string& folder, std::vector<std::string> roots) {
  auto log = std::make_unique<agent::GrantLog>(folder);
  auto store =
      GrantStore::open({.folder = folder, .roots = std::move(roots)}, *log, system_clock());
  return store ? Result<OpenStore>(OpenStore{std::move(log), std::move(*store)})
               : Result<OpenStore>(store.error());
}

Result<std::optional<std::chrono::hours>> life_of(const std::string& text) {
  if (text.empty()) {
    return std::optional(kGrantLife);
  }
  if (text == "never") {
    return std::optional<std::chrono::hours>();
  }
  const auto seconds = parse_duration(text);
  if (!seconds || *seconds % std::chrono::hours(1) != std::chrono::seconds(0)) {
    return usage_error("--for " + quoted(text) + " must be whole hours (12h, 30d), or `never`");
  }
  return std::optional(std::chrono::duration_cast<std::chrono::hours>(*seconds));
}

Result<GrantedUse> use_of(const GrantOptions& options) {
  GrantedUse use;
  if (options.operations.empty()) {
    use.operations = {GateOperation::kExec};
    use.argv = options.what;
    use.argv_is_prefix = options.is_prefix;
    return use;
  }
  if (options.what.size() != 1 || options.is_prefix) {
    return usage_error("with --op name one target; a command is given after `--`, without --op");
  }
  use.target = options.what.front();
  for (const std::string& name : options.operations) {
    const auto operation = gate_operation_from(name);
    if (!operation || *operation == GateOperation::kExec) {
      return usage_error("--op " + quoted(name) +
                         " is no operation on a target: read, list, stat, write, create, delete, "
                         "meta, rename, link, symlink, unix, env, connect or listen");
    }
    use.operations.insert(*operation);
  }
  return use;
}

/// The item that a person asks about.
Result<GateItem> item_of(const GrantOptions& options) {
  const auto use = use_of(options);
  if (!use) {
    return use.error();
  }
  if (use->operations.size() != 1) {
    return usage_error("ask about one operation at a time");
  }
  GateItem item{.operation = *use->operations.begin(), .target = use->target};
  item.argv = use->argv;
  return item;
}

json::Value grant_view(const KeptGrant& kept, GrantState state) {
  // The store's own form, so that both say the same.
  const auto file = json::parse(to_json(KeptGrants{.generation = 0, .grants = {kept}}));
  json::Object view = *file->find("grants")->as_array()->front().as_object();
  view.emplace_back("state", name_of(state));
  return view;
}

std::string words_of(const GrantedUse& use) {
  std::string text = use.target;
  for (const std::string& word : use.argv) {
    text += (text.empty() ? "" : " ") + word;
  }
  return use.argv_is_prefix ? text + " ..." : text;
}

std::string operations_of(const GrantedUse& use) {
  std::string text;
  for (const GateOperation operation : use.operations) {
    text += std::string(text.empty() ? "" : ",") + name_of(operation);
  }
  return text;
}

std::string end_of(const PermanentGrant& grant, WallTime now) {
  return grant.expires ? relative_time(to_rfc3339(*grant.expires), now) : "never";
}

int refused(const Error& error) {
  fail(error);
  const bool by_gate = error.reason == "shadowed" || error.reason == "too_wide" ||
                       error.reason == "runner" || error.reason == "bad_gate_folder";
  return by_gate ? kExitRefused : exit_code_of(error);
}

void warn_of_ignored(const GrantsView& view) {
  if (view.problem) {
    warn(view.problem->message + "; `sandboxkit grant rm --all` begins anew");
  }
}

bool is_wanted(const GrantOptions& options, const KeptGrant& kept, const std::string& tree) {
  return (options.session.agent.empty() || kept.grant.agent == options.session.agent) &&
         (tree.empty() || kept.grant.tree == tree);
}

/// The tree that a list is narrowed to; empty: every tree.
Result<std::string> wanted_tree(const GrantOptions& options) {
  if (options.session.tree.empty()) {
    return std::string();
  }
  const auto seen = system_eyes().look({.cwd = current_directory(), .path = options.session.tree});
  return seen ? Result<std::string>(seen->canonical) : Result<std::string>(seen.error());
}

int print_grants(const GrantOptions& options, const GrantsView& view, const std::string& tree) {
  const WallTime now = system_clock().now();
  json::Array list;
  Table table({"ID", "STATE", "OPERATIONS", "WHAT", "TREE", "AGENT", "ENDS"});
  for (const KeptGrant& kept : view.grants->grants) {
    if (!is_wanted(options, kept, tree)) {
      continue;
    }
    const GrantState state = state_of(kept.grant, system_eyes(), now);
    list.push_back(grant_view(kept, state));
    table.add({kept.grant.id, name_of(state), operations_of(kept.grant.use),
               words_of(kept.grant.use), kept.grant.tree, kept.grant.agent,
               end_of(kept.grant, now)});
  }
  if (options.json) {
    print_json(json::Object{
        {"generation", static_cast<std::int64_t>(view.grants->generation)},
        {"ignored", view.problem ? json::Value(view.problem->field) : json::Value(nullptr)},
        {"grants", std::move(list)}});
  } else if (table.empty()) {
    warn("there are no grants");
  } else if (!write_all(kStandardOutput, table.text(table_width()))) {
    return kExitBrokenPipe;
  }
  return view.problem ? kExitFailure : kExitOk;
}

/// The grant that a decision names.
const KeptGrant* named(const GrantsView& view, const GateDecision& decision) {
  const auto found = std::ranges::find_if(view.grants->grants, [&](const KeptGrant& kept) {
    return decision.decisive.source == "grants" && kept.grant.id == decision.decisive.rule;
  });
  return found != view.grants->grants.end() ? &*found : nullptr;
}

std::string told(const KeptGrant& kept) {
  const PermanentGrant& grant = kept.grant;
  std::string text = "grant " + grant.id + ": " + operations_of(grant.use) + " of " +
                     quoted(words_of(grant.use)) + " in " + quoted(grant.tree) + " for " +
                     quoted(grant.agent) + ", given by " + quoted(kept.by);
  if (kept.created) {
    text += " at " + to_rfc3339(*kept.created);
  }
  text += grant.expires ? ", until " + to_rfc3339(*grant.expires) : ", for good";
  return kept.note.empty() ? text : text + ": " + kept.note;
}

int print_answer(const GrantOptions& options, const GrantsView& view,
                 const GateDecision& decision) {
  const KeptGrant* grant = named(view, decision);
  if (options.json) {
    const auto answer = json::parse(to_json(decision));
    print_json(json::Object{
        {"decision", answer ? *answer : json::Value(nullptr)},
        {"grant", grant != nullptr ? grant_view(*grant, state_of(grant->grant, system_eyes(),
                                                                 system_clock().now()))
                                   : json::Value(nullptr)}});
  } else {
    print_line(printable(explain(decision)));
    if (grant != nullptr) {
      print_line(printable(told(*grant)));
    }
  }
  return decision.answer == GateAnswer::kAllow ? kExitOk : kExitRefused;
}

/// The ids that `rm` is about.
std::vector<std::string> ids_to_remove(const GrantOptions& options, const GrantsView& view) {
  std::vector<std::string> ids = options.ids;
  const WallTime now = system_clock().now();
  for (const KeptGrant& kept : view.grants->grants) {
    if (options.expired && state_of(kept.grant, system_eyes(), now) != GrantState::kActive) {
      ids.push_back(kept.grant.id);
    }
  }
  return ids;
}

}  // namespace

Status check_host() {
  if (is_in_box()) {
    return Error{ErrorCode::kPermissionDenied,
                 "grants are given by a person on the host, and this is inside of a box",
                 "in_a_box"};
  }
  return {};
}

int add_grant(const GrantOptions& options) {
  if (auto status = check_host(); !status) {
    return fail(status.error());
  }
  const auto use = use_of(options);
  const auto life = life_of(options.life);
  if (!use || !life) {
    return fail(use ? life.error() : use.error());
  }
  const auto local = local_gate(session_with_tree(options));
  if (!local) {
    return fail(local.error());
  }
  warn_of_tree(local->session.tree);
  const auto open = open_store(local->state_folder, local->roots);
  if (!open) {
    return refused(open.error());
  }
  NewGrant grant{.use = *use,
                 .tree = local->session.tree,
                 .tree_identity = local->session.tree_identity,
                 .agent = options.session.agent,
                 .needs_box = options.needs_box,
                 .life = *life};
  grant.by = giver();
  grant.note = options.note;
  const auto made = open->store->add(local->gate, std::move(grant));
  if (!made) {
    return refused(made.error());
  }
  if (options.json) {
    print_json(grant_view(*made, GrantState::kActive));
  } else {
    print_line(made->grant.id);
  }
  return kExitOk;
}

int list_grants(const GrantOptions& options) {
  if (auto status = check_host(); !status) {
    return fail(status.error());
  }
  const auto folder = state_folder_of(options.session);
  const auto tree = wanted_tree(options);
  if (!folder || !tree) {
    return fail(folder ? tree.error() : folder.error());
  }
  const auto open = open_store(*folder, {});
  if (!open) {
    return refused(open.error());
  }
  const GrantsView view = open->store->read();
  warn_of_ignored(view);
  return print_grants(options, view, *tree);
}

int remove_grants(const GrantOptions& options) {
  if (auto status = check_host(); !status) {
    return fail(status.error());
  }
  const bool is_one_kind = options.all ? options.ids.empty() && !options.expired
                                       : options.expired != !options.ids.empty();
  if (!is_one_kind) {
    return fail(usage_error("name grants by their ids, or say --expired or --all, one of them"));
  }
  const auto folder = state_folder_of(options.session);
  if (!folder) {
    return fail(folder.error());
  }
  const auto open = open_store(*folder, {});
  if (!open) {
    return refused(open.error());
  }
  const Status removed =
      options.all ? open->store->remove_all(giver())
                  : open->store->remove(ids_to_remove(options, open->store->read()), giver());
  return removed ? kExitOk : refused(removed.error());
}

int explain_grant(const GrantOptions& options) {
  if (auto status = check_host(); !status) {
    return fail(status.error());
  }
  const auto item = item_of(options);
  if (!item) {
    return fail(item.error());
  }
  const auto local = local_gate(session_with_tree(options));
  if (!local) {
    return fail(local.error());
  }
  warn_of_tree(local->session.tree);
  const auto open = open_store(local->state_folder, local->roots);
  if (!open) {
    return refused(open.error());
  }
  const GrantsView view = open->store->read();
  warn_of_ignored(view);
  std::vector<PermanentGrant> grants;
  for (const KeptGrant& kept : view.grants->grants) {
    grants.push_back(kept.grant);
  }
  const auto compiled = local->gate.compile(grants, {});
  if (!compiled) {
    return fail(compiled.error());
  }
  const GateDecision decision = local->gate.decide({.cwd = current_directory(), .items = {*item}},
                                                   *compiled, system_eyes(), system_clock().now());
  return print_answer(options, view, decision);
}

}  // namespace sandboxkit::cli
