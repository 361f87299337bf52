#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sandboxkit::audit {

/// What ends a text that was cut.
inline constexpr std::string_view kCutMark = "…";

/// Appends `text` as the inside of a JSON string that is safe on one line and on a terminal, also
/// after the JSON was read: each byte of a control, line or direction character and of what is no
/// UTF-8 becomes `\xNN`, and a backslash becomes two. So every text has one form, and its bytes can
/// be had back from it.
///
/// At most `max_bytes` are appended, `kCutMark` included; false when the text was cut.
bool append_escaped(std::string& out, std::string_view text, std::size_t max_bytes);

/// `,"name":"text"`, or nothing for an empty text.
bool append_member(std::string& out, std::string_view name, std::string_view text,
                   std::size_t max_bytes);

}  // namespace sandboxkit::audit
