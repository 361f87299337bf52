#!/usr/bin/env python3
"""Prints `LABEL PASSED FAILED` for a run of tests.

Usage: count_tests.py meson LABEL testlog.json STATUS FAILURES   (doctest cases inside of meson tests)
       count_tests.py junit LABEL results.xml STATUS FAILURES    (pytest)

What failed is added to the file FAILURES, so that it can be told again where the run ends.

A run that ended badly never counts as all passed: a crash that printed no summary is one failure.
A skipped case counts as failed where the run says that nothing may be skipped
(SANDBOXKIT_MUST_RUN); elsewhere it counts as neither.
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

# Of one program or case: enough to see what it is about; the whole output stands further up.
MAX_FAILURE_LINES = 12
SUMMARY = re.compile(r"test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed")


def complaints_of(output):
    """doctest's names of the cases that failed, with what they found."""
    case, lines = "", []
    for line in output.splitlines():
        if line.startswith("TEST CASE:"):
            case = line.split(":", 1)[1].strip()
        elif "ERROR:" in line:
            lines.append(f"{case}: {line}")
    return lines or output.splitlines()[-MAX_FAILURE_LINES:]


def meson(path):
    passed = failed = 0
    failures = []
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            output = re.sub(r"\x1b\[[0-9;]*m", "", test.get("stdout", "") or "")
            # The program's own: children that a test lets die print one of theirs before it.
            found = SUMMARY.findall(output)[-1:]
            good, bad = sum(int(f[1]) for f in found), sum(int(f[2]) for f in found)
            if test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
                bad = max(bad, 1)
                complaints = complaints_of(output + (test.get("stderr") or ""))
                failures.append((f"{test['name']} ({test['result']})", complaints))
            elif not found and test["result"] == "OK":
                good = 1
            passed, failed = passed + good, failed + bad
    return passed, failed, failures


def junit(path):
    passed = failed = 0
    failures = []
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        bad = int(suite.get("failures")) + int(suite.get("errors"))
        passed += int(suite.get("tests")) - bad - int(suite.get("skipped"))
        failed += bad
        for case in suite.iter("testcase"):
            for kind in ("failure", "error"):
                for found in case.iter(kind):
                    failures.append((f"{case.get('classname')}::{case.get('name')}",
                                     (found.get("message") or "").splitlines()))
    return passed, failed, failures


if __name__ == "__main__":
    kind, label, path, status, told = sys.argv[1:]
    try:
        good, bad, failures = {"meson": meson, "junit": junit}[kind](path)
    except (OSError, ValueError, ElementTree.ParseError) as problem:
        print(f"{path}: {problem}", file=sys.stderr)
        good, bad, failures = 0, 1, [(path, [str(problem)])]
    if bad == 0 and (status != "0" or good == 0):
        bad = 1
    with open(told, "a", encoding="utf-8") as file:
        for name, lines in failures:
            print(f"{label}: {name}", *(f"    {line}" for line in lines[:MAX_FAILURE_LINES]), sep="\n", file=file)
    print(label, good, bad)
