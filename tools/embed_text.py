#!/usr/bin/env python3
"""Writes a C++ source with a text file inside: embed_text.py INPUT OUTPUT HEADER FUNCTION.

The text is cut into pieces, as a string literal may hold no more than 64 KiB everywhere."""
import pathlib
import sys

PIECE = 8000

source, target, header, function = sys.argv[1:]
text = pathlib.Path(source).read_text(encoding="utf-8")
pieces = "\n".join(f'R"embedded({text[i:i + PIECE]})embedded"' for i in range(0, len(text), PIECE))
pathlib.Path(target).write_text(
    f'#include "{header}"\n\n'
    f"namespace sandboxkit::control {{\n\n"
    f"std::string_view {function}() {{\n  static constexpr char kText[] =\n{pieces};\n"
    f"  return {{kText, sizeof kText - 1}};\n}}\n\n"
    f"}}  // namespace sandboxkit::control\n", encoding="utf-8")
