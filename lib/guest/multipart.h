#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::guest {

/// The boundary in `multipart/form-data; boundary=...`; nullopt for another type or a bad one.
std::optional<std::string> multipart_boundary(std::string_view content_type);

struct PartHead {
  std::string name;
  std::string file_name;
};

/// Takes multipart/form-data apart piece by piece, without keeping a part.
/// Source: RFC 7578, RFC 2046 section 5.1.
class MultipartParser {
 public:
  struct Handlers {
    std::function<Status(const PartHead&)> on_part;
    std::function<Status(std::string_view)> on_data;
    std::function<Status()> on_part_end;
  };
  MultipartParser(std::string_view boundary, Handlers handlers);

  /// Errors: kInvalidArgument `bad_multipart`, kTooLarge, and what a handler returned.
  Status feed(std::string_view bytes);
  /// The body ended. An error when the closing boundary has not come.
  Status finish() const;

 private:
  enum class State { kPreamble, kAfterBoundary, kHead, kBody, kEpilogue };
  Result<bool> step();
  Result<bool> read_preamble();
  Result<bool> read_after_boundary();
  Result<bool> read_head();
  Result<bool> read_body();

  const std::string delimiter_;  // "\r\n--boundary"
  Handlers handlers_;
  State state_ = State::kPreamble;
  std::string buffer_;
  std::size_t skip_ = 0;  // bytes at the front of the buffer that are not the part's own
  std::size_t parts_ = 0;
};

}  // namespace sandboxkit::guest
