"""Fails if an include in include/gradrecomp or src goes against the arrows between the folders.

Usage: check_arrows.py <repository root>
"""

import re
import sys
from pathlib import Path

ALLOWED = {
    "plan": set(),
    "kernels": set(),
    "tape": {"kernels"},
    "models": set(),
    "profile": {"tape", "kernels", "plan"},
    "report": {"profile", "plan"},
    "region": {"profile", "tape", "kernels", "plan"},
    "nn": {"region", "profile", "tape", "kernels", "plan"},
}
EVERYWHERE = {"gradrecomp/export.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")


def fault_of(folder, included):
    """Says what is wrong with a file of `folder` including `included`; None if nothing is."""
    if ".." in included.split("/"):
        return "must name a path from the include folder, without '..'"
    if folder == "plan" and TORCH.match(included):
        return "brings Torch into plan/, which must do without"
    if included in EVERYWHERE:
        return None
    own = included.startswith("gradrecomp/")
    target, slash, _ = included.removeprefix("gradrecomp/").partition("/")
    if own and not (slash and target in ALLOWED):
        return f"names {target}, which is no folder of the library"
    if slash and target in ALLOWED and target != folder and target not in ALLOWED[folder]:
        return f"goes against the arrows: {folder}/ must not know {target}/"
    return None


def faults(root):
    """Yields one line for each fault below `root`."""
    for tree in (root / "include/gradrecomp", root / "src"):
        for file in sorted(tree.rglob("*")):
            if file.suffix not in {".h", ".hpp", ".cuh", ".cpp", ".cu"}:
                continue
            folder = file.relative_to(tree).parts[0]
            if f"gradrecomp/{folder}" in EVERYWHERE:
                continue
            if folder not in ALLOWED:
                yield f"{file}: {folder} is no folder of the library; add it to ALLOWED"
                continue
            for included in INCLUDE.findall(file.read_text()):
                if fault := fault_of(folder, included):
                    yield f"{file}: including {included} {fault}"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    for fault in found:
        print(fault)
    sys.exit(bool(found))
