#include "gate/lexer.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr std::string_view kBlank = " \t";
// Outside of quotes, each of these makes the shell do more than to read words.
constexpr std::string_view kActive = "$`(){}!";
constexpr std::string_view kGlob = "*?[";

// In the place of a program they are the shell's grammar, or change what the rest of the line
// means.
constexpr std::string_view kNotPlain[] = {
    "if",     "then",    "else",      "elif",    "fi",      "for",    "while",    "until",
    "do",     "done",    "case",      "esac",    "in",      "select", "coproc",   "function",
    "[[",     "]]",      "eval",      "source",  ".",       "export", "alias",    "unalias",
    "set",    "shopt",   "unset",     "declare", "typeset", "local",  "readonly", "trap",
    "enable", "hash",    "builtin",   "exit",    "return",  "break",  "continue", "shift",
    "read",   "mapfile", "readarray", "let",     "pushd",   "popd",   "umask",    "ulimit",
    "wait",   "bg",      "fg",        "jobs",    "disown",  "bind",
};

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::ranges::all_of(text, [](char c) {
           return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9');
         });
}

/// Tab and line feed alone may stand in a line that is read.
bool has_odd_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7f;
  });
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : left_(text) {}

  CommandLine read() {
    while (!left_.empty() && why_.empty()) {
      step();
    }
    if (why_.empty()) {
      end_command(Joint::kEnd);
    }
    if (why_.empty() && line_.commands.empty()) {
      give_up("there is no command in it");
    }
    if (!why_.empty()) {
      return CommandLine{CommandShape::kOpaque, {}, std::move(why_)};
    }
    line_.shape = redirects_ ? CommandShape::kRedirect : CommandShape::kPlain;
    return std::move(line_);
  }

 private:
  /// A word, with what the shell would still do to it.
  struct RawWord {
    Word word{};
    bool is_quoted = false;
    bool has_glob = false;
    /// How much of the front was neither quoted nor escaped.
    std::size_t bare_prefix = 0;
  };

  void give_up(const char* why) {
    if (why_.empty()) {
      why_ = why;
    }
  }

  char peek(std::size_t at = 0) const { return at < left_.size() ? left_[at] : '\0'; }

  bool take(std::string_view text) {
    if (!left_.starts_with(text)) {
      return false;
    }
    left_.remove_prefix(text.size());
    return true;
  }

  void step() {
    if (kBlank.find(peek()) != std::string_view::npos) {
      left_.remove_prefix(1);
    } else if (take("&&")) {
      end_command(Joint::kAnd);
    } else if (take("||")) {
      end_command(Joint::kOr);
    } else if (left_.starts_with(";;")) {
      give_up("`;;` belongs to a case");
    } else if (take(";")) {
      end_command(Joint::kSequence);
    } else if (take("\n")) {
      end_line();
    } else if (left_.starts_with("|&")) {
      give_up("`|&` joins two streams");
    } else if (take("|")) {
      end_command(Joint::kPipe);
    } else if (peek() == '&') {
      give_up("`&` lets it run beside the rest");
    } else if (peek() == '<' || peek() == '>') {
      redirection();
    } else if (peek() == '#') {
      give_up("a comment hides the rest of its line");
    } else {
      word();
    }
  }

  /// A line feed ends a command, may follow a joint, and means nothing else.
  void end_line() {
    if (!current_.words.empty() || !current_.variables.empty() || !current_.redirections.empty()) {
      end_command(Joint::kSequence);
    } else if (!line_.commands.empty() && line_.commands.back().joint != Joint::kSequence) {
      return;  // It goes on after `&&`, `||` or `|`.
    }
  }

  void end_command(Joint joint) {
    const bool is_empty = current_.words.empty();
    if (is_empty && (!current_.variables.empty() || !current_.redirections.empty())) {
      give_up("a variable or a redirection stands without a program");
    }
    if (is_empty) {
      const bool may_end =
          joint == Joint::kEnd &&
          (line_.commands.empty() || line_.commands.back().joint == Joint::kSequence);
      if (!may_end) {
        give_up("a command is missing");
      }
      return;
    }
    if (line_.commands.size() == kMaxCommands) {
      give_up("it holds too many commands");
      return;
    }
    current_.joint = joint;
    line_.commands.push_back(std::exchange(current_, SimpleCommand{}));
  }

  void redirection() {
    const bool writes = peek() == '>';
    if (left_.starts_with("<<") || left_.starts_with("<>") || left_.starts_with("<(") ||
        left_.starts_with(">(") || left_.starts_with("<&")) {
      give_up("a here-document, a process or a descriptor is its input or output");
      return;
    }
    left_.remove_prefix(1);
    if (writes && take("&")) {
      duplication();
      return;
    }
    if (writes && !take(">")) {
      take("|");
    }
    while (kBlank.find(peek()) != std::string_view::npos && !left_.empty()) {
      left_.remove_prefix(1);
    }
    const auto target = read_word();
    if (!target) {
      give_up("a redirection leads nowhere");
      return;
    }
    if (target->has_glob) {
      give_up("a redirection's target is a pattern");
      return;
    }
    redirects_ = true;
    current_.redirections.push_back(Redirection{writes, target->word});
  }

  /// `2>&1`: both are descriptors that it has already.
  void duplication() {
    std::size_t digits = 0;
    while (peek(digits) >= '0' && peek(digits) <= '9') {
      ++digits;
    }
    const char after = peek(digits);
    const bool ends = digits == left_.size() ||
                      std::string_view(" \t\n;|&").find(after) != std::string_view::npos;
    if (digits == 0 || !ends) {
      give_up("`>&` leads to something else than a descriptor");
      return;
    }
    left_.remove_prefix(digits);
  }

  void word() {
    auto raw = read_word();
    if (!raw) {
      return;
    }
    // `2>file`: the digits right before it are a descriptor.
    const bool is_descriptor =
        !raw->is_quoted && is_digits(raw->word.text) && (peek() == '<' || peek() == '>');
    if (is_descriptor) {
      return;
    }
    const std::size_t equals = raw->word.text.find('=');
    const bool is_variable = current_.words.empty() && equals != std::string::npos &&
                             equals < raw->bare_prefix &&
                             is_name(std::string_view(raw->word.text).substr(0, equals));
    if (is_variable) {
      current_.variables.push_back(std::move(raw->word.text));
      return;
    }
    if (current_.words.empty() && raw->has_glob) {
      give_up("the program is a pattern");
      return;
    }
    if (current_.words.empty() && equals != std::string::npos && equals < raw->bare_prefix) {
      give_up("an assignment that is more than a name and a value");
      return;
    }
    if (current_.words.empty() &&
        std::ranges::find(kNotPlain, raw->word.text) != std::end(kNotPlain)) {
      give_up("it holds a word of the shell's own language");
      return;
    }
    current_.words.push_back(std::move(raw->word));
  }

  static bool ends_word(char c) {
    return std::string_view(" \t\n;|&<>").find(c) != std::string_view::npos;
  }

  std::optional<RawWord> read_word() {
    RawWord raw;
    bool any = false;
    bool bare_so_far = true;
    while (!left_.empty() && !ends_word(peek())) {
      any = true;
      const char c = peek();
      if (c == '\'' || c == '"' || c == '\\') {
        bare_so_far = false;
        raw.is_quoted = true;
        if (!quoted_part(raw)) {
          return std::nullopt;
        }
        continue;
      }
      if (take("{}")) {
        raw.word.text += "{}";  // Nothing to expand: it is what `find -exec` looks for.
        bare_so_far = false;
        continue;
      }
      if (kActive.find(c) != std::string_view::npos) {
        give_up("an expansion, a group or a function is known only when it runs");
        return std::nullopt;
      }
      raw.has_glob = raw.has_glob || kGlob.find(c) != std::string_view::npos;
      if (c == '~' && raw.word.text.empty() && bare_so_far) {
        raw.word.has_tilde = true;
      }
      raw.word.text.push_back(c);
      if (bare_so_far) {
        raw.bare_prefix = raw.word.text.size();
      }
      left_.remove_prefix(1);
    }
    if (!any) {
      return std::nullopt;
    }
    return check_tilde(std::move(raw));
  }

  /// `~` and `~/x` are the home; `~name` is somebody's, whom we do not look up.
  std::optional<RawWord> check_tilde(RawWord raw) {
    const std::string& text = raw.word.text;
    if (raw.word.has_tilde && text.size() > 1 && (text[1] != '/' || raw.bare_prefix < 2)) {
      give_up("`~` is somebody else's home");
      return std::nullopt;
    }
    return raw;
  }

  bool quoted_part(RawWord& raw) {
    if (take("\\")) {
      if (left_.empty() || peek() == '\n') {
        give_up("a backslash ends its line");
        return false;
      }
      raw.word.text.push_back(peek());
      left_.remove_prefix(1);
      return true;
    }
    return take("'") ? single_quoted(raw) : double_quoted(raw);
  }

  bool single_quoted(RawWord& raw) {
    const auto end = left_.find('\'');
    if (end == std::string_view::npos) {
      give_up("a quote does not end");
      return false;
    }
    raw.word.text += left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return true;
  }

  bool double_quoted(RawWord& raw) {
    left_.remove_prefix(1);
    while (!left_.empty() && peek() != '"') {
      // `!` is a shell's history for people alone, but it costs nothing to be careful.
      if (peek() == '$' || peek() == '`' || peek() == '!') {
        give_up("an expansion is known only when it runs");
        return false;
      }
      const bool escapes = peek() == '\\' && left_.size() > 1 &&
                           std::string_view("$`\"\\").find(peek(1)) != std::string_view::npos;
      if (peek() == '\\' && peek(1) == '\n') {
        give_up("a backslash ends its line");
        return false;
      }
      left_.remove_prefix(escapes ? 1 : 0);
      raw.word.text.push_back(peek());
      left_.remove_prefix(1);
    }
    if (!take("\"")) {
      give_up("a quote does not end");
      return false;
    }
    return true;
  }

  std::string_view left_;
  CommandLine line_{CommandShape::kPlain, {}, {}};
  SimpleCommand current_;
  bool redirects_ = false;
  std::string why_;
};

}  // namespace

