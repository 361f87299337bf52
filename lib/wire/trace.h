#pragma once

#include "wire/http.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::wire {

inline constexpr const char* kRequestIdField = "X-Request-Id";
inline constexpr const char* kTraceparentField = "traceparent";

/// What names one request in everything that it brings about: answers, audit rows, orders, events.
/// Both are empty for what nobody asked for (a sweep, a reconcile).
struct Trace {
  std::string request_id{};
  std::string traceparent{};
  friend bool operator==(const Trace&, const Trace&) = default;
};

/// 1 to 64 of `[A-Za-z0-9._-]`: nothing that a log line, a header or a shell could read as more.
bool is_request_id(std::string_view text);

/// `00-<32 hex>-<16 hex>-<2 hex>`, lower case, neither id all zero. Another version is refused
/// instead of being guessed at. Source: W3C Trace Context, 3.2.
bool is_traceparent(std::string_view text);

/// The bytes from which missing ids are made.
using TraceSeed = std::array<std::uint8_t, 40>;

/// Leaves exactly one valid field of each name in a request's head: the caller's own where it sent
/// one valid field, else one made of `seed`.
Trace admit_trace(Headers& headers, const TraceSeed& seed);

/// What the fields say; a field that is absent, doubled or not valid is empty.
Trace trace_of(const Headers& headers);
/// Sets the fields that are known.
void add_trace(Headers& headers, const Trace& trace);

/// Adds what is known to an event's fields, as `request` and `trace`.
void add_trace(std::vector<std::pair<std::string, std::string>>& fields, const Trace& trace);

/// As one line for a row: `request-id traceparent`; empty when nothing is known.
std::string to_text(const Trace& trace);
/// Anything but what `to_text` writes reads as an empty trace.
Trace trace_from_text(std::string_view text);

}  // namespace sandboxkit::wire
