// What a person is asked, made of what was judged and never of what the agent says about it.

#include "gate/prompt.h"

#include "gate/operations.h"
#include "gate/path_text.h"
#include "gate/pattern.h"
#include "gate/shown_text.h"
#include "gate/unwrap.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sandboxkit::gate {
namespace {

constexpr const char* kWordsThatNeedNoQuotes =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";

/// A field with its length in front, so that no two lists of fields have one text.
void put(std::string& out, std::string_view field) {
  out += std::to_string(field.size()) + ":" + std::string(field) + ",";
}

bool has_two_ends(GateOperation operation) {
  using enum GateOperation;
  return operation == kRename || operation == kLink;
}

std::string word_shown(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(kWordsThatNeedNoQuotes) == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : shown_text(word)) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

std::string words_shown(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word_shown(word);
  }
  return text;
}

std::string joined_words(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) {
    text += (text.empty() ? "" : " ") + word.text;
  }
  return text;
}

/// The words behind an exec that was judged: what its line says is not enough, as blanks in a word
/// look like those between words.
std::optional<GrantedUse> exec_use(const GateRequest& request, const GateItemDecision& judged) {
  if (judged.canonical.empty() || judged.reason == "opaque") {
    return std::nullopt;
  }
  std::optional<GrantedUse> found;
  for (const GateItem& item : request.items) {
    if (item.operation != GateOperation::kExec) {
      continue;
    }
    const CommandParts parts =
        item.command.empty() ? parts_of_words(item.argv) : parts_of_command(item.command);
    for (const Started& started : parts.programs) {
      if (started.words.empty() || joined_words(started.words) != judged.requested) {
        continue;
      }
      GrantedUse use{.operations = {GateOperation::kExec}, .target = judged.canonical};
      for (const Word& word : started.words) {
        use.argv.push_back(word.text);
      }
      // Two of them that only look alike: which one was meant is not known.
      if (started.is_opaque || (found && found->argv != use.argv)) {
        return std::nullopt;
      }
      found = std::move(use);
    }
  }
  return found;
}

std::optional<GrantedUse> use_of(const GateRequest& request, const GateItemDecision& judged) {
  if (judged.operation == GateOperation::kExec) {
    return exec_use(request, judged);
  }
  if (has_two_ends(judged.operation) || judged.canonical.empty()) {
    return std::nullopt;
  }
  return GrantedUse{
      .operations = {judged.operation},
      .target = takes_path(judged.operation) ? escape_pattern(judged.canonical) : judged.canonical};
}

std::optional<GrantedUse> folder_use(const GateItemDecision& judged) {
  if (!takes_path(judged.operation) || judged.operation == GateOperation::kExec) {
    return std::nullopt;
  }
  const std::string folder(parent_of(judged.canonical));
  return components_of(folder).size() < kMinFolderDepth
             ? std::nullopt
             : std::optional(
                   GrantedUse{.operations = {judged.operation}, .target = escape_pattern(folder)});
}

bool may_all_be_given(const PermissionGate& gate, const std::vector<GrantedUse>& uses) {
  return std::ranges::all_of(
      uses, [&](const GrantedUse& use) { return gate.check_new(use).has_value(); });
}

std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) {
    return text;
  }
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0U) == 0x80U) {
    --bytes;
  }
  return text.substr(0, bytes) + "…";
}

PromptAsk ask_of(const GateItem& item) {
  const bool has_words = item.operation == GateOperation::kExec && item.command.empty();
  const std::string& text = item.operation == GateOperation::kExec ? item.command : item.target;
  return {item.operation, has_words ? words_shown(item.argv) : shown_text(text),
          shown_text(item.to)};
}

PromptItem item_of(const GateItemDecision& judged) {
  PromptItem item{
      judged.operation, shown_text(judged.canonical), judged.answer, shown_text(judged.reason), {}};
  if (item.name.empty()) {
    item.name = shown_text(judged.requested);
  }
  for (const std::string& via : judged.via) {
    item.via.push_back(shown_text(via));
  }
  return item;
}

std::vector<std::string> all_words(const std::vector<GrantedUse>& uses) {
  std::vector<std::string> words;
  for (const GrantedUse& use : uses) {
    words.push_back(words_of(use));
  }
  return words;
}

std::vector<PromptOffer> offers_of(const Grantable& grants, bool can_keep) {
  std::vector<PromptOffer> offers{{PromptChoice::kOnce, {}}};
  if (!grants.exact.empty()) {
    offers.push_back({PromptChoice::kSession, all_words(grants.exact)});
  }
  if (!grants.exact.empty() && can_keep) {
    offers.push_back({PromptChoice::kAlwaysThis, all_words(grants.exact)});
  }
  if (!grants.folder.empty() && can_keep) {
    offers.push_back({PromptChoice::kAlwaysFolder, all_words(grants.folder)});
  }
  offers.push_back({PromptChoice::kNo, {}});
  offers.push_back({PromptChoice::kNoForSession, {}});
  return offers;
}

