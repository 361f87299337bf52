#include "wire/trace.h"

#include "base/text.h"

#include <algorithm>
#include <span>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxIdChars = 64;
constexpr std::size_t kIdBytes = 16;
constexpr std::size_t kTraceIdBytes = 16;
constexpr std::size_t kTraceparentChars = 55;

bool is_id_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// A hexadecimal id that names something: all zero means none.
bool names_something(std::string_view hex) {
  return is_hex(hex) && hex.find_first_not_of('0') != std::string_view::npos;
}

/// The one field of that name, if its value is valid.
std::string valid_field(const Headers& headers, const char* name, bool (*valid)(std::string_view)) {
  const std::string* value = headers.find(name);
  return value != nullptr && headers.count(name) == 1 && valid(*value) ? *value : std::string();
}

std::string make_traceparent(std::span<const std::uint8_t> bytes) {
  std::string trace_id = to_hex(bytes.first(kTraceIdBytes));
  std::string span_id = to_hex(bytes.subspan(kTraceIdBytes));
  // Randomness that is all zero would be no id at all.
  trace_id.back() = names_something(trace_id) ? trace_id.back() : '1';
  span_id.back() = names_something(span_id) ? span_id.back() : '1';
  return "00-" + trace_id + "-" + span_id + "-00";
}

}  // namespace

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdChars && std::ranges::all_of(text, is_id_char);
}

bool is_traceparent(std::string_view text) {
  return text.size() == kTraceparentChars && text.starts_with("00-") && text[35] == '-' &&
         text[52] == '-' && names_something(text.substr(3, 32)) &&
         names_something(text.substr(36, 16)) && is_hex(text.substr(53));
}

Trace admit_trace(Headers& headers, const TraceSeed& seed) {
  const std::span<const std::uint8_t> bytes(seed);
  Trace trace = trace_of(headers);
  if (trace.request_id.empty()) {
    trace.request_id = to_hex(bytes.first(kIdBytes));
  }
  if (trace.traceparent.empty()) {
    trace.traceparent = make_traceparent(bytes.subspan(kIdBytes));
  }
  add_trace(headers, trace);
  return trace;
}

Trace trace_of(const Headers& headers) {
  return {valid_field(headers, kRequestIdField, is_request_id),
          valid_field(headers, kTraceparentField, is_traceparent)};
}

void add_trace(Headers& headers, const Trace& trace) {
  if (!trace.request_id.empty()) {
    headers.set(kRequestIdField, trace.request_id);
  }
  if (!trace.traceparent.empty()) {
    headers.set(kTraceparentField, trace.traceparent);
  }
}

void add_trace(std::vector<std::pair<std::string, std::string>>& fields, const Trace& trace) {
  if (!trace.request_id.empty()) {
    fields.emplace_back("request", trace.request_id);
  }
  if (!trace.traceparent.empty()) {
    fields.emplace_back("trace", trace.traceparent);
  }
}

std::string to_text(const Trace& trace) {
  return trace.request_id.empty() ? std::string() : trace.request_id + " " + trace.traceparent;
}

Trace trace_from_text(std::string_view text) {
  const auto blank = text.find(' ');
  const std::string_view id = text.substr(0, blank);
  const std::string_view parent =
      blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1);
  if (!is_request_id(id) || !is_traceparent(parent)) {
    return {};
  }
  return {std::string(id), std::string(parent)};
}

}  // namespace sandboxkit::wire
