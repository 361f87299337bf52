// Questions of the gate to a person, and answers, as lines of JSON: for a peer that carries them.

#include "sandboxkit/gate_prompt.h"

#include "base/text.h"
#include "gate/prompt.h"
#include "gate/shown_text.h"
#include "json/reader.h"
#include "json/value.h"

#include <utility>

namespace sandboxkit {
namespace {

constexpr std::size_t kMaxPromptBytes = 256 * 1024;
constexpr std::size_t kMaxReplyBytes = 4 * 1024;
constexpr json::Limits kPromptLimits{
    .max_bytes = kMaxPromptBytes, .max_depth = 6, .max_values = 20'000};
constexpr json::Limits kReplyLimits{.max_bytes = kMaxReplyBytes, .max_depth = 2, .max_values = 32};
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kMaxVias = 256;
constexpr std::size_t kMaxOffers = 8;

json::Value strings(const std::vector<std::string>& texts) {
  json::Array list;
  for (const std::string& text : texts) {
    list.emplace_back(text);
  }
  return list;
}

/// A text that may be shown as it is.
std::string shown(json::Reader& reader, const char* name, std::size_t max_bytes) {
  std::string text = reader.required_string(name, max_bytes);
  if (!gate::is_shown_text(text)) {
    reader.refuse(name, "holds characters that are not safe to be shown");
    return {};
  }
  return text;
}

std::vector<std::string> shown_list(json::Reader& reader, const char* name, std::size_t max) {
  auto texts = reader.optional_strings(name, max, gate::kMaxPromptTextBytes);
  for (const std::string& text : texts.value_or(std::vector<std::string>())) {
    if (!gate::is_shown_text(text)) {
      reader.refuse(name, "holds characters that are not safe to be shown");
      return {};
    }
  }
  return texts.value_or(std::vector<std::string>());
}

GateOperation read_operation(json::Reader& reader) {
  const auto operation = gate_operation_from(reader.required_string("op", kMaxNameBytes));
  if (!operation) {
    reader.refuse("op", "is no operation of the gate");
  }
  return operation.value_or(GateOperation::kUnknown);
}

GateAnswer read_answer(json::Reader& reader) {
  const std::string name = reader.required_string("decision", kMaxNameBytes);
  for (const auto answer : {GateAnswer::kDeny, GateAnswer::kAsk, GateAnswer::kAllow}) {
    if (name == name_of(answer)) {
      return answer;
    }
  }
  reader.refuse("decision", "must be `deny`, `ask` or `allow`");
  return GateAnswer::kDeny;
}

PromptChoice read_choice(json::Reader& reader) {
  const auto choice = prompt_choice_from(reader.required_string("choice", kMaxNameBytes));
  if (!choice) {
    reader.refuse("choice", "is no answer to a prompt");
  }
  return choice.value_or(PromptChoice::kNo);
}

PromptAsk read_ask(json::Reader& reader) {
  return {.operation = read_operation(reader),
          .text = shown(reader, "text", gate::kMaxPromptTextBytes),
          .to = reader.has("to") ? shown(reader, "to", gate::kMaxPromptTextBytes) : ""};
}

PromptItem read_item(json::Reader& reader) {
  return {.operation = read_operation(reader),
          .name = shown(reader, "name", gate::kMaxPromptTextBytes),
          .answer = read_answer(reader),
          .reason = shown(reader, "reason", kMaxNameBytes),
          .via = shown_list(reader, "via", kMaxVias)};
}

PromptOffer read_offer(json::Reader& reader) {
  return {.choice = read_choice(reader),
          .grants = shown_list(reader, "grants", gate::kMaxPromptLines)};
}

template <typename T>
std::vector<T> read_list(json::Reader& reader, const char* name, std::size_t max,
                         T (*read)(json::Reader&)) {
  const json::Value* value = reader.member(name);
  const json::Array* list = value != nullptr ? value->as_array() : nullptr;
  if (list == nullptr || list->size() > max) {
    reader.refuse(name, "must be a list of at most " + std::to_string(max) + " entries");
    return {};
  }
  std::vector<T> entries;
  for (std::size_t i = 0; i < list->size(); ++i) {
    json::Reader entry((*list)[i], reader.path_of(name) + "[" + std::to_string(i) + "]");
    entries.push_back(read(entry));
    if (auto status = entry.finish(); !status) {
      reader.refuse(status.error());
      return {};
    }
  }
  return entries;
}

PromptKind read_kind(json::Reader& reader) {
  const std::string kind = reader.required_string("kind", kMaxNameBytes);
  if (kind != "request" && kind != "budget") {
    reader.refuse("kind", "must be `request` or `budget`");
  }
  return kind == "budget" ? PromptKind::kBudget : PromptKind::kRequest;
}

json::Value asks_json(const Prompt& prompt) {
  json::Array asks;
  for (const PromptAsk& ask : prompt.asks) {
    json::Object object{{"op", name_of(ask.operation)}, {"text", ask.text}};
    if (!ask.to.empty()) {
      object.emplace_back("to", ask.to);
    }
    asks.emplace_back(std::move(object));
  }
  return asks;
}

json::Value items_json(const Prompt& prompt) {
  json::Array items;
  for (const PromptItem& item : prompt.items) {
    items.emplace_back(json::Object{{"op", name_of(item.operation)},
                                    {"name", item.name},
                                    {"decision", name_of(item.answer)},
                                    {"reason", item.reason},
                                    {"via", strings(item.via)}});
  }
  return items;
}

json::Value offers_json(const Prompt& prompt) {
  json::Array offers;
  for (const PromptOffer& offer : prompt.offers) {
    offers.emplace_back(
        json::Object{{"choice", name_of(offer.choice)}, {"grants", strings(offer.grants)}});
  }
  return offers;
}

}  // namespace

std::string to_json(const Prompt& prompt) {
  return json::dump(json::Object{{"version", 1},
                                 {"id", prompt.id},
                                 {"kind", name_of(prompt.kind)},
                                 {"digest", prompt.digest},
                                 {"session", prompt.session},
                                 {"agent", prompt.agent},
                                 {"tree", prompt.tree},
                                 {"cwd", prompt.cwd},
                                 {"asks", asks_json(prompt)},
                                 {"items", items_json(prompt)},
                                 {"untrusted_why", prompt.untrusted_why},
                                 {"offers", offers_json(prompt)}});
}

std::string to_json(const PromptReply& reply) {
  return json::dump(json::Object{{"version", 1},
                                 {"id", reply.id},
                                 {"digest", reply.digest},
                                 {"choice", name_of(reply.choice)},
                                 {"for_sub_agents", reply.for_sub_agents},
                                 {"by", reply.by}});
}

Result<Prompt> parse_prompt(std::string_view json) {
  const auto value = json::parse(json, kPromptLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  reader.required_int("version", 1, 1);
  Prompt prompt{.id = shown(reader, "id", kMaxIdBytes),
                .kind = read_kind(reader),
                .digest = shown(reader, "digest", kMaxNameBytes),
                .session = shown(reader, "session", kMaxNameBytes),
                .agent = shown(reader, "agent", kMaxNameBytes),
                .tree = shown(reader, "tree", gate::kMaxPromptTextBytes),
                .cwd = shown(reader, "cwd", gate::kMaxPromptTextBytes),
                .asks = read_list(reader, "asks", gate::kMaxPromptLines, read_ask),
                .items = read_list(reader, "items", gate::kMaxPromptLines, read_item),
                .untrusted_why = shown(reader, "untrusted_why", kMaxNameBytes),
                .offers = read_list(reader, "offers", kMaxOffers, read_offer)};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return prompt;
}

Result<PromptReply> parse_prompt_reply(std::string_view json) {
  const auto value = json::parse(json, kReplyLimits);
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  reader.required_int("version", 1, 1);
  PromptReply reply{.id = reader.required_string("id", kMaxIdBytes),
                    .digest = reader.required_string("digest", kMaxNameBytes),
                    .choice = read_choice(reader),
                    .for_sub_agents = reader.optional_bool("for_sub_agents").value_or(false),
                    .by = shown(reader, "by", kMaxNameBytes)};
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return reply;
}

}  // namespace sandboxkit
