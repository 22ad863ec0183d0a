"""Trains one model by Python's tools and by GradRecomp, in one process, and compares the steps.

Run it through benchmarks/peers/run, which makes its environment and names its library.
"""

import argparse
import sys
from pathlib import Path

import torch
import torchvision
import transformers

import methods
import region
from limit import limited_to
from measurement import Runner
from models import MODELS, make_workload
from report import markdown, write_json


def numbers(text):
    """"2%,0.18" """
    return [float(part[:-1]) / 100 if part.endswith("%") else float(part) for part in text.split(",") if part]


def names(text):
    return [part for part in text.split(",") if part]


def arguments():
    parser = argparse.ArgumentParser(prog="benchmarks/peers/run", description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=MODELS, default="resnet152")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--image-size", type=int, help="of a ResNet or ViT (224)")
    parser.add_argument("--sequence", type=int, help="tokens of a BERT (128)")
    parser.add_argument("--peers", type=names, default=list(methods.EAGER),
                        help=f"of Python's eager tools ({','.join(methods.EAGER)})")
    parser.add_argument("--max-overhead", type=numbers, default=numbers("2%,5%,8%,18%,33%"),
                        help="budgets of GradRecomp (2%%,5%%,8%%,18%%,33%%)")
    parser.add_argument("--cost", type=names, default=["flops"],
                        help="what these budgets count: flops, seconds or flops,seconds (flops)")
    parser.add_argument("--compile-budgets", type=numbers, default=[],
                        help="activation memory budgets of torch.compile, e.g. 1,0.5 (none)")
    parser.add_argument("--block-budgets", type=numbers, default=[],
                        help="the same of torch.compile by block (none)")
    parser.add_argument("--compile-limit", type=float, default=600, metavar="SECONDS",
                        help="for one method's first step, which compiles (600)")
    parser.add_argument("--steps", type=int, default=3, help="rounds of four steps a method (3)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file to write one object a method to")
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    return parser.parse_args()


def methods_of(options):
    yield from (methods.EAGER[name]() for name in options.peers)
    yield from map(methods.compiled, options.compile_budgets)
    yield from map(methods.compiled_blocks, options.block_budgets)
    for cost in options.cost:
        yield from (methods.grad_recomp(budget, cost) for budget in options.max_overhead)


def sizes_of(options):
    sizes = {name: getattr(options, name) for name in ("batch", "image_size", "sequence")}
    return {name: size for name, size in sizes.items() if size is not None}


def setting_of(options):
    return {
        "model": options.model,
        **sizes_of(options),
        "threads": torch.get_num_threads(),
        "rounds": options.steps,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "transformers": transformers.__version__,
    }


def run_methods(runner, options, setting):
    """All results. The files are written after each, as all take long."""
    results = [runner.plain]
    for method in methods_of(options):
        print(f"==> {method.name}", file=sys.stderr, flush=True)
        results.append(runner.run(method, limited_to(options.compile_limit)))
        save(results, options, setting)
    return results


def save(results, options, setting):
    if options.markdown:
        options.markdown.write_text(table_of(results, setting))
    if options.json:
        write_json(options.json, results, setting)


def table_of(results, setting):
    return markdown(results, ", ".join(f"{name} {value}" for name, value in setting.items()))


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    region.load(options.library)
    runner = Runner(make_workload(options.model, **sizes_of(options)), options.steps)
    results = run_methods(runner, options, setting_of(options))
    print(table_of(results, setting_of(options)))
    ours = [result for result in results if result.region]
    return 0 if all(result.equal_gradients and not result.num_different_buffers for result in ours) else 1


if __name__ == "__main__":
    sys.exit(main())
