"""Fails if an include goes against the arrows between the folders, or if a folder is overfull.

Looks at include/gradrecomp, src and programs/gradrecomp. Some folders have rooms, with arrows of
their own between them; docs/architecture.md draws both.

Usage: check_arrows.py <repository root>
"""

import re
import sys
from pathlib import Path

ALLOWED = {
    "arena": set(),
    "plan": set(),
    "kernels": set(),
    "device": set(),
    "tape": {"kernels", "device", "plan"},
    "models": set(),
    "profile": {"tape", "kernels", "plan", "device", "arena"},
    "region": {"profile", "tape", "kernels", "plan", "arena"},
    "nn": {"region", "profile", "tape", "kernels", "plan", "arena"},
    "program": {"nn", "models", "region", "profile", "plan"},
}
# What each room may know besides itself and what lies beside the rooms.
ROOMS = {
    "arena": {
        "blocks": set(),
        "planned": {"blocks"},
        "arena": {"blocks", "planned"},
    },
    "plan": {
        "graph": set(),
        "simulator": {"graph"},
        "policies": {"graph", "simulator"},
        "blocks": {"graph", "simulator"},
        "chain": {"graph", "simulator", "blocks"},
        "bounds": {"graph", "simulator"},
        "op_program": {"graph", "simulator", "bounds"},
        "proof": {"graph", "simulator", "bounds", "op_program"},
        "offload": {"graph", "simulator", "policies"},
        "rounding": {"graph", "simulator", "policies", "offload"},
        "search": {"graph", "simulator", "policies", "blocks", "chain", "proof", "offload",
                   "rounding"},
        "files": {"graph"},
    },
    "kernels": {
        "arithmetic": set(),
        "cpu": {"arithmetic"},
        "cuda": {"arithmetic"},
    },
    "tape": {
        "geometry": set(),
        "aten": {"geometry"},
        "dispatch": {"aten"},
        "kernels": set(),
        "away": {"aten", "kernels"},
        "host_memory": {"aten", "away"},
        "prints": {"aten", "geometry"},
        "tape": {"geometry", "aten", "dispatch", "away", "host_memory", "prints"},
        "substitutes": {"tape", "geometry", "aten", "dispatch", "kernels"},
        "calls": {"tape", "aten", "dispatch"},
        "lent": {"tape", "aten"},
        "interception": {"aten"},
        "writing": {"tape", "aten", "dispatch", "away", "host_memory", "substitutes", "calls",
                    "lent"},
        "drafts": {"tape", "aten", "dispatch", "calls", "lent", "writing"},
        "record": {"tape", "aten", "dispatch", "host_memory", "substitutes", "calls", "lent",
                   "replay", "interception", "writing", "drafts"},
        "replay": {"tape", "aten", "dispatch", "substitutes"},
    },
    "profile": {
        "cuda": set(),
        "times": {"cuda"},
        "forms": set(),
        "profile": {"times", "cuda", "forms"},
    },
    "region": {
        "sequences": set(),
        "region": {"sequences"},
    },
    "program": {
        "input": set(),
        "workload": {"input"},
        "measure": {"input", "workload"},
        "report": {"measure", "workload"},
        "commands": {"input", "workload", "measure", "report"},
    },
}
MOST_FILES = 20  # in one folder of src, programs or tests
# Whose the public headers are that lie in no folder of include/gradrecomp.
OWNERS = {
    "checkpoint.h": "nn",
    "checkpointed_sequential.h": "nn",
    "gradrecomp.h": "nn",
    "guard.h": "tape",
    "host_link.h": "profile",
    "rounding_speed.h": "profile",
    "memory_meter.h": "profile",
    "options.h": "region",
    "region.h": "region",
    "report.h": "region",
}
# Public headers lie in one folder, beside the rooms that implement them.
HEADERS = {
    "plan": {
        "graph": {"batch_fit", "graph", "host_link", "kept_set", "origin", "plan", "proof",
                  "selection", "signature"},
        "simulator": {"predict", "simulate"},
        "policies": {"policies", "policy", "request"},
        "proof": {"verify"},
        "search": {"batch_plan", "make_plan"},
        "files": {"graph_file", "plan_file"},
    },
}
EVERYWHERE = {"gradrecomp/export.h", "gradrecomp/version.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")


