"""Fails if docs/conformance.md leaves out an id, or names a test that does not exist, or lacks one
whose name carries its id.

Usage: check_conformance.py <repository root>

A row of its tables reads `| id | behaviour | tests | status |`. Tests stand in backquotes, as
`Suite.Name` (GoogleTest) or by their name in CTest; `Suite.*` stands for all tests of a suite. Names
of the first two kinds must exist outside those rows, too.
"""

import re
import sys
from pathlib import Path

LAST = {"E": 23, "M": 14, "P": 6, "R": 10, "H": 30, "C": 9, "I": 6}
IDS = [f"{letter}{number}" for letter, last in LAST.items() for number in range(1, last + 1)]

GOOGLE_TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
CTEST = re.compile(r"\badd_test\(\s*NAME\s+(\w+)")
ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|(.*)\|(.*)\|(.*)\|\s*$", re.MULTILINE)
CARRIED = re.compile(r"^(?:[A-Z]\d+(?:And|To)?)+")
STATUSES = ("passes", "needs a GPU", "not yet: ")


def tests_below(folder):
    """Names of all tests in the sources below `folder`."""
    names = set()
    for file in folder.rglob("*"):
        if file.suffix == ".cpp":
            names |= {f"{suite}.{name}" for suite, name in GOOGLE_TEST.findall(file.read_text())}
        elif file.name == "CMakeLists.txt":
            names |= set(CTEST.findall(file.read_text()))
    return names


def carried_by(test):
    """The ids that the name of a test begins with, as E1 and E6 in Suite.E1AndE6Something."""
    prefix = CARRIED.match(test.partition(".")[2])
    return [found for found in re.findall(r"[A-Z]\d+", prefix[0]) if found in IDS] if prefix else []


def named_in(cell, tests):
    """Yields (name, the tests that it stands for) for each name in a cell."""
    for name in re.findall(r"`([^`]+)`", cell):
        if name.endswith(".*"):
            yield name, {test for test in tests if test.startswith(name[:-1])}
        else:
            yield name, {name} & tests


def faults_of_row(row, behaviour, cell, status, tests):
    named = dict(named_in(cell, tests))
    if not behaviour.strip():
        yield f"{row}: says no behaviour"
    if not status.strip().startswith(STATUSES):
        yield f"{row}: status is '{status.strip()}', but must begin with one of {STATUSES}"
    if not named and not status.strip().startswith("not yet: "):
        yield f"{row}: names no test"
    yield from (f"{row}: there is no test {name}" for name, found in named.items() if not found)
    listed = set().union(*named.values())
    for test in sorted(tests - listed):
        if row in carried_by(test):
            yield f"{row}: does not list {test}"


def faults(root):
    """Yields one line for each fault of docs/conformance.md below `root`."""
    tests = tests_below(root / "tests")
    page = (root / "docs/conformance.md").read_text()
    rows = ROW.findall(page)
    ids = [row for row, *_ in rows]
    yield from (f"{id}: has no row" for id in IDS if id not in ids)
    yield from (f"{id}: is not one of the list" for id in ids if id not in IDS)
    yield from (f"{id}: has several rows" for id in sorted(set(ids)) if ids.count(id) > 1)
    for row, behaviour, cell, status in rows:
        yield from faults_of_row(row, behaviour, cell, status, tests)
    for name, found in named_in(ROW.sub("", page), tests):
        if not found and re.fullmatch(r"[A-Z]\w+\.(\*|\w+)", name):
            yield f"there is no test {name}"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    for fault in found:
        print(fault)
    sys.exit(bool(found))
