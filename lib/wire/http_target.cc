#include "base/text.h"
#include "wire/http.h"
#include "wire/http_text.h"

#include <algorithm>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kMaxQueryParameters = 100;

Error bad_target(const char* what) { return {ErrorCode::kInvalidArgument, what, "bad_request"}; }

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

Result<std::string> decode_path(std::string_view raw) {
  auto path = percent_decode(raw, /*plus_is_space=*/false);
  if (!path || has_nul(*path)) {
    return bad_target("path holds a broken escape or a NUL");
  }
  // An escaped slash makes two readings of one path: one before and one after decoding.
  if (std::ranges::count(*path, '/') != std::ranges::count(raw, '/')) {
    return bad_target("path holds an escaped slash");
  }
  if (std::ranges::any_of(split(*path, '/'),
                          [](std::string_view part) { return part == "." || part == ".."; })) {
    return bad_target("path holds a `.` or `..` segment");
  }
  return std::move(*path);
}

Status read_query(std::string_view raw, std::vector<std::pair<std::string, std::string>>& out) {
  for (const std::string_view part : split(raw, '&')) {
    if (part.empty()) {
      continue;
    }
    const auto equals = part.find('=');
    auto name = percent_decode(part.substr(0, equals), /*plus_is_space=*/true);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1), true);
    if (!name || !value || has_nul(*name)) {
      return bad_target("query holds a broken escape or a NUL");
    }
    if (has_nul(*value)) {
      return Error{ErrorCode::kInvalidArgument,
                   "query parameter " + quoted(*name) + " holds a NUL byte",
                   {},
                   *name};
    }
    if (out.size() >= kMaxQueryParameters) {
      return bad_target("query has too many parameters");
    }
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return {};
}

}  // namespace

std::optional<std::string> Target::query_value(std::string_view name) const {
  const auto at = std::ranges::find_if(query, [&](const auto& pair) { return pair.first == name; });
  return at == query.end() ? std::nullopt : std::optional(at->second);
}

Result<Target> parse_target(std::string_view target) {
  if (!detail::is_target_text(target) || target.front() != '/' ||
      target.find('#') != std::string_view::npos) {
    return bad_target("request target is no path");
  }
  const auto question = target.find('?');
  Target out;
  out.raw_path = target.substr(0, question);
  out.raw_query = question == std::string_view::npos ? "" : target.substr(question + 1);
  auto path = decode_path(out.raw_path);
  if (!path) {
    return path.error();
  }
  out.path = std::move(*path);
  if (auto status = read_query(out.raw_query, out.query); !status) {
    return status.error();
  }
  return out;
}

}  // namespace sandboxkit::wire