def room_of(path):
    """The room that a file is in, by its path from the folder that holds its part."""
    folder, _, name = path.partition("/")
    if folder not in ROOMS:
        return None
    if "/" in name:
        return name.rpartition("/")[0]  # of rooms within rooms the whole path: they need arrows too
    if folder in ROOMS[folder]:
        return folder  # what lies beside the rooms has arrows too
    headers = HEADERS.get(folder, {}).items()
    return next((room for room, names in headers if name.removesuffix(".h") in names), None)


def with_owner(path):
    """`path` below include/gradrecomp, with the folder in front whose it is."""
    return f"{OWNERS[path]}/{path}" if path in OWNERS else path


def fault_of(path, included):
    """Says what is wrong with the file at `path` including `included`; None if nothing is."""
    folder = path.split("/")[0]
    if ".." in included.split("/"):
        return "must name a path from the include folder, without '..'"
    if folder == "plan" and TORCH.match(included):
        return "brings Torch into plan/, which must do without"
    if included in EVERYWHERE:
        return None
    if folder == "program" and included.partition("/")[0] in ROOMS["program"]:
        included = f"program/{included}"  # it includes by paths from its own folder
    own = included.startswith("gradrecomp/")
    target_path = included.removeprefix("gradrecomp/")
    if own:
        target_path = with_owner(target_path)
    target, slash, _ = target_path.partition("/")
    if own and not (slash and target in ALLOWED):
        return f"names {target}, which is not a folder of the library"
    if slash and target in ALLOWED and target != folder and target not in ALLOWED[folder]:
        return f"goes against the arrows: {folder}/ must not know {target}/"
    room, target_room = room_of(path), room_of(target_path)
    known = ROOMS.get(folder, {}).get(room, set())
    if target == folder and room and target_room and target_room not in known | {room}:
        return f"goes against the arrows: {folder}/{room}/ must not know {folder}/{target_room}/"
    return None


def sources(root):
    """Yields each file to look at below `root`, with its path from the folder that holds its part."""
    for tree, part in ((root / "include/gradrecomp", ""), (root / "src", ""),
                       (root / "programs/gradrecomp", "program/")):
        for file in sorted(tree.rglob("*")):
            if file.suffix in {".h", ".hpp", ".cuh", ".cpp", ".cu"}:
                path = part + file.relative_to(tree).as_posix()
                yield file, with_owner(path) if tree.name == "gradrecomp" and not part else path


def overfull_folders(root):
    """Yields one line for each folder of src, programs or tests that has too many files."""
    for tree in (root / "src", root / "programs", root / "tests"):
        for folder in sorted(path for path in tree.rglob("*") if path.is_dir()):
            num = sum(path.is_file() for path in folder.iterdir())
            if num > MOST_FILES:
                yield f"{folder}: {num} files, but must be at most {MOST_FILES}; give it rooms"


def faults(root):
    """Yields one line for each fault below `root`."""
    for file, path in sources(root):
        folder = path.split("/")[0]
        if f"gradrecomp/{folder}" in EVERYWHERE:
            continue
        if folder not in ALLOWED:
            yield f"{file}: {folder} is not a folder of the library; add it to ALLOWED"
            continue
        if (room := room_of(path)) and room not in ROOMS[folder]:
            yield f"{file}: {folder}/{room} is not a room of {folder}; add it to ROOMS"
            continue
        for included in INCLUDE.findall(file.read_text()):
            if fault := fault_of(path, included):
                yield f"{file}: including {included} {fault}"
    yield from overfull_folders(root)


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    for fault in found:
        print(fault)
    sys.exit(bool(found))
