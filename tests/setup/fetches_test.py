"""What scripts/setup fetches, and that it is pinned. Usage: fetches_test.py <repository root>"""

import re
import shutil
import sys
import unittest
from pathlib import Path

from sandbox import Sandbox

ENVIRONMENT = ".venv/torch-2.11.0"
REQUIREMENT = re.compile(r"[a-z0-9-]+==[0-9.]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n")


class Fetches(Sandbox):
    def set_up(self, **variables):
        result = self.run_script(**variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fetched(self):
        return [re.search(r"-r scripts/requirements/(\S+)\.txt", call).group(1) for call in self.calls("pip")]

    def test_only_what_a_hash_is_known_of(self):
        self.set_up(CMAKE_VERSION="3.20.0")
        self.assertEqual(self.fetched(), ["torch-2.11.0-cpu", "torch-2.11.0-compiler", "tools"])
        for call in self.calls("pip"):
            self.assertIn("--require-hashes --no-deps --only-binary=:all:", call)

    def test_all_of_cuda_for_the_preset_cuda(self):
        self.set_up(GRADRECOMP_PRESET="cuda")
        self.assertIn("-r scripts/requirements/torch-2.11.0-cuda.txt", self.calls("pip")[0])

    def test_every_requirement_has_a_version_and_hashes(self):
        files = sorted((self.root / "scripts/requirements").glob("*.txt"))
        self.assertEqual(len(files), 7)
        for file in files:
            self.assertEqual(REQUIREMENT.sub("", file.read_text()), "# Written by pin.py.\n", file)

    def test_another_torch_is_said_to_have_no_pinned_hashes(self):
        result = self.set_up(GRADRECOMP_TORCH="2.12.0")
        self.assertIn("LibTorch 2.12.0 is fetched without pinned hashes", result.stderr)
        self.assertIn("--no-deps torch==2.12.0", self.calls("pip")[0])
        self.assertNotIn("without pinned hashes", self.set_up(GRADRECOMP_TORCH="2.11").stderr)

    def compare_with_peers(self, **variables):
        (self.folder / "benchmarks/peers").mkdir(parents=True, exist_ok=True)
        shutil.copy(self.root / "benchmarks/peers/environment", self.folder / "benchmarks/peers")
        script = self.folder / "scripts/compare"
        script.write_text(f"#!{shutil.which('bash')}\nsource {self.folder}/benchmarks/peers/environment\n")
        script.chmod(0o755)
        return self.run_script("compare", **variables)

    def test_what_the_comparison_with_python_needs_beside_libtorch_and_once(self):
        for _ in range(2):
            result = self.compare_with_peers()
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.fetched(), ["torch-2.11.0-cpu", "torch-2.11.0-compiler", "torch-2.11.0-peers"])
        self.assertIn("--require-hashes --no-deps --only-binary=:all:", self.calls("pip")[-1])
        found = self.folder / ".venv/peers-torch-2.11.0/lib/python3.11/site-packages/torch.pth"
        self.assertEqual(found.read_text(), "../../../../torch-2.11.0/lib/python3.11/site-packages\n")

    def test_the_comparison_under_another_torch_has_the_same_transformers(self):
        self.assertEqual(self.compare_with_peers(GRADRECOMP_TORCH="2.12.0").returncode, 0)
        self.assertRegex(self.calls("pip")[-1], r"torch==2.12.0 torchvision transformers==[0-9.]+$")

    def test_the_comparison_names_the_python_it_needs(self):
        result = self.compare_with_peers(NEW_PYTHON="False")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("must be a Python of at least 3.11", result.stderr)
        self.assertEqual(self.calls("pip"), [])

    def test_nothing_a_second_time(self):
        self.set_up()
        before = self.fetched()
        self.set_up()
        self.assertEqual(self.fetched(), before)

    def test_a_compiler_that_can_link_where_there_is_none(self):
        self.set_up()
        toolkit = self.folder / ENVIRONMENT / "lib/python3.11/site-packages/nvidia/cu13"
        self.assertTrue((toolkit / "lib64/libcudart.so").exists())
        self.assertIn(f"-DCMAKE_CUDA_COMPILER={toolkit}/bin/nvcc", self.calls("cmake")[-1])

    def test_no_compiler_where_there_is_one(self):
        nvcc = self.outside / "cuda/bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.symlink_to(self.fakes / "ninja")
        self.set_up(CUDA_PATH=str(self.outside / "cuda"))
        self.assertIn(f"-DCMAKE_CUDA_COMPILER={nvcc}", self.calls("cmake")[-1])
        self.assertFalse(any("compiler" in call for call in self.calls("pip")))

    def test_kernels_that_are_left_out_are_named(self):
        self.assertIn("the CUDA kernels are not compiled", self.set_up(FAILING_FETCH="compiler").stderr)

    def test_cmake_may_leave_them_out_too(self):
        result = self.set_up(CUDA_KERNELS_SAY="left out, no runtime")
        self.assertIn("CUDA kernels: left out, no runtime", result.stderr)
        self.assertNotIn("left out", self.set_up(CUDA_KERNELS_SAY="left out", GRADRECOMP_CUDA_KERNELS="OFF").stderr)

    def test_what_tests_use_for_them_alone_and_once(self):
        self.set_up()
        before = len(self.fetched())
        self.assertFalse(any("clang" in call for call in self.calls("apt-get")))
        self.run_script("test")
        self.assertEqual(self.fetched()[before:], ["solver", "formatter"])
        self.assertTrue(any(call.endswith(" clang") for call in self.calls("apt-get")))
        for package in ("highspy", "clang_format"):
            (self.folder / ENVIRONMENT / "lib/python3.11/site-packages" / package).mkdir()
        self.run_script("test")
        self.assertEqual(len(self.fetched()), before + 2)
        for call in self.calls("pip"):
            self.assertIn("--require-hashes --no-deps --only-binary=:all:", call)


if __name__ == "__main__":
    Fetches.root = Path(sys.argv.pop())
    unittest.main()
