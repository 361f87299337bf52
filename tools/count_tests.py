#!/usr/bin/env python3
"""Prints `LABEL PASSED FAILED` for a run of tests.

Usage: count_tests.py meson LABEL testlog.json STATUS      (doctest cases inside of meson tests)
       count_tests.py junit LABEL results.xml STATUS       (pytest)

A run that ended badly never counts as all passed: a crash that printed no summary is one failure.
A skipped case counts as failed where the run says that nothing may be skipped
(SANDBOXKIT_MUST_RUN); elsewhere it counts as neither.
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

SUMMARY = re.compile(r"test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed")


def meson(path):
    passed = failed = 0
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            output = re.sub(r"\x1b\[[0-9;]*m", "", test.get("stdout", "") or "")
            # The program's own: children that a test lets die print one of theirs before it.
            found = SUMMARY.findall(output)[-1:]
            good, bad = sum(int(f[1]) for f in found), sum(int(f[2]) for f in found)
            if test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
                bad = max(bad, 1)
            elif not found and test["result"] == "OK":
                good = 1
            passed, failed = passed + good, failed + bad
    return passed, failed


def junit(path):
    passed = failed = 0
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        bad = int(suite.get("failures")) + int(suite.get("errors"))
        passed += int(suite.get("tests")) - bad - int(suite.get("skipped"))
        failed += bad
    return passed, failed


if __name__ == "__main__":
    kind, label, path, status = sys.argv[1:]
    try:
        good, bad = {"meson": meson, "junit": junit}[kind](path)
    except (OSError, ValueError, ElementTree.ParseError) as problem:
        print(f"{path}: {problem}", file=sys.stderr)
        good, bad = 0, 1
    if bad == 0 and (status != "0" or good == 0):
        bad = 1
    print(label, good, bad)
