"""How much lower plans could go if some replays cost less.

Plans a recorded step as it is, and again with what replays of all ops but convolutions, matrix
products and attention take divided by each of the given numbers; "free" makes them nothing. What is
proven in the last line is a bound for whatever kernels could save.

Usage: cheaper_replays.py <gradrecomp> <step of gradrecomp plan --save-graph> <overhead> [<number>...]
Example: cheaper_replays.py build/release/bin/gradrecomp step.json 0.05 2 free
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PRODUCTS = re.compile(r"conv|mm$|addmm|matmul|linear|attention|baddbmm|einsum|fft|lstm|gru")


def cheaper(step, divisor):
    """The step with cheaper replays; `divisor` is a number or infinite."""
    ops = step["ops"]
    for name in ("replay_seconds", "joined_seconds"):
        if name not in ops:
            continue
        ops[name] = [
            seconds if PRODUCTS.search(op.removeprefix("aten::").rstrip("_")) else seconds / divisor
            for op, seconds in zip(ops["name"], ops[name])
        ]
    return step


def plan(program, path, overhead):
    """The line of the plan: its peak and what is proven, of plain."""
    text = subprocess.run(
        [program, "plan", "--graph", str(path), "--max-overhead", overhead],
        check=True, capture_output=True, text=True,
    ).stdout
    line = next(line for line in text.splitlines() if line.startswith("max_overhead "))
    shares = re.findall(r"[0-9.]+%", line)
    return shares[0], shares[1]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program, source, overhead, *numbers = sys.argv[1:]
    step = Path(source).read_text()
    print("replays divided by, peak of plain, proven")
    print("1,", ", ".join(plan(program, source, overhead)))
    for number in numbers:
        divisor = float("inf") if number == "free" else float(number)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(cheaper(json.loads(step), divisor), file)
            file.flush()
            print(f"{number},", ", ".join(plan(program, file.name, overhead)))


if __name__ == "__main__":
    main()
