#include "config/table.h"

#include "base/check.h"
#include "base/text.h"
#include "config/values.h"

#include <algorithm>

namespace sandboxkit::config {
namespace {

constexpr std::size_t kMaxTextBytes = 4096;

std::string text_problem(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return "longer than " + std::to_string(kMaxTextBytes) + " bytes";
  }
  return has_control_characters(text) ? "has a control character" : "";
}

std::string pair_problem(std::string_view text) {
  const std::size_t equals = text.find('=');
  return equals == 0 || equals == std::string_view::npos ? "is not NAME=VALUE" : text_problem(text);
}

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : between) + name;
  }
  return out;
}

std::string derived(std::string_view prefix, std::string_view key, char between, bool upper) {
  std::string out(prefix);
  for (const char c : key) {
    const bool lower_case = c >= 'a' && c <= 'z';
    out += c == '.' || c == '_' ? between : static_cast<char>(upper && lower_case ? c - 32 : c);
  }
  return out;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "text";
    case Kind::kInteger:
      return "a whole number";
    case Kind::kDecimal:
      return "a number";
    case Kind::kBoolean:
      return "true or false";
    case Kind::kChoice:
      return "a word";
    case Kind::kList:
      return "a list";
    case Kind::kPairs:
      return "a map";
  }
  check_failed("kind", "every kind has a name", __FILE__, __LINE__);
}

void Table::add(Option option) {
  About& about = option.about;
  if (about.flag.empty()) {
    about.flag = derived("--", about.key, '-', false);
  }
  if (about.variable.empty()) {
    about.variable = derived(prefix_, about.key, '_', true);
  }
  SANDBOXKIT_CHECK(!by_key(about.key) && !by_flag(about.flag) && !by_variable(about.variable),
                   "an option's names are its own");
  options_.push_back(std::move(option));
}

void Table::text(About about, std::string& target) {
  const bool required = about.required;
  add({.about = std::move(about),
       .kind = Kind::kText,
       .problem_of = [required](std::string_view text) -> std::string {
         return required && text.empty() ? "must not be empty" : text_problem(text);
       },
       .store = [&target](const auto& values) { target = values.empty() ? "" : values.front(); },
       .stored = [&target]() -> std::vector<std::string> { return {target}; }});
}

void Table::boolean(About about, bool& target) {
  add({.about = std::move(about),
       .kind = Kind::kBoolean,
       .range = "true or false",
       .problem_of = [](std::string_view text) -> std::string {
         return text == "true" || text == "false" ? "" : "is neither `true` nor `false`";
       },
       .store = [&target](const auto& values) { target = !values.empty() && values[0] == "true"; },
       .stored = [&target]() -> std::vector<std::string> { return {target ? "true" : "false"}; }});
}

void Table::decimal(About about, double& target, double least, double most) {
  const std::string range = to_text(least) + " to " + to_text(most);
  add({.about = std::move(about),
       .kind = Kind::kDecimal,
       .range = range,
       .problem_of = [=](std::string_view text) -> std::string {
         const auto value = parse_amount(text);
         if (!value) {
           return "is not a plain decimal number (" + range + ")";
         }
         return *value < least || *value > most ? "is out of range (" + range + ")" : "";
       },
       .store = [&target](const auto& values) { target = *parse_amount(values.at(0)); },
       .stored = [&target]() -> std::vector<std::string> { return {to_text(target)}; }});
}

void Table::integer(About about, Range range, const std::function<void(std::int64_t)>& store,
                    const std::function<std::int64_t()>& stored) {
  const std::string words = std::to_string(range.least) + " to " + std::to_string(range.most);
  add({.about = std::move(about),
       .kind = Kind::kInteger,
       .range = words,
       .problem_of = [=](std::string_view text) -> std::string {
         const auto value = parse_integer(text);
         if (!value) {
           return "is not a plain decimal whole number (" + words + ")";
         }
         return *value < range.least || *value > range.most ? "is out of range (" + words + ")"
                                                            : "";
       },
       .store = [store](const auto& values) { store(*parse_integer(values.at(0))); },
       .stored = [stored]() -> std::vector<std::string> { return {std::to_string(stored())}; }});
}

void Table::choice(About about, const std::vector<std::string>& names,
                   const std::function<void(std::size_t)>& store,
                   const std::function<std::size_t()>& stored) {
  const auto chosen = [names](std::string_view text) {
    return std::ranges::find_if(
               names, [&](const std::string& name) { return equal_ignoring_case(name, text); }) -
           names.begin();
  };
  const std::string range = joined(names, " | ");
  add({.about = std::move(about),
       .kind = Kind::kChoice,
       .range = range,
       .problem_of = [=, count = names.size()](std::string_view text) -> std::string {
         return static_cast<std::size_t>(chosen(text)) < count ? "" : "is none of " + range;
       },
       .store = [=](const auto& values) { store(static_cast<std::size_t>(chosen(values.at(0)))); },
       .stored = [=]() -> std::vector<std::string> { return {names[stored()]}; }});
}

void Table::list(About about, std::vector<std::string>& target,
                 std::function<std::string(std::string_view)> problem_of) {
  add({.about = std::move(about),
       .kind = Kind::kList,
       .problem_of = problem_of ? std::move(problem_of) : text_problem,
       .store = [&target](const auto& values) { target = values; },
       .stored = [&target] { return target; }});
}

void Table::pairs(About about, std::vector<std::string>& target) {
  add({.about = std::move(about),
       .kind = Kind::kPairs,
       .range = "NAME=VALUE",
       .problem_of = pair_problem,
       .store = [&target](const auto& values) { target = values; },
       .stored = [&target] { return target; }});
}

void Table::pairs(About about, std::map<std::string, std::string>& target) {
  add({.about = std::move(about),
       .kind = Kind::kPairs,
       .range = "NAME=VALUE",
       .problem_of = pair_problem,
       .store =
           [&target](const auto& values) {
             target.clear();
             for (const std::string& pair : values) {
               const std::size_t equals = pair.find('=');
               target[pair.substr(0, equals)] = pair.substr(equals + 1);
             }
           },
       .stored =
           [&target] {
             std::vector<std::string> out;
             out.reserve(target.size());
             for (const auto& [name, value] : target) {
               out.emplace_back(name).append("=").append(value);
             }
             return out;
           }});
}

const Option* Table::by_key(std::string_view key) const {
  const auto found =
      std::ranges::find_if(options_, [&](const Option& option) { return option.about.key == key; });
  return found == options_.end() ? nullptr : &*found;
}

const Option* Table::by_flag(std::string_view flag) const {
  const auto found = std::ranges::find_if(
      options_, [&](const Option& option) { return option.about.flag == flag; });
  return found == options_.end() ? nullptr : &*found;
}

const Option* Table::by_variable(std::string_view variable) const {
  const auto found = std::ranges::find_if(
      options_, [&](const Option& option) { return option.about.variable == variable; });
  return found == options_.end() ? nullptr : &*found;
}

bool Table::is_section(std::string_view name) const {
  return std::ranges::any_of(options_, [&](const Option& option) {
    return option.about.key.size() > name.size() && option.about.key.starts_with(name) &&
           option.about.key[name.size()] == '.';
  });
}

}  // namespace sandboxkit::config
