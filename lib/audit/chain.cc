#include "audit/chain.h"

#include "base/text.h"
#include "json/value.h"

#include <algorithm>
#include <limits>

namespace sandboxkit::audit {
namespace {

constexpr std::string_view kSegmentSuffix = ".jsonl";
constexpr std::string_view kHeadSuffix = ".head";
constexpr std::string_view kHeadPurpose = "sandboxkit audit head v1";
constexpr std::string_view kSignature = "mac";
constexpr std::uint64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();

bool is_chain_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxChainNameBytes && name.front() != '.' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

bool is_hash(std::string_view text) {
  return text.size() == kHashChars && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string with_last_member(std::string_view body, std::string_view member,
                             std::string_view value) {
  std::string line(body.substr(0, body.size() - 1));
  line += ",\"" + std::string(member) + "\":\"" + std::string(value) + "\"}\n";
  return line;
}

Error bad_head(const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, "its head " + why, "bad_audit_head"};
}

}  // namespace

std::string segment_file(const std::string& chain, std::uint64_t number) {
  return chain + "-" + std::to_string(number) + std::string(kSegmentSuffix);
}

std::optional<SegmentName> segment_name_from(std::string_view file) {
  if (!file.ends_with(kSegmentSuffix)) {
    return std::nullopt;
  }
  file.remove_suffix(kSegmentSuffix.size());
  const std::size_t dash = file.rfind('-');
  if (dash == file.npos || !is_chain_name(file.substr(0, dash))) {
    return std::nullopt;
  }
  const auto number = parse_decimal(file.substr(dash + 1), kMaxNumber);
  if (!number || *number == 0) {
    return std::nullopt;
  }
  return SegmentName{std::string(file.substr(0, dash)), *number};
}

std::string head_file(const std::string& chain) { return chain + std::string(kHeadSuffix); }

std::optional<std::string> chain_of_head_file(std::string_view file) {
  if (!file.ends_with(kHeadSuffix)) {
    return std::nullopt;
  }
  file.remove_suffix(kHeadSuffix.size());
  return is_chain_name(file) ? std::optional(std::string(file)) : std::nullopt;
}

std::string chain_hash(std::string_view previous, std::string_view body) {
  std::string input = std::to_string(previous.size()) + ":";
  input.reserve(input.size() + previous.size() + body.size() + 1);
  input += previous;
  input += ',';
  input += body;
  return sha256_hex(input);
}

std::string close_line(std::string_view body, std::string_view hash) {
  return with_last_member(body, "h", hash);
}

std::optional<OpenedLine> open_line(std::string_view line, std::string_view member) {
  if (line.ends_with('\n')) {
    line.remove_suffix(1);
  }
  const std::string before = ",\"" + std::string(member) + "\":\"";
  const std::size_t tail = before.size() + kHashChars + 2;  // And `"}`.
  if (line.size() <= tail || !line.starts_with('{') || !line.ends_with("\"}") ||
      line.substr(line.size() - tail, before.size()) != before) {
    return std::nullopt;
  }
  const std::string_view hash = line.substr(line.size() - 2 - kHashChars, kHashChars);
  if (!is_hash(hash)) {
    return std::nullopt;
  }
  return OpenedLine{std::string(line.substr(0, line.size() - tail)) + "}", std::string(hash)};
}

std::string render_head(const Head& head, const Key* key) {
  const std::string body = "{\"v\":" + std::to_string(kVersion) + ",\"chain\":\"" + head.chain +
                           "\",\"seg\":" + std::to_string(head.segment) +
                           ",\"seq\":" + std::to_string(head.seq) + ",\"h\":\"" + head.hash + "\"}";
  return key == nullptr ? body + "\n"
                        : with_last_member(body, kSignature, key->sign(kHeadPurpose, body));
}

Result<Head> parse_head(std::string_view text, const Key* key) {
  const auto signed_line = open_line(text, kSignature);
  if (key != nullptr && !signed_line) {
    return bad_head("is not signed");
  }
  if (key != nullptr &&
      !equal_constant_time(key->sign(kHeadPurpose, signed_line->body), signed_line->hash)) {
    return bad_head("is not signed with this key");
  }
  const auto value = json::parse(signed_line ? std::string_view(signed_line->body) : text,
                                 {.max_bytes = 4096, .max_depth = 2, .max_values = 16});
  if (!value || value->integer("v") != kVersion) {
    return bad_head("cannot be read");
  }
  const std::int64_t segment = value->integer("seg", -1);
  const std::int64_t seq = value->integer("seq", -1);
  Head head{value->text("chain"), static_cast<std::uint64_t>(segment),
            static_cast<std::uint64_t>(seq), value->text("h")};
  const bool begun = seq > 0 && segment > 0 && is_hash(head.hash);
  if (!is_chain_name(head.chain) || !(begun || (seq == 0 && segment == 0 && head.hash.empty()))) {
    return bad_head("cannot be read");
  }
  return head;
}

}  // namespace sandboxkit::audit
