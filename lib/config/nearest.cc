#include "config/nearest.h"

#include <algorithm>
#include <vector>

namespace sandboxkit::config {
namespace {

/// Longer names are not compared: the table grows with the square.
constexpr std::size_t kMaxNameBytes = 80;

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  const std::size_t width = to.size() + 1;
  std::vector<std::size_t> table((from.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) { return table[i * width + j]; };
  const auto least = [&](std::size_t i, std::size_t j) {
    if (i == 0 || j == 0) {
      return i + j;
    }
    const std::size_t replaced = at(i - 1, j - 1) + (from[i - 1] == to[j - 1] ? 0 : 1);
    const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
    return std::min(
        {at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, swapped ? at(i - 2, j - 2) + 1 : replaced});
  };
  for (std::size_t cell = 0; cell < table.size(); ++cell) {
    table[cell] = least(cell / width, cell % width);
  }
  return table.back();
}

std::string nearest(std::string_view name, std::span<const std::string> known) {
  std::string best;
  if (name.size() > kMaxNameBytes) {
    return best;
  }
  std::size_t least = std::max<std::size_t>(name.size() / 3, 1) + 1;
  for (const std::string& each : known) {
    const std::size_t distance = edit_distance(name, each);
    if (distance < least) {
      least = distance;
      best = each;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  const std::string best = nearest(name, known);
  return best.empty() ? "" : "; did you mean `" + best + "`?";
}

}  // namespace sandboxkit::config
