"""Regions in a Python process: they work, and plain Python training beside them is unaffected.

Usage: region_steps_test.py <library of region_steps.cpp> <libtorch_cpu it was linked with>
Exits with 77 where no Python has the torch module of that LibTorch.
"""

import ctypes
import sys
import threading
import unittest
from pathlib import Path

from torch_module import need_torch

LIBRARY, LIBTORCH = (Path(argument).resolve() for argument in sys.argv[1:3])

need_torch(LIBTORCH)

import torch  # noqa: E402 - only where it can be imported
from square import Square  # noqa: E402


def plain_training(between=lambda: None):
    """Gradients of a few steps that use what Python adds to autograd; `between` runs in each."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Tanh())
    packed = []
    gradients = []
    for _ in range(3):
        x = torch.randn(5, 4)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            loss = Square.apply(model(x)).sum()
        state = torch.get_rng_state()
        between()
        torch.set_rng_state(state)
        loss.backward()
        gradients += [parameter.grad.clone() for parameter in model.parameters()]
    return gradients, len(packed)


class RegionSteps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.before = plain_training()
        cls.region_steps = ctypes.CDLL(str(LIBRARY)).region_steps

    def assert_unaffected(self, training):
        gradients, num_packed = training
        self.assertEqual(num_packed, self.before[1], "calls of the pack hook")
        for one, other in zip(gradients, self.before[0], strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_regions_are_exact(self):
        self.assertGreater(self.region_steps(), 0)

    def test_training_after_and_between_regions_is_unaffected(self):
        self.region_steps()
        self.assert_unaffected(plain_training())
        self.assert_unaffected(plain_training(between=self.region_steps))

    def test_errors_of_python_functions_arrive(self):
        self.region_steps()
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda gradient: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            Square.apply(x).sum().backward()

    def test_training_in_another_thread_is_unaffected(self):
        x = torch.linspace(-1, 1, 64, requires_grad=True)
        expected = torch.autograd.grad(Square.apply(x.exp()).sum(), x)[0]
        seen = []

        def train():
            for _ in range(50):
                seen.append(torch.autograd.grad(Square.apply(x.exp()).sum(), x)[0])

        thread = threading.Thread(target=train)
        thread.start()
        for _ in range(20):
            self.assertGreater(self.region_steps(), 0)
        thread.join()
        self.assertEqual(len(seen), 50)
        self.assertTrue(all(torch.equal(gradient, expected) for gradient in seen))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
