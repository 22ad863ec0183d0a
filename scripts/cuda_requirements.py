"""Prints the requirements for CUDA parts in the version that the installed torch was built with.

Usage: cuda_requirements.py libraries | compiler
  libraries  what libtorch_cpu itself loads: runtime and CUPTI
  compiler   nvcc with what it needs to compile and link; nothing for versions of torch whose CUDA
             does not come as one toolkit

Run by the Python of an environment into which torch was installed without its dependencies.
"""

import re
import sys
from importlib import metadata

from pip._vendor.packaging.requirements import Requirement


def compiler(requirement):
    if requirement.name == "cuda-toolkit":
        return f"cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]{requirement.specifier}"
    return None


def libraries(requirement):
    if requirement.name == "cuda-toolkit":
        return f"cuda-toolkit[cudart,cupti]{requirement.specifier}"
    if re.match(r"nvidia-cuda-(runtime|cupti)\b", requirement.name):
        return f"{requirement.name}{requirement.specifier}"
    return None


def applies(requirement):
    return not requirement.marker or requirement.marker.evaluate({"extra": ""})


wanted = {"compiler": compiler, "libraries": libraries}[sys.argv[1]]
requirements = filter(applies, map(Requirement, metadata.requires("torch") or []))
for line in filter(None, map(wanted, requirements)):
    print(line)
