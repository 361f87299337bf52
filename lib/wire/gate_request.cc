// Requests to the gate, and its decisions, as lines of JSON.

#include "sandboxkit/gate_files.h"

#include "base/text.h"
#include "json/value.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>
#include <utility>

namespace sandboxkit {
namespace {

constexpr json::Limits kRequestLimits{.max_bytes = 1U << 20, .max_depth = 8, .max_values = 60'000};
constexpr std::int64_t kMaxPort = 65535;

/// The members that an item of this operation may have, besides `op`.
std::vector<std::string_view> members_of(GateOperation operation) {
  using enum GateOperation;
  switch (operation) {
    case kRead:
    case kList:
    case kStat:
    case kWrite:
    case kCreate:
    case kDelete:
    case kMeta:
    case kUnix:
      return {"path"};
    case kRename:
    case kLink:
    case kSymlink:
      return {"path", "to"};
    case kExec:
      return {"command", "argv"};
    case kEnv:
      return {"name"};
    case kConnect:
    case kListen:
      return {"host", "port"};
    case kSignal:
    case kPtrace:
    case kMount:
    case kDevice:
    case kUnknown:
      return {"path", "to", "command", "argv", "name", "host", "port"};
  }
  return {};
}

/// Notes the first thing that is wrong with an item.
class ItemReader {
 public:
  explicit ItemReader(const json::Value& value) : value_(value) {}

  GateItem read() {
    const json::Object* object = value_.as_object();
    if (object == nullptr) {
      item_.problem = "an item must be an object";
      return std::move(item_);
    }
    read_operation();
    const auto known = members_of(item_.operation);
    for (const auto& [name, unused] : *object) {
      if (name != "op" && std::ranges::find(known, name) == known.end()) {
        refuse("member " + quoted(name) + " does not belong to " + name_of(item_.operation));
      }
    }
    for (const std::string_view name : known) {
      read_member(name);
    }
    if (item_.operation == GateOperation::kConnect || item_.operation == GateOperation::kListen) {
      read_address();
    }
    return std::move(item_);
  }

 private:
  void refuse(std::string why) {
    if (item_.problem.empty()) {
      item_.problem = std::move(why);
    }
  }

  void read_operation() {
    const json::Value* op = value_.find("op");
    const std::string* name = op != nullptr ? op->as_string() : nullptr;
    if (name == nullptr) {
      refuse("op must be the name of an operation");
      return;
    }
    const auto operation = gate_operation_from(*name);
    if (!operation) {
      refuse(operation.error().message);
      return;
    }
    item_.operation = *operation;
  }

  /// The member's text; empty when it is absent.
  std::string text(std::string_view name) {
    const json::Value* value = value_.find(name);
    if (value == nullptr || value->is_null()) {
      return {};
    }
    const std::string* text = value->as_string();
    if (text == nullptr) {
      refuse(std::string(name) + " must be a string");
      return {};
    }
    return *text;
  }

  void read_member(std::string_view name) {
    if (name == "path" || name == "name") {
      if (item_.target.empty()) {
        item_.target = text(name);
      }
    } else if (name == "to") {
      item_.to = text(name);
    } else if (name == "command") {
      item_.command = text(name);
    } else if (name == "argv") {
      read_argv();
    }
  }

  void read_argv() {
    const json::Value* value = value_.find("argv");
    if (value == nullptr || value->is_null()) {
      return;
    }
    const json::Array* words = value->as_array();
    if (words == nullptr) {
      refuse("argv must be a list of strings");
      return;
    }
    for (const json::Value& word : *words) {
      if (word.as_string() == nullptr) {
        refuse("argv must be a list of strings");
        return;
      }
      item_.argv.push_back(*word.as_string());
    }
  }

  void read_address() {
    std::string host = text("host");
    if (host.empty() && item_.operation == GateOperation::kListen) {
      host = "0.0.0.0";  // Who names no address listens on every one.
    }
    const json::Value* port = value_.find("port");
    const std::int64_t* number = port != nullptr ? port->as_int() : nullptr;
    if (host.empty() || number == nullptr || *number < 1 || *number > kMaxPort) {
      refuse("host must be a name or an address, and port a number from 1 to 65535");
      return;
    }
    const bool needs_brackets = host.find(':') != std::string::npos && !host.starts_with('[');
    item_.target = (needs_brackets ? "[" + host + "]" : host) + ":" + std::to_string(*number);
  }

  const json::Value& value_;
  GateItem item_;
};

json::Value text_or_null(const std::string& text) {
  return text.empty() ? json::Value() : json::Value(text);
}

json::Value item_json(const GateItemDecision& item) {
  json::Array via;
  for (const std::string& step : item.via) {
    via.emplace_back(step);
  }
  return json::Object{{"op", name_of(item.operation)},  {"requested", item.requested},
                      {"canonical", item.canonical},    {"decision", name_of(item.answer)},
                      {"branch", name_of(item.branch)}, {"rule", text_or_null(item.rule)},
                      {"reason", item.reason},          {"via", std::move(via)}};
}

/// Whether a character would act on a terminal or on the order of letters. All of them lie in the
/// first plane.
bool acts(std::uint32_t code) {
  return (code >= 0x7f && code <= 0x9f) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/// JSON's own escapes for what `dump` leaves as it is. Its text is UTF-8.
std::string without_actors(const std::string& json) {
  std::string safe;
  for (std::size_t at = 0; at < json.size();) {
    const auto first = static_cast<unsigned char>(json[at]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    std::uint32_t code = size == 1 ? first : first & (0xffU >> (size + 1));
    for (std::size_t i = 1; i < size && at + i < json.size(); ++i) {
      code = (code << 6) | (static_cast<unsigned char>(json[at + i]) & 0x3fU);
    }
    if (size < 4 && acts(code)) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", code);
      safe += escape.data();
    } else {
      safe.append(json, at, size);
    }
    at += size;
  }
  return safe;
}

}  // namespace

Result<GateRequest> parse_gate_request(std::string_view json) {
  const auto value = json::parse(json, kRequestLimits);
  if (!value) {
    return value.error();
  }
  const json::Value* items = value->find("items");
  if (items == nullptr || items->as_array() == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "a request is an object with `items`, a list of {\"op\", ...}",
                 {},
                 "items"};
  }
  for (const auto& [name, member] : *value->as_object()) {
    const bool is_text = name == "cwd" || name == "why";
    if (name != "items" && !is_text) {
      return Error{ErrorCode::kInvalidArgument, "unknown member " + quoted(name), "unknown_field",
                   name};
    }
    if (is_text && !member.is_null() && member.as_string() == nullptr) {
      return Error{ErrorCode::kInvalidArgument, name + " must be a string", {}, name};
    }
  }
  GateRequest request{.cwd = value->text("cwd"), .items = {}, .why = value->text("why")};
  for (const json::Value& item : *items->as_array()) {
    request.items.push_back(ItemReader(item).read());
  }
  return request;
}

std::string to_json(const GateDecision& decision) {
  json::Array items;
  for (const GateItemDecision& item : decision.items) {
    items.push_back(item_json(item));
  }
  return without_actors(json::dump(json::Object{{"decision", name_of(decision.answer)},
                                                {"branch", name_of(decision.decisive.branch)},
                                                {"rule", text_or_null(decision.decisive.rule)},
                                                {"source", text_or_null(decision.decisive.source)},
                                                {"reason", decision.decisive.reason},
                                                {"words", explain(decision)},
                                                {"items", std::move(items)}}));
}

}  // namespace sandboxkit
