"""What only the user can supply ends scripts/setup with status 2 and one sentence, and nothing is made.

Usage: checks_test.py <repository root>
"""

import os
import sys
import unittest
from pathlib import Path

from sandbox import Sandbox

NOBODY = 65534


class Checks(Sandbox):
    def expect_refused(self, sentence, **how):
        before = self.files()
        result = self.run_script(**how)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(sentence, result.stderr)
        self.assertEqual(self.files(), before)
        for tool in ("apt-get", "pip", "cmake"):
            self.assertEqual(self.calls(tool), [])

    def test_a_preset_that_there_is_not(self):
        for preset in ("nonsense", "base", "dev release", "*"):
            self.expect_refused(f"GRADRECOMP_PRESET is {preset}", GRADRECOMP_PRESET=preset)
        self.expect_refused("must be one of dev, release, asan, tsan, cuda.", GRADRECOMP_PRESET="x")

    def test_a_version_of_torch_that_is_none_or_too_old(self):
        for version in ("abc", "2.3", "2.10.9", "1.99.0", "2", "2.11.0.1", "2.11.0 --pre"):
            self.expect_refused(f"GRADRECOMP_TORCH is {version}", GRADRECOMP_TORCH=version)

    def test_a_python_that_is_missing_or_none_or_too_old(self):
        for python in ("/no/such/python", "uname"):
            self.expect_refused(f"GRADRECOMP_PYTHON is {python}", GRADRECOMP_PYTHON=python)
        self.expect_refused("at least 3.10", NEW_PYTHON="False")

    def test_a_choice_of_kernels_that_there_is_not(self):
        self.expect_refused("must be AUTO, ON or OFF", GRADRECOMP_CUDA_KERNELS="yes")

    def test_a_folder_without_libtorch(self):
        self.expect_refused(f"CMAKE_PREFIX_PATH is {self.outside}", CMAKE_PREFIX_PATH=str(self.outside))

    def test_a_disk_without_room(self):
        self.expect_refused("the disk has 2000 MB free", FREE_MEGABYTES="2000")
        self.expect_refused("but must have 12000 MB", FREE_MEGABYTES="5000", GRADRECOMP_PRESET="cuda")

    def test_a_tree_that_is_read_only(self):
        self.folder.chmod(0o555)
        self.expect_refused(f"the folder {self.folder} is read-only", user=NOBODY if os.geteuid() == 0 else None)
        self.folder.chmod(0o755)

    def test_a_disk_that_fills_up_while_it_fetches(self):
        result = self.run_script(FAILING_FETCH="torch-", FETCH_ERROR="OSError: [Errno 28] No space left on device")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("the disk is full", result.stderr)

    def test_a_disk_that_fills_up_while_it_builds(self):
        error = "fatal error: error writing to region.cpp.o: No space left on device"
        for terminal in (False, True):
            result = self.run_script("demo", terminal=terminal, BUILD_ERROR=error)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn("the disk is full", result.stderr)
            self.assertEqual(error in result.stdout, terminal)

    def test_a_build_that_fails_otherwise_is_no_full_disk(self):
        for terminal in (False, True):
            result = self.run_script("demo", terminal=terminal, BUILD_ERROR="no such header")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("no such header", result.stdout if terminal else result.stderr)
            self.assertNotIn("disk", result.stderr)

    def test_a_python_that_libtorch_has_no_wheel_for(self):
        error = "ERROR: No matching distribution found for torch==2.11.0"
        result = self.run_script(FAILING_FETCH="torch-", FETCH_ERROR=error)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("setup: there is no LibTorch 2.11.0 wheel", result.stderr.splitlines()[-1])


if __name__ == "__main__":
    Checks.root = Path(sys.argv.pop())
    unittest.main()
