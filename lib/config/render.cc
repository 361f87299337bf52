#include "config/render.h"

#include <algorithm>

namespace sandboxkit::config {
namespace {

/// Texts are quoted, so that one that is empty or ends with a blank can be seen.
std::string shown(const Option& option) {
  if (option.repeatable()) {
    std::string out;
    for (const std::string& item : option.stored()) {
      out += (out.empty() ? "" : ", ") + item;
    }
    return "[" + out + "]";
  }
  const std::string value = option.stored().front();
  return option.kind == Kind::kText ? "\"" + value + "\"" : value;
}

bool is_empty(const Option& option) {
  const auto values = option.stored();
  return values.empty() || (values.size() == 1 && values.front().empty());
}

std::string value_of(const Option& option) {
  const About& about = option.about;
  if (about.secret) {
    return is_empty(option) ? "(not set)" : "(set)";
  }
  if (is_empty(option) && !about.default_words.empty()) {
    return "(" + about.default_words + ")";
  }
  return shown(option);
}

std::string source_of(const Option& option, const Reading& reading) {
  const auto found = reading.given.find(option.about.key);
  if (found == reading.given.end()) {
    return "default";
  }
  const auto& origins = found->second;
  std::string out = origins.back().where;
  if (const auto stronger = reading.unused.find(option.about.key);
      stronger != reading.unused.end()) {
    return out + ", unused: " + stronger->second.where + " is stronger";
  }
  std::string losers;
  for (std::size_t i = origins.size() - 1; i > 0; --i) {
    losers += (losers.empty() ? " (over " : ", ") + origins[i - 1].where;
  }
  return losers.empty() ? out : out + losers + ")";
}

/// A cell of a Markdown table: a bar would end it.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, "\\");
  }
  return text;
}

}  // namespace

std::string effective_lines(const Table& table, const Reading& reading) {
  std::string out;
  for (const Option& option : table.options()) {
    const std::string& key = option.about.key;
    out += key + " = " + value_of(option) + "  # " + source_of(option, reading) + "\n";
  }
  return out;
}

std::string default_of(const Option& option) {
  if (option.about.required) {
    return "";
  }
  if (!option.about.default_words.empty()) {
    return option.about.default_words;
  }
  return is_empty(option) ? "none" : option.repeatable() ? shown(option) : option.stored().front();
}

std::string markdown(const Table& table) {
  std::string out =
      "| key | flag | variable | value | default | what |\n|---|---|---|---|---|---|\n";
  for (const Option& option : table.options()) {
    const About& about = option.about;
    const std::string value = option.range.empty() ? name_of(option.kind) : option.range;
    const std::string fallback = about.required ? "(required)" : default_of(option);
    out += "| " + (about.in_file ? "`" + about.key + "`" : std::string("-")) + " | `" + about.flag +
           "` | `" + about.variable + "` | " + cell(value) + " | " + cell(fallback) + " | " +
           cell(about.help) + (option.repeatable() ? "; may be repeated" : "") +
           (about.secret ? "; a secret" : "") + " |\n";
  }
  return out;
}

}  // namespace sandboxkit::config
