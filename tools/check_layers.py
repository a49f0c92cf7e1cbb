#!/usr/bin/env python3
"""Checks who includes whom, as docs/architecture.md draws it. Run in the repository, or with its path.

A file of src/ may include its own folder, include/fathom, and the folders below its level, less what the
narrower rules take away. Every quoted include is spelt from src/ or include/ ("folder/file.h"). Exit code 0:
all right; 1: each violation stands on a line "file:line: what is wrong".
"""
import os
import re
import sys

# From the bottom up; folders on one level do not see each other.
LEVELS = [
    ["base"],
    ["core", "config", "io"],
    ["kernels", "comm", "data", "feature", "store", "metric"],
    ["graph", "optim", "embedding"],
    ["ops", "lookahead"],
    ["passes", "runtime", "model"],
    ["checkpoint"],
    ["train"],
    ["cli"],
]

# Folders that see these only (and themselves).
ONLY = {
    "kernels": {"base", "core"},
    "model": {"base", "core", "config", "graph", "ops"},
    "cli": set(),
}

# Neighbours on one level that a folder sees as well. They see nothing of it in turn.
BESIDE = {
    "data": {"kernels"},               # splitting text is a kernel, chosen by CPU like the others
    "feature": {"kernels"},            # so is splitting lists
    "embedding": {"graph", "optim"},   # fills the table of functions in graph/rows.h; row optimizers
}

# Folders that see everything below but these.
NEVER = {
    "graph": {"kernels", "store", "comm"},
    "runtime": {"embedding", "store"},  # rows come through the table of functions in graph/rows.h
}

# System headers that one file only may include.
OWNED_SYSTEM_HEADERS = {"mpi.h": "comm/mpi.c"}

# Includes that a test build alone resolves: tests/simde compiles the AVX-512 and AMX kernels a second time.
TEST_ONLY = {
    ("kernels/cpu/simd_avx512.h", "simde_avx512.h"),
    ("kernels/cpu/simd_avx512.h", "simde_kernels.h"),
    ("kernels/peaks_avx512.c", "simde_avx512.h"),
    ("kernels/gemm_bf16_amx.c", "emulated_bf16.h"),
    ("kernels/gemm_bf16_avx512bf16.c", "emulated_bf16.h"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed_folders(folder):
    """The folders of src/ that `folder` may include, itself among them; None when it is unknown."""
    below = set()
    for level in LEVELS:
        if folder in level:
            allowed = ONLY.get(folder, below - NEVER.get(folder, set()))
            return allowed | BESIDE.get(folder, set()) | {folder}
        below |= set(level)
    return None


def check_include(root, path, kind, name):
    """What is wrong with file `path` (from src/) including `name`; None when nothing is."""
    folder = path.split("/")[0]
    target = name.split("/")[0]
    if kind == "<":
        owner = OWNED_SYSTEM_HEADERS.get(name)
        if owner and path != owner:
            return f"<{name}> may be included by src/{owner} only"
        if target == "fathom":
            return f'public headers are included as "{name}"'
        return None
    if (path, name) in TEST_ONLY:
        return None
    if os.path.exists(os.path.join(root, "include", name)) and target == "fathom":
        return None
    if "/" not in name or not os.path.exists(os.path.join(root, "src", name)):
        return f'"{name}" is neither in src/ nor in include/ (spell it "folder/file.h")'
    allowed = allowed_folders(folder)
    if target not in allowed:
        others = ", ".join(sorted(allowed - {folder})) or "nothing in src/"
        return f'{folder} must not include {target} ("{name}"); it sees {others}, and include/fathom'
    if re.search(r"_private\.h$", name) and target != folder:
        return f'"{name}" belongs to folder {target} alone'
    return None


def source_files(top):
    for directory, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".c", ".h", ".def")):
                path = os.path.join(directory, name)
                yield path, os.path.relpath(path, top).replace(os.sep, "/")


def includes(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1), match.group(2)


def check(root):
    """All violations in the repository at `root`, as lines of text, and the number of files seen."""
    wrong = []
    seen = 0
    src = os.path.join(root, "src")
    for path, relative in source_files(src):
        seen += 1
        if "/" not in relative:
            wrong.append(f"src/{relative}:1: sources live in a folder of src/")
            continue
        if allowed_folders(relative.split("/")[0]) is None:
            wrong.append(f"src/{relative}:1: tools/check_layers.py does not know this folder's level")
            continue
        for number, kind, name in includes(path):
            reason = check_include(root, relative, kind, name)
            if reason:
                wrong.append(f"src/{relative}:{number}: {reason}")
    public = os.path.join(root, "include")
    for path, relative in source_files(public):
        seen += 1
        for number, kind, name in includes(path):
            if kind == '"' and not os.path.exists(os.path.join(public, name)):
                wrong.append(f'include/{relative}:{number}: a public header sees "fathom/..." only, '
                             f'not "{name}"')
    return wrong, seen


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    wrong, seen = check(root)
    if seen == 0:
        wrong = [f"{root}: no sources found; the repository's path would be right"]
    for line in wrong:
        print(line)
    if not wrong:
        print(f"{seen} files include only what they may")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
