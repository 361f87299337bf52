#include "wire/message_fields.h"

#include "base/text.h"

namespace sandboxkit::wire::detail {
namespace {

/// Bytes of the UTF-8 sequence at the front; 1 when there is none.
std::size_t step_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return is_utf8(text.substr(0, length)) ? std::min(length, text.size()) : 1;
}

}  // namespace

std::string clean_text(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const std::size_t step = step_of(text);
    const std::string_view piece = text.substr(0, step);
    const bool plain = is_utf8(piece) && !has_control_characters(piece);
    const std::string_view shown = plain ? piece : "?";
    if (out.size() + shown.size() > max_bytes) {
      break;
    }
    out += shown;
    text.remove_prefix(step);
  }
  return out;
}

std::string read_plain(json::Reader& reader, std::string_view name, std::size_t max_bytes) {
  std::string text = reader.optional_string(name, max_bytes).value_or("");
  if (has_control_characters(text)) {
    reader.refuse(name, "holds a control character");
  }
  return text;
}

std::vector<std::string> read_plain_list(json::Reader& reader, std::string_view name,
                                         std::size_t max_items, std::size_t max_bytes) {
  auto texts = reader.optional_strings(name, max_items, max_bytes);
  if (!texts) {
    return {};
  }
  for (const std::string& text : *texts) {
    if (has_control_characters(text)) {
      reader.refuse(name, "holds a control character");
    }
  }
  return std::move(*texts);
}

WallTime read_time(json::Reader& reader, std::string_view name) {
  constexpr std::size_t kMaxTimeBytes = 30;
  const std::string text = reader.required_string(name, kMaxTimeBytes);
  const auto time = parse_rfc3339(text);
  if (!time) {
    reader.refuse(name, "must be a time in UTC such as `2026-01-31T12:00:00.000Z`");
  }
  return time.value_or(WallTime{});
}

SandboxState read_state(json::Reader& reader, std::string_view name) {
  constexpr std::size_t kMaxStateBytes = 16;
  const auto state = sandbox_state_from(reader.required_string(name, kMaxStateBytes));
  if (!state) {
    reader.refuse(name, "is no state of a sandbox");
  }
  return state.value_or(SandboxState::kError);
}

void write_structure(json::Object& out, const std::string& structure) {
  if (!structure.empty()) {
    out.emplace_back("structure", clean_text(structure, kMaxStructureBytes));
  }
}

json::Value strings_to_json(const std::vector<std::string>& texts) {
  return write_list(texts, [](const std::string& text) { return json::Value(text); });
}

json::Value string_map_to_json(const std::map<std::string, std::string>& entries) {
  json::Object out;
  out.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    out.emplace_back(key, value);
  }
  return out;
}

}  // namespace sandboxkit::wire::detail
