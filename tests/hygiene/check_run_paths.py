"""Fails if a program or shared library would look for its libraries in the current folder.

Usage: check_run_paths.py <build folder>

The loader takes an empty entry of a run path for the current folder, and a relative one from there.
"""

import re
import subprocess
import sys
from pathlib import Path

RUN_PATH = re.compile(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]")


def built_files(folder):
    """Yields the programs in bin/ and all shared libraries."""
    for file in sorted({*folder.glob("bin/*"), *folder.rglob("*.so*")}):
        if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF":
            yield file


def faults(file):
    """Yields what is wrong with the run paths of one file."""
    listing = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
    for run_path in RUN_PATH.findall(listing):
        for entry in run_path.split(":"):
            if not entry.startswith(("/", "$ORIGIN")):
                yield f'{file}: run path "{run_path}" has "{entry}", which is looked for in the current folder'


def main(folder):
    files = list(built_files(folder))
    found = [fault for file in files for fault in faults(file)]
    for fault in found:
        print(fault)
    print(f"{len(files)} files looked at")
    return bool(found) or not files


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
