"""The results as a Markdown table and as JSON."""

import dataclasses
import json

_HEAD = ("method", "peak MiB", "of plain", "after forward MiB", "wall time", "A/A", "loss and gradients", "buffers")


def markdown(results, title):
    """A table with one row a method; the first result is the plain one."""
    rows = [_HEAD, ["---"] * len(_HEAD), *(_row(result, results[0]) for result in results)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    failures = [f"{result.method}: {result.failure}" for result in results if result.failure]
    return "\n".join([title, "", *lines, *([""] if failures else []), *failures]) + "\n"


def _row(result, plain):
    if result.failure:
        return [result.method, "failed", *["-"] * (len(_HEAD) - 2)]
    return [
        result.method,
        _mebibytes(result.peak_bytes),
        f"{result.peak_bytes / plain.peak_bytes:.1%}",
        _mebibytes(result.held_bytes),
        _ratio(result.time_ratio),
        _ratio(result.plain_ratio),
        "equal" if result.equal_gradients else f"differ by {result.gradient_difference:.0e}",
        _buffers(result),
    ]


def _mebibytes(num_bytes):
    return f"{num_bytes / 2**20:.1f}"


def _ratio(ratio):
    return "" if ratio is None else f"{ratio:.3f}"


def _buffers(result):
    if result.num_buffers == 0:
        return "none"
    if result.num_different_buffers == 0:
        return "equal"
    return f"{result.num_different_buffers} of {result.num_buffers} differ"


def write_json(path, results, setting):
    rows = [dataclasses.asdict(result) | setting for result in results]
    path.write_text(json.dumps(rows, indent=2) + "\n")
