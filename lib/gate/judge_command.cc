// An exec: what a command line shows, item by item.

#include "base/text.h"
#include "gate/judge.h"
#include "gate/path_text.h"
#include "gate/unwrap.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr std::size_t kMaxVisibleWords = 256;

/// Whether something that is not asked for by itself counts when nobody denied it.
enum class Counts : std::uint8_t { kAlways, kOnlyDenied };

class CommandJudge {
 public:
  CommandJudge(const Judge& judge, const GateRequest& request) : judge_(judge), request_(request) {}

  std::vector<GateItemDecision> judge(const GateItem& item) {
    const CommandParts parts =
        item.command.empty() ? parts_of_words(item.argv) : parts_of_command(item.command);
    for (const Started& started : parts.programs) {
      judge_started(item, parts, started);
    }
    for (const std::string& text : parts.opaque_texts) {
      judge_glimpses(text);
    }
    return std::move(decisions_);
  }

 private:
  bool boxed() const { return judge_.rules.session.box_is_active; }

  void add(GateItemDecision decision, Counts counts) {
    const bool is_denied = decision.answer == GateAnswer::kDeny &&
                           decision.branch != GateBranch::kAsk && decision.reason != "cannot_see" &&
                           decision.reason != "malformed";
    if (counts == Counts::kAlways || is_denied) {
      decisions_.push_back(std::move(decision));
    }
  }

  /// In a box the kernel answers for what was not denied here.
  void add_boxed(GateItemDecision decision) {
    const bool is_open = decision.branch == GateBranch::kAsk;
    if (boxed() && is_open) {
      decision.answer = GateAnswer::kAllow;
      decision.branch = GateBranch::kWorkTree;
      decision.rule = "box";
      decision.source.clear();
      decision.reason = "box_answers";
    }
    add(std::move(decision), Counts::kAlways);
  }

  std::string expanded(const Word& word) const {
    return word.has_tilde ? judge_.rules.session.home + word.text.substr(1) : word.text;
  }

  /// Where a program starts, after the `cd`s before it; nullopt when that cannot be told.
  std::optional<std::string> folder_of(const Started& started) const {
    std::string folder = request_.cwd;
    for (const Word& word : started.folders) {
      const auto seen = judge_.sight.look({.cwd = folder, .path = expanded(word)});
      if (!seen) {
        return std::nullopt;
      }
      folder = seen->canonical;
    }
    return folder;
  }

  void judge_started(const GateItem& item, const CommandParts& parts, const Started& started) {
    const auto folder = folder_of(started);
    const bool is_opaque = started.is_opaque || !folder;
    const std::string cwd = folder.value_or(request_.cwd);
    // Without words it stands around a shell's text, whose programs stand for themselves.
    if (!started.words.empty() || is_opaque) {
      judge_program(item, started, is_opaque ? parts.why_opaque : std::string(), cwd);
    }
    for (const std::string& variable : started.variables) {
      judge_variable(variable.substr(0, variable.find('=')));
    }
    for (const Redirection& redirection : started.redirections) {
      judge_redirection(redirection, cwd);
    }
    judge_socket(started);
    for (std::size_t i = 1; i < started.words.size() && i < kMaxVisibleWords; ++i) {
      judge_visible(started.words[i], GateOperation::kRead, cwd);
    }
  }

  void judge_variable(const std::string& name) {
    const Access access{
        .operation = GateOperation::kEnv, .asked = GateOperation::kEnv, .requested = name};
    add_boxed(judge_access(judge_, access));
  }

  void judge_redirection(const Redirection& redirection, const std::string& cwd) {
    const auto operation = redirection.writes ? GateOperation::kWrite : GateOperation::kRead;
    add_boxed(judge_path(operation, cwd, expanded(redirection.target)));
  }

  GateItemDecision judge_path(GateOperation operation, const std::string& cwd,
                              const std::string& path) {
    PathLook look = look_at_path(judge_, {operation, operation, cwd, path});
    return look.refusal ? std::move(*look.refusal) : judge_access(judge_, look.access);
  }

  static std::string told(const GateItem& item, const Started& started) {
    if (started.words.empty()) {
      return item.command;
    }
    std::string text;
    for (const Word& word : started.words) {
      text += (text.empty() ? "" : " ") + word.text;
    }
    return text;
  }

  void judge_program(const GateItem& item, const Started& started, const std::string& why_opaque,
                     const std::string& cwd) {
    Access access{.operation = GateOperation::kExec,
                  .asked = GateOperation::kExec,
                  .requested = told(item, started)};
    access.is_opaque = started.is_opaque || !why_opaque.empty();
    if (!started.words.empty()) {
      see_program(started, cwd, access);
    }
    GateItemDecision decision = judge_access(judge_, access);
    if (access.is_opaque && !why_opaque.empty()) {
      decision.via.push_back(why_opaque);
    }
    add(std::move(decision), started.is_carried ? Counts::kOnlyDenied : Counts::kAlways);
  }

