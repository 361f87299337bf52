#include "gate/unwrap.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr int kMaxShells = 4;
constexpr int kMaxWrappers = 8;
constexpr std::size_t kMaxGuesses = 16;

/// A program that starts the program which its other words name. Source: design of the gate, 4.5.
struct Wrapper {
  std::string_view name;
  /// Options that stand alone, and options whose value is the next word.
  std::array<std::string_view, 8> flags;
  std::array<std::string_view, 8> valued;
  /// Words of its own before the program (`timeout`'s duration).
  std::size_t operands;
};

constexpr Wrapper kWrappers[] = {
    {"timeout",
     {"--preserve-status", "--foreground", "-v", "--verbose"},
     {"-s", "-k", "--signal", "--kill-after"},
     1},
    {"nice", {}, {"-n", "--adjustment"}, 0},
    {"ionice", {"-t"}, {"-c", "-n", "--class", "--classdata"}, 0},
    {"nohup", {}, {}, 0},
    {"stdbuf", {}, {"-i", "-o", "-e"}, 0},
    {"time", {"-p", "-v"}, {}, 0},
    {"command", {"-p"}, {}, 0},
    {"exec", {"-c", "-l"}, {"-a"}, 0},
    {"env", {"-i", "-", "--ignore-environment", "-0"}, {"-u", "--unset"}, 0},
    {"setsid", {"-c", "-f", "-w", "--ctty", "--fork", "--wait"}, {}, 0},
};

constexpr std::string_view kShells[] = {"sh", "bash", "dash", "zsh", "ksh"};

constexpr std::string_view kRunners[] = {
    "sh",      "bash",      "zsh",     "fish",     "dash",   "ksh",    "csh",      "tcsh",
    "busybox", "env",       "sudo",    "doas",     "su",     "xargs",  "parallel", "find",
    "fd",      "git",       "ssh",     "scp",      "rsync",  "docker", "podman",   "kubectl",
    "npx",     "pnpx",      "bunx",    "uvx",      "uv",     "pipx",   "node",     "deno",
    "bun",     "perl",      "ruby",    "php",      "lua",    "awk",    "gawk",     "mawk",
    "nawk",    "sed",       "make",    "gmake",    "just",   "cargo",  "go",       "npm",
    "yarn",    "pnpm",      "tmux",    "screen",   "watch",  "strace", "ltrace",   "gdb",
    "lldb",    "osascript", "open",    "xdg-open", "vi",     "vim",    "nvim",     "emacs",
    "ed",      "less",      "more",    "man",      "tar",    "zip",    "rg",       "script",
    "expect",  "tclsh",     "timeout", "nice",     "ionice", "nohup",  "stdbuf",   "time",
    "command", "exec",      "setsid",  "eval",     "source", ".",      "entr",     "flock",
    "unshare",
};

// With a subcommand they do that one thing.
constexpr std::string_view kSubcommandRunners[] = {"git", "pnpm"};

bool is_one_of(std::string_view name, const auto& names) {
  return !name.empty() && std::ranges::find(names, name) != std::end(names);
}

bool is_assignment(std::string_view word) {
  const auto equals = word.find('=');
  return equals != std::string_view::npos && equals > 0;
}

/// `-n5`, `--signal=KILL`: an option with its value in one word.
bool is_joined_option(const Wrapper& wrapper, std::string_view word) {
  return std::ranges::any_of(wrapper.valued, [&](std::string_view option) {
    if (option.empty() || !word.starts_with(option) || word.size() == option.size()) {
      return false;
    }
    return !option.starts_with("--") || word[option.size()] == '=';
  });
}

