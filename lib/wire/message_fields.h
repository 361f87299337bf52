#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/ids.h"
#include "sandboxkit/sandbox_spec.h"

#include "json/reader.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::wire::detail {

// Doubles hold whole numbers up to here, and so do JSON readers elsewhere.
inline constexpr std::int64_t kMaxCounter = std::int64_t{1} << 53;
inline constexpr std::size_t kMaxHashBytes = 128;
inline constexpr std::size_t kMaxStructureBytes = 32;

/// `text` as a reader of ours takes it: controls and bytes that are not UTF-8 become `?`, and it is
/// cut at `max_bytes`.
std::string clean_text(std::string_view text, std::size_t max_bytes);

/// A text for people or programs without control characters; absent reads as "".
std::string read_plain(json::Reader& reader, std::string_view name, std::size_t max_bytes);
std::vector<std::string> read_plain_list(json::Reader& reader, std::string_view name,
                                         std::size_t max_items, std::size_t max_bytes);
WallTime read_time(json::Reader& reader, std::string_view name);  ///< Required.
SandboxState read_state(json::Reader& reader, std::string_view name);

/// A required id. The placeholder that stands for one after a problem never leaves the reader.
template <typename IdType>
IdType read_id(json::Reader& reader, std::string_view name) {
  auto id = IdType::parse(reader.required_string(name, IdType::kMaxBytes));
  if (!id) {
    reader.refuse(
        {ErrorCode::kInvalidArgument, id.error().message, id.error().reason, reader.path_of(name)});
    return *IdType::parse("none");
  }
  return std::move(*id);
}

/// A required list. A list that is absent must not read as an empty one: from a worker that would
/// say that all of its sandboxes are gone.
template <typename T, typename ReadOne>
std::vector<T> read_list(json::Reader& reader, std::string_view name, std::size_t max_items,
                         const ReadOne& read_one) {
  std::vector<T> out;
  const json::Value* value = reader.member(name);
  const json::Array* items = value != nullptr ? value->as_array() : nullptr;
  if (items == nullptr || items->size() > max_items) {
    reader.refuse(name, "must be an array of at most " + std::to_string(max_items) + " objects");
    return out;
  }
  out.reserve(items->size());
  for (std::size_t i = 0; i < items->size() && reader.ok(); ++i) {
    auto one = read_one((*items)[i], reader.path_of(name) + "[" + std::to_string(i) + "]");
    if (one) {
      out.push_back(std::move(*one));
    } else {
      reader.refuse(one.error());
    }
  }
  return out;
}

template <typename T, typename WriteOne>
json::Array write_list(const std::vector<T>& items, const WriteOne& write_one) {
  json::Array out;
  out.reserve(items.size());
  for (const T& item : items) {
    out.push_back(write_one(item));
  }
  return out;
}

/// How a wall is made; an unwalled sandbox has no such member.
void write_structure(json::Object& out, const std::string& structure);
json::Value strings_to_json(const std::vector<std::string>& texts);
json::Value string_map_to_json(const std::map<std::string, std::string>& entries);

}  // namespace sandboxkit::wire::detail
