#include "json/value.h"

namespace sandboxkit::json {

const Value* Value::find(std::string_view name) const {
  const Object* object = as_object();
  if (object == nullptr) {
    return nullptr;
  }
  for (const auto& [key, value] : *object) {
    if (key == name) {
      return &value;
    }
  }
  return nullptr;
}

std::string Value::text(std::string_view name, std::string_view fallback) const {
  const Value* value = find(name);
  const std::string* text = value != nullptr ? value->as_string() : nullptr;
  return text != nullptr ? *text : std::string(fallback);
}

std::int64_t Value::integer(std::string_view name, std::int64_t fallback) const {
  const Value* value = find(name);
  const std::int64_t* number = value != nullptr ? value->as_int() : nullptr;
  return number != nullptr ? *number : fallback;
}

}  // namespace sandboxkit::json
