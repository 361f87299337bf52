#include "tests/support/sbpl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <regex.h>

namespace sandboxkit::box_test {
namespace {

Error broken(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::vector<Form>> all() {
    std::vector<Form> forms;
    while (skip_space()) {
      auto form = one();
      if (!form) {
        return form.error();
      }
      forms.push_back(std::move(*form));
    }
    return forms;
  }

 private:
  bool skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) {
      text_.remove_prefix(1);
    }
    return !text_.empty();
  }

  Result<Form> one() {
    if (text_.starts_with("#\"")) {
      const auto end = text_.find('"', 2);
      if (end == std::string_view::npos) {
        return broken("an expression has no end");
      }
      Form form{.kind = Form::Kind::kRegex, .text = std::string(text_.substr(2, end - 2))};
      text_.remove_prefix(end + 1);
      return form;
    }
    if (text_.front() == '"') {
      return string();
    }
    if (text_.front() == '(') {
      return list();
    }
    const auto end = std::min(text_.find_first_of(" \n()\""), text_.size());
    if (end == 0) {
      return broken("a bracket has no beginning");
    }
    Form form{.text = std::string(text_.substr(0, end))};
    text_.remove_prefix(end);
    return form;
  }

  Result<Form> string() {
    Form form{.kind = Form::Kind::kString};
    std::size_t i = 1;
    for (; i < text_.size() && text_[i] != '"'; ++i) {
      i += text_[i] == '\\' ? 1 : 0;
      if (i < text_.size()) {
        form.text.push_back(text_[i]);
      }
    }
    if (i >= text_.size()) {
      return broken("a string has no end");
    }
    text_.remove_prefix(i + 1);
    return form;
  }

  Result<Form> list() {
    text_.remove_prefix(1);
    Form form{.kind = Form::Kind::kList};
    while (skip_space() && text_.front() != ')') {
      auto item = one();
      if (!item) {
        return item;
      }
      form.items.push_back(std::move(*item));
    }
    if (text_.empty()) {
      return broken("a list has no end");
    }
    text_.remove_prefix(1);
    return form;
  }

  std::string_view text_;
};

class Regex {
 public:
  static std::shared_ptr<const Regex> compile(const std::string& text) {
    auto made = std::make_shared<Regex>();
    made->is_good_ = regcomp(&made->compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB) == 0;
    return made->is_good_ ? made : nullptr;
  }
  Regex() = default;
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  ~Regex() {
    if (is_good_) {
      regfree(&compiled_);
    }
  }
  bool matches(const std::string& text) const {
    return regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_{};
  bool is_good_ = false;
};

bool is_below(const std::string& directory, const std::string& path) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace

struct Profile::Rule {
  bool allows = false;
  std::vector<std::string> operations{};
  std::vector<std::string> literals{};
  std::vector<std::string> subpaths{};
  std::vector<std::shared_ptr<const Regex>> regexes{};
  bool has_filter = false;

  Status add_filter(const Form& form) {
    if (form.kind != Form::Kind::kList || form.items.size() < 2) {
      return broken("a filter is a list");
    }
    has_filter = true;
    const std::string& name = form.items.front().text;
    const Form& value = form.items.back();
    if (name == "literal" || name == "path-literal") {
      literals.push_back(value.text);
    } else if (name == "subpath") {
      subpaths.push_back(value.text);
    } else if (name == "regex" && value.kind == Form::Kind::kRegex) {
      regexes.push_back(Regex::compile(value.text));
      return regexes.back() ? Status() : Status(broken("not an expression: " + value.text));
    } else if (name == "remote" && value.kind == Form::Kind::kList) {
      return add_filter(value);
    } else if (name != "remote" && name != "target") {
      return broken("unknown filter " + name);
    }
    return {};
  }

  bool names(std::string_view operation) const {
    return std::ranges::any_of(operations, [&](const std::string& pattern) {
      return pattern == "default" || pattern == operation ||
             (pattern.ends_with('*') &&
              operation.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1)));
    });
  }

  bool matches(const std::string& path) const {
    return !has_filter || std::ranges::find(literals, path) != literals.end() ||
           std::ranges::any_of(subpaths, [&](const auto& at) { return is_below(at, path); }) ||
           std::ranges::any_of(regexes, [&](const auto& regex) { return regex->matches(path); });
  }
};

Result<std::vector<Form>> read_forms(std::string_view text) { return Reader(text).all(); }

Result<Profile> Profile::read(std::string_view text) {
  auto forms = read_forms(text);
  if (!forms) {
    return forms.error();
  }
  Profile profile;
  for (const Form& form : *forms) {
    if (form.kind != Form::Kind::kList || form.items.empty()) {
      return broken("a profile is made of lists");
    }
    const std::string& verb = form.items.front().text;
    if (verb == "version") {
      continue;
    }
    if (verb != "allow" && verb != "deny") {
      return broken("unknown rule " + verb);
    }
    auto rule = std::make_shared<Rule>();
    rule->allows = verb == "allow";
    for (std::size_t i = 1; i < form.items.size(); ++i) {
      if (form.items[i].kind == Form::Kind::kAtom) {
        rule->operations.push_back(form.items[i].text);
      } else if (auto status = rule->add_filter(form.items[i]); !status) {
        return status.error();
      }
    }
    profile.rules_.push_back(std::move(rule));
  }
  profile.forms_ = std::move(*forms);
  return profile;
}

bool Profile::allows(std::string_view operation, const std::string& path) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if ((*rule)->names(operation) && (*rule)->matches(path)) {
      return (*rule)->allows;
    }
  }
  return false;
}

}  // namespace sandboxkit::box_test
