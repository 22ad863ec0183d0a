"""Prints the requirements for the CUDA libraries that libtorch_cpu itself loads: runtime and CUPTI.

Run by the Python of an environment into which torch was installed without its dependencies.
"""

import re
from importlib import metadata

from pip._vendor.packaging.requirements import Requirement


def needed_for_cpu(line):
    requirement = Requirement(line)
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        return None
    if requirement.name == "cuda-toolkit":
        return f"cuda-toolkit[cudart,cupti]{requirement.specifier}"
    if re.match(r"nvidia-cuda-(runtime|cupti)\b", requirement.name):
        return f"{requirement.name}{requirement.specifier}"
    return None


for line in filter(None, map(needed_for_cpu, metadata.requires("torch") or [])):
    print(line)
