#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sandboxkit::json {

class Value;
using Array = std::vector<Value>;
/// Members in the order in which they came; names are unique.
using Object = std::vector<std::pair<std::string, Value>>;

/// A JSON value. Integers that fit stay integers.
class Value {
 public:
  Value() = default;
  Value(std::nullptr_t) {}                                 // NOLINT(google-explicit-constructor)
  Value(bool value) : data_(value) {}                      // NOLINT(google-explicit-constructor)
  Value(int value) : data_(std::int64_t{value}) {}         // NOLINT(google-explicit-constructor)
  Value(std::int64_t value) : data_(value) {}              // NOLINT(google-explicit-constructor)
  Value(double value) : data_(value) {}                    // NOLINT(google-explicit-constructor)
  Value(const char* value) : data_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Value(std::string value) : data_(std::move(value)) {}    // NOLINT(google-explicit-constructor)
  Value(std::string_view value)
      : data_(std::string(value)) {}                // NOLINT(google-explicit-constructor)
  Value(Array value) : data_(std::move(value)) {}   // NOLINT(google-explicit-constructor)
  Value(Object value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  const double* as_double() const { return std::get_if<double>(&data_); }
  const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  const Array* as_array() const { return std::get_if<Array>(&data_); }
  const Object* as_object() const { return std::get_if<Object>(&data_); }

  /// The member, or nullptr when this is no object or has none of that name.
  const Value* find(std::string_view name) const;
  /// The member's text, or `fallback`; likewise below.
  std::string text(std::string_view name, std::string_view fallback = {}) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback = 0) const;

  bool operator==(const Value&) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

struct Limits {
  std::size_t max_bytes = 1 << 20;
  std::size_t max_depth = 32;
  std::size_t max_values = 100'000;
};

/// Strict: UTF-8, one value, no trailing text, no duplicate member, no number that a double cannot
/// hold, no NUL in a member's name.
/// Errors: kInvalidArgument `invalid_json` (with the byte's position), kTooLarge.
Result<Value> parse(std::string_view text, const Limits& limits = {});

/// Compact text. Text that is not UTF-8 has its bad bytes replaced by U+FFFD.
std::string dump(const Value& value);

}  // namespace sandboxkit::json
