"""Says of each claim about GPUs whether results hold it: gpu_summary.py <output folder of scripts/gpu> [claim]

Prints a line for each claim, or each that begins so, "held", "FAILED" or "not tried", and below it what
shows that or why. A goal that is not reached is "missed". Exit status 1 if a claim failed.
"""

import fnmatch
import json
import sys
from pathlib import Path

from count_tests import google_test_cases, one_line

MODELS = ("resnet152", "bert-large", "vit-b16")
BUDGET = 0.05  # of time, under which scripts/gpu measures
TIMES_THE_BATCH = 3  # of plain steps, which is a goal
HELD, FAILED, MISSED, NOT_TRIED = "held", "FAILED", "missed", "not tried"


class Results:
    """What the stages left in the output folder."""

    def __init__(self, folder):
        self.folder = folder
        self.cases = [case for file in sorted(folder.glob("tests/*_test.xml")) for case in google_test_cases(file)]

    def status(self, part):
        file = self.folder / f"{part}.status"
        return int(file.read_text()) if file.exists() else None

    def rows(self, part):
        file = self.folder / "bench" / f"{part}.json"
        return json.loads(file.read_text()) if file.exists() else None

    def tests(self, *patterns):
        """Yields what the tests by these names show."""
        cases = [case for case in self.cases if any(fnmatch.fnmatch(case[0], f"*: {p}") for p in patterns)]
        if not cases:
            yield NOT_TRIED, f"no results of {' '.join(patterns)}"
        yield from ((FAILED, f"{name}: {one_line(why)}") for name, outcome, why in cases if outcome == "failed")
        passed = [name for name, outcome, _ in cases if outcome == "passed"]
        if passed:
            yield HELD, f"{len(passed)} tests, {' '.join(patterns)}"
        for reason in sorted({one_line(why) for _, outcome, why in cases if outcome == "skipped"}):
            yield NOT_TRIED, f"{' '.join(patterns)}: {reason}"

    def measured(self, part, judge):
        """Yields what `judge` says of a measurement's rows, or why there are none."""
        rows, status = self.rows(part), self.status(f"bench/{part}")
        if rows is not None:
            yield from ((verdict, f"{part}: {text}") for verdict, text in judge(rows))
        elif status is None:
            yield NOT_TRIED, f"{part}: not measured"
        else:
            limit = ", its time limit" if status == 124 else ""
            yield FAILED, f"{part}: ended with status {status}{limit}; see bench/{part}.log"


def verdict(held):
    return HELD if held else FAILED


def equal_bits(rows):
    for row in rows:
        text = f"{row['arm']}: equal {row['equal']} in {row['num_compared_steps']} steps"
        yield NOT_TRIED if row["equal"] == "plain itself differs" else verdict(row["equal"] == "yes"), text


def predicted_bytes(rows):
    for row in rows:
        if row["arm"] == "plain" or not row["predicted_peak_bytes"]:
            continue
        predicted, off = row["predicted_peak_bytes"], row["measured_peak_bytes"] - row["predicted_peak_bytes"]
        yield verdict(100 * abs(off) <= predicted), f"{row['arm']}: measured {off / predicted:+.2%} of predicted"


def time_in_budget(rows):
    for row in rows:
        if row["arm"] != "max_overhead":
            continue
        noise = max(row["plain_to_plain_high"], -row["plain_to_plain_low"], 0)
        text = f"{row['overhead_wall']:+.1%} for a budget of {BUDGET:.0%}, A/A within {noise:.1%}"
        yield verdict(row["overhead_wall"] <= BUDGET + noise), text


def offloaded(rows):
    for row in rows[1:]:
        yield verdict(row["offloaded_bytes"] > 0), f"{row['arm']}: {row['offloaded_bytes']} bytes a step"
    yield from equal_bits(rows)


def trained_under_cap(rows):
    for row in rows[1:]:
        text = f"{row['arm']}: {row['num_alloc_retries']} retries of the allocator"
        yield verdict(row["followed_plan"] and row["equal"] != "NO"), text


