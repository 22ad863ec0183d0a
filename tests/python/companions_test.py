"""Other parts of torch around, in and beside regions: checkpoints, optimizers in backward, parametrised
modules, autocast, profilers, loaders, and the end of the process. Usage: see program.py."""

import gc
import os
import subprocess
import sys
import tempfile
import unittest

import program

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from torch.utils.data import DataLoader, TensorDataset

import regions
from regions import assert_same_in_every_mode


def make_net(width=8):
    return nn.Sequential(
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        nn.Dropout(0.2),
        nn.Linear(width, width),
        nn.LayerNorm(width),
        nn.GELU(),
        nn.Linear(width, width),
    )


def state_of(net):
    yield from (None if p.grad is None else p.grad.clone() for p in net.parameters())
    yield from (b.clone() for b in net.buffers())


def training_of(make, forward=lambda net, run, x: run(lambda: net(x)), shape=(6, 8)):
    """A program of training steps of the net that `make()` makes."""

    def steps(run):
        net = make()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            y = forward(net, run, torch.randn(*shape))
            y.pow(2).mean().backward()
            yield y.detach().clone()
            yield from state_of(net)
            optimizer.step()

    return steps


class Checkpoints(unittest.TestCase):
    """torch.utils.checkpoint, whose second forward draws other numbers unless told not to: it is."""

    def test_of_torch_in_a_region(self):
        for use_reentrant in (False, True):
            def forward(net, run, x):
                def body():
                    h = net[:4](x)
                    return net[7](torch_checkpoint(net[4:7], h, use_reentrant=use_reentrant).sin())

                return run(body)

            with self.subTest(use_reentrant=use_reentrant):
                assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_of_torch_around_a_region(self):
        for use_reentrant in (False, True):
            def forward(net, run, x):
                h = net[0](x)
                inside = lambda t: run(lambda: net[4:7](net[3](t)))  # noqa: E731
                return net[7](torch_checkpoint(inside, h, use_reentrant=use_reentrant))

            with self.subTest(use_reentrant=use_reentrant):
                assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_of_ours_in_a_region(self):
        def forward(net, run, x):
            return run(lambda: net[4:](regions.checkpoint(lambda: net[:4](x))))

        assert_same_in_every_mode(self, training_of(make_net, forward))


class Modules(unittest.TestCase):
    def same(self, make, shape=(6, 8), forward=lambda net, run, x: run(lambda: net(x))):
        assert_same_in_every_mode(self, training_of(make, forward, shape))

    def test_with_hooks(self):
        def make():
            net = make_net()
            net[4].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
            net[4].register_forward_hook(lambda module, inputs, output: output.sin())
            net[6].register_full_backward_hook(lambda module, before, after: (before[0] * 0.5,))
            net[0].weight.register_hook(lambda gradient: gradient * 3)
            return net

        self.same(make)

    def test_with_spectral_norm(self):
        def make():
            net = make_net()
            net[4] = nn.utils.parametrizations.spectral_norm(net[4])
            net[7] = nn.utils.spectral_norm(net[7])
            return net

        self.same(make)

    def test_with_weight_norm(self):
        def make():
            net = make_net()
            net[4] = nn.utils.parametrizations.weight_norm(net[4])
            return net

        self.same(make)

    def test_transformer(self):
        layer = lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)  # noqa: E731
        self.same(lambda: nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False), (2, 5, 8))

    def test_recurrent(self):
        for kind in (nn.LSTM, nn.GRU):
            with self.subTest(kind=kind.__name__):
                forward = lambda net, run, x: run(lambda: net(x)[0].sin())  # noqa: E731
                self.same(lambda: kind(8, 8, 2, dropout=0.3), (5, 3, 8), forward)

    def test_packed_sequences(self):
        def forward(net, run, x):
            def body():
                packed = nn.utils.rnn.pack_padded_sequence(x.sin(), [5, 3, 2])
                return nn.utils.rnn.pad_packed_sequence(net(packed)[0])[0].exp()

            return run(body)

        self.same(lambda: nn.LSTM(8, 8), (5, 3, 8), forward)

    def test_sparse_gradients_of_an_embedding(self):
        def steps(run):
            net = nn.Embedding(20, 8, sparse=True)
            for _ in range(3):
                net.weight.grad = None
                run(lambda: net(torch.randint(20, (5,))).sin().exp()).sum().backward()
                yield net.weight.grad.to_dense()

        assert_same_in_every_mode(self, steps)

    def test_lazy(self):
        self.same_lazily()

    def same_lazily(self):
        def steps(run):
            net = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(4))
            for _ in range(3):
                net.zero_grad()
                run(lambda: net(torch.randn(3, 5))).exp().sum().backward()
                yield from state_of(net)

        assert_same_in_every_mode(self, steps)