const char* name_of(CommandShape shape) {
  switch (shape) {
    case CommandShape::kPlain:
      return "plain";
    case CommandShape::kRedirect:
      return "redirect";
    case CommandShape::kOpaque:
      return "opaque";
  }
  return "opaque";
}

CommandLine read_command(std::string_view text) {
  const auto opaque = [](const char* why) { return CommandLine{CommandShape::kOpaque, {}, why}; };
  if (text.size() > kMaxCommandBytes) {
    return opaque("it is too long");
  }
  if (!is_utf8(text) || has_odd_control(text)) {
    return opaque("it holds control characters or bytes that are no UTF-8");
  }
  return Lexer(text).read();
}

std::vector<Glimpse> glimpse(std::string_view text) {
  constexpr std::size_t kMaxGlimpses = 1024;
  constexpr std::string_view kStarts = ";|&(){}`\n";
  constexpr std::string_view kQuotes = "'\"\\$";
  std::vector<Glimpse> seen;
  Glimpse current{.at_command = true};
  const auto end = [&](bool next_at_command) {
    if (!current.word.text.empty() && seen.size() < kMaxGlimpses) {
      current.word.has_tilde = current.word.text == "~" || current.word.text.starts_with("~/");
      seen.push_back(std::exchange(current, Glimpse{}));
    } else {
      next_at_command = next_at_command || current.at_command;
    }
    current.at_command = next_at_command;
  };
  for (const char c : text) {
    if (kStarts.find(c) != std::string_view::npos) {
      end(true);
    } else if (c == ' ' || c == '\t' || c == '\r') {
      const bool keeps_write = current.word.text.empty() && current.written;
      end(false);
      current.written = keeps_write;
    } else if (c == '<' || c == '>') {
      end(false);
      current.at_command = false;
      current.written = c == '>';
    } else if (kQuotes.find(c) == std::string_view::npos) {
      current.word.text.push_back(c);
    }
  }
  end(false);
  return seen;
}

}  // namespace sandboxkit::gate
