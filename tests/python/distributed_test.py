"""DistributedDataParallel over two processes and sharded modules, in and around regions. Usage: see
program.py."""

import os
import tempfile
import unittest

import program

import torch
import torch.distributed as dist
from torch import nn

import regions

NUM_PROCESSES = 2
NUM_STEPS = 4


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 36, 4),
    )


class WithRegion(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.net = make_net()
        self.run = run

    def forward(self, x):
        return self.run(lambda: self.net(x))


def parallel_with_region_inside(run):
    model = nn.parallel.DistributedDataParallel(
        WithRegion(run), bucket_cap_mb=0.001, gradient_as_bucket_view=True
    )
    return model, model


def parallel_in_a_region(run):
    model = nn.parallel.DistributedDataParallel(make_net(), bucket_cap_mb=0.001)
    return model, lambda x: run(lambda: model(x))


def train(make, rank, run):
    model, forward = make(run)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(10 + rank)
    for step in range(NUM_STEPS):
        optimizer.zero_grad()
        if step == 2:
            with model.no_sync():
                forward(torch.randn(2, 3, 8, 8)).pow(2).sum().backward()
        forward(torch.randn(2, 3, 8, 8)).pow(2).sum().backward()
        yield from [parameter.grad.clone() for parameter in model.parameters()]
        yield from [buffer.clone() for buffer in model.buffers()]
        optimizer.step()


def work(rank, folder):
    """In each process: trains in all ways, and writes which differ from plain training, and where."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=NUM_PROCESSES)
    different = []
    for make in (parallel_with_region_inside, parallel_in_a_region):
        plain = list(train(make, rank, regions.plainly))
        for name, make_run in regions.every_mode().items():
            where = regions.differences(plain, list(train(make, rank, make_run())))
            different += [f"{make.__name__}, {name}: {where}"] if where else []
    with open(f"{folder}/different-{rank}", "w") as file:
        file.write("\n".join(different))
    dist.destroy_process_group()


class DistributedDataParallel(unittest.TestCase):
    def test_trains_as_plainly_in_two_processes(self):
        if not dist.is_available() or not dist.is_gloo_available():
            self.skipTest("this torch has no gloo")
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(work, args=(folder,), nprocs=NUM_PROCESSES)
            for rank in range(NUM_PROCESSES):
                with open(os.path.join(folder, f"different-{rank}")) as file:
                    self.assertEqual(file.read(), "", f"process {rank}")


class Sharded(unittest.TestCase):
    """fully_shard(), which takes memory from parameters after forward and gives it back in backward."""

    def setUp(self):
        if not dist.is_available() or not dist.is_gloo_available():
            self.skipTest("this torch has no gloo")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        dist.init_process_group("gloo", init_method=f"file://{folder.name}/store", rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)

    def steps(self, make_layer, forward):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (1,))

        def program_of_steps(run):
            torch.manual_seed(1)
            net = nn.Sequential(*[make_layer(run) for _ in range(3)])
            for layer in net:
                fully_shard(layer, mesh=mesh)
            fully_shard(net, mesh=mesh)
            for _ in range(3):
                net.zero_grad()
                forward(run, net, torch.randn(4, 8)).pow(2).sum().backward()
                yield from [p.grad.full_tensor().clone() for p in net.parameters()]

        return program_of_steps

    def test_region_in_each_module(self):
        class Layer(nn.Module):
            def __init__(self, run):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
                self.run = run

            def forward(self, x):
                return self.run(lambda: self.layers(x).sin())

        regions.assert_same_in_every_mode(self, self.steps(Layer, lambda run, net, x: net(x)))

    def test_region_around_all_is_exact_or_says_what_it_misses(self):
        make_layer = lambda run: nn.Sequential(nn.Linear(8, 8), nn.Tanh())  # noqa: E731
        forward = lambda run, net, x: run(lambda: net(x))  # noqa: E731
        steps = self.steps(make_layer, forward)
        regions.assert_same_in_every_mode(self, steps, ("has 0 now, but a replay needs them", "without its version counter growing"))


if __name__ == "__main__":
    program.main()
