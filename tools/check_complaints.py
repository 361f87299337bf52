#!/usr/bin/env python3
"""Fails when docs/field-complaints.md and the tests do not agree about the complaints.

A test that holds the right behaviour has a line `Complaint N: ...` above it.  The page's table has
one row a complaint, whose last cell names those tests, or says `not yet: <feature>`.  Both must
say the same, no number of NUMBERS may be missing, and each named test must be there.
"""
import pathlib
import re
import sys

PAGE = "docs/field-complaints.md"
# The numbers of the list that the page tells of.
NUMBERS = [1, *range(3, 9), *range(10, 14), *range(15, 21), *range(22, 25), 26, 27, *range(29, 35),
           *range(36, 40), 41, 42, 44, 45, *range(47, 51), *range(52, 58), *range(59, 62),
           *range(63, 66), 67, 68]
COLUMNS = 5
MARK = re.compile(r"^\s*(?://|#) Complaint (\d+): \S")
LOOSE = re.compile(r"\bComplaint \d")
TEST = re.compile(r'^\s*(?:TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"|def (test_\w+)\()')
ENTRY = re.compile(r'^`([\w/.]+)`(?:: "([^"|]+)"|: `(test_\w+)`)?$')


def tests_of(path):
    """Each test of a file with the numbers above it; and lines that mark nothing."""
    lines = path.read_text().splitlines()
    numbers = []
    for index, line in enumerate(lines):
        if mark := MARK.match(line):
            numbers.append(int(mark.group(1)))
            continue
        if LOOSE.search(line):
            yield None, [], index + 1
        if test := TEST.match(" ".join([line, *(l.strip() for l in lines[index + 1:index + 2])])
                              if line.rstrip().endswith("TEST_CASE(") else line):
            yield test.group(1) or test.group(2), numbers, index + 1
            numbers = []
        elif numbers and not re.match(r"\s*(//|#|@)", line):
            yield None, [], index + 1
            numbers = []


def marked(root, wrong):
    """Pairs of a number and a test, of all files; and all tests that there are."""
    pairs, known = set(), set()
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in (".cc", ".py"):
            continue
        name = path.relative_to(root).as_posix()
        for test, numbers, line in tests_of(path):
            if test is None:
                wrong.append(f"{name}:{line}: `Complaint N: text` stands alone above a test")
                continue
            known.add((name, test))
            pairs.update((number, name, test) for number in numbers)
    for path in sorted((root / "tools").glob("check_*.py")):
        name = path.relative_to(root).as_posix()
        numbers = [int(m.group(1)) for m in map(MARK.match, path.read_text().splitlines()) if m]
        known.add((name, ""))
        pairs.update((number, name, "") for number in numbers)
    return pairs, known


def rows(root, wrong):
    """The table: number -> its tests; none for `not yet`."""
    table = {}
    for index, line in enumerate((root / PAGE).read_text().splitlines(), 1):
        if not re.match(r"\| *\d+ *\|", line):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        number, where = int(cells[0]), f"{PAGE}:{index}"
        if len(cells) != COLUMNS or not all(cells):
            wrong.append(f"{where}: a row has {COLUMNS} cells, none of them empty")
            continue
        if number in table:
            wrong.append(f"{where}: {number} stands twice")
        entries = [] if cells[-1].startswith("not yet: ") else cells[-1].split("<br>")
        found = [ENTRY.match(entry.strip()) for entry in entries]
        if not all(found):
            wrong.append(f"{where}: the last cell names tests, or says `not yet: <feature>`")
        table[number] = {(e.group(1), e.group(2) or e.group(3) or "") for e in found if e}
    return table


def problems(root):
    wrong = []
    pairs, known = marked(root, wrong)
    table = rows(root, wrong)
    wrong += [f"{PAGE}: {number} is missing" for number in NUMBERS if number not in table]
    wrong += [f"{PAGE}: {number} is no number of the list" for number in table
              if number not in NUMBERS]
    if list(table) != sorted(table):
        wrong.append(f"{PAGE}: the rows are not in order")
    told = {(number, *test) for number, tests in table.items() for test in tests}
    for number, name, test in sorted(told - pairs):
        wrong.append(f'{PAGE}: {number}: no line `Complaint {number}: ...` above "{test}" of {name}'
                     if (name, test) in known else f'{PAGE}: {number}: no test "{test}" in {name}')
    for number, name, test in sorted(pairs - told):
        wrong.append(f'{name}: "{test}" holds complaint {number}, whose row does not say so')
    return wrong


if __name__ == "__main__":
    found = problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(found) or "complaints: ok")
    sys.exit(bool(found))