/// How many words of the front belong to the wrapper; nullopt when one is not known.
std::optional<std::size_t> own_words(const Wrapper& wrapper, Started& started) {
  std::size_t at = 1;
  const auto& words = started.words;
  while (at < words.size() && words[at].text.starts_with('-')) {
    const std::string& word = words[at].text;
    if (word == "--") {
      ++at;
      break;
    }
    if (is_one_of(word, wrapper.valued)) {
      at += 2;
    } else if (is_one_of(word, wrapper.flags) || is_joined_option(wrapper, word)) {
      ++at;
    } else {
      return std::nullopt;
    }
  }
  while (wrapper.name == "env" && at < words.size() && is_assignment(words[at].text)) {
    started.variables.push_back(words[at].text);
    ++at;
  }
  at += wrapper.operands;
  return at < words.size() ? std::optional(at) : std::nullopt;
}

const Wrapper* wrapper_of(const Started& started) {
  const std::string_view name = base_name(started.words.front().text);
  const auto* found = std::ranges::find(kWrappers, name, &Wrapper::name);
  return found != std::end(kWrappers) ? found : nullptr;
}

/// The text of `sh -c TEXT`, with options that change nothing about it.
std::optional<std::string> shell_text(const Started& started) {
  if (!is_one_of(base_name(started.words.front().text), kShells)) {
    return std::nullopt;
  }
  for (std::size_t at = 1; at + 1 < started.words.size(); ++at) {
    const std::string& word = started.words[at].text;
    const bool is_short = word.size() >= 2 && word[0] == '-' && word[1] != '-' &&
                          word.find_first_not_of("celux", 1) == std::string::npos;
    if (!is_short) {
      return std::nullopt;
    }
    if (word.find('c') != std::string::npos) {
      return started.words[at + 1].text;
    }
  }
  return std::nullopt;
}

using Words = std::vector<Word>;

