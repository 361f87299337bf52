#pragma once

#include "json/value.h"

#include <string>
#include <string_view>

namespace sandboxkit::cli {

/// The policy whose entries would allow what was denied, each once, in the order of the lines:
/// `{"allowed_domains": [...], "allowed_networks": [...]}`. A name that was refused for the address
/// behind it gets no network here: which address that was is not told. Pure.
json::Value suggested_policy(const json::Array& denied);

/// Takes a stream in pieces and gives back its lines.
class Lines {
 public:
  /// Calls `on_line` for each line that is whole by now, without its end; empty ones are left out.
  template <typename F>
  void take(std::string_view bytes, const F& on_line) {
    rest_ += bytes;
    for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      const std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      if (!line.empty()) {
        on_line(line);
      }
    }
  }

 private:
  std::string rest_;
};

}  // namespace sandboxkit::cli