std::size_t text_bytes(const Prompt& prompt) {
  std::size_t bytes = prompt.cwd.size() + prompt.tree.size() + prompt.untrusted_why.size();
  for (const PromptAsk& ask : prompt.asks) {
    bytes += ask.text.size() + ask.to.size();
  }
  for (const PromptItem& item : prompt.items) {
    bytes += item.name.size() + item.reason.size();
    for (const std::string& via : item.via) {
      bytes += via.size();
    }
  }
  for (const PromptOffer& offer : prompt.offers) {
    for (const std::string& grant : offer.grants) {
      bytes += grant.size();
    }
  }
  return bytes;
}

}  // namespace

std::string canonical_text(const GateRequest& request, const GateDecision& decision) {
  std::string text;
  put(text, "sandboxkit gate request v1");
  put(text, std::to_string(request.items.size()));
  for (const GateItem& item : request.items) {
    put(text, name_of(item.operation));
    const bool by_spelling = has_two_ends(item.operation) ||
                             item.operation == GateOperation::kSymlink ||
                             item.operation == GateOperation::kExec;
    if (by_spelling) {
      put(text, request.cwd);
      put(text, item.target);
      put(text, item.to);
      put(text, item.command);
      put(text, std::to_string(item.argv.size()));
      for (const std::string& word : item.argv) {
        put(text, word);
      }
    }
  }
  for (const GateItemDecision& judged : decision.items) {
    put(text, name_of(judged.operation));
    put(text, judged.canonical);
    put(text, judged.canonical.empty() ? judged.requested : std::string());
  }
  return text;
}

Grantable grantable(const Question& question) {
  Grantable grants;
  bool has_folder = true;
  for (const GateItemDecision& judged : question.decision.items) {
    if (judged.answer != GateAnswer::kAsk) {
      continue;
    }
    auto use = use_of(question.request, judged);
    if (!use) {
      return {};
    }
    grants.exact.push_back(std::move(*use));
    auto folder = folder_use(judged);
    has_folder = has_folder && folder;
    if (has_folder) {
      grants.folder.push_back(std::move(*folder));
    }
  }
  if (!may_all_be_given(question.gate, grants.exact)) {
    return {};
  }
  if (!has_folder || !may_all_be_given(question.gate, grants.folder)) {
    grants.folder.clear();
  }
  return grants;
}

std::string words_of(const GrantedUse& use) {
  std::string text;
  for (const GateOperation operation : use.operations) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(operation));
  }
  if (!use.argv.empty()) {
    return text + " " + words_shown(use.argv) +
           (use.target.empty() ? "" : " (" + shown_text(use.target) + ")");
  }
  // A grant of a folder is one of all that is in it, and who answers must read that.
  const bool has_below = std::ranges::any_of(use.operations, takes_path);
  return text + " " + shown_text(use.target) + (has_below ? " and anything below it" : "");
}

std::optional<Prompt> make_prompt(const Question& question, const PromptFacts& facts,
                                  const Grantable& grants) {
  const bool is_long = question.request.items.size() > kMaxPromptLines ||
                       question.decision.items.size() > kMaxPromptLines;
  if (is_long) {
    return std::nullopt;
  }
  Prompt prompt{.id = facts.id,
                .digest = facts.digest,
                .session = shown_text(question.session.session),
                .agent = shown_text(question.session.agent),
                .tree = shown_text(question.session.tree),
                .cwd = shown_text(question.request.cwd),
                .untrusted_why =
                    cut(shown_text(question.request.why.substr(0, kMaxWhyBytes + 1)), kMaxWhyBytes),
                .offers = offers_of(grants, facts.can_keep)};
  for (const GateItem& item : question.request.items) {
    prompt.asks.push_back(ask_of(item));
  }
  for (const GateItemDecision& judged : question.decision.items) {
    prompt.items.push_back(item_of(judged));
  }
  return text_bytes(prompt) > kMaxPromptTextBytes ? std::nullopt : std::optional(std::move(prompt));
}

Prompt make_budget_prompt(const GateSession& session, const std::string& id) {
  return Prompt{.id = id,
                .kind = PromptKind::kBudget,
                .session = shown_text(session.session),
                .agent = shown_text(session.agent),
                .tree = shown_text(session.tree),
                .offers = {{PromptChoice::kContinue, {}}, {PromptChoice::kStop, {}}}};
}

}  // namespace sandboxkit::gate
