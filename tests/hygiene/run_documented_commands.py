"""Runs the commands that README.md, CONTRIBUTING.md and docs/ show, on small models.

Usage: run_documented_commands.py <repository root> <folder of the programs>

A command that no test runs must be in NOT_RUN, with the reason. Options are added at the end, where
the last one counts, so every word that the docs show is read by the program.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

BUILT = "build/release/bin/"
# By what a command begins with.
NOT_RUN = {
    "./scripts/test": "it is what runs the tests",
    "./scripts/demo": "takes minutes; it builds and starts `gradrecomp train`, which tests run",
    "./scripts/setup": "the tests below tests/setup run it, in sandboxes",
    "./scripts/gpu": "needs a GPU; the tests below tests/setup run it up to there",
    "scripts/gpu": "needs a GPU; the tests below tests/setup run it up to there",
    "benchmarks/peers/run": "fetches a complete Python torch and takes minutes",
    "cmake --install": "installed_package_is_usable runs it",
    "GRADRECOMP_PRESET=": "builds everything anew, with a sanitizer",
    "cmake --build build/asan": "builds everything anew, with a sanitizer",
    "OMP_NUM_THREADS=1 build/asan": "needs a build with a sanitizer",
    "TSAN_OPTIONS=": "needs a build with a sanitizer",
    "cmake -S . -B build/libfuzzer": "needs Clang, and builds the planner anew",
    "cmake --build build/libfuzzer": "needs Clang, and builds the planner anew",
    "build/libfuzzer/": "needs Clang, and builds the planner anew",
    "mkdir found": "is for the fuzzers after it",
    "ctest": "it is what runs the tests",
    f"{BUILT}plan_benchmark": "only times, which tests do not assert",
    f"{BUILT}tape_benchmark": "only times, which tests do not assert",
    f"{BUILT}guard_benchmark": "only times, which tests do not assert",
}
RUN = ("gradrecomp ", f"{BUILT}gradrecomp ", f"{BUILT}gradrecomp-fuzz ")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


def commands(text):
    """Yields the commands that a page shows: lines of its shell blocks, and spans that are some."""
    for language, block in FENCE.findall(text):
        if language != "sh":
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if command := line.split("  #")[0].split("   #")[0].strip():
                yield " ".join(command.split())
    for span in SPAN.findall(FENCE.sub("", text)):
        beginning = next((b for b in (*RUN, *NOT_RUN) if span.startswith(b)), None)
        if beginning and ("--" in span or beginning in NOT_RUN):
            yield " ".join(span.split())


def made_small(words):
    """The arguments `words` of `gradrecomp`, followed by others that make a run short."""
    if "--help" in words or "--graph" in words:
        return words
    words = ["resnet18" if word == "<model>" else word for word in words]
    model = words[words.index("--model") + 1] if "--model" in words else "resnet18"
    small = {"resnet": ["--model", "resnet18", "--image-size", "32"],
             "bert": ["--model", "bert-base", "--layers", "1", "--sequence", "8"],
             "vit": ["--layers", "1", "--image-size", "32"]}
    by_command = {"bench": ["--steps", "1"],
                  "batch": ["--steps", "1", "--batches", "2,4", "--max-peak", "16MiB"],
                  "plan": []}
    of_family = next(end for family, end in small.items() if model.startswith(family))
    return [*words, *of_family, *by_command[words[0]], "--threads", "1"]


def arguments(command, root, programs):
    """What to start for `command`, from another folder than the root of the repository."""
    words = shlex.split(command)
    program = programs / Path(words[0]).name
    if program.name == "gradrecomp-fuzz":
        words[words.index("--programs") + 1] = "5"
        return [program, *words[1:]]
    in_root = [str(root / word) if (root / word).is_file() else word for word in words[1:]]
    return [program, *made_small(in_root)]


def is_known(command):
    """Whether it is run or is known not to be; placeholders such as `--seed S` are not commands."""
    return command.startswith(RUN) or any(command.startswith(beginning) for beginning in NOT_RUN)


def main(root, programs):
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    found, faults = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            for command in dict.fromkeys(commands(page.read_text())):
                found += 1
                if not is_known(command):
                    faults.append(f"{page}: no test runs it, and NOT_RUN does not say why: {command}")
                if not command.startswith(RUN) or re.search(r" [A-Z](?: |$)", command):
                    continue
                run = subprocess.run(arguments(command, root, programs), cwd=folder, text=True,
                                     capture_output=True, timeout=600, check=False)
                print(f"{run.returncode}  {command}", flush=True)
                if run.returncode != 0:
                    faults.append(f"{page}: {command}\n{run.stdout}{run.stderr}")
    print(*faults, f"{found} commands, {len(faults)} faults", sep="\n")
    return bool(faults) or not found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
