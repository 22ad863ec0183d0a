"""Saved-tensor hooks of the program and writes that no operator makes. Usage: see program.py."""

import contextlib
import unittest

import program

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

import regions
from regions import assert_same_in_every_mode, gradient_of, steps_of

MODIFIED = "modified by an inplace operation"
CHANGED = "was overwritten after the forward pass"


def numpy_or_skip(case):
    try:
        import numpy
    except ImportError:
        case.skipTest("this Python has no numpy")
    return numpy


class SavedTensorHooks(unittest.TestCase):
    """Hooks that lose bits, so that it shows where they were not called."""

    def hooks(self):
        self.num_packed = self.num_unpacked = 0

        def pack(tensor):
            self.num_packed += 1
            return tensor.detach() * 0.5

        def unpack(packed):
            self.num_unpacked += 1
            return packed + 0.125

        return saved_tensors_hooks(pack, unpack)

    def same_with(self, around, inside):
        def body(x):
            h = x.sin().exp()
            with inside():
                h = h.cos() * h.sin()
            return h.exp().sin()

        def steps(run):
            weight = torch.linspace(-1, 1, 25).view(5, 5).requires_grad_()
            for _ in range(3):
                x = torch.randn(4, 5)
                with around():
                    y = run(lambda: body(x.mm(weight)))
                yield from (y.detach().clone(), gradient_of(y, weight))

        assert_same_in_every_mode(self, steps)

    def test_around_a_region(self):
        self.same_with(self.hooks, contextlib.nullcontext)
        self.assertGreater(self.num_packed, 0)
        self.assertGreater(self.num_unpacked, 0)

    def test_in_a_region(self):
        self.same_with(contextlib.nullcontext, self.hooks)
        self.assertEqual(self.num_packed, 4, "what cos(), sin() and their product save")

    def test_save_on_cpu_around_a_region(self):
        self.same_with(save_on_cpu, contextlib.nullcontext)

    def test_save_on_cpu_in_a_region(self):
        self.same_with(contextlib.nullcontext, save_on_cpu)

    def test_quantiser_around_a_region(self):
        def to_bfloat16():
            return saved_tensors_hooks(
                lambda t: (t.dtype, t.to(torch.bfloat16)), lambda packed: packed[1].to(packed[0])
            )

        self.same_with(to_bfloat16, contextlib.nullcontext)

    def test_hooks_that_run_a_region(self):
        def steps(run):
            for _ in range(3):
                x = torch.randn(5, requires_grad=True)
                with saved_tensors_hooks(lambda t: run(lambda: t.detach().sin()), lambda t: t.exp()):
                    y = x.exp() * x.cos()
                yield gradient_of(y, x)

        assert_same_in_every_mode(self, steps)

    def test_disabled_hooks_around_a_region(self):
        def steps(run):
            for _ in range(3):
                x = torch.randn(5, requires_grad=True)
                with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
                    y = run(lambda: x.sin().exp().cos())
                yield gradient_of(y, x)

        assert_same_in_every_mode(self, steps)