def larger_batch(report):
    batches = {answer["answer"]: answer["confirmed_batch"] for answer in report["answers"]}
    text = ", ".join(f"{name} {batch}" for name, batch in batches.items())
    yield verdict(batches.get("largest batch", 0) > batches.get("plain", 0)), text
    compared = {trial["bitwise_equal"] for answer in report["answers"] for trial in answer["trials"]} - {None}
    if compared:
        yield verdict(False not in compared), f"equal {'NO' if False in compared else 'yes'}"
    else:
        yield NOT_TRIED, "equal: plain steps would take too much to compare with"


def batch_goal(report):
    confirmed = {answer["answer"]: answer["trials"][-1] for answer in report["answers"] if answer["confirmed_batch"]}
    plain, largest = confirmed.get("plain"), confirmed.get("largest batch")
    if not plain or not largest:
        yield NOT_TRIED, "no batch was confirmed"
        return
    times = largest["batch"] / plain["batch"]
    overhead, most_overhead = plain["samples_per_second"] / largest["samples_per_second"] - 1, report["max_overhead"]
    reached = times >= TIMES_THE_BATCH and overhead <= most_overhead
    text = (f"{times:.2f} times as many images in {report['max_peak_bytes'] / 2**30:.1f} GiB, {overhead:+.1%} of seconds "
            f"an image; the goal is {TIMES_THE_BATCH} times at {most_overhead:.1%}")
    yield HELD if reached else MISSED, text


def sanitized(results):
    for tool in ("memcheck", "initcheck"):
        status = results.status(f"sanitize/{tool}")
        if status is None:
            yield NOT_TRIED, f"{tool}: compute-sanitizer did not run"
        else:
            yield verdict(status == 0), f"{tool}: status {status}; see sanitize/{tool}.log"


def random_programs(results):
    file = results.folder / "fuzz" / "programs.txt"
    if not file.exists():
        yield NOT_TRIED, "no random programs were run"
        return
    text = file.read_text().strip()
    passed, failed, _ = (int(part.split()[0]) for part in text.split(", "))
    yield verdict(failed == 0) if passed + failed else NOT_TRIED, f"{text}; see fuzz/*.log"


def claims(results):
    def of_models(judge):
        return [shown for model in MODELS for shown in results.measured(model, judge)]

    yield "Steps give plain's bits", [*results.tests("Cuda.E*", "Cuda.Joined*"), *of_models(equal_bits)]
    yield "Random programs give plain's bits", random_programs(results)
    yield "Kernels give the bits of LibTorch and of the CPU", results.tests("CudaTwinTest.*", "Cuda/AtenSuite.*")
    yield "Kernels stay inside their memory", sanitized(results)
    yield "Predicted bytes are within 1% of requested ones", [*results.tests("Cuda.M3*"), *of_models(predicted_bytes)]
    yield "Wall time stays within the budget", of_models(time_in_budget)
    yield "Offloading", [*results.tests("Cuda.Offload*"), *results.measured("offload", offloaded)]
    yield "Steps in CUDA graphs", results.tests("Cuda.C6*")
    yield "Training under a memory cap", results.measured("cap", trained_under_cap)
    yield "A larger batch in the same bytes", results.measured("batch", larger_batch)
    yield f"Goal: {TIMES_THE_BATCH} times the batch in the same bytes", results.measured("batch", batch_goal)


def main(folder, beginning=""):
    failed = False
    for claim, shown in claims(Results(folder)):
        if not claim.startswith(beginning):
            continue
        shown = list(shown)
        verdicts = {each for each, _ in shown}
        overall = next(each for each in (FAILED, MISSED, HELD, NOT_TRIED) if each in verdicts)
        failed |= overall == FAILED
        print(f"{overall + ':':<10} {claim}")
        for each, text in shown:
            print(f"           {each}: {text}")
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
