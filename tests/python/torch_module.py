"""Makes sure that this Python has the torch module of the LibTorch that the tests are linked with."""

import importlib
import os
import sys
import warnings
from pathlib import Path


def environment_of(libtorch):
    """The Python of the environment that benchmarks/peers/run makes beside that of scripts/setup."""
    environment = libtorch.parents[5]
    return environment.with_name(f"peers-{environment.name}") / "bin/python"


def reason_to_skip(libtorch, modules):
    """None if all modules can be imported and torch is that of `libtorch`, a libtorch_cpu."""
    for module in modules:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(module)
        except ImportError as error:
            return f"this Python cannot import {module}: {error}"
    torch = Path(sys.modules["torch"].__file__).resolve()
    if torch.parent / "lib" != libtorch.parent:
        return f"the torch module of this Python is {torch}, not that of {libtorch}"
    return None


def need_torch(libtorch, modules=("torch",)):
    """Goes on in the environment above where this Python will not do; exits with 77 without one."""
    reason = reason_to_skip(libtorch, modules)
    if reason is None:
        return
    python = environment_of(libtorch)
    if Path(sys.executable) != python and python.exists():
        os.execv(python, [python, "-B", *sys.argv])
    print(f"{reason}. ./benchmarks/peers/run makes an environment that can.")
    sys.exit(77)
