#include "audit/line.h"

#include <limits>

namespace sandboxkit::audit {
namespace {

constexpr json::Limits kLineLimits{
    .max_bytes = kMaxLineBytes, .max_depth = 8, .max_values = 20'000};

std::string text_member(std::string_view name, std::string_view text) {
  return ",\"" + std::string(name) + "\":\"" + std::string(text) + "\"";
}
std::string number_member(std::string_view name, std::uint64_t number) {
  return ",\"" + std::string(name) + "\":" + std::to_string(number);
}
std::string kind_member(std::string_view kind) { return "\"kind\":\"" + std::string(kind) + "\""; }

/// Whole and not negative, or nullopt.
std::optional<std::uint64_t> number_of(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  const std::int64_t* number = member != nullptr ? member->as_int() : nullptr;
  return number != nullptr && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number))
                                           : std::nullopt;
}

const std::string* text_of(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  return member != nullptr ? member->as_string() : nullptr;
}

Error bad_line(const char* why) {
  return Error{ErrorCode::kInvalidArgument, why, "bad_audit_line"};
}

std::optional<Head> seen_of(const json::Value& value) {
  const auto segment = number_of(value, "seg");
  const auto seq = number_of(value, "seq");
  const std::string* chain = text_of(value, "chain");
  const std::string* hash = text_of(value, "h");
  if (!segment || !seq || chain == nullptr || hash == nullptr) {
    return std::nullopt;
  }
  return Head{*chain, *segment, *seq, *hash};
}

}  // namespace

std::string render_opening(const Opening& opening) {
  std::string out = kind_member(kOpen) + text_member("chain", opening.chain) +
                    number_member("prev_seg", opening.previous_segment) +
                    text_member("prev_head", opening.previous_head) +
                    number_member("prev_count", opening.previous_count);
  if (opening.seen.empty()) {
    return out;
  }
  std::string list;
  for (const Head& head : opening.seen) {
    list += (list.empty() ? "{\"chain\":\"" : ",{\"chain\":\"") + head.chain + "\"" +
            number_member("seg", head.segment) + number_member("seq", head.seq) +
            text_member("h", head.hash) + "}";
  }
  return out + ",\"seen\":[" + list + "]";
}

std::string render_sealing(const Sealing& sealing) {
  return kind_member(kSeal) + number_member("count", sealing.count) +
         text_member("head", sealing.head);
}

std::string render_retirement(const Retirement& retirement) {
  return kind_member(kRetire) + text_member("chain", retirement.chain) +
         number_member("retired_seg", retirement.segment) +
         number_member("count", retirement.count) + text_member("head", retirement.head);
}

std::string render_body(const Stamp& stamp, std::string_view fields) {
  std::string body = "{\"v\":" + std::to_string(kVersion) + number_member("seq", stamp.seq) +
                     text_member("ts", stamp.time) + number_member("mono", stamp.monotonic_us) +
                     number_member("seg", stamp.segment);
  if (stamp.lost > 0) {
    body += number_member("lost", stamp.lost);
  }
  body += ',';
  body += fields;
  return body + text_member("prev", stamp.previous) + "}";
}

Result<ParsedLine> parse_line(std::string_view line) {
  auto opened = open_line(line);
  if (!opened) {
    return bad_line("it does not end with a hash");
  }
  auto value = json::parse(opened->body, kLineLimits);
  if (!value) {
    return bad_line("it is no JSON object");
  }
  const auto version = number_of(*value, "v");
  if (version && *version != kVersion) {
    return bad_line("it is of a version that this program does not know");
  }
  const auto seq = number_of(*value, "seq");
  const auto segment = number_of(*value, "seg");
  const auto monotonic = number_of(*value, "mono");
  const std::string* time = text_of(*value, "ts");
  const std::string* kind = text_of(*value, "kind");
  const std::string* previous = text_of(*value, "prev");
  if (!version || !seq || !segment || !monotonic || time == nullptr || kind == nullptr ||
      previous == nullptr) {
    return bad_line("it lacks a member that every line has");
  }
  ParsedLine parsed;
  parsed.stamp = {*seq,     *time, *monotonic, *segment, number_of(*value, "lost").value_or(0),
                  *previous};
  parsed.kind = *kind;
  parsed.hash = std::move(opened->hash);
  parsed.body = std::move(opened->body);
  parsed.value = std::move(*value);
  return parsed;
}

std::optional<Opening> opening_of(const ParsedLine& line) {
  const auto segment = number_of(line.value, "prev_seg");
  const auto count = number_of(line.value, "prev_count");
  const std::string* chain = text_of(line.value, "chain");
  const std::string* head = text_of(line.value, "prev_head");
  if (line.kind != kOpen || !segment || !count || chain == nullptr || head == nullptr) {
    return std::nullopt;
  }
  Opening opening{*chain, *segment, *head, *count};
  const json::Value* seen = line.value.find("seen");
  const json::Array* list = seen != nullptr ? seen->as_array() : nullptr;
  for (const json::Value& one : list != nullptr ? *list : json::Array()) {
    auto head_of_other = seen_of(one);
    if (!head_of_other) {
      return std::nullopt;
    }
    opening.seen.push_back(std::move(*head_of_other));
  }
  return opening;
}

std::optional<Sealing> sealing_of(const ParsedLine& line) {
  const auto count = number_of(line.value, "count");
  const std::string* head = text_of(line.value, "head");
  if (line.kind != kSeal || !count || head == nullptr) {
    return std::nullopt;
  }
  return Sealing{*count, *head};
}

std::optional<Retirement> retirement_of(const ParsedLine& line) {
  const auto segment = number_of(line.value, "retired_seg");
  const auto count = number_of(line.value, "count");
  const std::string* chain = text_of(line.value, "chain");
  const std::string* head = text_of(line.value, "head");
  if (line.kind != kRetire || !segment || !count || chain == nullptr || head == nullptr) {
    return std::nullopt;
  }
  return Retirement{*chain, *segment, *count, *head};
}

}  // namespace sandboxkit::audit
