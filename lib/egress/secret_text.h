#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <string.h>  // NOLINT(modernize-deprecated-headers): explicit_bzero

namespace sandboxkit::egress {

/// Overwrites the text, in a way that no optimizer removes, and empties it.
inline void wipe(std::string& text) {
  text.resize(text.capacity());  // What was longer once is wiped as well.
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

/// Text that is overwritten when it is dropped. It moves and is never copied, so that there is one
/// of it. What it was made from is the maker's to wipe.
class SecretText {
 public:
  SecretText() = default;
  explicit SecretText(std::string text) : text_(std::move(text)) {}
  SecretText(SecretText&& other) noexcept { take(other); }
  SecretText& operator=(SecretText&& other) noexcept {
    if (this != &other) {
      take(other);
    }
    return *this;
  }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText() { wipe(text_); }

  std::string_view view() const { return text_; }

 private:
  void take(SecretText& other) noexcept {
    wipe(text_);
    text_.swap(other.text_);
    wipe(other.text_);  // A short text is copied by a swap, not handed over.
  }
  std::string text_;
};

}  // namespace sandboxkit::egress
