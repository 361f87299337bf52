#include "gate/pattern.h"

#include "base/text.h"
#include "gate/fold.h"
#include "gate/path_text.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr std::string_view kAnyDepth = PathPattern::kAnyDepth;

Error wrong(std::string_view text, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, "pattern " + quoted(text) + " " + what};
}

std::size_t character_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) {
    ++size;
  }
  return size;
}

/// `[a-z]` at the front of `pattern`: whether it takes `c`, and how long it is.
struct Class {
  bool takes;
  std::size_t size;
};

std::optional<Class> read_class(std::string_view pattern, char c) {
  const auto end = pattern.find(']', 2);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view inside = pattern.substr(1, end - 1);
  bool takes = false;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (i + 2 < inside.size() && inside[i + 1] == '-') {
      takes = takes || (inside[i] <= c && c <= inside[i + 2]);
      i += 2;
    } else {
      takes = takes || inside[i] == c;
    }
  }
  return Class{takes, end + 1};
}

/// How much of `pattern` one character of the text matches, and of how many bytes; nullopt: none.
struct Step {
  std::size_t pattern;
  std::size_t text;
};

std::optional<Step> step(std::string_view pattern, std::string_view text) {
  if (pattern.empty() || text.empty()) {
    return std::nullopt;
  }
  if (pattern.front() == '?') {
    return Step{1, character_size(text)};
  }
  if (pattern.front() == '[') {
    const auto found = read_class(pattern, text.front());
    return found && found->takes ? std::optional(Step{found->size, 1}) : std::nullopt;
  }
  const std::size_t escape = pattern.front() == '\\' && pattern.size() > 1 ? 1 : 0;
  return pattern[escape] == text.front() ? std::optional(Step{escape + 1, 1}) : std::nullopt;
}

/// One component. Goes back to the last `*` alone, so it takes no more than the product of both.
bool glob(std::string_view pattern, std::string_view text) {
  std::string_view after_star;
  std::string_view from;
  bool starred = false;
  while (!text.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      after_star = pattern;
      from = text;
      starred = true;
    } else if (const auto taken = step(pattern, text)) {
      pattern.remove_prefix(taken->pattern);
      text.remove_prefix(taken->text);
    } else if (starred) {
      from.remove_prefix(1);
      pattern = after_star;
      text = from;
    } else {
      return false;
    }
  }
  while (pattern.starts_with('*')) {
    pattern.remove_prefix(1);
  }
  return pattern.empty();
}

using Parts = std::vector<std::string>;

/// `whole`: all of the name, or else the name up to any depth. Goes back to the last `**` alone.
bool match_parts(const Parts& pattern, const Parts& name, bool whole) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::optional<std::pair<std::size_t, std::size_t>> star;
  while (true) {
    if (p == pattern.size() && (!whole || n == name.size())) {
      return true;
    }
    if (p < pattern.size() && pattern[p] == kAnyDepth) {
      star = {++p, n};
    } else if (p < pattern.size() && n < name.size() && glob(pattern[p], name[n])) {
      ++p;
      ++n;
    } else if (star && star->second < name.size()) {
      p = star->first;
      n = ++star->second;
    } else {
      return false;
    }
  }
}

bool has_wildcard(std::string_view part) {
  return part.find_first_of("*?[\\") != std::string_view::npos;
}

/// Why a pattern is none, or "".
std::string problem_of(std::string_view text) {
  if (text.empty() || text.size() > PathPattern::kMaxBytes) {
    return "must have 1 to " + std::to_string(PathPattern::kMaxBytes) + " bytes";
  }
  if (!is_utf8(text) || text.find('\0') != std::string_view::npos) {
    return "must be UTF-8 without NUL";
  }
  if (text.size() > 1 && text.back() == '/') {
    return "ends with `/` and would match nothing; leave it out";
  }
  if (text.back() == '\\') {
    return "ends with a backslash that escapes nothing; write two of them";
  }
  for (const std::string_view part : split(text.starts_with('/') ? text.substr(1) : text, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return "holds an empty component, `.` or `..` and would match nothing; take it out";
    }
    if (part != kAnyDepth && part.find(kAnyDepth) != std::string_view::npos) {
      return "holds `**` beside other letters; it stands for whole components";
    }
    const auto open = part.find('[');
    if (open != std::string_view::npos && (open == 0 || part[open - 1] != '\\') &&
        part.find(']', open + 2) == std::string_view::npos) {
      return "holds a `[` without its `]`; write `\\[` for the letter";
    }
  }
  return {};
}

