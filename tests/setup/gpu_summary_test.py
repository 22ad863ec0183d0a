"""What scripts/gpu's summary says of results. All results here are made up; none comes from a card.

Usage: gpu_summary_test.py <repository root>
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ARM = {"arm": "max_overhead", "equal": "yes", "num_compared_steps": 7, "measured_peak_bytes": 1005,
       "predicted_peak_bytes": 1000, "overhead_wall": 0.055, "plain_to_plain_high": 0.01,
       "plain_to_plain_low": -0.003, "offloaded_bytes": 1 << 20, "followed_plan": True, "num_alloc_retries": 0}
PLAIN = {**ARM, "arm": "plain", "overhead_wall": 0.0, "offloaded_bytes": 0}
BITS = "Steps give plain's bits"
BYTES = "Predicted bytes are within 1% of requested ones"
TIME = "Wall time stays within the budget"
GRAPHS = "Steps in CUDA graphs"
BATCH = "A larger batch in the same bytes"
GOAL = "Goal: 3 times the batch in the same bytes"
CAP = "Training under a memory cap"
PROGRAMS = "Random programs give plain's bits"
MEMORY = "Kernels stay inside their memory"


class Summary(unittest.TestCase):
    root = None  # of the repository

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def write(self, path, text):
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text)

    def measured(self, part, **changes):
        self.write(f"bench/{part}.json", json.dumps([PLAIN, {**ARM, **changes}]))

    def write_case(self, name, inside=""):
        suite, case = name.split(".")
        self.write("tests/cuda_test.xml", f'<testsuite><testcase classname="{suite}" name="{case}" status="run">'
                                          f'{inside}</testcase></testsuite>')

    def summary(self):
        """The verdict and the text of each claim."""
        result = subprocess.run([sys.executable, "-B", self.root / "scripts/gpu_summary.py", self.folder],
                                capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        claims = {}
        for line in result.stdout.splitlines():
            if not line.startswith(" "):
                verdict, _, claim = line.partition(":")
                texts = []
                claims[claim.strip()] = (verdict, texts)
            else:
                texts.append(line.strip())
        self.assertEqual(result.returncode, any(verdict == "FAILED" for verdict, _ in claims.values()))
        return claims

    def expect(self, claim, verdict, text):
        found, texts = self.summary()[claim]
        self.assertEqual(found, verdict, texts)
        self.assertTrue(any(text in each for each in texts), texts)

    def test_without_results_nothing_was_tried(self):
        self.assertEqual({verdict for verdict, _ in self.summary().values()}, {"not tried"})
        self.expect(TIME, "not tried", "resnet152: not measured")

    def test_bits(self):
        self.measured("resnet152")
        self.expect(BITS, "held", "max_overhead: equal yes in 7 steps")
        self.measured("resnet152", equal="NO")
        self.expect(BITS, "FAILED", "max_overhead: equal NO")

    def test_random_programs(self):
        self.write("fuzz/programs.txt", "99 passed, 0 failed, 1 skipped\n")
        self.expect(PROGRAMS, "held", "99 passed, 0 failed, 1 skipped; see fuzz/*.log")
        self.write("fuzz/programs.txt", "98 passed, 1 failed, 1 skipped\n")
        self.expect(PROGRAMS, "FAILED", "98 passed, 1 failed")
        self.write("fuzz/programs.txt", "0 passed, 0 failed, 4 skipped\n")
        self.expect(PROGRAMS, "not tried", "4 skipped")

    def test_where_plain_itself_differs_nothing_is_known(self):
        rows = [{**row, "equal": "plain itself differs"} for row in (PLAIN, ARM)]
        self.write("bench/vit-b16.json", json.dumps(rows))
        self.expect(BITS, "not tried", "plain itself differs")

    def test_bytes(self):
        self.measured("resnet152", measured_peak_bytes=1010)
        self.expect(BYTES, "held", "measured +1.00% of predicted")
        self.measured("resnet152", measured_peak_bytes=980)
        self.expect(BYTES, "FAILED", "measured -2.00% of predicted")

    def test_time_may_miss_the_budget_by_what_plain_steps_differ(self):
        self.measured("bert-large")
        self.expect(TIME, "held", "+5.5% for a budget of 5%, A/A within 1.0%")
        self.measured("bert-large", overhead_wall=0.07)
        self.expect(TIME, "FAILED", "+7.0% for a budget of 5%")

    def test_offloading(self):
        self.measured("offload")
        self.expect("Offloading", "held", "1048576 bytes a step")
        self.measured("offload", offloaded_bytes=0)
        self.expect("Offloading", "FAILED", "0 bytes a step")

    def test_a_test_that_skips_is_not_tried_for_its_reason(self):
        name = "Cuda.C6StepCapturedInAGraphIsReplayedThreeTimes"
        self.write_case(name)
        self.expect(GRAPHS, "held", "1 tests, Cuda.C6*")
        self.write_case(name, '<skipped message="no backend"/>')
        self.expect(GRAPHS, "not tried", "no backend")
        self.write_case(name, '<failure message="other bits"/>')
        self.expect(GRAPHS, "FAILED", "other bits")

    def test_what_ended_early_failed(self):
        self.write("bench/cap.status", "124\n")
        self.expect(CAP, "FAILED", "cap: ended with status 124, its time limit; see bench/cap.log")
        self.measured("cap", followed_plan=False)
        self.expect(CAP, "FAILED", "max_overhead")

    def batches(self, largest, equal=True, images_per_second=95):
        plain = {"batch": 6, "samples_per_second": 100, "bitwise_equal": None}
        planned = {"batch": largest, "samples_per_second": images_per_second, "bitwise_equal": equal}
        answers = [{"answer": name, "confirmed_batch": trial["batch"], "trials": [trial]}
                   for name, trial in (("plain", plain), ("largest batch", planned))]
        self.write("bench/batch.json", json.dumps({"max_peak_bytes": 10 << 30, "max_overhead": 0.085, "answers": answers}))

    def test_batches(self):
        self.batches(20)
        self.expect(BATCH, "held", "plain 6, largest batch 20")
        self.expect(BATCH, "held", "equal yes")
        self.batches(6)
        self.expect(BATCH, "FAILED", "plain 6, largest batch 6")
        self.batches(20, equal=False)
        self.expect(BATCH, "FAILED", "equal NO")
        self.batches(20, equal=None)
        self.expect(BATCH, "held", "not tried: batch: equal")

    def test_the_goal_of_batches_may_be_missed(self):
        self.batches(20)
        self.expect(GOAL, "held", "3.33 times as many images in 10.0 GiB, +5.3% of seconds an image")
        self.batches(17)
        self.expect(GOAL, "missed", "the goal is 3 times at 8.5%")
        self.batches(20, images_per_second=90)
        self.expect(GOAL, "missed", "+11.1% of seconds an image")
        self.batches(0)
        self.expect(GOAL, "not tried", "no batch was confirmed")

    def test_the_sanitizer(self):
        self.write("sanitize/memcheck.status", "0\n")
        self.expect(MEMORY, "held", "memcheck: status 0")
        self.write("sanitize/initcheck.status", "99\n")
        self.expect(MEMORY, "FAILED", "initcheck: status 99")


if __name__ == "__main__":
    Summary.root = Path(sys.argv.pop())
    unittest.main()
