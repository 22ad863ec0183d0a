"""Fails if Clang does not take the library, its headers or the examples. Skips (77) without Clang.

What it warns of is a fault, too. Nothing is compiled to the end: GCC does that in the same run.

Usage: check_clang.py <repository root> <build folder>
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS = ("src", "examples")
# What takes longest to read is read once. Modules are seven times what tensors are, for each file
# again, so that only what has modules starts from them.
TENSORS = "#include <ATen/ATen.h>\n#include <torch/csrc/autograd/engine.h>\n"
MODULES = "#include <torch/torch.h>\n"
OF_MODULES = ("/src/models/", "/src/nn/", "/examples/", "/public_headers.cpp")


def flags_of(command):
    """What of a compiler's command says how a file is to be read."""
    words = iter(shlex.split(command))
    flags = []
    for word in words:
        if word in ("-isystem", "-I", "-D"):
            flags += [word, next(words)]
        elif word.startswith(("-I", "-D", "-std=")):
            flags.append(word)
    return flags


def sources(root, build):
    """Each source file of the folders, with its flags."""
    entries = json.loads((build / "compile_commands.json").read_text())
    wanted = tuple(str(root / folder) + "/" for folder in FOLDERS)
    return {entry["file"]: flags_of(entry["command"]) for entry in entries
            if entry["file"].startswith(wanted) and entry["file"].endswith(".cpp")}


def public_headers(root):
    include = root / "include"
    return "".join(f'#include "{header.relative_to(include)}"\n'
                   for header in sorted(include.rglob("*.h")))


class Clang:
    """Reads files with all warnings, on top of LibTorch's headers read before."""

    def __init__(self, program, folder, flags):
        self.command = [program, "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fpch-instantiate-templates"]
        self.tensors = self.precompiled(TENSORS, folder / "tensors.h", flags)
        self.modules = self.precompiled(MODULES, folder / "modules.h", flags)

    def precompiled(self, text, header, flags):
        header.write_text(text)
        result = header.with_suffix(".pch")
        subprocess.run([*self.command, *flags, "-x", "c++-header", header, "-o", result], check=True)
        return result

    def read_before(self, file):
        if "/src/plan/" in file:
            return []
        has_modules = any(part in file for part in OF_MODULES)
        return ["-include-pch", self.modules if has_modules else self.tensors]

    def faults(self, file, flags):
        prefix = self.read_before(file)
        run = subprocess.run([*self.command, *flags, *prefix, "-fsyntax-only", file], text=True,
                             capture_output=True, check=False)
        return run.stderr if run.returncode else ""


def main(root, build):
    program = shutil.which("clang++")
    if program is None:
        print("skipped: there is no clang++")
        return 77
    files = sources(root, build)
    torch_flags = next(flags for file, flags in files.items() if "/src/tape/" in file)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        headers = folder / "public_headers.cpp"
        headers.write_text(public_headers(root))
        files[str(headers)] = torch_flags
        clang = Clang(program, folder, torch_flags)
        with ThreadPoolExecutor(2) as pool:
            faults = list(pool.map(lambda item: clang.faults(*item), files.items()))
    print(*filter(None, faults), f"{len(files)} files, {sum(map(bool, faults))} that Clang does not take", sep="\n")
    return any(faults) or len(files) < 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
