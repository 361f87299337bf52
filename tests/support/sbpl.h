#pragma once

#include "sandboxkit/result.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::box_test {

/// A form of a profile: an atom, a string, an expression (`#"..."`), or a list.
struct Form {
  enum class Kind : std::uint8_t { kAtom, kString, kRegex, kList };
  Kind kind = Kind::kAtom;
  std::string text{};
  std::vector<Form> items{};
};

/// Reads what seatbelt would read. Errors: kInvalidArgument for what is no profile.
Result<std::vector<Form>> read_forms(std::string_view text);

/// A small model of seatbelt: each operation is decided by the last rule that matches it.
class Profile {
 public:
  /// Errors: kInvalidArgument for a rule or filter that it does not know.
  static Result<Profile> read(std::string_view text);
  /// `file-read-data` and the like, at a path without links.
  bool allows(std::string_view operation, const std::string& path) const;
  const std::vector<Form>& forms() const { return forms_; }

 private:
  struct Rule;
  std::vector<Form> forms_{};
  // Shared, so that a profile can be returned by value.
  std::vector<std::shared_ptr<const Rule>> rules_{};
};

}  // namespace sandboxkit::box_test