/// The anchor's directory and what follows; nullopt when it has none that we know.
std::optional<std::pair<std::string, std::string_view>> take_anchor(std::string_view text,
                                                                    const Anchors& anchors) {
  const std::pair<std::string_view, const std::string*> known[] = {
      {"~", &anchors.home}, {"${tree}", &anchors.tree}, {"${scratch}", &anchors.scratch}};
  for (const auto& [word, directory] : known) {
    if (text == word || (text.starts_with(word) && text[word.size()] == '/')) {
      return std::pair(directory->empty() ? "/\x01" : *directory, text.substr(word.size()));
    }
  }
  if (text.starts_with('/')) {
    return std::pair(std::string(), text);
  }
  return std::nullopt;
}

}  // namespace

PathName::PathName(std::string plain) : text(std::move(plain)) {
  const auto parts = components_of(text);
  exact.reserve(parts.size());
  folded.reserve(parts.size());
  for (const std::string_view part : parts) {
    exact.emplace_back(part);
    folded.push_back(fold(part));
  }
}

Result<PathPattern> PathPattern::compile(std::string_view text, const Anchors& anchors,
                                         Matching matching) {
  if (std::string problem = problem_of(text); !problem.empty()) {
    return wrong(text, problem);
  }
  PathPattern made;
  made.text_ = std::string(text);
  made.matching_ = matching;
  made.is_bare_name_ = text.find('/') == std::string_view::npos && text != "~" &&
                       text != "${tree}" && text != "${scratch}";
  if (made.is_bare_name_) {
    made.parts_.emplace_back(kAnyDepth);
    made.parts_.emplace_back(text);
  } else {
    const auto anchored = take_anchor(text, anchors);
    if (!anchored) {
      return wrong(text, "must begin with `/`, `~/`, `${tree}/` or `${scratch}/`");
    }
    // The directory of an anchor is text: a star in its name is a star.
    for (const std::string_view part : components_of(anchored->first)) {
      made.parts_.push_back(escape_pattern(part));
      made.path_.append("/").append(part);
    }
    for (const std::string_view part : components_of(anchored->second)) {
      made.parts_.emplace_back(part);
    }
  }
  const std::size_t fixed = components_of(made.path_).size();
  for (std::size_t i = 0; i < made.parts_.size(); ++i) {
    const bool is_given = i < fixed || (made.is_bare_name_ && i == 0);
    made.is_literal_ = made.is_literal_ && (is_given || !has_wildcard(made.parts_[i]));
    if (!is_given && made.is_literal_ && !made.is_bare_name_) {
      made.path_.append("/").append(made.parts_[i]);
    }
    if (matching == Matching::kFolded && made.parts_[i] != kAnyDepth) {
      made.parts_[i] = fold(made.parts_[i]);
    }
  }
  if (std::ranges::all_of(made.parts_, [](const auto& part) { return part == kAnyDepth; })) {
    return wrong(text, "covers `/`; name a directory");
  }
  return made;
}

const std::vector<std::string>& PathPattern::parts_of(const PathName& name) const {
  return matching_ == Matching::kFolded ? name.folded : name.exact;
}

bool PathPattern::matches(const PathName& name) const {
  return match_parts(parts_, parts_of(name), /*whole=*/false);
}

bool PathPattern::matches_whole(const PathName& name) const {
  return match_parts(parts_, parts_of(name), /*whole=*/true);
}

bool PathPattern::reaches_below(const PathName& directory) const {
  const auto& name = parts_of(directory);
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == parts_.size()) {
      return false;
    }
    // From here on it may be anywhere: only a look through the directory tells.
    if (parts_[i] == kAnyDepth) {
      return false;
    }
    if (!glob(parts_[i], name[i])) {
      return false;
    }
  }
  return parts_.size() > name.size() && (name.empty() || parts_[0] != kAnyDepth);
}

bool PathPattern::leads_through(const PathName& name) const {
  if (parts_.front() != kAnyDepth) {
    return reaches_below(name);
  }
  const auto& parts = parts_of(name);
  for (std::size_t from = 0; from < parts.size(); ++from) {
    const std::size_t size = parts.size() - from;
    bool fits = size + 1 < parts_.size();
    for (std::size_t i = 0; fits && i < size; ++i) {
      fits = parts_[i + 1] != kAnyDepth && glob(parts_[i + 1], parts[from + i]);
    }
    if (fits) {
      return true;
    }
  }
  return false;
}

bool PathPattern::is_text(std::string_view part) { return !has_wildcard(part); }

std::string PathPattern::whole_text() const {
  std::string whole;
  for (const std::string& part : parts_) {
    whole.append("/").append(part);
  }
  return whole;
}

std::string escape_pattern(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

bool matches_name(std::string_view pattern, std::string_view name) { return glob(pattern, name); }

}  // namespace sandboxkit::gate
