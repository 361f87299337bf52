#pragma once

#include "config/option.h"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::config {

/// Both ends belong to it.
struct Range {
  std::int64_t least;
  std::int64_t most;
};

/// What must hold between options: looked at once each of them is read and good.
struct Rule {
  std::vector<std::string> keys;
  /// What is wrong, or "".
  std::function<std::string()> problem;
};

/// The options of one daemon: the one place from which flags, YAML keys, variables, help,
/// `--check-config` and the documentation come. What an option is bound to must outlive the table;
/// its value at that moment is the default.
class Table {
 public:
  /// `prefix` of its variables: `SANDBOXKIT_CONTROLLER_`.
  explicit Table(std::string prefix) : prefix_(std::move(prefix)) {}

  void text(About about, std::string& target);
  void boolean(About about, bool& target);
  void decimal(About about, double& target, double least, double most);
  void list(About about, std::vector<std::string>& target,
            std::function<std::string(std::string_view)> problem_of = {});
  void pairs(About about, std::map<std::string, std::string>& target);
  void pairs(About about, std::vector<std::string>& target);

  template <std::integral T>
  void integer(About about, T& target, Range range) {
    integer(
        std::move(about), range, [&target](std::int64_t value) { target = static_cast<T>(value); },
        [&target] { return static_cast<std::int64_t>(target); });
  }
  /// A whole number of `Unit`, the one that the key's name ends with.
  template <typename Unit, typename Rep, typename Period>
  void time(About about, std::chrono::duration<Rep, Period>& target, Range range) {
    using Target = std::chrono::duration<Rep, Period>;
    integer(
        std::move(about), range,
        [&target](std::int64_t value) {
          target = std::chrono::duration_cast<Target>(Unit(static_cast<Rep>(value)));
        },
        [&target] {
          return static_cast<std::int64_t>(std::chrono::duration_cast<Unit>(target).count());
        });
  }
  template <typename T>
  void choice(About about, T& target, std::vector<std::pair<std::string, T>> named) {
    std::vector<std::string> names;
    names.reserve(named.size());
    for (const auto& [name, value] : named) {
      names.push_back(name);
    }
    choice(
        std::move(about), names,
        [&target, named](std::size_t chosen) { target = named[chosen].second; },
        [&target, named] {
          std::size_t at = 0;
          while (at + 1 < named.size() && named[at].second != target) {
            ++at;
          }
          return at;
        });
  }

  /// An option of another shape. Fills in flag and variable where they follow from the key.
  void add(Option option);
  void rule(Rule rule) { rules_.push_back(std::move(rule)); }
  /// Of two options that say the same the stronger counts; equally strong ones are a problem.
  void exclusive(std::string one, std::string other) {
    exclusive_.emplace_back(std::move(one), std::move(other));
  }

  const std::string& prefix() const { return prefix_; }
  const std::deque<Option>& options() const { return options_; }
  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<std::pair<std::string, std::string>>& exclusives() const { return exclusive_; }
  /// Null where there is none.
  const Option* by_key(std::string_view key) const;
  const Option* by_flag(std::string_view flag) const;
  const Option* by_variable(std::string_view variable) const;
  bool is_section(std::string_view name) const;

 private:
  void integer(About about, Range range, const std::function<void(std::int64_t)>& store,
               const std::function<std::int64_t()>& stored);
  void choice(About about, const std::vector<std::string>& names,
              const std::function<void(std::size_t)>& store,
              const std::function<std::size_t()>& stored);

  std::string prefix_;
  std::deque<Option> options_;
  std::vector<Rule> rules_;
  std::vector<std::pair<std::string, std::string>> exclusive_;
};

}  // namespace sandboxkit::config
