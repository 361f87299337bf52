#include "cli/text.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kGap = 2;
/// No column gets narrower than this.
constexpr std::size_t kMinColumn = 6;
constexpr std::uint64_t kMaxSeconds = 100ULL * 365 * 24 * 3600;
constexpr double kMaxMemoryMb = 1e12;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Characters, not bytes.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

/// At most `width` characters, the last one an ellipsis where something was cut.
std::string cut(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) {
    return text;
  }
  std::size_t kept = 0;
  std::size_t end = 0;
  while (end < text.size() && (kept < width - 1 || is_continuation(text[end]))) {
    kept += is_continuation(text[end]) ? 0 : 1;
    ++end;
  }
  while (end < text.size() && is_continuation(text[end])) {
    ++end;
  }
  return text.substr(0, end) + "…";
}

std::string as_hex(unsigned char byte) {
  std::array<char, 8> out{};
  std::snprintf(out.data(), out.size(), "\\x%02x", byte);
  return out.data();
}

std::optional<std::uint64_t> seconds_of(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 24 * 3600;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string printable(std::string_view text) {
  if (is_utf8(text) && !has_control_characters(text)) {
    return std::string(text);
  }
  std::string out;
  const bool plain_utf8 = is_utf8(text);
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    while (plain_utf8 && end < text.size() && is_continuation(text[end])) {
      ++end;
    }
    const std::string_view character = text.substr(i, end - i);
    const bool ascii = static_cast<unsigned char>(character[0]) < 0x80;
    if ((plain_utf8 || ascii) && !has_control_characters(character)) {
      out += character;
    } else {
      for (const char c : character) {
        out += as_hex(static_cast<unsigned char>(c));
      }
    }
    i = end;
  }
  return out;
}

Result<std::chrono::seconds> parse_duration(std::string_view text) {
  const Error bad{ErrorCode::kInvalidArgument,
                  "duration " + quoted(text) + " must be written like 90s, 10m, 2h, 1d or 1h30m"};
  std::uint64_t total = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto number = parse_decimal(rest.substr(0, digits), kMaxSeconds);
    const bool bare = digits == rest.size();
    const auto unit = bare ? std::optional<std::uint64_t>(1) : seconds_of(rest[digits]);
    if (!number || !unit || (bare && rest.size() != text.size())) {
      return bad;
    }
    total += *number * *unit;
    if (total > kMaxSeconds) {
      return bad;
    }
    rest.remove_prefix(bare ? digits : digits + 1);
  }
  if (text.empty()) {
    return bad;
  }
  return std::chrono::seconds{static_cast<std::int64_t>(total)};
}

Result<std::int64_t> parse_memory_mb(std::string_view text) {
  const Error bad{
      ErrorCode::kInvalidArgument,
      "memory " + quoted(text) + " must be written like 512m or 2g (a bare number is MiB)"};
  const std::string lower = ascii_lower(text);
  const std::size_t digits = std::min(lower.find_first_not_of("0123456789."), lower.size());
  const std::string unit = lower.substr(digits);
  double factor = 0;
  if (unit.empty() || unit == "m" || unit == "mb" || unit == "mib") {
    factor = 1;
  } else if (unit == "g" || unit == "gb" || unit == "gib") {
    factor = 1024;
  }
  double number = 0;
  int read = 0;
  const std::string number_text = lower.substr(0, digits);
  const bool one = std::sscanf(number_text.c_str(), "%lf%n", &number, &read) == 1 &&
                   static_cast<std::size_t>(read) == digits;
  if (!one || factor == 0 || !(number > 0 && number < kMaxMemoryMb)) {
    return bad;
  }
  return static_cast<std::int64_t>(std::llround(number * factor));
}

std::string short_duration(std::chrono::seconds duration) {
  const std::int64_t seconds = std::max<std::int64_t>(duration.count(), 0);
  struct Unit {
    std::int64_t seconds;
    const char* name;
  };
  constexpr std::int64_t kSlackShare = 60;  // 1 h 59 min 58 s is two hours to people
  for (const Unit unit : {Unit{24 * 3600, "d"}, Unit{3600, "h"}, Unit{60, "m"}}) {
    if (seconds + unit.seconds / kSlackShare >= 2 * unit.seconds) {
      return std::to_string((seconds + unit.seconds / 2) / unit.seconds) + unit.name;
    }
  }
  return std::to_string(seconds) + "s";
}

std::string plain_number(double number) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%.2f", number);
  std::string text = out.data();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) {
    text.pop_back();
  }
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> out{};
  const bool whole = unit == 0 || value >= 100 || value == std::floor(value);
  std::snprintf(out.data(), out.size(), whole ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return out.data();
}

std::string relative_time(std::string_view rfc3339, WallTime now) {
  const auto time = parse_rfc3339(rfc3339);
  if (!time) {
    return {};
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*time - now);
  return *time > now ? "in " + short_duration(seconds) : short_duration(-seconds) + " ago";
}

Table::Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

void Table::add(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  for (std::string& cell : cells) {
    cell = cell.empty() ? "-" : printable(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  };
  // The first column is what people copy: it is never cut.
  while (width != 0 && total() > width && widths.size() > 1) {
    const auto widest = std::max_element(widths.begin() + 1, widths.end());
    if (*widest <= kMinColumn) {
      break;
    }
    --*widest;
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = cut(row[i], widths[i]);
      line += cell;
      line.append(i + 1 == row.size() ? 0 : widths[i] - width_of(cell) + kGap, ' ');
    }
    while (line.ends_with(' ')) {
      line.pop_back();
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace sandboxkit::cli
