"""Fails if a source file is not as clang-format would write it. Skips (77) without clang-format.

Usage: check_format.py <repository root>
"""

import subprocess
import sys
from pathlib import Path

FOLDERS = ("include", "src", "programs", "tests", "benchmarks", "examples")
ENDINGS = {".h", ".hpp", ".cpp", ".cu", ".cuh"}


def formatter(root):
    """The clang-format that scripts/setup has fetched; others may format otherwise."""
    return next(iter(sorted(root.glob(".venv/torch-*/bin/clang-format"))), None)


def main(root):
    program = formatter(root)
    if program is None:
        print("skipped: scripts/setup has fetched no clang-format")
        return 77
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*"))
             if file.suffix in ENDINGS]
    run = subprocess.run([program, "--dry-run", "-Werror", *files], text=True, capture_output=True,
                         check=False)
    faults = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error:" in line})
    print(*faults, f"{len(files)} files, {len(faults)} not formatted", sep="\n")
    if faults:
        print(f"Run {program} -i on them.")
    elif run.returncode:
        print(run.stderr)
    return run.returncode or not files


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
