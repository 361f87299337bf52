#pragma once

#include "base/check.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// A promise that must hold for every input; breaking it is a finding.
#define PROMISE(condition, why) SANDBOXKIT_CHECK(condition, why)

namespace sandboxkit::fuzz {

/// The bytes of one run, with a few of them taken from the front for choices.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      // A view of bytes as characters: the cast that the standard allows.
      : left_(reinterpret_cast<const char*>(data), size) {}

  /// 0 when there is no byte left.
  std::uint8_t byte() {
    if (left_.empty()) {
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  /// What stands before the next line feed.
  std::string_view line() {
    const auto end = left_.find('\n');
    const std::string_view text = left_.substr(0, end);
    left_.remove_prefix(end == std::string_view::npos ? left_.size() : end + 1);
    return text;
  }
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

}  // namespace sandboxkit::fuzz
