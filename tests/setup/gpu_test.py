"""The stages of scripts/gpu, with a card, programs and tools that are made up.

Usage: gpu_test.py <repository root>
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

REAL_TOOLS = ["awk", "bash", "cat", "dirname", "du", "env", "gzip", "head", "ldd", "mkdir", "mv", "nproc", "realpath", "rm",
              "sed", "sleep", "tail", "tar", "timeout", "touch"]

PROGRAMS = {
    "gradrecomp": """
        echo "$LD_LIBRARY_PATH : ${LD_PRELOAD:-} : $*"
        [[ "$*" != *"${FAILING:-none}"* ]] || exit 3
        [[ "$*" != *"${HANGING:-none}"* ]] || exec sleep 100
        rows='[]'
        [[ $1 != batch ]] || rows='{"answers": []}'
        while (($#)); do [[ $1 != --json ]] || echo "$rows" >"$2"; shift; done""",
    "gradrecomp-fuzz": """
        echo "$*"
        [[ "$*" != *"${FAILING_SEED:-none}"* ]] || { echo "24 passed, 1 failed, 0 skipped"; exit 1; }
        echo "${!#} passed, 0 failed, 0 skipped" """,
    "cuda_test": "exit ${CUDA_TEST_STATUS:-0}",
    "kernels_gpu_test": """
        outcome='status="run" result="completed"'
        echo "<testsuite><testcase classname=\\"CudaTwinTest\\" name=\\"BatchNorm\\" $outcome>
          ${SKIPPED:+<skipped message=\\"no CUDA device\\"/>}</testcase></testsuite>" >"${GTEST_OUTPUT#xml:}"
        sleep "${SECONDS_TAKEN:-0}" """,
}
CARD = """case "$*" in -L) echo "GPU 0: made up" ;; *memory.free*) echo "${FREE-80000}" ;; *) echo 8.9 ;; esac"""
BUILD_TOOLS = {
    "cmake": """
        echo "$*"
        [[ $1 == --build ]] || exit 0
        [[ -z ${BUILD_FAILS:-} ]] || { echo "no such header"; exit 1; }
        mkdir -p "$2/bin" && touch "$2"/bin/{gradrecomp,gradrecomp-fuzz,kernels_gpu_test,cuda_test}""",
    "strip": 'echo "stripped $*"', "ninja": "", "c++": "", "nvcc": "",
}


class Gpu(unittest.TestCase):
    root = None  # of the repository

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name).resolve()
        self.out, self.bin, self.tools = (self.folder / name for name in ("out", "bin", "tools"))
        self.tools.mkdir()
        for tool in REAL_TOOLS:
            (self.tools / tool).symlink_to(shutil.which(tool))
        self.make(self.tools, "python3", f'exec {sys.executable} -S "$@"')  # knows no torch
        for name, script in PROGRAMS.items():
            self.make(self.bin, name, script)
        self.make_torch("2.11.0+cu130")

    def make(self, folder, name, script):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
        (folder / name).chmod(0o755)

    def make_torch(self, version):
        (self.folder / "torch/lib").mkdir(parents=True, exist_ok=True)
        for library in ("cpu", "cuda"):
            (self.folder / f"torch/lib/libtorch_{library}.so").touch()
        (self.folder / "torch/version.py").write_text(f"__version__ = '{version}'\n")

    def run_gpu(self, *arguments, card=True, **variables):
        if card:
            self.make(self.tools, "nvidia-smi", CARD)
        return self.run_bare(*arguments[:1], *self.options(), *arguments[1:], **variables)

    def begin_gpu(self, *arguments, **variables):
        self.make(self.tools, "nvidia-smi", CARD)
        return subprocess.Popen([self.root / "scripts/gpu", *arguments[:1], *self.options(), *arguments[1:]],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.variables(variables))

    def options(self):
        return ["--out", self.out, "--bin", self.bin, "--torch", self.folder / "torch"]

    def variables(self, more):
        return {"PATH": str(self.tools), "CUDA_PATH": str(self.folder / "none"), **more}

    def run_bare(self, *arguments, **variables):
        return subprocess.run([self.root / "scripts/gpu", *arguments], capture_output=True, text=True,
                              env=self.variables(variables))

    def files(self):
        return sorted(str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file())

    def expect_refused(self, sentence, result):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(sentence, result.stderr)
        self.assertFalse(self.out.exists())

    def test_help_names_every_stage(self):
        result = self.run_bare("--help")
        self.assertEqual(result.returncode, 0)
        for stage in ("all", "build", "test", "fuzz", "bench", "sanitize", "summary"):
            self.assertRegex(result.stdout, rf"(?m)^  {stage} ")

    def test_arguments_that_there_are_not_are_named(self):
        self.expect_refused("stage is nonsense", self.run_gpu("nonsense"))
        self.expect_refused("argument is --nonsense", self.run_gpu("test", "--nonsense"))
        self.expect_refused("argument is vgg16", self.run_gpu("bench", "vgg16"))
        self.expect_refused("argument is resnet152", self.run_gpu("test", "resnet152"))
        self.expect_refused("--limit is soon", self.run_gpu("test", "--limit", "soon"))
        self.expect_refused("--programs is none", self.run_gpu("fuzz", "--programs", "none"))
        self.expect_refused("--deadline is 0", self.run_gpu("test", "--deadline", "0"))
        self.expect_refused("--limit has an empty value", self.run_gpu("test", "--limit", ""))
        self.expect_refused("must lie outside of --out", self.run_gpu("test", "--archive", self.out / "a.tar.gz"))
        self.expect_refused("--archive is results", self.run_gpu("test", "--archive", "results"))
        self.expect_refused("--out has no value", self.run_bare("test", "--out"))

    def test_without_a_card_nothing_is_measured_and_nothing_left(self):
        for stage in ("all", "fuzz", "bench", "sanitize"):
            self.expect_refused("No NVIDIA card was found", self.run_gpu(stage, card=False))

    def test_without_a_card_the_tests_say_why_they_skip(self):
        result = self.run_gpu("test", card=False, SKIPPED="yes")
        self.assertEqual(result.returncode, 2)
        self.assertIn("No NVIDIA card was found", result.stderr)
        self.assertIn("skipped: kernels_gpu_test: CudaTwinTest.BatchNorm: no CUDA device", result.stdout)
        self.assertEqual(result.stdout.splitlines()[-1], "1 passed, 0 failed, 1 skipped")

    def test_what_is_missing_is_named(self):
        (self.bin / "cuda_test").unlink()
        self.expect_refused("has no program cuda_test", self.run_gpu("test"))
        self.make_torch("2.10.1")
        self.expect_refused("is 2.10.1, but must be 2.11", self.run_gpu("bench"))
        self.expect_refused("No LibTorch was found", self.run_bare("bench", "--out", self.out, "--bin", self.bin))
        self.expect_refused("cmake is missing", self.run_bare("build", "--out", self.out))
        self.expect_refused("--bin is", self.run_gpu("build"))
        self.make_torch("2.11.0")
        self.expect_refused("compute-sanitizer was not found", self.run_gpu("sanitize"))

    def build(self, **variables):
        for tool, script in BUILD_TOOLS.items():
            self.make(self.tools, tool, script)
        options = ["--out", self.out, "--torch", self.folder / "torch", "--strip"]
        return self.run_bare("build", *options, **variables)

    def test_a_build_needs_no_card(self):
        result = self.build()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"stripped {self.out}/tree/bin/gradrecomp", result.stdout)
        self.assertIn("Built for 75;86;90:\n", result.stdout)
        self.assertRegex(result.stdout, r"(?m)/tree/bin/cuda_test$")
        configured = (self.out / "build/configure.log").read_text()
        self.assertIn("--preset cuda", configured)
        self.assertIn(f"-DCMAKE_PREFIX_PATH={self.folder}/torch ", configured)
        self.assertRegex((self.out / "build/compile.log").read_text(),
                         "--target gradrecomp gradrecomp-fuzz kernels_gpu_test cuda_test\n")

    def test_a_build_is_for_the_card_that_is_there(self):
        self.make(self.tools, "nvidia-smi", CARD)
        self.assertIn("Built for 89:", self.build().stdout)
        self.assertIn("Built for 90:", self.build(CMAKE_CUDA_ARCHITECTURES="90").stdout)

    def test_a_build_that_fails_shows_why(self):
        result = self.build(BUILD_FAILS="yes")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such header", result.stderr)
        self.assertNotIn("Built", result.stdout)

    def test_a_program_that_dies_stops_no_other(self):
        result = self.run_gpu("test", CUDA_TEST_STATUS="139")
        self.assertEqual(result.returncode, 1)
        self.assertIn("failed: cuda_test: it ended with status 139", result.stdout)
        self.assertEqual(result.stdout.splitlines()[-1], "1 passed, 1 failed, 0 skipped")

    def test_a_program_that_takes_too_long_is_stopped(self):
        result = self.run_gpu("test", "--limit", "1", SECONDS_TAKEN="100")
        self.assertEqual(result.returncode, 1)
        self.assertIn("kernels_gpu_test ended with status 124: it took longer than 1 s", result.stderr)

    def test_nothing_begins_after_the_deadline(self):
        result = self.run_gpu("test", "--deadline", "8", SECONDS_TAKEN="100")
        self.assertEqual(result.returncode, 1)
        # What was left of the deadline when it began.
        self.assertRegex(result.stderr, "kernels_gpu_test ended with status 124: it took longer than [1-8] s")
        self.assertIn("cuda_test was not begun: the deadline of 8 s has passed", result.stderr)

    def test_rows_are_there_though_a_later_measurement_is_killed(self):
        archive = self.folder / "results.tar.gz"
        with self.begin_gpu("bench", "resnet152", "vit-b16", "--archive", archive, HANGING="vit-b16") as running:
            while not archive.exists():
                self.assertIsNone(running.poll())
                time.sleep(0.05)
            running.terminate()
        self.assertIn("bench/resnet152.json", self.files())
        with tarfile.open(archive) as packed:
            self.assertIn("./bench/resnet152.json", packed.getnames())

    def test_a_measurement_that_fails_stops_no_other(self):
        result = self.run_gpu("bench", FAILING="bert-large")
        self.assertEqual(result.returncode, 1)
        self.assertIn("bert-large ended with status 3", result.stderr)
        rows = ["resnet152", "vit-b16", "offload", "cap", "batch"]
        self.assertEqual(sorted(file for file in self.files() if file.endswith("json")),
                         sorted(f"bench/{name}.json" for name in rows))

    def test_batches_are_those_that_the_card_has_memory_for(self):
        for free, batch, batches, peak in (("80000", 128, "64,128", "10GiB"), ("15000", 64, "32,64", "10GiB"),
                                           ("8000", 32, "16,32", "5952MiB"), ("[N/A]", 32, "16,32", "10GiB")):
            result = self.run_gpu("bench", "resnet152", "batch", FREE=free)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"--batch {batch} ", (self.out / "bench/resnet152.log").read_text())
            self.assertIn(f"--batches {batches} --image-size 224 --data data/digits.csv.gz --max-peak {peak} ",
                          (self.out / "bench/batch.log").read_text())

    def test_batches_say_whether_they_reach_their_goal(self):
        self.assertIn("not tried: Goal: 3 times the batch", self.run_gpu("bench", "batch").stdout)
        self.assertNotIn("Goal", self.run_gpu("bench", "cap").stdout)

    def test_random_programs_are_counted(self):
        result = self.run_gpu("fuzz", "--programs", "60")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "60 passed, 0 failed, 0 skipped")
        logs = "".join(file.read_text() for file in self.out.glob("fuzz/*.log"))
        self.assertIn("--device cuda --manners polite --seed 51 --programs 10\n", logs)

    def test_random_programs_that_fail_stop_no_other(self):
        result = self.run_gpu("fuzz", "--programs", "60", FAILING_SEED="--seed 26 ")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.splitlines()[-1], "59 passed, 1 failed, 0 skipped")

    def test_one_model_leaves_the_rows_of_others(self):
        self.run_gpu("bench", "resnet152", "vit-b16")
        self.run_gpu("bench", "vit-b16", "--", "--dtype", "bfloat16")
        self.assertNotIn("bfloat16", (self.out / "bench/resnet152.log").read_text())
        self.assertIn("bfloat16", (self.out / "bench/vit-b16.log").read_text())

    def test_programs_run_with_libtorch_and_its_backend(self):
        self.run_gpu("bench", "cap")
        libraries, preloaded, arguments = (self.out / "bench/cap.log").read_text().split(" : ")
        self.assertTrue(libraries.endswith(str(self.folder / "torch/lib")), libraries)
        self.assertEqual(preloaded, "libtorch_cuda.so libc10_cuda.so")
        self.assertIn("--device cuda", arguments)

    def test_a_sanitizer_runs_the_tests(self):
        self.make(self.tools, "compute-sanitizer", 'echo "$*"; [[ "$*" != *initcheck* ]]')
        self.assertEqual(self.run_gpu("sanitize").returncode, 1)
        self.assertIn(f"--tool memcheck {self.bin}/kernels_gpu_test", (self.out / "sanitize/memcheck.log").read_text())
        self.assertEqual((self.out / "sanitize/memcheck.status").read_text(), "0\n")
        self.assertEqual((self.out / "sanitize/initcheck.status").read_text(), "1\n")

    def test_all_stages_end_in_a_summary(self):
        result = self.run_gpu("all", "--limit", "60", "--programs", "50")
        self.assertIn("2 passed, 0 failed, 0 skipped", result.stdout)
        self.assertIn("held:      Kernels give the bits of LibTorch and of the CPU", result.stdout)
        self.assertIn("compute-sanitizer did not run", result.stdout)
        self.assertFalse([file for file in self.files() if ".part" in file])


if __name__ == "__main__":
    Gpu.root = Path(sys.argv.pop())
    unittest.main()