class IncrementInNumpy(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        x.detach().numpy()[:] += 1
        context.mark_dirty(x)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient


class NumpyWrites(unittest.TestCase):
    def setUp(self):
        self.numpy = numpy_or_skip(self)

    def test_marked_dirty(self):
        body = lambda x: IncrementInNumpy.apply(x.clone()).square()  # noqa: E731
        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(3), body))

    def test_marked_dirty_amid_other_work(self):
        def body(x):
            h = x.sin().exp()
            return (IncrementInNumpy.apply(h.cos() * 2).square() * h).sin()

        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(3, 5), body))

    def steps_over_a_buffer(self, shape, body):
        """Steps whose batches come in one buffer, filled again between forward and backward."""
        generator = self.numpy.random.default_rng(3)
        numbers = generator.standard_normal((4, *shape)).astype("float32")

        def program_of_steps(run):
            buffer = self.numpy.array(numbers[0])
            weight = torch.linspace(-1, 1, shape[-1] ** 2).view(shape[-1], -1).requires_grad_()
            for step in range(3):
                x = torch.from_numpy(buffer)
                y = run(lambda: body(x, weight))
                buffer[...] = numbers[step + 1]  # what a loader does that is a batch ahead
                yield from (y.detach().clone(), gradient_of(y, weight))

        return program_of_steps

    def test_refilled_buffer_that_plain_training_does_not_see(self):
        def body(x, weight):
            return ((x.sin() * 2).mm(weight)).tanh().exp()

        # Autograd saves what sin() gave times 2, which only a replay makes from the buffer.
        for shape in ((4, 5), (64, 96)):
            with self.subTest(shape=shape):
                assert_same_in_every_mode(self, self.steps_over_a_buffer(shape, body), CHANGED)

    def test_refilled_buffer_that_plain_training_sees(self):
        for shape in ((4, 5), (64, 96)):
            with self.subTest(shape=shape):
                body = lambda x, weight: x.mm(weight).tanh().exp()  # noqa: E731
                assert_same_in_every_mode(self, self.steps_over_a_buffer(shape, body), CHANGED)

    def test_table_made_in_numpy(self):
        def body(x):
            table = torch.from_numpy(self.numpy.linspace(0, 1, 5, dtype="float32")).clone()
            mask = torch.ones(5)
            mask.numpy()[2:] = 0
            return (x.sin() * table * mask).exp()

        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4, 5), body))

    def test_result_read_and_written_in_numpy(self):
        def body(x):
            h = x.sin()
            counts = h.detach().cos()
            counts.numpy()[0] = 3.0
            return (h * counts).exp() * counts.sin()

        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4, 5), body))


class WritesThroughData(unittest.TestCase):
    def same(self, body, write, *, error=None, num_errors=None):
        def steps(run):
            weight = torch.linspace(-1, 1, 25).view(5, 5).requires_grad_()
            x = torch.randn(4, 5)
            for _ in range(3):
                y = run(lambda: body(x, weight))
                write(x, weight)
                yield from (y.detach().clone(), gradient_of(y, weight))

        raised = assert_same_in_every_mode(self, steps, error)
        if num_errors is not None:
            self.assertEqual(raised, num_errors)

    def test_of_a_weight_that_only_replays_read(self):
        body = lambda x, weight: x.mm(weight.exp()).tanh().sin()  # noqa: E731
        self.same(body, lambda x, weight: weight.data.add_(0.5), error=CHANGED)

    def test_of_a_weight_that_autograd_saves(self):
        body = lambda x, weight: x.sin().mm(weight).mm(weight).tanh()  # noqa: E731
        self.same(body, lambda x, weight: weight.data.add_(0.5), error=CHANGED)

    def test_of_a_weight_that_nothing_reads_again(self):
        body = lambda x, weight: x.mm(weight)  # noqa: E731
        self.same(body, lambda x, weight: weight.data.add_(0.5), num_errors=0)

    def test_of_an_input(self):
        body = lambda x, weight: x.sin().mm(weight).tanh().exp()  # noqa: E731
        self.same(body, lambda x, weight: x.data.zero_(), error=CHANGED)

    def test_new_data(self):
        def write(x, weight):
            weight.data = weight.data + 0.5

        body = lambda x, weight: x.sin().mm(weight).mm(weight).tanh()  # noqa: E731
        self.same(body, write)

    def test_with_a_version_is_autograds_error(self):
        def step(run):
            weight = torch.ones(5, requires_grad=True)
            y = run(lambda: weight.sin().exp() * weight)
            with torch.no_grad():
                weight.add_(1)
            y.sum().backward()

        modes = {"plain": lambda: regions.plainly, **regions.every_mode()}
        for name, make in modes.items():
            with self.subTest(mode=name), self.assertRaisesRegex(RuntimeError, MODIFIED):
                step(make())


if __name__ == "__main__":
    program.main()
