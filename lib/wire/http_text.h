#pragma once

#include <string_view>

namespace sandboxkit::wire::detail {

/// Character classes of RFC 9110. Pure.
bool is_token(std::string_view text);        ///< Not empty, `tchar` only.
bool is_field_value(std::string_view text);  ///< No control but a tab; bytes above 0x7f are taken.
bool is_target_text(std::string_view text);  ///< Not empty, visible ASCII only.
std::string_view trim_blanks(std::string_view text);  ///< Without spaces and tabs at both ends.

}  // namespace sandboxkit::wire::detail
