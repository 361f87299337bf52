#include "guest/rpc_message.h"

#include "base/text.h"

#include <algorithm>
#include <charconv>

namespace sandboxkit::guest {
namespace {

const json::Value kEmpty = json::Object{};

}  // namespace

RpcMessage::RpcMessage(const json::Value& value) : value_(&value) {
  if (value.as_object() == nullptr) {
    refuse("message", "must be an object");
  }
}

const json::Value* RpcMessage::find(std::string_view name) const {
  const json::Value* member = value_->find(name);
  return member == nullptr || member->is_null() ? nullptr : member;
}

bool RpcMessage::has(std::string_view name) const { return find(name) != nullptr; }

void RpcMessage::refuse(std::string_view name, std::string_view what) {
  if (!problem_) {
    problem_ = Error{ErrorCode::kInvalidArgument,
                     std::string(name) + " " + std::string(what),
                     {},
                     std::string(name)};
  }
}

Status RpcMessage::status() const {
  if (problem_) {
    return *problem_;
  }
  return {};
}

void RpcMessage::join(const RpcMessage& member) {
  if (!problem_) {
    problem_ = member.problem_;
  }
}

std::optional<std::string> RpcMessage::optional_text(std::string_view name) {
  const json::Value* member = find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  const std::string* text = member->as_string();
  if (text == nullptr || text->find('\0') != std::string::npos) {
    refuse(name, "must be text without NUL");
    return std::nullopt;
  }
  return *text;
}

std::string RpcMessage::text(std::string_view name) { return optional_text(name).value_or(""); }

std::optional<bool> RpcMessage::flag(std::string_view name) {
  const json::Value* member = find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  if (member->as_bool() == nullptr) {
    refuse(name, "must be true or false");
    return std::nullopt;
  }
  return *member->as_bool();
}

std::optional<std::int64_t> RpcMessage::integer(std::string_view name) {
  const json::Value* member = find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  if (member->as_int() != nullptr) {
    return *member->as_int();
  }
  std::int64_t number = 0;
  const std::string* text = member->as_string();
  const char* end = text == nullptr ? nullptr : text->data() + text->size();
  if (text == nullptr || text->empty()) {
    refuse(name, "must be a whole number");
    return std::nullopt;
  }
  const auto [stop, problem] = std::from_chars(text->data(), end, number);
  if (problem != std::errc{} || stop != end) {
    refuse(name, "must be a whole number");
    return std::nullopt;
  }
  return number;
}

std::optional<std::string> RpcMessage::bytes(std::string_view name) {
  const json::Value* member = find(name);
  if (member == nullptr) {
    return std::nullopt;
  }
  std::string encoded = member->as_string() == nullptr ? "?" : *member->as_string();
  std::ranges::replace(encoded, '-', '+');
  std::ranges::replace(encoded, '_', '/');
  while (encoded.size() % 4 != 0) {
    encoded.push_back('=');
  }
  auto decoded = base64_decode(encoded);
  if (!decoded) {
    refuse(name, "must be base64");
  }
  return decoded;
}

std::vector<std::string> RpcMessage::texts(std::string_view name) {
  std::vector<std::string> all;
  const json::Value* member = find(name);
  if (member == nullptr) {
    return all;
  }
  const json::Array* items = member->as_array();
  if (items == nullptr) {
    refuse(name, "must be a list");
    return all;
  }
  for (const json::Value& item : *items) {
    if (item.as_string() == nullptr) {
      refuse(name, "must be a list of texts");
      return {};
    }
    all.push_back(*item.as_string());
  }
  return all;
}

std::map<std::string, std::string> RpcMessage::text_map(std::string_view name) {
  std::map<std::string, std::string> all;
  const json::Value* member = find(name);
  if (member == nullptr) {
    return all;
  }
  if (member->as_object() == nullptr) {
    refuse(name, "must be an object");
    return all;
  }
  for (const auto& [key, value] : *member->as_object()) {
    if (value.as_string() == nullptr) {
      refuse(name, "must hold texts only");
      return {};
    }
    all[key] = *value.as_string();
  }
  return all;
}

RpcMessage RpcMessage::message(std::string_view name) {
  const json::Value* member = find(name);
  return RpcMessage(member == nullptr ? kEmpty : *member);
}

}  // namespace sandboxkit::guest
