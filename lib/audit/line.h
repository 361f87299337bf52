#pragma once

#include "audit/chain.h"
#include "json/value.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::audit {

/// The kinds of line that the log writes about itself.
inline constexpr std::string_view kOpen = "open";
inline constexpr std::string_view kSeal = "seal";
inline constexpr std::string_view kRetire = "retire";

/// What a line says of the chain it stands in. Every line has the first six.
struct Stamp {
  std::uint64_t seq = 0;
  std::string time{};  ///< RFC 3339.
  std::uint64_t monotonic_us = 0;
  std::uint64_t segment = 0;
  std::uint64_t lost = 0;  ///< Records before it that could not be written.
  std::string previous{};
};

/// The first line of a segment: how the one before ended, and, in a chain's first line, where the
/// other chains of the folder stood.
struct Opening {
  std::string chain{};
  std::uint64_t previous_segment = 0;
  std::string previous_head{};
  std::uint64_t previous_count = 0;
  std::vector<Head> seen{};
};
/// The last line of a segment. `count` has every line of the segment, this one too.
struct Sealing {
  std::uint64_t count = 0;
  std::string head{};
};
/// A sealed segment that retention removes; `head` is the hash of its seal.
struct Retirement {
  std::string chain{};
  std::uint64_t segment = 0;
  std::uint64_t count = 0;
  std::string head{};
};

/// The fields of such lines, for `render_body`.
std::string render_opening(const Opening& opening);
std::string render_sealing(const Sealing& sealing);
std::string render_retirement(const Retirement& retirement);
/// The line without its hash. `fields` come from here or from `render_fields`.
std::string render_body(const Stamp& stamp, std::string_view fields);

/// A line as it is read again.
struct ParsedLine {
  Stamp stamp{};
  std::string kind{};
  std::string hash{};
  std::string body{};
  json::Value value{};
};
/// Errors: kInvalidArgument, what is wrong with it.
Result<ParsedLine> parse_line(std::string_view line);

/// The members of a line of that kind; nullopt when they cannot be read.
std::optional<Opening> opening_of(const ParsedLine& line);
std::optional<Sealing> sealing_of(const ParsedLine& line);
std::optional<Retirement> retirement_of(const ParsedLine& line);

}  // namespace sandboxkit::audit
