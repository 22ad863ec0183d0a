"""Operators with kernels in Python, and several threads of Python, in regions. Usage: see program.py."""

import threading
import time
import unittest

import program

import torch

import regions
from regions import assert_same_in_every_mode, gradient_of, steps_of
from square import Square

LIBRARY = torch.library.Library("gradrecomp_test", "DEF")
LIBRARY.define("below(Tensor x) -> Tensor")
LIBRARY.impl("below", lambda x: x.clone(), "CPU")


class TwiceTheGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.gradrecomp_test.below(x)

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


LIBRARY.impl("below", TwiceTheGradient.apply, "Autograd")


@torch.library.custom_op("gradrecomp_test::slow_exp", mutates_args=())
def slow_exp(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.002)  # with the interpreter's lock given back, so that other threads come between
    return torch.exp(x)


slow_exp.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)


@torch.library.custom_op("gradrecomp_test::add_one_", mutates_args=("x",))
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


class PythonKernels(unittest.TestCase):
    def same(self, body, **options):
        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(8), body, **options))

    def test_registered_below_and_for_autograd(self):
        self.same(lambda x: torch.ops.gradrecomp_test.below(x.sin()).exp().cos())

    def test_of_a_custom_operator(self):
        self.same(lambda x: slow_exp(x.sin()).cos() * slow_exp(x))

    def test_that_write(self):
        def body(x):
            h = x.sin().exp()
            memory = torch.zeros(8)
            add_one_(memory)
            return (h * memory).cos().exp()

        self.same(body)

    def test_registered_while_a_region_runs(self):
        made = []

        def body(x):
            name = f"late_{len(made)}"
            made.append(torch.library.Library("gradrecomp_test", "FRAGMENT"))
            made[-1].define(f"{name}(Tensor x) -> Tensor")
            made[-1].impl(name, lambda x: torch.sin(x), "CompositeImplicitAutograd")
            return getattr(torch.ops.gradrecomp_test, name)(x.exp()).cos()

        self.same(body)

    def test_with_several_keys_of_autograd(self):
        self.same(lambda x: torch._test_autograd_multiple_dispatch(x.sin()).exp())

    def test_functions_in_python(self):
        self.same(lambda x: Square.apply(Square.apply(x.sin()).exp()).cos())

    def test_that_raise_leave_regions_usable(self):
        region = regions.Region(policy="drop_all")
        x = torch.randn(5, requires_grad=True)
        with self.assertRaises(ZeroDivisionError):
            region.run(lambda: x.sin().exp() / (1 // 0))
        for _ in range(3):
            gradient = gradient_of(region.run(lambda: x.sin().exp().cos()), x)
            self.assertTrue(torch.equal(gradient, gradient_of(x.sin().exp().cos(), x)))


class Threads(unittest.TestCase):
    NUM_THREADS = 4

    def gradients_of_threads(self, y, x):
        gradients = [None] * self.NUM_THREADS

        def work(i):
            (gradients[i],) = torch.autograd.grad(y.sum(), x, retain_graph=True)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(self.NUM_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return gradients

    def test_run_backward_through_one_step(self):
        def steps(run):
            for _ in range(10):
                x = torch.randn(8, requires_grad=True)
                y = run(lambda: Square.apply(Square.apply(slow_exp(x).sin()).exp()).cos() * slow_exp(x))
                yield from self.gradients_of_threads(y, x)

        assert_same_in_every_mode(self, steps)

    def test_have_regions_of_their_own(self):
        def steps(make):
            gradients = {}

            def work(i):
                run = make()
                x = torch.linspace(-1, i, 8, requires_grad=True)
                gradients[i] = [
                    gradient_of(run(lambda: Square.apply(slow_exp(x).sin()).exp()), x) for _ in range(5)
                ]

            threads = [threading.Thread(target=work, args=(i,)) for i in range(self.NUM_THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return [g for i in range(self.NUM_THREADS) for g in gradients[i]]

        plain = steps(lambda: regions.plainly)
        for name, make in regions.every_mode().items():
            with self.subTest(mode=name):
                self.assertEqual(regions.differences(plain, steps(make)), [])


if __name__ == "__main__":
    program.main()
