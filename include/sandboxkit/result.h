#pragma once

#include "sandboxkit/export.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace sandboxkit {

/// What kind of failure an `Error` is. One value for each thing a caller can do about it; the
/// stable name that an API client sees is `Error::reason`.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,    ///< The input is wrong; the same call fails again.
  kUnauthenticated,    ///< No credential, or one that is unknown, expired or revoked.
  kPermissionDenied,   ///< The credential's role may not do this.
  kNotFound,           ///< It does not exist, or the caller may not know that it does.
  kConflict,           ///< The object is in a state that does not allow this.
  kTooLarge,           ///< A size limit was passed.
  kResourceExhausted,  ///< A quota, a queue or a disk is full.
  kUnavailable,        ///< A part that is needed does not answer; a later call may go through.
  kDeadlineExceeded,   ///< The call's own time limit ended it.
  kCancelled,          ///< The caller ended it.
  kInternal,           ///< A defect or an answer that makes no sense; fail closed.
};

/// A failure, as a value.
///
/// `message` is lower case, has no full stop, quotes the offending value in backticks, names the
/// way out where there is one, and never holds a secret.
struct Error {
  ErrorCode code;
  std::string message;
  /// Stable name for programs (`image_not_found`); empty means the code's own name.
  std::string reason{};
  /// Path of the input field that is at fault (`egress.allowed_domains[3]`); empty when none is.
  std::string field{};
};

/// The name of a code as API clients see it: `invalid_argument`, `not_found`, ...
SANDBOXKIT_API const char* name_of(ErrorCode code);

/// `error.reason`, or the code's own name where there is none.
SANDBOXKIT_API std::string reason_of(const Error& error);

namespace detail {
/// Ends the process: somebody took the value of a failed Result, or the error of a good one.
[[noreturn]] SANDBOXKIT_API void bad_result_access(const char* what);
}  // namespace detail

/// A value or an `Error`. Members are named as in std::expected, which our compilers lack.
///
/// Taking the wrong side is a defect and ends the process.
/// Thread-safety: as the value's type.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  // Implicit on purpose: `return value;` and `return Error{...};` both read well.
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    require_value();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    require_value();
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    require_value();
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    if (has_value()) {
      detail::bad_result_access("error() of a Result that holds a value");
    }
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    if (has_value()) {
      detail::bad_result_access("error() of a Result that holds a value");
    }
    return std::move(*std::get_if<1>(&state_));
  }

  template <typename U>
  T value_or(U&& fallback) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  void require_value() const {
    if (!has_value()) {
      detail::bad_result_access(std::get_if<1>(&state_)->message.c_str());
    }
  }
  std::variant<T, Error> state_;
};

/// Success without a value, or an `Error`.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }

  const Error& error() const& {
    if (!error_) {
      detail::bad_result_access("error() of a Status that is good");
    }
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace sandboxkit
