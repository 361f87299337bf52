#include "json/reader.h"

#include "base/text.h"

#include <cmath>
#include <utility>

namespace sandboxkit::json {
namespace {

Error problem_at(std::string path, std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), {}, std::move(path)};
}

/// The reason why `value` is no text that may be taken, or nullopt.
std::optional<std::string> text_problem(const Value& value, std::size_t max_bytes) {
  const std::string* text = value.as_string();
  if (text == nullptr) {
    return "must be a string";
  }
  if (text->size() > max_bytes) {
    return "is longer than " + std::to_string(max_bytes) + " bytes";
  }
  if (text->find('\0') != std::string::npos) {
    return "holds a NUL";
  }
  return std::nullopt;
}

std::string range_text(std::int64_t min, std::int64_t max) {
  return "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

Reader::Reader(const Value& value, std::string path)
    : object_(value.as_object()), path_(std::move(path)) {
  if (object_ == nullptr) {
    refuse(problem_at(path_, (path_.empty() ? "body" : path_) + " must be an object"));
  }
}

std::string Reader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void Reader::refuse(Error error) {
  if (!problem_) {
    problem_ = std::move(error);
  }
}

void Reader::refuse(std::string_view name, std::string message) {
  const std::string path = path_of(name);
  refuse(problem_at(path, path + " " + std::move(message)));
}

bool Reader::has(std::string_view name) const {
  if (object_ == nullptr) {
    return false;
  }
  for (const auto& [key, value] : *object_) {
    if (key == name) {
      return true;
    }
  }
  return false;
}

const Value* Reader::member(std::string_view name) {
  read_.emplace(name);
  if (!ok()) {
    return nullptr;
  }
  for (const auto& [key, value] : *object_) {
    if (key == name) {
      return value.is_null() ? nullptr : &value;
    }
  }
  return nullptr;
}

std::optional<std::string> Reader::optional_string(std::string_view name, std::size_t max_bytes) {
  const Value* value = member(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (auto problem = text_problem(*value, max_bytes)) {
    refuse(name, std::move(*problem));
    return std::nullopt;
  }
  return *value->as_string();
}

std::string Reader::required_string(std::string_view name, std::size_t max_bytes) {
  auto text = optional_string(name, max_bytes);
  if (!text) {
    refuse(name, "is required");
    return {};
  }
  return std::move(*text);
}

std::optional<bool> Reader::optional_bool(std::string_view name) {
  const Value* value = member(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const bool* flag = value->as_bool();
  if (flag == nullptr) {
    refuse(name, "must be true or false");
    return std::nullopt;
  }
  return *flag;
}

std::optional<std::int64_t> Reader::optional_int(std::string_view name, std::int64_t min,
                                                 std::int64_t max) {
  const Value* value = member(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::int64_t* number = value->as_int();
  if (number == nullptr || *number < min || *number > max) {
    refuse(name, range_text(min, max));
    return std::nullopt;
  }
  return *number;
}

std::int64_t Reader::required_int(std::string_view name, std::int64_t min, std::int64_t max) {
  const auto number = optional_int(name, min, max);
  if (!number) {
    refuse(name, "is required");
  }
  return number.value_or(0);
}

std::optional<double> Reader::optional_number(std::string_view name, double min, double max) {
  const Value* value = member(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double* real = value->as_double();
  const std::int64_t* whole = value->as_int();
  const double number = real != nullptr    ? *real
                        : whole != nullptr ? static_cast<double>(*whole)
                                           : std::nan("");
  if (!(number >= min && number <= max)) {  // Written so that a NaN is refused.
    refuse(name, "must be a number from " + dump(min) + " to " + dump(max));
    return std::nullopt;
  }
  return number;
}

std::optional<std::vector<std::string>> Reader::optional_strings(std::string_view name,
                                                                 std::size_t max_items,
                                                                 std::size_t max_bytes) {
  const Value* value = member(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const Array* items = value->as_array();
  if (items == nullptr || items->size() > max_items) {
    refuse(name, "must be an array of at most " + std::to_string(max_items) + " strings");
    return std::nullopt;
  }
  std::vector<std::string> texts;
  texts.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    if (auto problem = text_problem((*items)[i], max_bytes)) {
      refuse(std::string(name) + "[" + std::to_string(i) + "]", std::move(*problem));
      return std::nullopt;
    }
    texts.push_back(*(*items)[i].as_string());
  }
  return texts;
}

std::optional<std::map<std::string, std::string>> Reader::optional_string_map(
    std::string_view name, std::size_t max_items, std::size_t max_key_bytes,
    std::size_t max_value_bytes) {
  const Value* value = member(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const Object* members = value->as_object();
  if (members == nullptr || members->size() > max_items) {
    refuse(name, "must be an object of at most " + std::to_string(max_items) + " strings");
    return std::nullopt;
  }
  std::map<std::string, std::string> texts;
  for (const auto& [key, text] : *members) {
    auto problem = text_problem(text, max_value_bytes);
    if (key.empty() || key.size() > max_key_bytes) {
      problem = "needs keys of 1 to " + std::to_string(max_key_bytes) + " bytes";
    }
    if (problem) {
      const std::string shown = key.substr(0, max_key_bytes);
      refuse(std::string(name) + "." + shown, std::move(*problem));
      return std::nullopt;
    }
    texts.emplace(key, *text.as_string());
  }
  return texts;
}

Status Reader::finish() {
  if (problem_) {
    return *problem_;
  }
  for (const auto& [key, value] : *object_) {
    if (!read_.contains(key)) {
      const std::string path = path_of(key);
      return Error{ErrorCode::kInvalidArgument, "unknown member " + sandboxkit::quoted(path),
                   "unknown_field", path};
    }
  }
  return {};
}

}  // namespace sandboxkit::json
