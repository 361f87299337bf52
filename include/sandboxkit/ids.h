#pragma once

#include "sandboxkit/result.h"

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace sandboxkit {

/// An identifier that cannot be mistaken for another kind of identifier.
///
/// Shape: 1..64 bytes of `a-z A-Z 0-9 . _ -`, the first one a letter or a digit. Ids are made by
/// the controller (128 random bits) or by an operator's configuration, never by a tenant's request.
/// Thread-safety: immutable value.
template <typename Tag>
class Id {
 public:
  static constexpr std::size_t kMaxBytes = 64;

  /// Errors: kInvalidArgument with the tag's name for an empty, too long or badly spelled id.
  static Result<Id> parse(std::string_view text);

  const std::string& str() const { return text_; }
  auto operator<=>(const Id&) const = default;

 private:
  explicit Id(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

namespace detail {
/// The shape rule of every id. Returns the error's message, or nullptr when the text is well
/// formed.
SANDBOXKIT_API const char* id_problem(std::string_view text);
}  // namespace detail

template <typename Tag>
Result<Id<Tag>> Id<Tag>::parse(std::string_view text) {
  if (const char* problem = detail::id_problem(text)) {
    return Error{ErrorCode::kInvalidArgument, std::string(Tag::kName) + " " + problem, "invalid_id",
                 Tag::kName};
  }
  return Id(std::string(text));
}

struct TenantTag {
  static constexpr const char* kName = "tenant";
};
struct WorkerTag {
  static constexpr const char* kName = "worker";
};
struct SandboxTag {
  static constexpr const char* kName = "sandbox";
};
struct ControllerTag {
  static constexpr const char* kName = "controller";
};

using TenantId = Id<TenantTag>;          ///< A workspace's id.
using WorkerId = Id<WorkerTag>;          ///< A worker's id.
using SandboxId = Id<SandboxTag>;        ///< A sandbox's id: a DNS label, lower case.
using ControllerId = Id<ControllerTag>;  ///< A deployment's id; it stands on every engine object.

}  // namespace sandboxkit

template <typename Tag>
struct std::hash<sandboxkit::Id<Tag>> {
  std::size_t operator()(const sandboxkit::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.str());
  }
};
