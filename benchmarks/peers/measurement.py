"""Takes training steps by several methods and compares each with plain ones."""

import dataclasses
import statistics
import time

import torch

from methods import plain
from region import memory_meter


@dataclasses.dataclass
class Step:
    """What one training step took and left."""

    seconds: float
    peak_bytes: int
    held_bytes: int  # between forward and backward
    loss: torch.Tensor
    gradients: list
    buffers: list


@dataclasses.dataclass
class Result:
    """All steps of one method. Ratios are to plain steps in the same rounds."""

    method: str
    peak_bytes: int = 0
    held_bytes: int = 0
    time_ratios: list = dataclasses.field(default_factory=list)
    plain_ratios: list = dataclasses.field(default_factory=list)
    num_steps: int = 0
    equal_gradients: bool = True  # and an equal loss, in every step
    gradient_difference: float = 0  # norm of the difference by the norm of all plain gradients
    num_different_buffers: int = 0  # in the step with most of them
    num_buffers: int = 0
    failure: str = ""
    preparation_seconds: float = 0  # first step: profiling and planning, or compiling
    region: dict = dataclasses.field(default_factory=dict)  # of GradRecomp alone

    def count(self, step, reference):
        self.num_steps += 1
        self.peak_bytes = max(self.peak_bytes, step.peak_bytes)
        self.held_bytes = max(self.held_bytes, step.held_bytes)
        if not _equal([step.loss, *step.gradients], [reference.loss, *reference.gradients]):
            self.equal_gradients = False
            difference = _relative_difference(step.gradients, reference.gradients)
            self.gradient_difference = max(self.gradient_difference, difference)
        different = sum(not _same(*pair) for pair in zip(step.buffers, reference.buffers, strict=True))
        self.num_different_buffers = max(self.num_different_buffers, different)
        self.num_buffers = len(reference.buffers)

    @property
    def time_ratio(self):
        return statistics.median(self.time_ratios) if self.time_ratios else None

    @property
    def plain_ratio(self):
        return statistics.median(self.plain_ratios) if self.plain_ratios else None


class Runner:
    """Runs methods on one workload. Every step starts from the same buffers and random state."""

    def __init__(self, workload, num_rounds=3, seed=0):
        self.workload = workload
        self.num_rounds = num_rounds
        self.seed = seed
        self.parameters = list(workload.module.parameters())
        self.buffers = list(workload.module.buffers())
        self.first_buffers = [buffer.clone() for buffer in self.buffers]
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.plain = Result(plain().name)
        self.forward = plain().prepare(workload)
        self.reference = _copy_of(self.step(self.forward))
        self.plain_step()  # the steps so far were warm-ups

    def step(self, forward):
        for parameter in self.parameters:
            parameter.grad.zero_()
        for buffer, first in zip(self.buffers, self.first_buffers, strict=True):
            buffer.copy_(first)
        torch.manual_seed(self.seed)
        meter = memory_meter()
        start = time.perf_counter()
        loss = self.workload.loss_of(forward())
        held_bytes = meter.growth_bytes()
        loss.backward()
        loss = loss.detach()
        seconds = time.perf_counter() - start
        gradients = [parameter.grad for parameter in self.parameters]
        return Step(seconds, meter.measured_peak_bytes(), held_bytes, loss, gradients, self.buffers)

    def plain_step(self):
        step = self.step(self.forward)
        self.plain.count(step, self.reference)
        return step.seconds

    def run(self, method, preparation_limit):
        """The method's result; a failure, or a first step beyond the limit, is one too."""
        result = Result(method.name)
        start = time.perf_counter()
        try:
            with preparation_limit:
                forward = method.prepare(self.workload)
                result.count(self.step(forward), self.reference)
            result.preparation_seconds = time.perf_counter() - start
            # The first step of some is another than the later ones.
            result.peak_bytes = result.held_bytes = 0
            self.measure(forward, result)
            result.region = _figures(method.region)
        except Exception as failure:
            lines = str(failure).strip().splitlines()
            result.failure = f"{type(failure).__name__}: {lines[0] if lines else ''}"
        return result

    def measure(self, forward, result):
        self.counted_step(forward, result)  # warm-up
        for _ in range(self.num_rounds):
            before = self.plain_step()
            ours = self.counted_step(forward, result) + self.counted_step(forward, result)
            after = self.plain_step()
            result.time_ratios.append(ours / (before + after))
            result.plain_ratios.append(after / before)
            self.plain.plain_ratios.append(after / before)

    def counted_step(self, forward, result):
        step = self.step(forward)
        result.count(step, self.reference)
        return step.seconds


def _figures(region):
    return region.figures() if region else {}


def _copy_of(step):
    copies = {name: [t.clone() for t in getattr(step, name)] for name in ("gradients", "buffers")}
    return dataclasses.replace(step, **copies)


def _equal(ours, theirs):
    return all(_same(*pair) for pair in zip(ours, theirs, strict=True))


def _relative_difference(ours, theirs):
    difference = sum((one - other).double().square().sum() for one, other in zip(ours, theirs, strict=True))
    whole = sum(other.double().square().sum() for other in theirs)
    return float((difference / whole).sqrt())


def _same(one, other):
    """Bit for bit: equal NaNs are equal, zeros of another sign are not."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    bits = {4: torch.int32, 8: torch.int64, 2: torch.int16}[one.element_size()]
    return torch.equal(one.contiguous().view(bits), other.contiguous().view(bits))
