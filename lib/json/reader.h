#pragma once

#include "json/value.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::json {

/// Reads one object member by member; the first problem is kept and names the field's path
/// (`egress.allowed_domains[3]`). After the last member, `finish()` refuses what nobody read.
///
///   Reader r(value, "");
///   spec.image = r.required_string("image", 255);
///   spec.memory_mb = r.optional_int("memory_mb", 16, 1 << 20).value_or(512);
///   if (auto s = r.finish(); !s) return s.error();
///
/// Every reading function returns an empty value once there is a problem. Strings must be free of
/// NUL. `null` reads as an absent member.
class Reader {
 public:
  /// `path` is the object's own path ("" for the body). A value that is no object is a problem.
  Reader(const Value& value, std::string path);

  std::string required_string(std::string_view name, std::size_t max_bytes);
  std::optional<std::string> optional_string(std::string_view name, std::size_t max_bytes);
  std::optional<bool> optional_bool(std::string_view name);
  std::optional<std::int64_t> optional_int(std::string_view name, std::int64_t min,
                                           std::int64_t max);
  std::int64_t required_int(std::string_view name, std::int64_t min, std::int64_t max);
  std::optional<double> optional_number(std::string_view name, double min, double max);
  std::optional<std::vector<std::string>> optional_strings(std::string_view name,
                                                           std::size_t max_items,
                                                           std::size_t max_bytes);
  std::optional<std::map<std::string, std::string>> optional_string_map(
      std::string_view name, std::size_t max_items, std::size_t max_key_bytes,
      std::size_t max_value_bytes);
  /// The member as it is (an absent one and `null` give nullptr); counts as read.
  const Value* member(std::string_view name);
  /// Whether the member stands there at all, `null` included.
  bool has(std::string_view name) const;
  /// The path of a member of this object.
  std::string path_of(std::string_view name) const;

  /// Notes a problem with a member that the caller found.
  void refuse(std::string_view name, std::string message);
  void refuse(Error error);

  bool ok() const { return !problem_.has_value(); }
  /// The first problem, or an unknown member (`unknown_field`), or success.
  Status finish();

 private:
  const Object* object_ = nullptr;
  std::string path_;
  std::set<std::string, std::less<>> read_;
  std::optional<Error> problem_;
};

}  // namespace sandboxkit::json
