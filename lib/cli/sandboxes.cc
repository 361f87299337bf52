// create, run, exec, shell, ls, rm and their kin.

#include "sandboxkit/client.h"
#include "sandboxkit/clock.h"

#include "base/random.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <cstdlib>
#include <map>
#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kRequestKeyLength = 24;
constexpr const char* kLiveStates =
    "/v1/sandboxes?limit=500&state=pending,starting,running,paused,stopping";
/// All but those that somebody deleted.
constexpr const char* kAllStates = "/v1/sandboxes?limit=500";
constexpr int kStatusAccepted = 202;
constexpr std::chrono::milliseconds kExpirySlack{2000};

std::optional<std::string> own_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

/// A create that can be asked again: the same key gives the same sandbox.
class Creation {
 public:
  explicit Creation(json::Value body)
      : body_(std::move(body)), key_(system_random().text(kRequestKeyLength, kBase62)) {}

  Result<json::Value> make(Api& api) const {
    return api.post("/v1/sandboxes", body_, {{"Idempotency-Key", key_}});
  }
  /// Removes what the create has made or is about to make.
  void undo(Api& api) const {
    const auto made = api.post("/v1/sandboxes?wait=false", body_, {{"Idempotency-Key", key_}});
    if (made) {
      static_cast<void>(api.remove(sandbox_target(made->text("id"))));
    }
  }

 private:
  json::Value body_;
  std::string key_;
};

/// A line on standard error while something takes its time; gone at the end.
class Waiting {
 public:
  explicit Waiting(const std::string& what) : shown_(is_terminal(kStandardError)) {
    if (shown_) {
      write_all(kStandardError, what + "...");
    }
  }
  ~Waiting() {
    if (shown_) {
      write_all(kStandardError, "\r\x1b[K");
    }
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  bool shown_;
};

Result<RemoteCommand> remote_command(const ExecOptions& options) {
  if (options.command.empty()) {
    return usage_error("no command is given: write it after `--`");
  }
  const auto env = parse_pairs(options.env, "--env", own_variable);
  if (!env) {
    return env.error();
  }
  RemoteCommand command{
      .argv = options.command, .env = *env, .cwd = options.cwd, .user = options.user};
  if (!options.timeout.empty()) {
    const auto timeout = parse_duration(options.timeout);
    if (!timeout) {
      return timeout.error();
    }
    command.timeout_seconds = timeout->count();
  }
  return command;
}

/// Adds to a broken stream why the sandbox ended, where the controller knows.
Error explained(Api& api, const std::string& sandbox, Error error) {
  if (error.reason != "stream_broken") {
    return error;
  }
  const auto seen = api.get(sandbox_target(sandbox));
  if (!seen) {
    return error;
  }
  const std::string state = seen->text("state");
  const std::string reason = seen->text("reason");
  const auto expires = parse_rfc3339(seen->text("expires_at"));
  // The worker ends it on time; the controller hears of it a little later.
  const bool is_due = expires && *expires <= system_clock().now() + kExpirySlack;
  if (reason == "timeout" || (state == "running" && is_due)) {
    error.message = "the sandbox reached its end of life: --timeout gives it more, or `renew`";
    error.reason = "sandbox_timeout";
  } else if (state != "running") {
    error.message = "the sandbox is " + state + " now" + (reason.empty() ? "" : ": " + reason);
  }
  return error;
}

int exit_of(Api& api, const std::string& sandbox, const Result<RemoteExit>& exit) {
  if (!exit) {
    if (exit.error().code == ErrorCode::kCancelled) {
      return kExitBrokenPipe;
    }
    const Error error = explained(api, sandbox, exit.error());
    const int code = fail(error);
    return error.reason == "sandbox_timeout" ? kExitTimedOut : code;
  }
  if (exit->timed_out) {
    write_all(kStandardError, "sandboxkit: the command ran out of time\n");
    return kExitTimedOut;
  }
  return exit->code;
}

void print_created(const Common& common, const json::Value& sandbox) {
  if (common.json) {
    print_json(sandbox);
  } else {
    print_line(printable(sandbox.text("id")));
  }
}

void print_sandbox_table(const json::Array& sandboxes) {
  Table table({"ID", "NAME", "STATE", "IMAGE", "MAY REACH", "WORKER", "CREATED", "ENDS"});
  const WallTime now = system_clock().now();
  for (const json::Value& s : sandboxes) {
    const std::string ended = cell(s, "ended_at");
    std::string state = cell(s, "state");
    if (const std::string reason = cell(s, "reason"); !reason.empty()) {
      state += " (" + reason + ")";
    }
    table.add({cell(s, "id"), cell(s, "name"), state, cell(s, "image"),
               egress_in_words(s.find("egress")), cell(s, "worker"),
               relative_time(cell(s, "created_at"), now),
               relative_time(ended.empty() ? cell(s, "expires_at") : ended, now)});
  }
  write_all(kStandardOutput, table.text(table_width()));
}

/// Removes one; tells on standard output. Returns the exit code.
int remove_one(Api& api, const Common& common, const std::string& sandbox, bool force) {
  int status = 0;
  const auto removed = api.remove(sandbox_target(sandbox), &status);
  if (!removed) {
    return force && removed.error().code == ErrorCode::kNotFound ? kExitOk : fail(removed.error());
  }
  if (!common.json) {
    print_line(printable(sandbox) + (status == kStatusAccepted
                                         ? " (its worker is away: it is removed when it is back)"
                                         : ""));
  }
  return kExitOk;
}

Result<RemoteExit> run_in(Api& api, const std::string& sandbox, const RunOptions& options) {
  return run_remote(
      api, sandbox,
      RemoteCommand{.argv = options.command, .cwd = options.cwd, .user = options.user},
      own_output());
}

}  // namespace

