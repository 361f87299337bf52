#!/usr/bin/env python3
"""Writes lib/gate/fold_table.inc: what each character becomes before a denial compares names.

Usage: tools/make_fold_table.py > lib/gate/fold_table.inc     The tables are those of this Python's
unicodedata. A character is decomposed for compatibility and case-folded until nothing changes.
Marks that normalization may reorder, and characters that are ignored where names are compared
(HFS+, default ignorables), become nothing: two names that a file system may take for one never
differ here. Hangul syllables are left out, since fold.cc takes them apart by arithmetic.
"""
import sys
import unicodedata

IGNORED = [(0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
           (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
           (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
           (0xE0000, 0xE0FFF)]
HANGUL = range(0xAC00, 0xD7A4)
WIDTH = 98


def is_ignored(character):
    return (any(first <= ord(character) <= last for first, last in IGNORED)
            or unicodedata.combining(character) != 0)


def folded(character):
    before, after = None, character
    while before != after:
        before, after = after, unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", after).casefold())
    return "".join(c for c in after if not is_ignored(c))


def entries():
    for code in range(0x80, 0x30000):
        if code in HANGUL or 0xD800 <= code < 0xE000:
            continue
        text = folded(chr(code))
        if text != chr(code):
            yield code, text


def write_array(kind, name, values):
    print(f"constexpr {kind} {name}[] = {{")
    line = ""
    for value in values:
        if len(line) + len(value) + 2 > WIDTH:
            print(line.rstrip())
            line = ""
        line += f"{value}, "
    print(line + "};")


if __name__ == "__main__":
    table = list(entries())
    texts = "".join(dict.fromkeys(text for _, text in table))
    print(f"// Unicode {unicodedata.unidata_version}. Made by tools/make_fold_table.py; not for reading.")
    write_array("std::uint32_t", "kFoldFrom", [f"0x{code:X}" for code, _ in table])
    write_array("std::uint16_t", "kFoldAt", [str(texts.index(text)) for _, text in table])
    write_array("std::uint8_t", "kFoldSize", [str(len(text)) for _, text in table])
    write_array("std::uint32_t", "kFoldTo", [f"0x{ord(c):X}" for c in texts])
    # Above the table's planes only the tags and variation selectors of plane 14 are folded.
    sys.exit(0 if len(texts) < 1 << 16 else "too many texts for 16 bits")
