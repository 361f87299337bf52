#pragma once

#include <string>
#include <string_view>

namespace sandboxkit::gate {

/// `text` as one line that can be shown to a person and means nothing else: control, direction,
/// invisible and odd blank characters as `\x1b` or `\u{202e}`, bytes that are no UTF-8 as `\xff`,
/// and a backslash as two, so that every text has one form.
std::string shown_text(std::string_view text);

/// Whether a text is in that form as far as its characters go: what it was made of is not asked.
bool is_shown_text(std::string_view text);

}  // namespace sandboxkit::gate
