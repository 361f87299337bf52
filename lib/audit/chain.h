#pragma once

#include "audit/key.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::audit {

/// The log's names and sizes, shared by who writes and who reads. Pure but for `Key`'s hashing.

inline constexpr int kVersion = 1;
/// Of one line, its line feed included. What a record may say is far below.
inline constexpr std::size_t kMaxLineBytes = 64 * 1024;
inline constexpr std::size_t kHashChars = 64;
inline constexpr std::size_t kMaxChainNameBytes = 64;

/// One writer's lines are a chain; its files are the chain's segments: `<chain>-<number>.jsonl`,
/// where a chain is `<boot>-<pid>`, with `.<n>` for the n-th writer of that pid.
struct SegmentName {
  std::string chain{};
  std::uint64_t number = 0;
};
std::string segment_file(const std::string& chain, std::uint64_t number);
std::optional<SegmentName> segment_name_from(std::string_view file);
std::string head_file(const std::string& chain);
std::optional<std::string> chain_of_head_file(std::string_view file);

/// SHA-256 in hex over `<bytes>:<previous hash>,` and the exact bytes of the line without its
/// `,"h":"..."`. The first line's previous hash is empty.
std::string chain_hash(std::string_view previous, std::string_view body);
/// The line with its hash and line feed; `body` ends with the closing brace.
std::string close_line(std::string_view body, std::string_view hash);

/// A line taken apart again; nullopt when it does not end as `close_line` ends it.
struct OpenedLine {
  std::string body{};
  std::string hash{};
};
std::optional<OpenedLine> open_line(std::string_view line, std::string_view member = "h");

/// The place in a chain up to which everything is on the disk.
struct Head {
  std::string chain{};
  std::uint64_t segment = 0;
  std::uint64_t seq = 0;
  std::string hash{};
  bool operator==(const Head&) const = default;
};
/// One line, signed where there is a key.
std::string render_head(const Head& head, const Key* key);
/// With a key, the signature must hold. Errors: kInvalidArgument, why it does not count.
Result<Head> parse_head(std::string_view text, const Key* key);

}  // namespace sandboxkit::audit