/// The words of the programs that another program will start, as far as its own words show them.
std::vector<Words> carried_by(const Words& words) {
  const std::string_view name = base_name(words.front().text);
  std::vector<Words> carried;
  if (name == "find" || name == "fd") {
    constexpr std::string_view kStarts[] = {"-exec", "-execdir", "-ok",    "-okdir",
                                            "-x",    "-X",       "--exec", "--exec-batch"};
    for (std::size_t at = 0; at < words.size(); ++at) {
      if (is_one_of(words[at].text, kStarts)) {
        const auto end = std::ranges::find_if(
            words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end(),
            [](const Word& word) { return word.text == ";" || word.text == "+"; });
        carried.emplace_back(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, end);
      }
    }
  }
  constexpr std::string_view kCarriers[] = {"xargs", "parallel", "watch",  "strace",
                                            "entr",  "flock",    "script", "ltrace"};
  if (is_one_of(name, kCarriers)) {
    // Where their own options end is not certain; a denial of any word as a program is.
    for (std::size_t at = 1; at < words.size() && at <= kMaxGuesses; ++at) {
      carried.emplace_back(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    }
  }
  std::erase_if(carried, [](const Words& inner) { return inner.empty(); });
  return carried;
}

class Unwrapper {
 public:
  CommandParts take() && { return std::move(parts_); }

  void read(std::string_view text, int shells, const Started& outer) {
    CommandLine line = read_command(text);
    if (line.shape == CommandShape::kOpaque || shells > kMaxShells) {
      give_up(text, line.why_opaque.empty() ? "shells stand in shells" : line.why_opaque, outer);
      return;
    }
    std::vector<Word> folders = outer.folders;
    for (SimpleCommand& command : line.commands) {
      if (command.words.front().text == "cd") {
        if (!moves(command, folders)) {
          give_up(text, "where `cd` leads is not certain", outer);
          return;
        }
        continue;
      }
      Started started;
      started.words = std::move(command.words);
      started.variables = outer.variables;
      std::ranges::move(command.variables, std::back_inserter(started.variables));
      started.redirections = std::move(command.redirections);
      started.folders = folders;
      started.is_carried = outer.is_carried;
      unwrap(std::move(started), shells);
    }
  }

  void unwrap(Started started, int shells) {
    for (int i = 0; i < kMaxWrappers; ++i) {
      const Wrapper* wrapper = wrapper_of(started);
      if (wrapper == nullptr) {
        break;
      }
      const auto own = own_words(*wrapper, started);
      if (!own) {
        // Something in front of the program that we do not know: the rest is a guess.
        started.is_opaque = started.words.size() > 1;
        note_opaque("an option of `" + std::string(wrapper->name) + "` is not known", started);
        guess_rest(started, shells);
        break;
      }
      started.words.erase(started.words.begin(),
                          started.words.begin() + static_cast<std::ptrdiff_t>(*own));
    }
    if (const auto text = shell_text(started); text && !started.is_opaque) {
      keep_surroundings(started);
      read(*text, shells + 1, started);
      return;
    }
    for (Words& inner : carried_by(started.words)) {
      add_carried(std::move(inner), started.folders, shells);
    }
    parts_.programs.push_back(std::move(started));
  }

 private:
  void give_up(std::string_view text, const std::string& why, const Started& outer) {
    if (parts_.why_opaque.empty()) {
      parts_.why_opaque = why;
    }
    parts_.opaque_texts.emplace_back(text);
    if (!outer.is_carried) {
      Started whole;
      whole.is_opaque = true;
      whole.variables = outer.variables;
      whole.folders = outer.folders;
      parts_.programs.push_back(std::move(whole));
    }
  }

  void note_opaque(const std::string& why, const Started& started) {
    if (started.is_opaque && parts_.why_opaque.empty()) {
      parts_.why_opaque = why;
    }
  }

  /// Each later word may be the program; a denial of it counts.
  void guess_rest(const Started& started, int shells) {
    for (std::size_t at = 1; at < started.words.size() && at <= kMaxGuesses; ++at) {
      add_carried(
          Words(started.words.begin() + static_cast<std::ptrdiff_t>(at), started.words.end()),
          started.folders, shells);
    }
  }

  void add_carried(Words words, const std::vector<Word>& folders, int shells) {
    Started carried;
    carried.words = std::move(words);
    carried.folders = folders;
    carried.is_carried = true;
    if (const auto text = shell_text(carried); text && shells < kMaxShells) {
      read(*text, shells + 1, carried);
      return;
    }
    parts_.programs.push_back(std::move(carried));
  }

  /// What stands around a shell's text counts for the shell as a whole.
  void keep_surroundings(const Started& started) {
    if (started.redirections.empty()) {
      return;
    }
    Started around;
    around.redirections = started.redirections;
    around.folders = started.folders;
    around.is_carried = started.is_carried;
    parts_.programs.push_back(std::move(around));
  }

  /// `cd DIR &&` and nothing else moves what follows for certain.
  static bool moves(const SimpleCommand& command, std::vector<Word>& folders) {
    const bool is_certain = command.words.size() == 2 && command.joint == Joint::kAnd &&
                            command.variables.empty() && command.redirections.empty() &&
                            !command.words[1].text.empty() &&
                            !command.words[1].text.starts_with('-') &&
                            command.words[1].text.find_first_of("*?[") == std::string::npos;
    if (is_certain) {
      folders.push_back(command.words[1]);
    }
    return is_certain;
  }

  CommandParts parts_;
};

}  // namespace

CommandParts parts_of_command(std::string_view text) {
  Unwrapper unwrapper;
  unwrapper.read(text, 0, Started{});
  return std::move(unwrapper).take();
}

CommandParts parts_of_words(const std::vector<std::string>& words) {
  Started started;
  for (const std::string& word : words) {
    started.words.push_back(Word{word, /*has_tilde=*/false});
  }
  Unwrapper unwrapper;
  unwrapper.unwrap(std::move(started), 0);
  return std::move(unwrapper).take();
}

std::string_view base_name(std::string_view program) {
  return program.substr(program.rfind('/') + 1);
}

bool runs_what_follows(const std::vector<std::string>& words) {
  const std::string_view name = base_name(words.front());
  const bool is_runner =
      is_one_of(name, kRunners) || name.starts_with("python") || name.starts_with("pypy");
  const bool has_subcommand = words.size() > 1 && !words[1].starts_with('-');
  return is_runner && !(is_one_of(name, kSubcommandRunners) && has_subcommand);
}

}  // namespace sandboxkit::gate
