"""Ways to take one training step's forward pass, each as a function of a workload.

A method is prepared once for a workload; what it returns then runs the forward pass of each step.
"""

import dataclasses
import functools
import math

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from region import Region

_aten = torch.ops.aten
# What costs most of a step's FLOPs: matrix products, convolutions and attention.
EXPENSIVE_OPS = {
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten.baddbmm.default,
    _aten.convolution.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
}


@dataclasses.dataclass
class Method:
    name: str
    prepare: object  # of a workload; returns the forward pass
    budget: float | None = None
    region: Region | None = None  # set by prepare, of GradRecomp's methods alone


def plain():
    return Method("plain", lambda workload: workload.forward)


def _through(workload, run_block):
    def forward():
        x = workload.input
        for position, block in enumerate(workload.blocks):
            x = run_block(position, block, x)
        return x

    return forward


def every_block():
    def run(_, block, x):
        return checkpoint(block, x, use_reentrant=False)

    return Method("checkpoint, every block", lambda workload: _through(workload, run))


def every_block_reentrant():
    """The first block runs plainly: reentrant checkpoints need an input with a gradient."""

    def run(_, block, x):
        return checkpoint(block, x, use_reentrant=True) if x.requires_grad else block(x)

    return Method("checkpoint, every block, reentrant", lambda workload: _through(workload, run))


def every_second_block():
    def run(position, block, x):
        return checkpoint(block, x, use_reentrant=False) if position % 2 == 0 else block(x)

    return Method("checkpoint, every second block", lambda workload: _through(workload, run))


def sequential():
    def prepare(workload):
        blocks = workload.blocks
        segments = round(math.sqrt(len(blocks)))
        return lambda: checkpoint_sequential(blocks, segments, workload.input, use_reentrant=False)

    return Method("checkpoint_sequential, sqrt(n) segments", prepare)


def _save_expensive(_context, op, *_arguments, **_keywords):
    save = op in EXPENSIVE_OPS
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE


def selective():
    contexts = functools.partial(create_selective_checkpoint_contexts, _save_expensive)

    def run(_, block, x):
        return checkpoint(block, x, use_reentrant=False, context_fn=contexts)

    return Method("selective checkpoint, every block", lambda workload: _through(workload, run))


def _prepare_compiler(budget):
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = 64  # blocks of other shapes are the same code
    torch._functorch.config.activation_memory_budget = budget
    torch._inductor.config.fallback_random = True  # eager's random numbers


def compiled(budget):
    """torch.compile of the whole model under its partitioner's budget, which is 1 by default.

    It hands all gradients over at the end of backward, so its peak has each of them once more.
    """

    def prepare(workload):
        _prepare_compiler(budget)
        return torch.compile(workload.forward)

    return Method(f"torch.compile, budget {budget:g}", prepare, budget)


def compiled_blocks(budget):
    """torch.compile of each block, which compiles equal blocks once and hands gradients over by
    block; what crosses from block to block is always kept."""

    def prepare(workload):
        _prepare_compiler(budget)
        blocks = [torch.compile(block) for block in workload.blocks]
        return _through(workload, lambda position, _, x: blocks[position](x))

    return Method(f"torch.compile by block, budget {budget:g}", prepare, budget)


def grad_recomp(max_overhead, cost):
    method = Method(f"GradRecomp, {max_overhead:.0%} of {cost}", None, max_overhead)

    def prepare(workload):
        method.region = Region(max_overhead, cost)
        return lambda: method.region.run(workload.forward)

    method.prepare = prepare
    return method


EAGER = {
    "every-block": every_block,
    "every-block-reentrant": every_block_reentrant,
    "every-second-block": every_second_block,
    "sequential": sequential,
    "selective": selective,
}
