"""Tensors that are more than strided memory, made by Python, in regions. Usage: see program.py."""

import tempfile
import unittest

import program

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import regions
from regions import assert_same_in_every_mode, gradient_of, steps_of


def random(*shape, **options):
    return lambda: torch.randn(*shape, **options)


class Listing(TorchDispatchMode):
    """Passes everything on."""

    names = []  # of what is called, but for detach(), which autograd calls as it saves

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is not torch.ops.aten.detach.default:
            Listing.names.append(str(function))
        return function(*arguments, **(options or {}))


class Doubling(TorchDispatchMode):
    """Doubles what sin() gives, which plain training then has as well."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        return result * 2 if function is torch.ops.aten.sin.default else result


class ForeignTensors(unittest.TestCase):
    def same(self, *arguments, **options):
        return assert_same_in_every_mode(self, steps_of(*arguments, **options))

    def test_meta(self):
        def body(x):
            shape = torch.empty(4, device="meta")
            dropped = torch.nn.functional.dropout(shape.add(1), 0.5)
            return (x.sin() * dropped.numel()).exp()

        self.same(random(3), body)

    def test_nested(self):
        def body(x):
            h = x.sin()
            nested = torch.nested.as_nested_tensor([h[:1], h[1:]])
            return nested.to_padded_tensor(0.5).sum() * h.exp()

        self.same(random(4, 3), body)

    def test_nested_jagged(self):
        def body(x):
            h = x.sin()
            nested = torch.nested.as_nested_tensor([h[:1], h[1:]], layout=torch.jagged)
            return nested.cos().values().sum() * h.exp()

        self.same(random(4, 3), body)

    def test_nested_as_result(self):
        def steps(run):
            for _ in range(3):
                a, b = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
                nested = run(lambda: torch.nested.as_nested_tensor([a.sin(), b.exp()]))
                nested.to_padded_tensor(0.0).pow(2).sum().backward()
                yield from (a.grad, b.grad)

        assert_same_in_every_mode(self, steps)

    def test_two_tensor(self):
        def steps(run):
            weight = torch.linspace(0.5, 1.5, 8, requires_grad=True)
            for _ in range(3):
                x = TwoTensor(torch.randn(8), torch.randn(8)).requires_grad_()
                gradient = gradient_of(run(lambda: (x.sin().exp() * weight).cos()), x)
                yield from (gradient.a, gradient.b, weight.grad.a, weight.grad.b)
                weight.grad = None

        assert_same_in_every_mode(self, steps)

    def test_two_tensor_of_tracked_ones(self):
        def body(x):
            h = x.sin()
            both = TwoTensor(h.detach(), h.detach() * 2).exp().cos()
            return (both.a + both.b) * h.exp()

        self.same(random(8), body)

    def test_operators_inside_of_a_subclass_are_recorded_where_keys_allow(self):
        def body(x):
            h = x.sin()
            both = TwoTensor(h.detach(), h.detach() * 2).exp().cos()
            return (both.a + both.b) * h.exp()

        # LibTorch 2.13 moved the recorder's key below that of subclasses.
        recorders_key = torch._C._parse_dispatch_key("Fake")
        num_inside = 4 if int(recorders_key) < int(torch._C.DispatchKey.Python) else 0
        region = regions.Region("drop_all")
        for _ in range(2):
            x = torch.randn(8, requires_grad=True)
            region.run(lambda: body(x)).sum().backward()
            self.assertEqual(region.num_ops(), 5 + num_inside)
        self.assertTrue(region.followed_plan(), region.report())

    def test_distributed_tensor_on_one_process(self):
        if not torch.distributed.is_available():
            self.skipTest("this torch is built without torch.distributed")
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
            )
            try:
                mesh = init_device_mesh("cpu", (1,))

                def steps(run):
                    for _ in range(3):
                        weight = distribute_tensor(torch.randn(6, 6), mesh, [Shard(0)]).requires_grad_()
                        x = distribute_tensor(torch.randn(4, 6), mesh, [Replicate()])
                        y = run(lambda: (x @ weight).tanh().exp().full_tensor().sin())
                        yield gradient_of(y, weight).full_tensor()

                assert_same_in_every_mode(self, steps)
            finally:
                torch.distributed.destroy_process_group()

    def test_zero_tensor(self):
        self.same(random(5), lambda x: ((x * torch._efficientzerotensor((5,))) + x.sin()).exp())

    def test_forward_mode(self):
        def body(x):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x * 1.5, torch.ones(5))
                primal, tangent = forward_ad.unpack_dual((dual * dual).exp().sgn() * dual)
                return tangent.pow(2).sum() + primal.sum() + x.sin().exp()

        self.same(random(5), body)

    def test_penalty_through_sgn(self):
        def body(x):
            h = x.clone()
            y = h.sgn() * h
            (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            return gradient.pow(2).mul(h).sum().exp()

        self.same(random(5), body)

    def test_second_derivative_of_complex_sgn_in_a_region(self):
        def body(x):
            y = x.clone().sgn()
            (gradient,) = torch.autograd.grad(y * y, x, torch.ones_like(y) * 0.7, create_graph=True)
            return gradient.abs()

        self.same(random(5, dtype=torch.complex128), body)

    def test_second_derivative_of_complex_sgn_behind_a_region(self):
        def steps(run):
            for _ in range(3):
                x = torch.randn(5, dtype=torch.complex128, requires_grad=True)
                y = run(lambda: x.clone().sgn().square())
                (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y) * 0.7, create_graph=True)
                second = torch.autograd.grad(gradient, x, torch.ones_like(gradient), allow_unused=True)
                yield from (y.detach(), gradient.detach(), *second)

        assert_same_in_every_mode(self, steps)

    def test_resized_output_of_addbmm(self):
        def steps(run):
            for _ in range(3):
                m = torch.ones(1, requires_grad=True)
                a, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 4, 3)
                run(lambda: torch.addbmm(m.clone(), a.clone(), b).square()).sum().backward()
                yield from (m.grad, a.grad)

        assert_same_in_every_mode(self, steps)


class Transforms(unittest.TestCase):
    def same(self, *arguments, **options):
        return assert_same_in_every_mode(self, steps_of(*arguments, **options))

    def test_hessian(self):
        def body(x):
            return x.exp().sum() + torch.func.hessian(lambda z: z.pow(3).sum())(x).sum()

        self.same(random(4), body)

    def test_gradient(self):
        self.same(random(4), lambda x: torch.func.grad(lambda z: z.sin().exp().sum())(x) * x.exp())

    def test_vmap(self):
        self.same(random(3, 4), lambda x: torch.func.vmap(lambda row: row.sin().exp() / row.sum())(x).cos())

    def test_vmap_of_gradients_of_a_module(self):
        def steps(run):
            net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
            weights = dict(net.named_parameters())

            def loss(values, row):
                return torch.func.functional_call(net, values, row).pow(2).sum()

            for _ in range(3):
                x = torch.randn(3, 4)
                each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
                y = run(lambda: sum(g.pow(2).sum() for g in each(weights, x).values()).exp())
                yield from torch.autograd.grad(y, list(weights.values()), allow_unused=True)

        assert_same_in_every_mode(self, steps)

    def test_vmap_with_random_numbers(self):
        def body(x):
            dropped = torch.func.vmap(lambda row: torch.nn.functional.dropout(row.sin(), 0.5), randomness="different")
            return dropped(x).exp() * torch.rand(3, 4)

        self.same(random(3, 4), body)

    def test_forward_over_reverse(self):
        self.same(random(4), lambda x: torch.func.jacfwd(lambda z: z.sin() * z)(x).sum(0).exp() * x)

    def test_region_inside_a_transform(self):
        def steps(run):
            for _ in range(3):
                x = torch.randn(3, 4)
                yield torch.func.grad(lambda z: run(lambda: z.sin().exp()).sum())(x)
                yield torch.func.vmap(lambda row: run(lambda: row.sin().exp()))(x)

        assert_same_in_every_mode(self, steps)


class DispatchModes(unittest.TestCase):
    def test_in_a_region(self):
        for mode in (Listing, Doubling):
            def body(x):
                h = x.sin().exp()
                with mode():
                    h = h.sin().cos().exp()
                return h.sin()

            with self.subTest(dispatch_mode=mode.__name__):
                assert_same_in_every_mode(self, steps_of(random(5), body))

    def test_around_a_region(self):
        for mode in (Listing, Doubling):
            def steps(run):
                for _ in range(3):
                    x = torch.randn(5, requires_grad=True)
                    with mode():
                        y = run(lambda: x.sin().exp().sin())
                    yield from (y.detach(), gradient_of(y, x))

            with self.subTest(dispatch_mode=mode.__name__):
                assert_same_in_every_mode(self, steps)

    def test_around_a_region_and_its_backward(self):
        def steps(run):
            for _ in range(3):
                x = torch.randn(5, requires_grad=True)
                with Doubling():
                    y = run(lambda: x.sin().exp().sin())
                    yield from (y.detach(), gradient_of(y, x))

        assert_same_in_every_mode(self, steps)

    def test_around_a_region_sees_each_call_once(self):
        def calls(run):
            x = torch.randn(5, requires_grad=True)
            Listing.names = []
            with Listing():
                run(lambda: torch.nn.functional.dropout(x.sin().exp(), 0.5).sin())
            return Listing.names

        region = regions.Region(policy="drop_all")
        plain = calls(regions.plainly)
        self.assertEqual([calls(region.run) for _ in range(3)], [plain] * 3)

    def test_around_backward(self):
        def steps(run):
            for _ in range(3):
                x = torch.randn(5, requires_grad=True)
                y = run(lambda: x.sin().exp().sin())
                with Doubling():
                    yield gradient_of(y, x)

        # A mode around backward sees the ops of backward, and none of replays.
        assert_same_in_every_mode(self, steps)


class FakeTensors(unittest.TestCase):
    def test_in_a_region(self):
        def body(x):
            h = x.sin().exp()
            mode = FakeTensorMode()
            fake = mode.from_tensor(h.detach())
            with mode:
                shape = torch.nn.functional.dropout((fake.sin() + torch.ones(5)).exp(), 0.5).shape
            return h.cos() * len(shape)

        assert_same_in_every_mode(self, steps_of(random(5), body))

    def test_around_a_region(self):
        def steps(run):
            for _ in range(3):
                with FakeTensorMode() as mode:
                    x = mode.from_tensor(torch.randn(5)).requires_grad_()
                    y = run(lambda: torch.nn.functional.dropout(x.sin().exp(), 0.5))
                    y.sum().backward()
                yield torch.ones(x.grad.shape)
                real = torch.randn(5, requires_grad=True)
                yield gradient_of(run(lambda: real.sin().exp().cos()), real)

        assert_same_in_every_mode(self, steps)


if __name__ == "__main__":
    program.main()