class Settings(unittest.TestCase):
    def test_autocast(self):
        def around(net, run, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return run(lambda: net(x)).float()

        def inside(net, run, x):
            def body():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    h = net[:5](x)
                return net[5:](h.float())

            return run(body)

        for forward in (around, inside):
            with self.subTest(forward=forward.__name__):
                assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_anomaly_detection(self):
        def forward(net, run, x):
            with torch.autograd.set_detect_anomaly(True, check_nan=False):
                return run(lambda: net(x))

        assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_deterministic_algorithms(self):
        before = torch.are_deterministic_algorithms_enabled()
        self.addCleanup(torch.use_deterministic_algorithms, before)
        torch.use_deterministic_algorithms(True)
        assert_same_in_every_mode(self, training_of(make_net))

    def test_profiler(self):
        def forward(net, run, x):
            with torch.profiler.profile(record_shapes=True, profile_memory=True):
                return run(lambda: net(x))

        assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_counting_flops(self):
        from torch.utils.flop_counter import FlopCounterMode

        def forward(net, run, x):
            with FlopCounterMode(display=False):
                return run(lambda: net(x))

        assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_default_device_and_function_modes(self):
        def forward(net, run, x):
            with torch.device("cpu"):
                return run(lambda: net(x) * torch.ones(8))

        assert_same_in_every_mode(self, training_of(make_net, forward))

    def test_inference_mode_in_a_region(self):
        def forward(net, run, x):
            def body():
                with torch.inference_mode():
                    scale = net[0](x).abs().mean().item()
                return net(x * scale)

            return run(body)

        assert_same_in_every_mode(self, training_of(make_net, forward))


class Loops(unittest.TestCase):
    def test_optimizer_in_backward(self):
        def steps(run):
            net = make_net()
            optimizers = {p: torch.optim.SGD([p], lr=0.05) for p in net.parameters()}

            def step(parameter):
                optimizers[parameter].step()
                parameter.grad = None

            for parameter in net.parameters():
                parameter.register_post_accumulate_grad_hook(step)
            for _ in range(3):
                run(lambda: net(torch.randn(6, 8))).pow(2).mean().backward()
                yield from (p.detach().clone() for p in net.parameters())

        assert_same_in_every_mode(self, steps)

    def test_accumulation_and_clipping(self):
        def steps(run):
            net = make_net()
            optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, foreach=True)
            for _ in range(3):
                optimizer.zero_grad()
                for _ in range(2):
                    run(lambda: net(torch.randn(6, 8))).pow(2).mean().backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                optimizer.step()
                yield from state_of(net)

        assert_same_in_every_mode(self, steps)

    def test_second_optimizer_step_by_closure(self):
        def steps(run):
            net = make_net()
            optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
            x = torch.randn(6, 8)

            def closure():
                optimizer.zero_grad()
                loss = run(lambda: net(x)).pow(2).mean()
                loss.backward()
                return loss

            for _ in range(3):
                optimizer.step(closure)
                yield from state_of(net)

        assert_same_in_every_mode(self, steps)

    def test_loader_with_forked_workers(self):
        data = TensorDataset(torch.linspace(-1, 1, 6 * 8 * 3).view(-1, 8))

        def steps(run):
            net = make_net()
            for (x,) in DataLoader(data, batch_size=6, num_workers=1, multiprocessing_context="fork"):
                net.zero_grad()
                run(lambda: net(x)).pow(2).mean().backward()
                yield from state_of(net)

        assert_same_in_every_mode(self, steps)

    def test_loader_iterated_in_a_region(self):
        data = TensorDataset(torch.linspace(-1, 1, 6 * 8 * 3).view(-1, 8))

        def steps(run):
            net = make_net()
            for workers in (0, 1):
                loader = DataLoader(data, batch_size=6, num_workers=workers, multiprocessing_context="fork" if workers else None)
                for _ in range(3):
                    net.zero_grad()
                    run(lambda: sum(net(x).sin() for (x,) in loader)).sum().backward()
                    yield from state_of(net)

        assert_same_in_every_mode(self, steps)

    def test_region_that_ends_before_backward(self):
        expected = None
        for make in (lambda: regions.plainly, *regions.every_mode().values()):
            torch.manual_seed(4)
            net = make_net()
            y = make()(lambda: net(torch.randn(6, 8)))
            gc.collect()
            y.sum().backward()
            state = list(state_of(net))
            expected = expected or state
            self.assertEqual(regions.differences(expected, state), [])

    def test_backward_twice(self):
        def forward(net, run, x):
            y = run(lambda: net(x))
            y.sum().backward(retain_graph=True)
            return y

        assert_same_in_every_mode(self, training_of(make_net, forward))


