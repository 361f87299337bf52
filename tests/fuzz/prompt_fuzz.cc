// Questions of the gate and their answers, as a peer sends them; and what is shown of any text.

#include "sandboxkit/gate_prompt.h"

#include "base/text.h"
#include "gate/shown_text.h"
#include "tests/fuzz/fuzz_input.h"

#include <string>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

void is_safe(const std::string& text) {
  PROMISE(is_utf8(text) && !has_control_characters(text), "what is shown acts on nothing");
}

void check_prompt(std::string_view text) {
  const auto prompt = parse_prompt(text);
  if (!prompt) {
    PROMISE(!prompt.error().message.empty(), "a refusal says why");
    return;
  }
  for (const PromptAsk& ask : prompt->asks) {
    is_safe(ask.text + ask.to);
  }
  for (const PromptItem& item : prompt->items) {
    is_safe(item.name + item.reason);
    for (const std::string& via : item.via) {
      is_safe(via);
    }
  }
  for (const PromptOffer& offer : prompt->offers) {
    for (const std::string& grant : offer.grants) {
      is_safe(grant);
    }
  }
  is_safe(prompt->agent + prompt->session + prompt->tree + prompt->cwd + prompt->untrusted_why);
  const std::string written = to_json(*prompt);
  const auto again = parse_prompt(written);
  PROMISE(again && to_json(*again) == written, "what was written is read, and written the same");
}

void check_reply(std::string_view text) {
  const auto reply = parse_prompt_reply(text);
  if (!reply) {
    return;
  }
  is_safe(reply->by);
  PROMISE(text.find(name_of(reply->choice)) != std::string_view::npos ||
              text.find('\\') != std::string_view::npos,
          "no choice is made up");
  const auto again = parse_prompt_reply(to_json(*reply));
  PROMISE(again && again->choice == reply->choice && again->digest == reply->digest &&
              again->for_sub_agents == reply->for_sub_agents,
          "what was written is read");
}

void check_shown(std::string_view text) {
  const std::string shown = gate::shown_text(text);
  is_safe(shown);
  PROMISE(gate::is_shown_text(shown), "what was made safe is safe");
  PROMISE(shown.size() >= text.size(), "nothing is left out");
  PROMISE(shown != text || text.find('\\') == std::string_view::npos, "a backslash is two");
}

}  // namespace

/// Input: one letter that says which reader, then its text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.byte()) {
    case 'P':
      check_prompt(input.rest());
      break;
    case 'A':
      check_reply(input.rest());
      break;
    default:
      check_shown(input.rest());
  }
  return 0;
}