  void see_program(const Started& started, const std::string& cwd, Access& access) const {
    for (const Word& word : started.words) {
      access.words.push_back(word.text);
    }
    const std::string name = expanded(started.words.front());
    auto seen = judge_.sight.program(cwd, name);
    if (seen) {
      access.seen = std::move(*seen);
      access.is_found_by_name = name.find('/') == std::string::npos;
      access.canonical = PathName(access.seen.canonical);
      for (const std::string& link : access.seen.links) {
        access.other_names.emplace_back(link);
      }
    }
  }

  void judge_socket(const Started& started) {
    if (started.words.empty()) {
      return;
    }
    const auto socket = control_socket_of(base_name(started.words.front().text));
    if (!socket.empty()) {
      add(judge_path(GateOperation::kUnix, "/", std::string(socket)), Counts::kOnlyDenied);
    }
  }

  /// The paths that a word may hold: itself, and what stands after `=` or `@`.
  static std::set<std::string> candidates(const std::string& word) {
    std::set<std::string> found{word};
    for (std::size_t i = 0; i < word.size() && found.size() < 8; ++i) {
      if (word[i] == '=' || word[i] == '@') {
        found.insert(word.substr(i + 1));
      }
    }
    for (const char* start : {"/", "~/", "file://"}) {
      const std::size_t at = word.find(start);
      // `-I/path`: an option with its value.
      if (at != std::string::npos && (word.starts_with('-') || at == 0)) {
        found.insert(word.substr(at + (std::string_view(start) == "file://" ? 7 : 0)));
      }
    }
    found.erase("");
    return found;
  }

  static bool is_plainly_path(std::string_view text) {
    return text.starts_with('/') || text.starts_with("~/") || text.starts_with("./") ||
           text.starts_with("../");
  }

  void judge_visible(const Word& word, GateOperation operation, const std::string& cwd) {
    for (const std::string& candidate : candidates(word.text)) {
      const std::string path =
          candidate.starts_with("~/") ? expanded({candidate, true}) : candidate;
      if (path.size() > kMaxPathBytes || !is_base(cwd)) {
        continue;
      }
      // A word that is not plainly a path is one if a file is there: `cat .env`.
      const bool counts = is_plainly_path(candidate) || operation == GateOperation::kWrite ||
                          judge_.sight.exists(plain_path(cwd, path));
      if (counts) {
        add(judge_path(operation, cwd, path), Counts::kOnlyDenied);
      }
    }
  }

  /// Of an opaque text nothing is certain but what it denies.
  void judge_glimpses(const std::string& text) {
    std::size_t count = 0;
    for (const Glimpse& shown : glimpse(text)) {
      if (++count > kMaxVisibleWords) {
        return;
      }
      if (shown.at_command) {
        judge_glimpsed_command(shown.word.text);
      }
      judge_visible(shown.word, shown.written ? GateOperation::kWrite : GateOperation::kRead,
                    request_.cwd);
    }
  }

  void judge_glimpsed_command(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos && equals > 0) {
      const Access variable{.operation = GateOperation::kEnv,
                            .asked = GateOperation::kEnv,
                            .requested = word.substr(0, equals)};
      add(judge_access(judge_, variable), Counts::kOnlyDenied);
      return;
    }
    Started started;
    started.words.push_back(Word{word, false});
    started.is_carried = true;
    judge_program(GateItem{}, started, {}, request_.cwd);
    judge_socket(started);
  }

  const Judge& judge_;
  const GateRequest& request_;
  std::vector<GateItemDecision> decisions_;
};

}  // namespace

std::vector<GateItemDecision> judge_command(const Judge& judge, const GateRequest& request,
                                            const GateItem& item) {
  const bool has_nul = item.command.find('\0') != std::string::npos ||
                       std::ranges::any_of(item.argv, [](const std::string& word) {
                         return word.find('\0') != std::string::npos;
                       });
  const bool has_program = !item.command.empty() || (!item.argv.empty() && !item.argv[0].empty());
  if (has_nul || !has_program || (!item.command.empty() && !item.argv.empty())) {
    return {refused(item.operation, item.command, "malformed",
                    "an exec has a command or an argv without NUL, and not both")};
  }
  if (!is_base(request.cwd)) {
    return {refused(item.operation, item.command, "malformed", "cwd is no absolute path")};
  }
  auto decisions = CommandJudge(judge, request).judge(item);
  if (decisions.empty()) {
    return {refused(item.operation, item.command, "malformed", "it starts no program")};
  }
  return decisions;
}

}  // namespace sandboxkit::gate
