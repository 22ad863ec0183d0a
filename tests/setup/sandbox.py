"""A copy of the scripts in a folder of its own, where tools that fetch and build only note their calls."""

import os
import pty
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

REAL_TOOLS = ["awk", "bash", "cat", "cp", "dirname", "env", "grep", "head", "ln", "mkdir", "nproc", "realpath", "rm",
              "sed", "sort", "tail", "tee", "touch", "tr", "uname", "wc"]

FAKE_TOOLS = {
    "apt-get": "",
    "df": 'echo head; echo "disk 9 9 ${FREE_MEGABYTES:-99999} 9% /"',
    "dpkg-query": 'for package in "$@"; do echo "<$package installed>"; done',
    "ninja": "",
    "c++": "",
    "cmake": """
        [[ $1 != --version ]] || { echo "cmake version ${CMAKE_VERSION:-3.25.1}"; exit; }
        [[ $1 != --build || -z ${BUILD_ERROR:-} ]] || { echo "$BUILD_ERROR"; exit 3; }
        [[ $1 == --preset ]] || exit 0
        touch "$4/build.ninja"
        echo "-- CUDA kernels: ${CUDA_KERNELS_SAY:-compiled}"
        printf '%b' "${TEST_TARGETS:-}" >"$4/test-targets.txt" """,
    "ctest": """for test in ${CHOSEN_TESTS:-}; do echo "  Test  #1: $test"; done""",
    # The Python whose environment gets the wheels.
    "python3": """
        case "$*" in
          *version_info*) echo "${NEW_PYTHON:-True}" ;;
          "-m venv"*) mkdir -p "$3/bin" "$3/lib/python3.11/site-packages" && ln -s "$FAKES/pip" "$3/bin/pip" && ln -s "$FAKES/python3" "$3/bin/python" ;;
          *cuda_requirements.py*) echo "part-of-cuda==1" ;;
        esac""",
    "pip": """
        [[ "$*" != *"${FAILING_FETCH:-none}"* ]] || { echo "${FETCH_ERROR:-no network}"; exit 1; }
        [[ "$*" == *compiler.txt* ]] || exit 0
        toolkit=${0%/bin/pip}/lib/python3.11/site-packages/nvidia/cu13
        mkdir -p "$toolkit/bin" "$toolkit/lib"
        touch "$toolkit/lib/libcudart.so.13" && ln -s "$FAKES/ninja" "$toolkit/bin/nvcc" """,
}


class Sandbox(unittest.TestCase):
    root = None  # of the repository

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.outside = Path(temporary.name).resolve()
        self.outside.chmod(0o755)
        self.folder = self.outside / "repository"
        self.fakes = self.outside / "tools"
        self.calls_file = self.outside / "calls"
        shutil.copytree(self.root / "scripts", self.folder / "scripts")
        shutil.copy(self.root / "CMakePresets.json", self.folder)
        self.make_tools()

    def make_tools(self):
        self.fakes.mkdir()
        for tool in REAL_TOOLS:
            (self.fakes / tool).symlink_to(shutil.which(tool))
        for tool, script in FAKE_TOOLS.items():
            self.make_tool(tool, script)

    def make_tool(self, tool, script):
        note = f'echo "{tool} $*" >>"$CALLS"' if tool not in ("df", "dpkg-query") else ""
        (self.fakes / tool).write_text(f"#!{shutil.which('bash')}\n{note}\n{script}\n")
        (self.fakes / tool).chmod(0o755)

    def run_script(self, script="setup", arguments=(), user=None, terminal=False, **variables):
        """`terminal`: its output goes to one, which must not be more than a few lines."""
        environment = {"PATH": str(self.fakes), "FAKES": str(self.fakes), "CALLS": str(self.calls_file),
                       "CUDA_PATH": str(self.outside / "none"), "HOME": str(self.outside), **variables}
        as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
        screen, output = pty.openpty() if terminal else (None, subprocess.PIPE)
        result = subprocess.run([self.folder / "scripts" / script, *arguments], env=environment,
                                stdout=output, stderr=subprocess.PIPE, text=True, **as_user)
        if terminal:
            result.stdout = os.read(screen, 1 << 16).decode()
            os.close(screen)
            os.close(output)
        return result

    def calls(self, tool):
        """The arguments of each call of a tool so far."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [line.removeprefix(tool + " ") for line in lines if line.startswith(tool + " ")]

    def files(self):
        return sorted(os.path.relpath(path, self.folder) for path in self.folder.rglob("*"))
