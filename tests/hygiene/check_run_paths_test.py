"""Tests of check_run_paths.py. Usage: check_run_paths_test.py <C++ compiler>"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_run_paths

COMPILER = sys.argv.pop()


class RunPaths(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        (self.folder / "bin").mkdir()
        (self.folder / "main.cpp").write_text("int main() {}\n")

    def faults_with(self, run_path):
        program = self.folder / "bin/program"
        subprocess.run([COMPILER, self.folder / "main.cpp", "-o", program, f"-Wl,-rpath,{run_path}"], check=True)
        (file,) = check_run_paths.built_files(self.folder)
        return list(check_run_paths.faults(file))

    def test_places_named_in_full_are_safe(self):
        self.assertEqual(self.faults_with("/usr/lib:$ORIGIN/../lib:$ORIGIN"), [])

    def test_an_empty_entry_is_found(self):
        self.assertEqual(len(self.faults_with("/usr/lib::")), 2)

    def test_a_relative_entry_is_found(self):
        self.assertIn('has "lib"', self.faults_with("lib")[0])

    def test_no_program_at_all_is_a_fault(self):
        self.assertTrue(check_run_paths.main(self.folder))


if __name__ == "__main__":
    unittest.main()
