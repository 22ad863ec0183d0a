"""The conformance checker must find what it is there to find."""

import tempfile
import unittest
from pathlib import Path

from check_conformance import IDS, faults

SOURCE = "TEST(Suite, PassesAlways) {\n}\nTEST_F(Other,\n       E3IsCarried) {\n}\n"
CMAKE = "add_test(NAME in_a_process COMMAND true)\n"


def row(id, behaviour="holds", tests="`Suite.PassesAlways`", status="passes"):
    return f"| {id} | {behaviour} | {tests} | {status} |\n"


def faults_of(rows, source=SOURCE):
    """Faults of a page that has `rows` besides a good row for each other id."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "docs").mkdir()
        (root / "tests").mkdir()
        (root / "tests/a_test.cpp").write_text(source)
        (root / "tests/CMakeLists.txt").write_text(CMAKE)
        good = {id: row(id) for id in IDS} | {"E3": row("E3", tests="`Other.E3IsCarried`")}
        page = "| id | behaviour | tests | status |\n|---|---|---|---|\n"
        (root / "docs/conformance.md").write_text(page + "".join((good | rows).values()))
        return list(faults(root))


class CheckConformance(unittest.TestCase):
    def assert_fault(self, rows, message):
        found = faults_of(rows)
        self.assertEqual(len(found), 1, found)
        self.assertIn(message, found[0])

    def test_accepts_a_row_with_existing_tests_for_each_id(self):
        self.assertEqual(faults_of({}), [])
        self.assertEqual(faults_of({"M1": row("M1", tests="`Suite.*`, `in_a_process`")}), [])

    def test_rejects_an_id_without_a_row(self):
        self.assert_fault({"M1": ""}, "M1: has no row")

    def test_rejects_an_unknown_id_and_a_second_row(self):
        self.assert_fault({"M99": row("M99")}, "M99: is not one of the list")
        self.assert_fault({"M1": 2 * row("M1")}, "M1: has several rows")

    def test_rejects_a_test_that_does_not_exist(self):
        self.assert_fault({"M1": row("M1", tests="`Suite.PassesNever`")}, "no test Suite.PassesNever")
        self.assert_fault({"M1": row("M1", tests="`Gone.*`")}, "no test Gone.*")

    def test_rejects_a_test_that_does_not_exist_outside_the_rows(self):
        self.assert_fault({"M1": row("M1") + "\n| menus | `Gone.*`, `Suite.*` |\n"}, "no test Gone.*")

    def test_rejects_a_row_without_tests_unless_it_says_why(self):
        self.assert_fault({"M1": row("M1", tests="")}, "M1: names no test")
        self.assertEqual(faults_of({"M1": row("M1", tests="", status="not yet: too slow")}), [])

    def test_rejects_a_status_of_another_wording(self):
        self.assert_fault({"M1": row("M1", status="ok")}, "status is 'ok'")

    def test_rejects_a_row_that_leaves_out_a_test_of_its_id(self):
        self.assert_fault({"E3": row("E3")}, "E3: does not list Other.E3IsCarried")

    def test_reads_several_ids_in_one_name(self):
        source = SOURCE + "TEST(Suite, M3AndM9Both) {\n}\n"
        self.assertEqual(faults_of({}, source),
                         ["M3: does not list Suite.M3AndM9Both", "M9: does not list Suite.M3AndM9Both"])


if __name__ == "__main__":
    unittest.main()
