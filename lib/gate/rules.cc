#include "gate/rules.h"

#include <functional>
#include <utility>

namespace sandboxkit::gate {

RuleList::RuleList(std::vector<Rule> rules) : rules_(std::move(rules)) {
  for (std::uint32_t number = 0; number < rules_.size(); ++number) {
    index_.add(rules_[number].pattern, number);
  }
}

std::optional<std::uint32_t> RuleList::number_of(const Rule* rule) const {
  const Rule* first = rules_.data();
  const bool is_ours = !std::less<>{}(rule, first) && std::less<>{}(rule, first + rules_.size());
  return is_ours ? std::optional(static_cast<std::uint32_t>(rule - first)) : std::nullopt;
}

}  // namespace sandboxkit::gate
