#!/usr/bin/env python3
"""Fails when a test case or a known bypass of the gate's design is held by no test.

A test cites what it holds in its own name, in the comment right above it, or (Python) in the lines
right below its `def`: `case 17`, `cases 11, 47 to 53 and 66`, `B17`.  A range counts for those
numbers alone that begin a row (`{17, ...`, `(17, ...`) of that test, so that it cannot promise more
than its table has.  GAPS says what is held by none yet, and why; a gap that is cited is none, and
has to go.
"""
import pathlib
import re
import sys

CASES = [str(number) for number in range(1, 101)]
BYPASSES = [f"B{number}" for number in range(1, 46)]
# Other tests have lists of their own with such names.
FOLDERS = ["tests/unit/agent", "tests/unit/audit", "tests/unit/box", "tests/unit/cli",
           "tests/unit/eyes", "tests/unit/gate", "tests/unit/local", "tests/unit/wire",
           "tests/system"]
GAPS = {}
TEST = re.compile(r"^\s*(?:TEST_CASE\(|(?:async )?def (test_\w+)\()")
COMMENT = re.compile(r"^\s*(?://|#|\"\"\")")
NUMBER = r"\d{1,3}(?: to \d{1,3})?"
LIST = re.compile(rf"\b[Cc]ases? ({NUMBER}(?:(?:,| and|, and) {NUMBER})*)")
BYPASS = re.compile(r"\bB\d{1,2}\b")
ROW = re.compile(r"[{(](\d{1,3}), ")


def tests_of(path):
    """Each test of a file: what may cite, and its body."""
    lines = path.read_text().splitlines()
    starts = [index for index, line in enumerate(lines) if TEST.match(line)]
    for index, end in zip(starts, [*starts[1:], len(lines)]):
        above = index
        while above > 0 and COMMENT.match(lines[above - 1]):
            above -= 1
        if path.suffix == ".py":
            below = index + 1
            while below < end and COMMENT.match(lines[below]):
                below += 1
            name = "\n".join(lines[index:below])
        else:
            text = "\n".join(lines[index:end])
            name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text[:text.find(") {")]))
        yield "\n".join(lines[above:index]) + "\n" + name, "\n".join(lines[index:end])


def cited_by(text, body):
    """The numbers that a test cites, and those of a range that its rows do not have."""
    found, missing = set(BYPASS.findall(text)), []
    rows = {int(number) for number in ROW.findall(body)}
    for listed in LIST.findall(text):
        for part in re.findall(NUMBER, listed):
            first, _, last = part.partition(" to ")
            numbers = range(int(first), int(last or first) + 1)
            missing += [number for number in numbers if last and number not in rows]
            found |= {str(number) for number in numbers if not last or number in rows}
    return found, missing


def problems(root):
    wrong, cited = [], {}
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")
                       if path.suffix in (".cc", ".py")):
        where = path.relative_to(root).as_posix()
        for text, body in tests_of(path):
            found, missing = cited_by(text, body)
            for number in found:
                cited.setdefault(number, where)
            wrong += [f"{where}: a test cites a range with {number}, and no row of it begins so"
                      for number in missing]
    known = [*CASES, *BYPASSES]
    wrong += [f"{cited[name]}: {name} is no case and no bypass of the design"
              for name in cited if name not in known]
    for name in known:
        if name not in cited and name not in GAPS:
            wrong.append(f"{name}: no test cites it, and GAPS does not say why")
        if name in cited and name in GAPS:
            wrong.append(f"{name}: {cited[name]} cites it; take it out of GAPS")
    return wrong


if __name__ == "__main__":
    found = problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(found) or f"gate cases: ok, {len(GAPS)} known gaps")
    sys.exit(bool(found))
