// The gate's readers of foreign text: commands, the owner's policy file, kept grants; and the names
// that denials compare.

#include "sandboxkit/gate_files.h"

#include "base/text.h"
#include "gate/fold.h"
#include "gate/lexer.h"
#include "gate/unwrap.h"
#include "json/value.h"
#include "tests/fuzz/fuzz_input.h"

#include <algorithm>
#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

/// A line that is read as plain says so in its own bytes: each letter of a word stands in the text.
void check_command(std::string_view text) {
  const gate::CommandLine line = gate::read_command(text);
  if (line.shape == gate::CommandShape::kOpaque) {
    PROMISE(line.commands.empty() && !line.why_opaque.empty(), "opaque says why and nothing else");
  } else {
    PROMISE(!line.commands.empty() && line.commands.size() <= gate::kMaxCommands, "it starts some");
    PROMISE(line.why_opaque.empty() && is_utf8(text), "what is read is text");
    PROMISE(text.find('`') == std::string_view::npos ||
                text.find_first_of("'\"\\") != std::string_view::npos,
            "a backtick that is read was quoted");
    PROMISE(text.find('$') == std::string_view::npos ||
                text.find_first_of("'\\") != std::string_view::npos,
            "and so was a dollar, which double quotes do not quote");
  }
  std::size_t letters = 0;
  for (const gate::SimpleCommand& command : line.commands) {
    PROMISE(!command.words.empty() && !command.words.front().text.empty() ||
                text.find_first_of("'\"") != std::string_view::npos,
            "a command has a program, which only quotes make empty");
    for (const gate::Word& word : command.words) {
      letters += word.text.size();
    }
    PROMISE(command.redirections.empty() || line.shape == gate::CommandShape::kRedirect,
            "redirections are told by the shape");
  }
  PROMISE(letters <= text.size(), "no letter is made up");
  const gate::CommandParts parts = gate::parts_of_command(text);
  PROMISE(!parts.programs.empty() || !parts.opaque_texts.empty() ||
              text.find("cd") != std::string_view::npos,
          "whatever is asked is told, but for where `cd` goes");
  PROMISE(parts.opaque_texts.empty() || !parts.why_opaque.empty(),
          "what is not known has a reason");
  (void)gate::glimpse(text);
}

void check_policy(std::string_view text) {
  const auto policy = parse_gate_policy(text, "policy.json");
  const GatePolicy shipped = GatePolicy::shipped();
  if (!policy) {
    PROMISE(!policy.error().message.empty(), "a refusal says why");
    return;
  }
  PROMISE(policy->denials.size() >= shipped.denials.size(), "a file takes no shipped denial away");
  PROMISE(policy->exclusions.size() >= shipped.exclusions.size(), "and no exclusion");
  for (const GateException& exception : policy->exceptions) {
    PROMISE(exception.pattern.find('/') != std::string::npos, "what lifts a denial is a place");
    PROMISE(!exception.operations.empty(), "for operations that it names");
  }
  const auto value = json::parse(text);
  PROMISE(value && value->integer("version") == 1, "a policy says its version");
}

void check_request(std::string_view text) {
  const auto request = parse_gate_request(text);
  if (!request) {
    return;
  }
  for (const GateItem& item : request->items) {
    PROMISE(item.operation != GateOperation::kUnknown || !item.problem.empty(),
            "an item without an operation has a problem");
  }
}

void check_grants(std::string_view text) {
  const auto grants = parse_kept_grants(text);
  if (!grants) {
    PROMISE(!grants.error().message.empty(), "a refusal says why");
    return;
  }
  for (const KeptGrant& kept : grants->grants) {
    PROMISE(!kept.grant.use.operations.empty(), "a grant names its operations");
  }
  const auto again = parse_kept_grants(to_json(*grants));
  PROMISE(again && to_json(*again) == to_json(*grants), "what is written reads back");
}

void check_fold(std::string_view text) {
  const std::string once = gate::fold(text);
  if (is_utf8(text)) {
    PROMISE(is_utf8(once), "letters stay letters");
    PROMISE(gate::fold(once) == once, "folding twice is folding once");
    PROMISE(gate::fold(ascii_lower(text)) == once, "case makes no difference");
    PROMISE(gate::fold(std::string(text) + "\u200d") == once, "nor does what is ignored");
  }
}

}  // namespace

/// Input: one letter that says which reader, then its text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.byte()) {
    case 'P':
      check_policy(input.rest());
      break;
    case 'R':
      check_request(input.rest());
      break;
    case 'G':
      check_grants(input.rest());
      break;
    case 'F':
      check_fold(input.rest());
      break;
    default:
      check_command(input.rest());
  }
  return 0;
}
