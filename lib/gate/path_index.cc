#include "gate/path_index.h"

#include <algorithm>
#include <functional>

namespace sandboxkit::gate {
namespace {

constexpr std::uint64_t kNothing = 0;

constexpr std::string_view kSpecial = "*?[]\\";

/// Whether one of the components may be what a pattern's first component with letters matches.
bool may_hold(const std::vector<std::string>& parts, std::string_view begins,
              std::string_view ends) {
  return std::ranges::any_of(parts, [&](const std::string& part) {
    return part.starts_with(begins) && part.ends_with(ends);
  });
}

}  // namespace

std::uint64_t hash_on(std::uint64_t before, std::string_view text) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  const std::uint64_t own = std::hash<std::string_view>{}(text);
  return (before ^ (own + kOdd + (before << 6) + (before >> 2))) * kOdd;
}

void NumberTable::add(std::uint64_t hash, std::uint32_t number) {
  seen_.set(hash % kBits);
  numbers_[hash].push_back(number);
}

void NumberTable::find(std::uint64_t hash, Numbers& found) const {
  if (!seen_.test(hash % kBits)) {
    return;
  }
  if (const auto at = numbers_.find(hash); at != numbers_.end()) {
    found.insert(found.end(), at->second.begin(), at->second.end());
  }
}

void put_in_order(Numbers& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

void PathIndex::add(const PathPattern& pattern, std::uint32_t number) {
  const auto& parts = pattern.parts();
  std::uint64_t front = kNothing;
  std::size_t size = 0;
  while (size < parts.size() && PathPattern::is_text(parts[size])) {
    front = hash_on(front, parts[size++]);
  }
  if (size > 0) {
    fronts_.add(front, number);
  } else if (parts.size() > 1 && parts[0] == PathPattern::kAnyDepth &&
             PathPattern::is_text(parts[1])) {
    names_.add(hash_on(kNothing, parts[1]), number);
  } else {
    const auto lettered = std::ranges::find_if(
        parts, [](const std::string& part) { return part != PathPattern::kAnyDepth; });
    const std::string_view part = lettered != parts.end() ? std::string_view(*lettered) : "";
    anywhere_.push_back({std::string(part.substr(0, part.find_first_of(kSpecial))),
                         std::string(part.substr(part.find_last_of(kSpecial) + 1)), number});
  }
}

void PathIndex::find(const PathName& name, Numbers& found) const {
  const auto& parts = matching_ == Matching::kFolded ? name.folded : name.exact;
  std::uint64_t front = kNothing;
  for (const std::string& part : parts) {
    front = hash_on(front, part);
    fronts_.find(front, found);
    if (!names_.empty()) {
      names_.find(hash_on(kNothing, part), found);
    }
  }
  for (const Anywhere& anywhere : anywhere_) {
    if (may_hold(parts, anywhere.begins, anywhere.ends)) {
      found.push_back(anywhere.number);
    }
  }
}

}  // namespace sandboxkit::gate
