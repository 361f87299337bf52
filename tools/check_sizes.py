#!/usr/bin/env python3
"""Fails when a source file is larger than a head can hold: .h 300 lines, .cc 500, main.cc 60."""
import pathlib
import sys

LIMITS = {".h": 300, ".cc": 500}


def problems(root):
    for folder in ("include", "lib", "daemons", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in LIMITS:
                continue
            limit = 60 if path.name == "main.cc" else LIMITS[path.suffix]
            lines = len(path.read_text().splitlines())
            if lines > limit:
                yield f"{path.relative_to(root)}: {lines} lines, the limit is {limit}"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or "sizes: ok")
    sys.exit(bool(found))
