"""The comparison with Python's tools, on small models.

Usage: peers_test.py <library of python_region.cpp> <libtorch_cpu it was linked with> <benchmarks/peers>
Exits with 77 where no Python has what it needs.
"""

import sys
import time
import unittest
from pathlib import Path

from torch_module import need_torch

LIBRARY, LIBTORCH, PEERS = (Path(argument).resolve() for argument in sys.argv[1:4])
need_torch(LIBTORCH, ("torch", "torchvision", "transformers"))
sys.path.insert(0, str(PEERS))

import torch  # noqa: E402 - only where it can be imported

import methods  # noqa: E402
import region  # noqa: E402
from limit import limited_to  # noqa: E402
from measurement import Runner  # noqa: E402
from models import make_workload  # noqa: E402
from report import markdown  # noqa: E402

SMALL = {
    "resnet152": {"batch": 2, "image_size": 64, "layers": (2, 2, 2, 1)},
    "vit-b16": {"batch": 8, "image_size": 64, "num_layers": 4, "hidden_dim": 24, "mlp_dim": 48},
    "bert-large-encoder": {
        "batch": 2,
        "sequence": 8,
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "intermediate_size": 64,
    },
}


def small(name):
    return make_workload(name, **SMALL[name])


def run(method, name="resnet152"):
    runner = Runner(small(name), num_rounds=1)
    return runner.run(method, limited_to(60)), runner.plain


class Peers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        region.load(LIBRARY)

    def test_blocks_in_a_row_are_the_model(self):
        for name in SMALL:
            workload = small(name)
            torch.manual_seed(1)
            expected = workload.module(workload.input)
            torch.manual_seed(1)
            ours = workload.forward()
            self.assertTrue(torch.equal(getattr(expected, "last_hidden_state", expected), ours), name)

    def test_all_train_alike_in_less_memory(self):
        for name in SMALL:
            for make in (*methods.EAGER.values(), lambda: methods.grad_recomp(0.18, "flops")):
                result, plain = run(make(), name)
                self.assertEqual(result.failure, "")
                self.assertTrue(plain.equal_gradients)
                self.assertTrue(result.equal_gradients, (name, result.method))
                self.assertLess(result.peak_bytes, plain.peak_bytes, (name, result.method))
                self.assertLess(result.held_bytes, plain.held_bytes, (name, result.method))

    def test_a_second_forward_shows_in_the_buffers_of_batch_norm(self):
        result, plain = run(methods.every_block())
        self.assertEqual(plain.num_different_buffers, 0)
        self.assertEqual(result.num_different_buffers, result.num_buffers)
        self.assertIn(f"{result.num_buffers} of {result.num_buffers} differ", markdown([plain, result], ""))

    def test_grad_recomp_takes_what_it_predicts_and_leaves_equal_buffers(self):
        result, plain = run(methods.grad_recomp(0.18, "flops"))
        self.assertEqual(result.peak_bytes, result.region["predicted_peak_bytes"])
        self.assertTrue(result.region["followed_plan"])
        self.assertGreater(result.region["num_replayed_ops"], 0)
        self.assertEqual(result.num_different_buffers, 0)

    def test_selective_checkpoints_hold_what_is_expensive(self):
        selective, _ = run(methods.selective())
        every_block, _ = run(methods.every_block())
        self.assertGreater(selective.held_bytes, every_block.held_bytes)

    def test_a_wrong_gradient_is_found(self):
        def prepare(workload):
            return lambda: workload.forward() * 2

        result, plain = run(methods.Method("wrong", prepare), "vit-b16")
        self.assertFalse(result.equal_gradients)
        self.assertGreater(result.gradient_difference, 0.1)
        self.assertIn("differ by", markdown([plain, result], ""))

    def test_a_failure_is_a_result(self):
        def prepare(_workload):
            return lambda: region.Region(0.05, "flops").run(lambda: 1 / 0)

        result, plain = run(methods.Method("failing", prepare))
        self.assertEqual(result.failure, "ZeroDivisionError: division by zero")
        self.assertIn("failing: ZeroDivisionError", markdown([plain, result], ""))

    def test_preparation_ends_at_its_limit(self):
        with self.assertRaisesRegex(TimeoutError, "not ready after 0.01 s"), limited_to(0.01):
            time.sleep(60)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
