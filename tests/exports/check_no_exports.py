"""Fails if a module that a static GradRecomp is linked into shows any of its symbols.

Usage: check_no_exports.py <nm> <module> <function that the module itself exports>
"""

import subprocess
import sys


def exported(nm, module):
    """Names of what other modules of a process see of `module`."""
    text = subprocess.run([nm, "--demangle", "--dynamic", "--defined-only", module], check=True,
                          capture_output=True, text=True).stdout
    return [line.split(maxsplit=2)[-1] for line in text.splitlines()]


def main():
    nm, module, own = sys.argv[1:]
    names = exported(nm, module)
    if own not in names:
        sys.exit(f"{own} is not found, so nothing else would be")
    shown = [name for name in names if "gradrecomp" in name]
    for name in shown:
        print(f"exported: {name}")
    sys.exit(1 if shown else 0)


main()
