#include "audit/redact.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace sandboxkit::audit {
namespace {

constexpr std::size_t kShownHash = 12;
constexpr std::size_t kMinTokenBytes = 16;
/// Commands in commands in commands.
constexpr int kMaxDepth = 4;
constexpr std::string_view kBetweenWords = " \t\r\n;|&()<>`";
constexpr std::string_view kQuotes = "'\"";
constexpr std::string_view kAfterName = "=:";
constexpr std::string_view kPurpose = "sandboxkit audit redaction v1";

constexpr auto kSecretNames = std::to_array<std::string_view>(
    {"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey",
     "credential", "authorization", "cookie"});
/// Too short to be looked for inside of other names: an `author` is no secret.
constexpr auto kWholeSecretNames = std::to_array<std::string_view>({"auth", "key", "pass", "pwd"});
constexpr auto kTokenPrefixes = std::to_array<std::string_view>(
    {"ghp_",  "gho_", "ghu_",  "ghs_", "ghr_", "github_pat_", "glpat-", "sk-",       "sk_",
     "rk_",   "jt_",  "wk_",   "st_",  "xox",  "xapp-",       "AKIA",   "ASIA",      "AIza",
     "ya29.", "npm_", "pypi-", "hf_",  "dop_", "shp",         "eyJ",    "-----BEGIN"});
constexpr auto kSchemes = std::to_array<std::string_view>({"bearer", "basic", "digest"});
constexpr auto kUserOptions = std::to_array<std::string_view>({"-u", "--user", "--proxy-user"});

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

/// `--api-key` and `API_KEY` speak of the same.
bool names_a_secret(std::string_view name) {
  std::string plain = ascii_lower(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_' || c == '.'; });
  return std::ranges::any_of(kSecretNames,
                             [&](std::string_view s) { return plain.find(s) != plain.npos; }) ||
         std::ranges::find(kWholeSecretNames, plain) != kWholeSecretNames.end();
}

bool is_token(std::string_view word) {
  return word.size() >= kMinTokenBytes &&
         std::ranges::any_of(kTokenPrefixes,
                             [&](std::string_view p) { return word.starts_with(p); });
}

bool is_scheme(std::string_view word) {
  return std::ranges::find(kSchemes, ascii_lower(word)) != kSchemes.end();
}

/// The name that ends before `text[end]`, where a quote may stand between.
std::string_view name_before(std::string_view text, std::size_t end) {
  if (end > 0 && kQuotes.find(text[end - 1]) != kQuotes.npos) {
    --end;
  }
  std::size_t begin = end;
  while (begin > 0 && is_name_character(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin, end - begin);
}

/// Bytes of the word at the front; what is in quotes belongs to it.
std::size_t word_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && kBetweenWords.find(text[at]) == kBetweenWords.npos) {
    if (kQuotes.find(text[at]) != kQuotes.npos) {
      const std::size_t end = text.find(text[at], at + 1);
      at = end == text.npos ? text.size() - 1 : end;
    }
    ++at;
  }
  return at;
}

/// Goes through words in their order: what stands before one decides what it is.
class Redactor {
 public:
  explicit Redactor(const Key& salt) : salt_(salt) {}
  std::string words(std::string_view text, int depth);
  /// One argument, which may be a command itself.
  std::string argument(std::string_view text, int depth);

 private:
  enum class Next { kPlain, kSecret, kUserInfo };
  std::string hidden(std::string_view secret) const {
    return "[redacted:" + salt_.sign(kPurpose, secret).substr(0, kShownHash) + "]";
  }
  std::string after(Next what, std::string_view text);
  std::string without_user_info(std::string_view word) const;
  std::string plain_word(std::string_view word);

