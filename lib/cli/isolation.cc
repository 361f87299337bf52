// How a sandbox is closed, and how that is known.
#include "cli/isolation.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <algorithm>
#include <string_view>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kTopicColumns = 11;
constexpr std::size_t kKnownColumns = 12;
constexpr std::size_t kLeastStatementColumns = 20;

std::string padded(std::string text, std::size_t columns) {
  text.resize(std::max(text.size() + 1, columns), ' ');
  return text;
}

/// `text` in lines of at most `columns`; a longer word has a line of its own.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t used = 0;
  for (const std::string_view word : split(text, ' ')) {
    if (used > 0 && used + 1 + word.size() > columns) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    out += used > 0 ? " " : "";
    out += word;
    used += word.size() + (used > 0 ? 1 : 0);
  }
  return out;
}

std::string line_text(const json::Value& line, const std::string& topic, WallTime now,
                      std::size_t width) {
  constexpr std::size_t kIndent = kTopicColumns + kKnownColumns;
  std::string statement = printable(cell(line, "statement"));
  if (const std::string at = relative_time(cell(line, "at"), now); !at.empty()) {
    statement += " (told " + at + ")";
  }
  const std::size_t columns =
      width < kIndent + kLeastStatementColumns ? std::string::npos - kIndent : width - kIndent;
  return padded(topic, kTopicColumns) + padded(printable(cell(line, "known")), kKnownColumns) +
         wrapped(statement, columns, kIndent) + "\n";
}

}  // namespace

std::string card_text(const json::Value& card, WallTime now, std::size_t width) {
  std::string text = printable(cell(card, "sandbox")) + ", " + printable(cell(card, "state")) +
                     ", on " + printable(cell(card, "worker")) + "\n";
  const json::Value* lines = card.find("lines");
  const json::Array* items = lines != nullptr ? lines->as_array() : nullptr;
  std::string last;
  for (const json::Value& line : items != nullptr ? *items : json::Array()) {
    const std::string topic = printable(cell(line, "topic"));
    text += line_text(line, topic == last ? "" : topic, now, width);
    last = topic;
  }
  return text;
}

int show_isolation(const Common& common, const std::string& sandbox) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto card = (*api)->get(sandbox_target(sandbox, "/isolation"));
  if (!card) {
    return fail(card.error());
  }
  if (common.json) {
    print_json(*card);
  } else {
    write_all(kStandardOutput, card_text(*card, system_clock().now(), table_width()));
  }
  return kExitOk;
}

}  // namespace sandboxkit::cli
