"""torch.compile, operators of higher order and torch.jit in regions. Usage: see program.py."""

import unittest

import program

import torch
import torch.utils.checkpoint

import regions
from regions import assert_same_in_every_mode, gradient_of, steps_of


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(12, 6), torch.nn.Tanh()
    )


def training_of(make_function, warm, num_steps=3):
    """A program that trains `make_function(net)` in a region; `warm`: it has been compiled before."""

    def steps(run):
        torch.compiler.reset()
        net = model()
        function = make_function(net)
        if warm:
            function(torch.randn(4, 6)).sum().backward()
            net.zero_grad()
        torch.manual_seed(2)
        for _ in range(num_steps):
            y = run(lambda: function(torch.randn(4, 6)).sin())
            y.pow(2).sum().backward()
            yield y.detach().clone()
            for parameter in net.parameters():
                yield parameter.grad.clone()
            net.zero_grad()

    return steps


class Compiled(unittest.TestCase):
    def same(self, backend, make_function=None):
        make_function = make_function or (lambda net: torch.compile(net, backend=backend))
        for warm in (False, True):
            with self.subTest(backend=backend, warm=warm):
                assert_same_in_every_mode(self, training_of(make_function, warm))

    def test_eager(self):
        self.same("eager")

    def test_aot_eager(self):
        self.same("aot_eager")

    def test_inductor(self):
        try:
            torch.compile(lambda x: x.sin() + 1, backend="inductor")(torch.randn(5))
        except Exception as error:  # of many kinds, where no compiler is at hand
            self.skipTest(f"inductor compiles nothing here: {error}".splitlines()[0])
        self.same("inductor")

    def test_function_of_a_leaf(self):
        def steps(run):
            torch.compiler.reset()
            function = torch.compile(lambda x: x.sin().exp(), backend="aot_eager")
            for _ in range(3):
                x = torch.randn(3, requires_grad=True)
                y = run(lambda: function(x))
                yield from (y.detach().clone(), gradient_of(y, x))

        assert_same_in_every_mode(self, steps)

    def test_graph_break(self):
        def make_function(net):
            def function(x):
                h = net(x)
                torch._dynamo.graph_break()
                return h.exp() + net(h)

            return torch.compile(function, backend="aot_eager")

        self.same("aot_eager", make_function)

    def test_dynamic_shapes(self):
        def steps(run):
            torch.compiler.reset()
            net = model()
            function = torch.compile(net, backend="aot_eager", dynamic=True)
            torch.manual_seed(2)
            for batch in (2, 3, 5, 3):
                run(lambda: function(torch.randn(batch, 6)).sin()).sum().backward()
                yield from [parameter.grad.clone() for parameter in net.parameters()]
                net.zero_grad()

        assert_same_in_every_mode(self, steps)


    def test_region_in_it(self):
        def steps(run):
            torch.compiler.reset()
            net = model()

            @torch.compile(backend="aot_eager")
            def function(x):
                h = net[0](x)
                return run(lambda: net[1:](h)).sin()

            torch.manual_seed(2)
            for _ in range(3):
                function(torch.randn(4, 6)).sum().backward()
                yield from [parameter.grad.clone() for parameter in net.parameters()]
                net.zero_grad()

        assert_same_in_every_mode(self, steps)

    def test_checkpoint_in_it(self):
        def make_function(net):
            def function(x):
                return torch.utils.checkpoint.checkpoint(lambda t: net(t).sin(), x, use_reentrant=False).exp()

            return torch.compile(function, backend="aot_eager")

        self.same("aot_eager", make_function)

    def test_backward(self):
        def steps(run):
            torch.compiler.reset()
            net = model()
            torch.manual_seed(2)
            for _ in range(3):
                y = run(lambda: net(torch.randn(4, 6)).sin())
                with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
                    y.sum().backward()
                yield from [parameter.grad.clone() for parameter in net.parameters()]
                net.zero_grad()

        assert_same_in_every_mode(self, steps)

    def test_traced_by_make_fx(self):
        from torch.fx.experimental.proxy_tensor import make_fx

        body = lambda x: make_fx(lambda t: t.sin().exp())(x.detach())(x).cos()  # noqa: E731
        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4), body))

    def test_exported(self):
        module = torch.export.export(model().eval(), (torch.randn(4, 6),)).module()
        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4, 6), lambda x: module(x).exp()))


class HigherOrder(unittest.TestCase):
    """Operators whose kernels Python finds itself."""

    def setUp(self):
        torch.compiler.reset()

    def skip_where_backward_goes_elsewhere(self):
        # Their backward includes the keys of forward, on a thread without a recorder.
        if program.BY_OPERATOR:
            self.skipTest("calls with the key of another library go to that library")

    @staticmethod
    def choose(x):
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x.exp(),)).exp()

    def test_cond(self):
        self.skip_where_backward_goes_elsewhere()
        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4), self.choose))

    def test_compiled_cond(self):
        self.skip_where_backward_goes_elsewhere()
        function = torch.compile(self.choose, backend="eager")
        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4), lambda x: function(x).sin()))

    def test_while_loop(self):
        from torch._higher_order_ops import while_loop

        def body(x):
            with torch.no_grad():
                start = (torch.tensor(0), x.detach().exp())
                _, y = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.sin()), start)
            return (x.exp() * y).sin()

        assert_same_in_every_mode(self, steps_of(lambda: torch.randn(4), body))


class Scripted(unittest.TestCase):
    def same(self, make_function):
        for warm in (False, True):
            with self.subTest(warm=warm):
                assert_same_in_every_mode(self, training_of(make_function, warm, num_steps=4))

    def test_without_dropout(self):
        self.same(lambda net: torch.jit.script(net.eval()))

    def test_without_the_profiling_executor(self):
        before = torch._C._jit_set_profiling_executor(False)
        self.addCleanup(torch._C._jit_set_profiling_executor, before)
        self.same(torch.jit.script)

    def test_with_dropout(self):
        # The first training in a process has other bits than all that follow, plain or not.
        regions.run_seeded(training_of(torch.jit.script, warm=False, num_steps=4), regions.plainly)
        self.same(torch.jit.script)

    def test_traced(self):
        self.same(lambda net: torch.jit.trace(net.eval(), torch.zeros(4, 6)))


if __name__ == "__main__":
    program.main()
