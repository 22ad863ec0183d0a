"""Writes the requirements files of this folder anew: exact versions with the hashes of their wheels.

Usage: pin.py <version of torch>

Asks pip what it would install for each Python and machine that LibTorch has wheels for, without
installing it. Run it when the default version of LibTorch changes, and set that in scripts/setup.
"""

import json
import subprocess
import sys
from pathlib import Path

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
MACHINES = ["x86_64", "aarch64"]
GLIBC_MINORS = range(28, 4, -1)


def requirements_of(torch):
    """What each file pins, and whether pip adds what that depends on."""
    cuda = ["nvidia-cuda-runtime", "nvidia-cuda-cupti"]
    return {
        "tools": (["cmake>=3.25,<5", "ninja"], True),
        "solver": (["highspy"], True),
        # Other versions format otherwise; this is that of Debian 12.
        "formatter": (["clang-format==14.0.6"], True),
        f"torch-{torch}-cpu": ([f"torch=={torch}", *cuda], False),
        f"torch-{torch}-cuda": ([f"torch=={torch}"], True),
        f"torch-{torch}-compiler": (["cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]"], True),
    }


def chosen(requirements, with_dependencies, constraints, python, machine):
    """Yields (name, version, hash) of all that pip would install; nothing where it finds no wheels."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    platforms += [f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")] + [f"linux_{machine}"]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
               "--no-cache-dir", "--disable-pip-version-check", "--only-binary=:all:", "--target=unused",
               f"--python-version={python}", "--report=-"]
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
    """The text of a requirements file, and its versions for later files to agree with."""
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
    return text, [f"{name}=={version}" for name, version in found]


def main(torch):
    folder = Path(__file__).parent
    cuda = pinned([f"torch=={torch}"], True, [])
    # The other files' parts of CUDA are those that this torch was built with.
    constraints = [line for line in cuda[1] if line.startswith(("cuda-toolkit", "nvidia-"))]
    for name, (requirements, with_dependencies) in requirements_of(torch).items():
        of_torch = name.startswith("torch-")
        text, _ = cuda if name.endswith("-cuda") else pinned(
            requirements, with_dependencies, constraints if of_torch else [])
        (folder / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
