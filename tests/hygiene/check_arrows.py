"""Fails if an include in include/gradrecomp or src goes against the arrows between the folders.

Some folders have rooms, with arrows of their own between them; docs/architecture.md draws both.

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
# What each room may know besides itself and what lies beside the rooms.
ROOMS = {
    "plan": {
        "graph": set(),
        "simulator": {"graph"},
        "policies": {"graph", "simulator"},
        "chain": {"graph", "simulator"},
        "proof": {"graph", "simulator"},
        "offload": {"graph", "simulator"},
        "search": {"graph", "simulator", "policies", "chain", "proof", "offload"},
        "files": {"graph"},
    },
}
# Public headers lie in one folder, beside the rooms that implement them.
HEADERS = {
    "plan": {
        "graph": {"batch_fit", "graph", "host_link", "kept_set", "origin", "plan", "request",
                  "selection", "signature"},
        "simulator": {"predict", "simulate"},
        "policies": {"policies"},
        "search": {"batch_plan", "make_plan"},
        "files": {"graph_file", "plan_file"},
    },
}
EVERYWHERE = {"gradrecomp/export.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")


def room_of(path):
    """The room that a file of the library is in, by its path from src or include/gradrecomp."""
    folder, _, name = path.partition("/")
    if folder not in ROOMS:
        return None
    if "/" in name:
        return name.split("/")[0]
    headers = HEADERS[folder].items()
    return next((room for room, names in headers if name.removesuffix(".h") in names), None)


def fault_of(path, included):
    """Says what is wrong with the file at `path` including `included`; None if nothing is."""
    folder = path.split("/")[0]
    if ".." in included.split("/"):
        return "must name a path from the include folder, without '..'"
    if folder == "plan" and TORCH.match(included):
        return "brings Torch into plan/, which must do without"
    if included in EVERYWHERE:
        return None
    own = included.startswith("gradrecomp/")
    target_path = included.removeprefix("gradrecomp/")
    target, slash, _ = target_path.partition("/")
    if own and not (slash and target in ALLOWED):
        return f"names {target}, which is no folder of the library"
    if slash and target in ALLOWED and target != folder and target not in ALLOWED[folder]:
        return f"goes against the arrows: {folder}/ must not know {target}/"
    room, target_room = room_of(path), room_of(target_path)
    known = ROOMS.get(folder, {}).get(room, set())
    if target == folder and room and target_room and target_room not in known | {room}:
        return f"goes against the arrows: {folder}/{room}/ must not know {folder}/{target_room}/"
    return None


def faults(root):
    """Yields one line for each fault below `root`."""
    for tree in (root / "include/gradrecomp", root / "src"):
        for file in sorted(tree.rglob("*")):
            if file.suffix not in {".h", ".hpp", ".cuh", ".cpp", ".cu"}:
                continue
            path = file.relative_to(tree).as_posix()
            folder = path.split("/")[0]
            if f"gradrecomp/{folder}" in EVERYWHERE:
                continue
            if folder not in ALLOWED:
                yield f"{file}: {folder} is no folder of the library; add it to ALLOWED"
                continue
            if (room := room_of(path)) and room not in ROOMS[folder]:
                yield f"{file}: {folder}/{room} is no room of the library; add it to ROOMS"
                continue
            for included in INCLUDE.findall(file.read_text()):
                if fault := fault_of(path, included):
                    yield f"{file}: including {included} {fault}"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    for fault in found:
        print(fault)
    sys.exit(bool(found))
