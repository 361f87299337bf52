#include "base/text.h"
#include "json/value.h"

#include <cmath>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

// The only file that knows the parser underneath: its heavy header is read once in the build.

namespace sandboxkit::json {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Error not_json(const std::string& what) {
  return {ErrorCode::kInvalidArgument, what, "invalid_json"};
}

/// Builds our values from the parser's events, so that limits and duplicate members are judged
/// while they come and nothing is built that would be refused afterwards.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(const Limits& limits) : limits_(limits) {}

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value(value)); }
  bool number_integer(number_integer_t value) override { return add(Value(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    return add(fits ? Value(static_cast<std::int64_t>(value)) : Value(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    if (!std::isfinite(value)) {
      return refuse(not_json("body holds a number that is out of range"));
    }
    return add(Value(value));
  }
  bool string(string_t& value) override { return add(Value(std::move(value))); }
  bool binary(binary_t& /*value*/) override { return refuse(not_json("body holds binary data")); }

  bool start_object(std::size_t /*size*/) override { return open(/*is_object=*/true); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(/*is_object=*/false); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (name.find('\0') != std::string::npos) {
      return refuse(not_json("name of a member holds a NUL"));
    }
    if (!level.names.insert(name).second) {
      return refuse(not_json("member " + sandboxkit::quoted(name) + " stands there twice"));
    }
    level.next_name = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*problem*/) override {
    // The parser's own text repeats the input, which may hold a secret.
    return refuse(not_json("body is not JSON at byte " + std::to_string(position)));
  }

  Result<Value> take() && {
    if (problem_) {
      return *problem_;
    }
    return std::move(root_);
  }

 private:
  struct Level {
    bool is_object = false;
    Array items{};
    Object members{};
    std::set<std::string, std::less<>> names{};
    std::string next_name{};
  };

  bool refuse(Error error) {
    if (!problem_) {
      problem_ = std::move(error);
    }
    return false;
  }

  bool count_value() {
    if (++values_ > limits_.max_values) {
      return refuse(
          {ErrorCode::kTooLarge,
           "body holds more than " + std::to_string(limits_.max_values) + " JSON values"});
    }
    return true;
  }

  bool open(bool is_object) {
    if (levels_.size() >= limits_.max_depth) {
      return refuse({ErrorCode::kTooLarge, "body is nested deeper than " +
                                               std::to_string(limits_.max_depth) + " levels"});
    }
    if (!count_value()) {
      return false;
    }
    levels_.emplace_back().is_object = is_object;
    return true;
  }

  bool close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    place(level.is_object ? Value(std::move(level.members)) : Value(std::move(level.items)));
    return true;
  }

  bool add(Value value) {
    if (!count_value()) {
      return false;
    }
    place(std::move(value));
    return true;
  }

  void place(Value value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.is_object) {
      level.members.emplace_back(std::move(level.next_name), std::move(value));
    } else {
      level.items.push_back(std::move(value));
    }
  }

  const Limits& limits_;
  std::vector<Level> levels_;
  std::size_t values_ = 0;
  Value root_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Value> parse(std::string_view text, const Limits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error{ErrorCode::kTooLarge,
                 "body is larger than " + std::to_string(limits.max_bytes) + " bytes"};
  }
  // The parser underneath skips a byte order mark; RFC 8259 lets us refuse it.
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    return not_json("body starts with a byte order mark");
  }
  // It also takes a NUL for the end of the text, so that anything could follow one unread.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return not_json("body is not JSON at byte " + std::to_string(nul + 1));
  }
  Builder builder(limits);
  try {
    nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return not_json("body is not JSON");
  }
  return std::move(builder).take();
}

}  // namespace sandboxkit::json
