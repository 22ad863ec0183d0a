"""Writes the requirements files of this folder anew: exact versions with the hashes of their wheels.

Usage: pin.py <version of torch> [file...]

Asks pip what it would install for each Python and machine that LibTorch has wheels for, without
installing it. Run it when the default version of LibTorch changes, and set that in scripts/setup.
With names of files, without .txt, it writes those alone.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
MACHINES = ["x86_64", "aarch64"]
GLIBC_MINORS = range(28, 4, -1)

# Else pip goes by its own Python and machine where a requirement is for some of them alone.
PIP_AS_ON_TARGET = """
import sys
from pip._internal.cli.main import main
from pip._vendor.packaging import markers
python, machine = sys.argv[1:3]
target = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
own_environment = markers.default_environment
markers.default_environment = lambda: own_environment() | target
sys.exit(main(sys.argv[3:]))
"""


def requirements_of(torch):
    """What each file pins, and whether pip adds what that depends on."""
    cuda = ["nvidia-cuda-runtime", "nvidia-cuda-cupti"]
    return {
        "tools": (["cmake>=3.25,<5", "ninja"], True),
        "solver": (["highspy"], True),
        # Other versions format otherwise; this is that of Debian 12.
        "formatter": (["clang-format==14.0.6"], True),
        f"torch-{torch}-cuda": ([f"torch=={torch}"], True),
        f"torch-{torch}-cpu": ([f"torch=={torch}", *cuda], False),
        f"torch-{torch}-compiler": (["cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]"], True),
        # For benchmarks/peers; torchvision names the torch that it is made for.
        f"torch-{torch}-peers": ([f"torch=={torch}", "torchvision", "transformers==5.23.0"], True),
    }


def chosen(requirements, with_dependencies, constraints, python, machine):
    """Yields (name, version, hash) of all that pip would install; nothing where it finds no wheels."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    platforms += [f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")] + [f"linux_{machine}"]
    command = [sys.executable, "-c", PIP_AS_ON_TARGET, python, machine, "install", "--dry-run",
               "--ignore-installed", "--quiet", "--no-cache-dir", "--disable-pip-version-check",
               "--only-binary=:all:", "--target=unused", f"--python-version={python}", "--report=-"]
    command += [f"--platform={platform}" for platform in platforms]
    command += [] if with_dependencies else ["--no-deps"]
    constraints_file = Path(__file__).with_name("constraints.tmp")
    constraints_file.write_text("".join(f"{line}\n" for line in constraints))
    result = subprocess.run([*command, "-c", constraints_file, *requirements], capture_output=True, text=True)
    constraints_file.unlink()
    if result.returncode:
        print(f"Python {python} on {machine}: {result.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return
    for item in json.loads(result.stdout)["install"]:
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        yield item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"], digest


def marker(targets):
    """The condition that holds for these (Python, machine) alone, of all that were asked for."""
    pythons = [python for python in PYTHONS if any(target[0] == python for target in targets)]
    machines = [machine for machine in MACHINES if any(target[1] == machine for target in targets)]
    parts = []
    if pythons[0] != PYTHONS[0]:
        parts.append(f'python_version >= "{pythons[0]}"')
    if pythons[-1] != PYTHONS[-1]:
        parts.append(f'python_version <= "{pythons[-1]}"')
    if machines != MACHINES:
        parts.append(f'platform_machine == "{machines[0]}"')
    return f" ; {' and '.join(parts)}" if parts else ""


def pinned(requirements, with_dependencies, constraints):
    """The text of a requirements file."""
    found = {}
    for python in PYTHONS:
        for machine in MACHINES:
            for name, version, digest in chosen(requirements, with_dependencies, constraints, python, machine):
                digests, targets = found.setdefault((name, version), (set(), []))
                digests.add(digest)
                targets.append((python, machine))
    text = "# Written by pin.py.\n"
    for (name, version), (digests, targets) in sorted(found.items()):
        text += f"{name}=={version}{marker(targets)}"
        text += "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(digests)) + "\n"
    return text


def parts_of_cuda(file):
    return re.findall(r"^(?:cuda-toolkit|nvidia-\S+)==\S+", file.read_text(), re.MULTILINE)


def main(torch, *names):
    folder = Path(__file__).parent
    of_cuda = f"torch-{torch}-cuda"
    files = requirements_of(torch)
    for name in names or files:
        # The other files' parts of CUDA are those that this torch was built with.
        follows = name.startswith("torch-") and name != of_cuda
        text = pinned(*files[name], parts_of_cuda(folder / f"{of_cuda}.txt") if follows else [])
        (folder / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
