"""Runs the commands that the pages show, on small models.

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
# By what a command begins with, after the variables that it sets.
NOT_RUN = {
    "scripts/test": "it is what runs the tests",
    "scripts/demo": "takes minutes; it builds and starts `gradrecomp train`, which tests run",
    "scripts/setup": "the tests below tests/setup run it, in sandboxes",
    "scripts/gpu": "needs a GPU; the tests below tests/setup run it up to there",
    "benchmarks/peers/run": "fetches a complete Python torch and takes minutes",
    "benchmarks/peers/published": "fetches a complete Python torch and takes minutes",
    "cmake --install": "installed_package_is_usable runs it",
    "torch=$(echo": "installed_package_is_usable names LibTorch's folder itself",
    "cmake -S <app>": "installed_package_is_usable builds a program so",
    "cmake --build <app>": "installed_package_is_usable builds a program so",
    "cmake -D CMAKE_CUDA_ARCHITECTURES": "builds the kernels anew, for a card",
    "cmake --build build/asan": "builds everything anew, with a sanitizer",
    "build/asan/": "needs a build with a sanitizer",
    "build/tsan/": "needs a build with a sanitizer",
    "cmake --build build/release-torch": "builds everything anew, with another LibTorch",
    "build/release-torch": "needs another LibTorch",
    "cmake -S . -B build/libfuzzer": "needs Clang, and builds the planner anew",
    "cmake --build build/libfuzzer": "needs Clang, and builds the planner anew",
    "build/libfuzzer/": "needs Clang, and builds the planner anew",
    "mkdir found": "is for the fuzzers after it",
    "ctest": "it is what runs the tests",
    ".venv/torch-*/bin/clang-format -i": "it changes files; sources_are_formatted checks them",
    f"{BUILT}plan_benchmark": "only times, which tests do not assert",
    f"{BUILT}tape_benchmark": "only times, which tests do not assert",
    f"{BUILT}interception_benchmark": "only times, which tests do not assert",
    f"{BUILT}guard_benchmark": "only times, which tests do not assert",
    f"{BUILT}idle_benchmark": "only times, which tests do not assert",
    f"{BUILT}small_ops_benchmark": "only times, which tests do not assert",
    f"{BUILT}soak_test": "takes hours so; soak_test runs it with fewer steps",
    f"{BUILT}plan_quality": "takes minutes; plan_test asks the same of smaller graphs",
}
RUN = ("gradrecomp ", f"{BUILT}gradrecomp ", f"{BUILT}gradrecomp-fuzz ")
# What begins like these and goes on is a command, known or not.
PROGRAMS = ("build/", "benchmarks/", "scripts/", ".venv/", "cmake ", "ctest ")
SETTINGS = re.compile(r"^(?:[A-Z][A-Z0-9_]*=\S+ +)*(?:\./)?")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


def started(command):
    """`command` without the variables that it sets."""
    return SETTINGS.sub("", command)


def commands(text):
    """Yields the commands that a page shows: lines of its shell blocks, and spans that are some."""
    for language, block in FENCE.findall(text):
        if language != "sh":
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if command := line.split("  #")[0].split("   #")[0].strip():
                yield " ".join(command.split())
    for span in SPAN.findall(FENCE.sub("", text)):
        program = started(span)
        is_named = program.startswith(PROGRAMS) and " " in program
        has_options = program.startswith(RUN) and "--" in program
        if has_options or is_named or program.startswith(tuple(NOT_RUN)):
            yield " ".join(span.split())


def made_small(words):
    """The arguments `words` of `gradrecomp`, followed by others that make a run short."""
    if "--help" in words or "--graph" in words:
        return words
    words = ["resnet18" if word == "<model>" else word for word in words]
    model = words[words.index("--model") + 1] if "--model" in words else "resnet18"
    small = {"resnet": ["--model", "resnet18", "--image-size", "32"],
             "densenet": ["--model", "densenet121", "--image-size", "32"],
             "unet": ["--image-size", "32"],
             "bert": ["--model", "bert-base", "--layers", "1", "--sequence", "8"],
             "gpt2": ["--model", "gpt2", "--layers", "1", "--sequence", "8"],
             "lstm": ["--model", "lstm-medium", "--layers", "1", "--sequence", "4"],
             "vit": ["--layers", "1", "--image-size", "32"]}
    by_command = {"bench": ["--steps", "1"],
                  "batch": ["--steps", "1", "--batches", "2,4", "--max-peak", "16MiB"],
                  "plan": []}
    of_family = next(end for family, end in small.items() if model.startswith(family))
    return [*words, *of_family, *by_command[words[0]], "--threads", "1"]


def arguments(command, root, programs):
    """What to start for `command`, from another folder than the root of the repository."""
    words = shlex.split(started(command))
    program = programs / Path(words[0]).name
    if program.name == "gradrecomp-fuzz":
        words[words.index("--programs") + 1] = "5"
        return [program, *words[1:]]
    in_root = [str(root / word) if (root / word).is_file() else word for word in words[1:]]
    return [program, *made_small(in_root)]


def is_run(command):
    """Whether to run it: placeholders such as `--seed S` say nothing that a program reads."""
    return started(command).startswith(RUN) and not re.search(r" [A-Z](?: |$)", command)


def lacks_card(command, errors):
    """Whether all of `command` was read, up to the card that this machine does not have."""
    return " --device cuda" in command and "this program can use no CUDA device" in errors


def is_known(command):
    """Whether it is run or is known not to be."""
    return started(command).startswith((*RUN, *NOT_RUN))


def main(root, programs):
    pages = [*sorted(root.glob("*.md")), root / "data" / "README.md",
             *sorted((root / "docs").rglob("*.md"))]
    found, faults = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            for command in dict.fromkeys(commands(page.read_text())):
                found += 1
                if not is_known(command):
                    faults.append(f"{page}: no test runs it, and NOT_RUN does not say why: {command}")
                if not is_run(command):
                    continue
                run = subprocess.run(arguments(command, root, programs), cwd=folder, text=True,
                                     capture_output=True, timeout=600, check=False)
                print(f"{run.returncode}  {command}", flush=True)
                if run.returncode != 0 and not lacks_card(command, run.stderr):
                    faults.append(f"{page}: {command}\n{run.stdout}{run.stderr}")
    print(*faults, f"{found} commands, {len(faults)} faults", sep="\n")
    return bool(faults) or not found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