int create_sandbox(const Common& common, const CreateOptions& options) {
  auto body = create_body(options, own_variable);
  if (!body) {
    return fail(body.error());
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  Interrupts interrupts;
  const Creation creation(std::move(*body));
  interrupts.on_end([&] { creation.undo(**api); });
  Result<json::Value> made = [&] {
    const Waiting waiting("creating the sandbox");
    return creation.make(**api);
  }();
  interrupts.hold_while_ending();
  interrupts.on_end({});
  if (!made) {
    return fail(made.error());
  }
  print_created(common, *made);
  return kExitOk;
}

int run_command(const Common& common, const RunOptions& options) {
  if (options.command.empty()) {
    return fail(usage_error("no command is given: write it after `--`"));
  }
  auto body = create_body(options.create, own_variable);
  if (!body) {
    return fail(body.error());
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  Interrupts interrupts;
  const Creation creation(std::move(*body));
  interrupts.on_end([&] { creation.undo(**api); });
  Result<json::Value> made = [&] {
    const Waiting waiting("creating the sandbox");
    return creation.make(**api);
  }();
  interrupts.hold_while_ending();
  if (!made) {
    return fail(made.error());
  }
  const std::string id = made->text("id");
  interrupts.on_end([&] { static_cast<void>((*api)->remove(sandbox_target(id))); });

  const auto exit = run_in(**api, id, options);
  interrupts.hold_while_ending();  // Before anything is said about a stream that we ended.
  const int code = exit_of(**api, id, exit);
  if (options.keep) {
    write_all(kStandardError, "sandboxkit: kept as " + printable(id) + "\n");
    return code;
  }
  const auto removed = (*api)->remove(sandbox_target(id));
  if (!removed && removed.error().code != ErrorCode::kNotFound) {
    const int problem = fail(removed.error());
    return code == kExitOk ? problem : code;
  }
  return code;
}

int exec_command(const Common& common, const ExecOptions& options) {
  const auto command = remote_command(options);
  if (!command) {
    return fail(command.error());
  }
  if (options.terminal && !is_terminal(kStandardInput)) {
    return fail(usage_error("--tty needs a terminal as standard input"));
  }
  const bool interactive = options.interactive || options.terminal;
  if (interactive && (!options.user.empty() || command->timeout_seconds > 0)) {
    return fail(usage_error("--user and --timeout cannot stand beside --interactive or --tty"));
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  Interrupts interrupts;
  return exit_of(
      **api, options.sandbox,
      interactive ? run_interactive(**api, options.sandbox, *command, options.terminal, interrupts)
                  : run_remote(**api, options.sandbox, *command, own_output()));
}

int open_shell(const Common& common, const ExecOptions& options) {
  ExecOptions shell = options;
  if (!is_terminal(kStandardInput)) {
    return fail(
        usage_error("a shell needs a terminal: use `sandboxkit exec -i SANDBOX -- sh` in a pipe"));
  }
  if (shell.command.empty()) {
    shell.command = {"/bin/sh", "-c",
                     "if command -v bash >/dev/null; then exec bash -il; else exec sh -il; fi"};
  }
  shell.terminal = true;
  if (const auto term = own_variable("TERM")) {
    shell.env.insert(shell.env.begin(), "TERM=" + *term);
  }
  return exec_command(common, shell);
}

int list_sandboxes(const Common& common, const ListOptions& options) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  auto sandboxes = fetch_all(**api, options.all ? kAllStates : kLiveStates, "sandboxes");
  if (!sandboxes) {
    return fail(sandboxes.error());
  }
  if (options.quiet || options.names) {
    for (const json::Value& sandbox : *sandboxes) {
      const std::string name = options.names ? sandbox.text("name") : std::string();
      print_line(printable(name.empty() ? sandbox.text("id") : name));
    }
  } else if (common.json) {
    print_json(json::Object{{"sandboxes", std::move(*sandboxes)}});
  } else if (sandboxes->empty()) {
    write_all(kStandardError, "no sandboxes; `sandboxkit create` makes one\n");
  } else {
    print_sandbox_table(*sandboxes);
  }
  return kExitOk;
}

int show_sandbox(const Common& common, const std::string& sandbox) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto seen = (*api)->get(sandbox_target(sandbox));
  if (!seen) {
    return fail(seen.error());
  }
  if (common.json || seen->as_object() == nullptr) {
    print_json(*seen);
    return kExitOk;
  }
  Table table({"FIELD", "VALUE"});
  for (const auto& [name, value] : *seen->as_object()) {
    table.add({name, cell(*seen, name)});
  }
  write_all(kStandardOutput, table.text(0));
  return kExitOk;
}

int renew_sandbox(const Common& common, const std::string& sandbox, const std::string& timeout) {
  const auto seconds = parse_duration(timeout);
  if (!seconds) {
    return fail(seconds.error());
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto renewed =
      (*api)->post(sandbox_target(sandbox, "/timeout"),
                   json::Object{{"timeout_seconds", std::int64_t{seconds->count()}}});
  if (!renewed) {
    return fail(renewed.error());
  }
  if (common.json) {
    print_json(*renewed);
  } else {
    print_line("ends " + relative_time(cell(*renewed, "expires_at"), system_clock().now()));
  }
  return kExitOk;
}

int remove_sandboxes(const Common& common, const RemoveOptions& options) {
  if (options.all != options.sandboxes.empty()) {
    return fail(usage_error("name the sandboxes to remove, or give --all"));
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  std::vector<std::string> names = options.sandboxes;
  if (options.all) {
    const auto live = fetch_all(**api, kLiveStates, "sandboxes");
    if (!live) {
      return fail(live.error());
    }
    for (const json::Value& sandbox : *live) {
      names.push_back(sandbox.text("id"));
    }
  }
  int code = kExitOk;
  for (const std::string& name : names) {
    const int one = remove_one(**api, common, name, options.force);
    code = code == kExitOk ? one : code;
  }
  return code;
}

}  // namespace sandboxkit::cli