  const Key& salt_;
  Next next_ = Next::kPlain;
};

std::string Redactor::words(std::string_view text, int depth) {
  // At the bottom, quotes are not looked into any more: they end words.
  const bool bottom = depth >= kMaxDepth;
  const std::string between = std::string(kBetweenWords) + std::string(bottom ? kQuotes : "");
  std::string out;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find_first_not_of(between), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    const std::size_t length =
        bottom ? std::min(text.find_first_of(between), text.size()) : word_length(text);
    if (length > 0) {
      out += argument(text.substr(0, length), depth);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string Redactor::after(Next what, std::string_view text) {
  if (what == Next::kSecret) {
    if (is_scheme(text)) {
      next_ = Next::kSecret;  // `Authorization: Bearer ...`
      return std::string(text);
    }
    return hidden(text);
  }
  const std::size_t colon = text.find(':');
  return colon == text.npos
             ? std::string(text)
             : std::string(text.substr(0, colon + 1)) + hidden(text.substr(colon + 1));
}

std::string Redactor::argument(std::string_view text, int depth) {
  const Next now = std::exchange(next_, Next::kPlain);
  if (now != Next::kPlain) {
    return after(now, text);
  }
  std::string whole = without_user_info(text);
  for (std::size_t mark = whole.find_first_of(kAfterName); mark != whole.npos;
       mark = whole.find_first_of(kAfterName, mark + 1)) {
    if (!names_a_secret(name_before(whole, mark))) {
      continue;
    }
    if (mark + 1 == whole.size()) {
      next_ = Next::kSecret;
      return whole;
    }
    std::string kept = whole.substr(0, mark + 1);
    if (kept.find_first_of(kBetweenWords) != kept.npos) {
      kept = words(kept, kMaxDepth);
      next_ = Next::kPlain;  // What followed the name is in `hidden` already.
    }
    return kept + hidden(whole.substr(mark + 1));
  }
  const bool in_quotes = whole.size() >= 2 && kQuotes.find(whole.front()) != kQuotes.npos &&
                         whole.back() == whole.front();
  if (in_quotes && depth < kMaxDepth) {
    const std::string_view inside = std::string_view(whole).substr(1, whole.size() - 2);
    return whole.front() + argument(inside, depth + 1) + whole.back();
  }
  const bool has_words = whole.find_first_of(kBetweenWords) != whole.npos;
  return has_words ? words(whole, depth + 1) : plain_word(whole);
}

std::string Redactor::without_user_info(std::string_view word) const {
  std::string out;
  for (std::size_t scheme = word.find("://"); scheme != word.npos; scheme = word.find("://")) {
    out += word.substr(0, scheme + 3);
    word.remove_prefix(scheme + 3);
    const std::string_view authority = word.substr(0, word.find_first_of("/?# \t\r\n"));
    // The last one: a password may have an `@` of its own.
    if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
      out += hidden(authority.substr(0, at));
      word.remove_prefix(at);
    }
  }
  return out += word;
}

std::string Redactor::plain_word(std::string_view word) {
  if (std::ranges::find(kUserOptions, word) != kUserOptions.end()) {
    next_ = Next::kUserInfo;
  } else if ((word.starts_with("-") && names_a_secret(word)) || is_scheme(word)) {
    next_ = Next::kSecret;
  }
  if (is_token(word)) {
    return hidden(word);
  }
  // `x=ghp_...`, `user:ghp_...`
  const std::size_t mark = word.find_first_of(kAfterName);
  if (mark != word.npos && is_token(word.substr(mark + 1))) {
    return std::string(word.substr(0, mark + 1)) + hidden(word.substr(mark + 1));
  }
  return std::string(word);
}

}  // namespace

std::vector<std::string> redact_argv(const std::vector<std::string>& argv, const Key& salt) {
  Redactor redactor(salt);
  std::vector<std::string> out;
  out.reserve(argv.size());
  for (const std::string& word : argv) {
    out.push_back(redactor.argument(word, 0));
  }
  return out;
}

std::string redact_text(std::string_view text, const Key& salt) {
  return Redactor(salt).words(text, 0);
}

}  // namespace sandboxkit::audit
