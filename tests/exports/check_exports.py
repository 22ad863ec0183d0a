"""Fails unless a shared library exports what the public headers declare and nothing else.

Usage: check_exports.py <nm> <include folder> <shared library> <static library of the same objects>
"""

import re
import subprocess
import sys
from pathlib import Path

NAMESPACE = re.compile(r"namespace (\w+(?:::(?!inline)\w+)*)(?:::inline \w+)? \{")
OURS = re.compile(r"gradrecomp::(?!v\d+_\d+::)")
OF_THE_VERSION = re.compile(r"\bv\d+_\d+::")  # the inline namespace that headers do not spell out
DECLARED = re.compile(r"\b(?:class|struct)\s+(?:GRADRECOMP_API\s+)?(\w+)\b(?!;)|\b(\w+)\(")
OF_A_CLASS = re.compile(r"^(?:typeinfo|typeinfo name|vtable|VTT|guard variable) for |^(?:non-)?virtual thunk to ")
# Instantiated from headers whose own libraries make them visible: every library that uses them has
# a copy of its own, and the loader takes the first.
FOREIGN = re.compile(r"\b(?:std|__gnu_cxx|at|c10|caffe2|torch|ska)::|^typeinfo (?:name )?for |^operator new\(")


def declared_names(include):
    """Names of the classes and functions that headers below `include` declare, with namespaces."""
    names = set()
    for header in sorted(include.rglob("*.h")):
        spaces = []
        for line in header.read_text().splitlines():
            if opened := NAMESPACE.match(line):
                spaces.append(opened[1])
            elif line.startswith("}  // namespace"):
                spaces.pop()
            elif not line.startswith((" ", "/")):  # members are indented
                for found in DECLARED.finditer(line):
                    names.add("::".join([*spaces, found[1] or found[2]]))
    return names


def is_declared(symbol, names):
    """Whether `symbol` is in `names` or belongs to a class that is."""
    path = re.match(r"[\w:]*", OF_A_CLASS.sub("", symbol))[0].split("::")
    return any("::".join(path[:n]) in names for n in range(2, len(path) + 1))


def faults(exported, hidden, names):
    """Yields one line per symbol that is exported and should not be, or the other way round.

    `exported` are pairs of nm's letter and a name, `hidden` names of what other files cannot see.
    """
    for kind, symbol in exported:
        if not is_declared(symbol, names) and not (kind in "WVu" and FOREIGN.search(symbol)):
            yield f"exported, but no public header declares it: {symbol}"
    for symbol in sorted(hidden):
        if is_declared(symbol, names):
            yield f"a public header declares it without GRADRECOMP_API: {symbol}"


def without_version(symbols):
    """The symbols without the inline namespace in their names, and a fault for each of ours that has none."""
    named = [(kind, OF_THE_VERSION.sub("", symbol)) for kind, symbol in symbols]
    unversioned = [f"outside the namespace of its version: {symbol}" for kind, symbol in symbols
                   if OURS.match(OF_A_CLASS.sub("", symbol))]
    return named, unversioned


def symbols(nm, *arguments):
    """What nm lists, as pairs of its letter and a name."""
    text = subprocess.run([nm, "--demangle", "--defined-only", *arguments], check=True,
                          capture_output=True, text=True).stdout
    return [tuple(found) for found in re.findall(r"^[0-9a-f]+ (\w) (.*)$", text, re.MULTILINE)]


if __name__ == "__main__":
    nm, include, shared, static = sys.argv[1:]
    exported, unversioned = without_version(symbols(nm, "--dynamic", shared))
    objects, also_unversioned = without_version(symbols(nm, static))
    strong = {symbol for kind, symbol in objects if kind in "TDBR"}
    found = sorted({*unversioned, *also_unversioned})
    found += list(faults(exported, strong - {symbol for _, symbol in exported},
                        declared_names(Path(include))))
    print(*found, f"{len(exported)} symbols, {len(found)} faults", sep="\n")
    sys.exit(bool(found) or not exported)
