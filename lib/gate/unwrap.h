#pragma once

#include "gate/lexer.h"

#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

/// A program that a command line starts, after the programs that only start another were taken
/// off: `timeout 5 env A=b sh -c 'git status'` is `git status` with a variable.
struct Started {
  std::vector<Word> words{};
  std::vector<std::string> variables{};
  std::vector<Redirection> redirections{};
  /// What it does is not known before it runs.
  bool is_opaque = false;
  /// Started by a program that says itself with which words (`xargs`, `find -exec`): it counts
  /// only when it is denied.
  bool is_carried = false;
  /// The folders that `cd` went into before it.
  std::vector<Word> folders{};
};

struct CommandParts {
  std::vector<Started> programs{};
  /// Texts of which nothing is certain, for a glimpse.
  std::vector<std::string> opaque_texts{};
  std::string why_opaque{};
};

/// Everything that a shell's text starts. Recursion into `sh -c` ends after four.
CommandParts parts_of_command(std::string_view text);
/// The same of words that no shell reads.
CommandParts parts_of_words(const std::vector<std::string>& words);

/// A program's name without its folder.
std::string_view base_name(std::string_view program);

/// Whether words are the front of a command that runs whatever follows them (`find`, `python3 -c`):
/// such a front is never granted.
bool runs_what_follows(const std::vector<std::string>& words);

}  // namespace sandboxkit::gate
