"""Copies of the real programs start by scripts/gpu in an environment that knows nothing of the build.

Usage: gpu_binaries_test.py <repository root> <folder of the programs> <LibTorch's folder>
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from gpu_test import REAL_TOOLS

PROGRAMS = ["gradrecomp", "gradrecomp-fuzz", "kernels_gpu_test", "cuda_test"]


class GpuBinaries(unittest.TestCase):
    root = built = torch = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name).resolve()
        for name in ("bin", "tools"):
            (self.folder / name).mkdir()
        for tool in REAL_TOOLS:
            (self.folder / "tools" / tool).symlink_to(shutil.which(tool))
        (self.folder / "tools/python3").symlink_to(os.path.realpath(sys.executable))
        for program in PROGRAMS:
            self.copy(program)

    def copy(self, program):
        """A copy that does not know where LibTorch was when it was built."""
        library_folder = os.fsencode(self.torch / "lib")
        content = (self.built / program).read_bytes()
        self.assertIn(library_folder, content)
        copy = self.folder / "bin" / program
        copy.write_bytes(content.replace(library_folder, b"/" + b"x" * (len(library_folder) - 1)))
        copy.chmod(0o755)

    def run_gpu(self, stage):
        options = ["--bin", self.folder / "bin", "--torch", self.torch, "--out", self.folder / "out"]
        return subprocess.run([self.root / "scripts/gpu", stage, *options], capture_output=True, text=True,
                              env={"PATH": str(self.folder / "tools"), "CUDA_VISIBLE_DEVICES": ""})

    def test_alone_they_do_not_start(self):
        result = subprocess.run([self.folder / "bin/kernels_gpu_test"], capture_output=True, text=True, env={})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("libtorch_cpu.so", result.stderr)

    def test_every_test_says_why_it_skips(self):
        result = self.run_gpu("test")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("No NVIDIA card was found", result.stderr)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[-1], r"^0 passed, 0 failed, [1-9]\d+ skipped$")
        skipped = [line for line in lines if line.startswith("skipped: ")]
        self.assertTrue(any(line.startswith("skipped: cuda_test: ") for line in skipped), lines)
        for line in skipped:
            self.assertRegex(line, r"^skipped: \S+: \S+: .+", "no reason")

    def test_the_program_starts_and_measures_nothing(self):
        result = self.run_gpu("bench")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.strip(), "No NVIDIA card was found: nvidia-smi lists none. Nothing was measured.")
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    GpuBinaries.torch = Path(sys.argv.pop())
    GpuBinaries.built = Path(sys.argv.pop())
    GpuBinaries.root = Path(sys.argv.pop())
    unittest.main()