class Plans(unittest.TestCase):
    def test_are_followed_from_the_second_step(self):
        region = regions.Region(policy="drop_all")
        net = make_net()
        for step in range(3):
            net.zero_grad()
            region.run(lambda: net(torch.randn(6, 8))).sum().backward()
            self.assertEqual(region.followed_plan(), step > 0, region.report())
            self.assertGreater(region.num_replays(), 0)


AT_EXIT = """
import sys
sys.argv[1:] = {arguments!r}
sys.path.insert(0, {folder!r})
import program, regions, torch

@torch.library.custom_op("gradrecomp_test::last_exp", mutates_args=())
def last_exp(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x)

last_exp.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)
region = regions.Region(policy="drop_all")
x = torch.randn(8, requires_grad=True)
region.run(lambda: last_exp(x.sin()).cos()).sum().backward()
waiting = region.run(lambda: last_exp(x.sin()).cos())
partly = region.run(lambda: x.sin().exp().cos())
partly.sum().backward(retain_graph=True)
inner = regions.checkpoint(lambda: x.sin().exp())
{end}
print("at the end", flush=True)
"""


class Ends(unittest.TestCase):
    def exit_of(self, end):
        code = AT_EXIT.format(arguments=sys.argv[1:3], folder=os.path.dirname(os.path.abspath(__file__)), end=end)
        environment = {**os.environ, "MALLOC_PERTURB_": "85"}
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "program_that_ends.py")
            with open(file, "w") as out:
                out.write(code)
            done = subprocess.run(
                [sys.executable, "-B", file], env=environment, capture_output=True, text=True, timeout=120
            )
        self.assertIn("at the end", done.stdout, done.stderr)
        return done

    def test_with_graphs_alive(self):
        done = self.exit_of("")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_in_an_open_step(self):
        done = self.exit_of("step = regions._calls.step_open(region._region); open_value = x.sin().exp()")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_in_a_forked_child(self):
        end = """
import os
child = os.fork()
if child == 0:
    x.grad = None
    waiting.sum().backward()
    region.run(lambda: x.sin().exp().cos()).sum().backward()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
        done = self.exit_of(end)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    program.main()
