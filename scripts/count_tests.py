"""Counts single test cases after a ctest run and prints "N passed, N failed, N skipped" last.

A folder holds ctest's JUnit file ctest.xml and, for each GoogleTest program, <ctest name>.xml with
its cases. Any other test counts as one case, and so does a program that died before writing its file.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def one_line(text):
    return " | ".join(text.strip().splitlines())


def google_test_cases(path):
    """Yields (name, outcome, reason) of each case in a GoogleTest XML file."""
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{path.stem}: {case.get('classname')}.{case.get('name')}"
        failure, skipped = case.find("failure"), case.find("skipped")
        if failure is not None:
            yield name, "failed", failure.get("message")
        elif skipped is not None:
            yield name, "skipped", skipped.get("message")
        elif case.get("status") == "notrun":
            yield name, "skipped", "disabled"
        else:
            yield name, "passed", ""


def ctest_outcome(test):
    """Returns (outcome, reason) of one ctest test."""
    if test.get("status") == "run":
        return "passed", ""
    if test.get("status") == "disabled":
        return "skipped", "disabled"
    not_run, failure = test.find("skipped"), test.find("failure")
    if not_run is None:
        return "failed", failure.get("message") or "it ended with an error, a crash or a timeout; its output is above"
    if not_run.get("message").startswith("SKIP_"):
        return "skipped", test.findtext("system-out") or ""
    # ctest says "skipped" of a program that is missing, too.
    return "failed", not_run.get("message")


def all_cases(folder):
    if not (folder / "ctest.xml").exists():
        return
    for test in ElementTree.parse(folder / "ctest.xml").iter("testcase"):
        name = test.get("name")
        outcome, reason = ctest_outcome(test)
        cases_file = folder / f"{name}.xml"
        cases = list(google_test_cases(cases_file)) if cases_file.exists() else []
        yield from cases
        if not cases or (outcome == "failed" and all(case[1] != "failed" for case in cases)):
            yield name, outcome, reason


def main(folder):
    cases = list(all_cases(folder))
    for kind in ("skipped", "failed"):
        for name, outcome, reason in cases:
            if outcome == kind:
                print(f"{kind}: {name}: {one_line(reason)}")
    counts = {kind: sum(case[1] == kind for case in cases) for kind in ("passed", "failed", "skipped")}
    print(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return counts["failed"] > 0 or counts["passed"] == 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
