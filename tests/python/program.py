"""What the tests of regions in Python have in common: their arguments, and how they start.

Usage: <test>.py <library of region_calls.cpp> <libtorch_cpu it was linked with>
Exits with 77 where no Python has the torch module of that LibTorch.
"""

import faulthandler
import sys
import unittest
from pathlib import Path

from torch_module import need_torch

LIBRARY, LIBTORCH = (Path(argument).resolve() for argument in sys.argv[1:3])
_HANG_SECONDS = 1100  # before ctest ends the process without a word

# Whether another library has the dispatch key of the recorder in this process.
BY_OPERATOR = "by_operator" in LIBRARY.name

need_torch(LIBTORCH)

import regions  # noqa: E402 - only where torch can be imported

regions.load(LIBRARY)


def main():
    """Runs the tests of the program, or those that its further arguments name."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
