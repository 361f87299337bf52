// After a box: what it changed, what of that stays, and what does not.

#include "cli/box_after.h"

#include "sandboxkit/clock.h"
#include "sandboxkit/system_eyes.h"

#include "base/text.h"
#include "box/live_sweep.h"
#include "cli/gate_session.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "gate/path_text.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxLines = 100;

GateItem item_of(const BoxChange& change) {
  switch (change.kind) {
    case BoxChange::Kind::kRemoved:
      return {.operation = GateOperation::kDelete, .target = change.path};
    case BoxChange::Kind::kChanged:
      return {.operation = GateOperation::kWrite, .target = change.path};
    case BoxChange::Kind::kMade:
      break;
  }
  if (change.type == FileType::kLink) {
    return {.operation = GateOperation::kSymlink, .target = change.path, .to = change.link};
  }
  return {.operation = GateOperation::kCreate, .target = change.path};
}

GateItemDecision judged(const BoxAfter& after, const BoxChange& change) {
  const GateRequest request{.cwd = "/", .items = {item_of(change)}};
  return after.gate.decide(request, after.grants, system_eyes(), system_clock().now()).decisive;
}

std::string line_of(const BoxAfter& after, const BoxChange& change) {
  const std::string& tree = after.plan.tree;
  const std::string shown = gate::covers(tree, change.path) && change.path != tree
                                ? change.path.substr(tree.size() + 1)
                                : change.path;
  return std::string(name_of(change.kind)) + " " + shown;
}

void tell(const BoxAfter& after, const std::vector<BoxChange>& changes) {
  for (std::size_t i = 0; i < std::min(changes.size(), kMaxLines); ++i) {
    write_all(kStandardError, "  " + printable(line_of(after, changes[i])) + "\n");
  }
  if (changes.size() > kMaxLines) {
    write_all(kStandardError, "  and " + std::to_string(changes.size() - kMaxLines) + " more\n");
  }
}

void tell(const BoxAfter& after, const std::vector<BoxRefusal>& refused) {
  for (std::size_t i = 0; i < std::min(refused.size(), kMaxLines); ++i) {
    write_all(kStandardError,
              "  " + printable(line_of(after, refused[i].change) + ": " + refused[i].why) + "\n");
  }
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// A person's word, from the terminal itself: standard input was the command's.
bool agrees(const std::string& question) {
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0) {
    return false;
  }
  write_all(terminal, question);
  char answer = 'n';
  const ssize_t got = read(terminal, &answer, 1);
  close(terminal);
  return got == 1 && (answer == 'y' || answer == 'Y');
}

/// Why a change is not made; `asked` has what a person let through.
std::string why_not(const BoxAfter& after, const std::set<std::string>& asked,
                    const BoxChange& change) {
  const GateItemDecision decision = judged(after, change);
  if (decision.answer == GateAnswer::kAllow || asked.contains(change.path)) {
    return {};
  }
  const std::string rule = decision.rule.empty() ? "" : " (" + decision.rule + ")";
  return decision.answer == GateAnswer::kAsk ? "no matter of course" + rule + ": --review asks you"
                                             : "denied" + rule;
}

/// What the gate asks a person about, one by one. Denials are no question.
std::set<std::string> ask_person(const BoxAfter& after, const std::vector<BoxChange>& changes) {
  std::set<std::string> let;
  for (const BoxChange& change : changes) {
    if (judged(after, change).answer == GateAnswer::kAsk &&
        agrees("sandboxkit: make this one? " + printable(line_of(after, change)) + " [y/N] ")) {
      let.insert(change.path);
    }
  }
  return let;
}

void remove_stage(const BoxStaged& staged) {
  if (const Status removed = remove_box_stage(staged); !removed) {
    warn("the run's folder " + quoted(staged.dir) + " is left: " + removed.error().message);
  }
}

}  // namespace

void finish_staged(const BoxAfter& after, const BoxStaged& staged) {
  const auto changes = list_box_changes(staged);
  if (!changes) {
    warn("the changes in " + quoted(staged.dir) + " cannot be read: " + changes.error().message);
    return;
  }
  if (changes->empty()) {
    remove_stage(staged);
    return;
  }
  warn(counted(changes->size(), "change") + ":");
  tell(after, *changes);
  if (after.review && !agrees("sandboxkit: make them? [y/N] ")) {
    warn("nothing was made; the changes are in " + quoted(staged.dir));
    return;
  }
  const std::set<std::string> asked =
      after.review ? ask_person(after, *changes) : std::set<std::string>();
  const auto refused = commit_box_changes(
      staged, *changes, [&](const BoxChange& change) { return why_not(after, asked, change); });
  warn(std::to_string(changes->size() - refused.size()) + " made");
  if (refused.empty()) {
    remove_stage(staged);
    return;
  }
  warn(std::to_string(refused.size()) + " refused; they stay in " + quoted(staged.dir) + ":");
  tell(after, refused);
}

void finish_live(const BoxAfter& after, std::int64_t began_ns) {
  const auto swept = box::sweep_live_run(
      {after.plan, after.gate, after.grants, system_eyes(), system_clock().now()}, began_ns);
  if (!swept) {
    warn("what the run left could not be looked through: " + swept.error().message +
         "; look for new .git/hooks, .envrc and the like before you use the tree");
    return;
  }
  if (!swept->changed.empty()) {
    warn(counted(swept->changed.size(), "file") + " changed:");
    tell(after, swept->changed);
  }
  if (!swept->quarantined.empty()) {
    warn("under names that nobody may make, set apart as NAME.sandboxkit-quarantine:");
    tell(after, swept->quarantined);
  }
  if (!swept->left.empty()) {
    warn("under names that nobody may make, and could not be set apart:");
    tell(after, swept->left);
  }
}

}  // namespace sandboxkit::cli
