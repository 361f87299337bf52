#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

/// How much of a command line its text alone tells. Source: design of the gate, 4.5.
enum class CommandShape : std::uint8_t {
  kPlain,     ///< Words and quotes, joined by `&&`, `||`, `;`, `|` and line feeds.
  kRedirect,  ///< And redirections to literal words.
  kOpaque,    ///< Anything else: what it does is not known before it runs.
};

const char* name_of(CommandShape shape);

/// A word after the shell took off the quotes.
struct Word {
  std::string text{};
  /// It begins with a `~` that the shell will replace by the home.
  bool has_tilde = false;
  bool operator==(const Word&) const = default;
};

struct Redirection {
  bool writes;
  Word target;
};

/// What stands between a command and the one after it.
enum class Joint : std::uint8_t { kEnd, kAnd, kOr, kSequence, kPipe };

struct SimpleCommand {
  /// `A=b` before the program.
  std::vector<std::string> variables{};
  std::vector<Word> words{};
  std::vector<Redirection> redirections{};
  Joint joint = Joint::kEnd;
};

struct CommandLine {
  CommandShape shape = CommandShape::kOpaque;
  /// Empty for an opaque line.
  std::vector<SimpleCommand> commands{};
  /// Of an opaque line: why, in words.
  std::string why_opaque{};
};

inline constexpr std::size_t kMaxCommandBytes = 64 * 1024;
inline constexpr std::size_t kMaxCommands = 256;

/// Reads what a POSIX shell would, as far as that is certain. It fails towards opaque: a line that
/// it takes for plain means to every shell exactly the words that it tells.
CommandLine read_command(std::string_view text);

/// What can be seen in an opaque line all the same: a denial of it is certain, and nothing else is.
struct Glimpse {
  Word word{};
  /// It stands where a program's name would.
  bool at_command = false;
  /// It follows a `>`.
  bool written = false;
};

std::vector<Glimpse> glimpse(std::string_view text);

}  // namespace sandboxkit::gate
