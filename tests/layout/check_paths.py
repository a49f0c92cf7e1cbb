#!/usr/bin/env python3
"""Looks for paths of somebody's own machine in the repository's files: home and scratch directories that
no other machine has.

usage: check_paths.py ROOT

Exit code 1: each stands on a line "file:line: text".
"""
import os
import re
import subprocess
import sys

# Written so that this file does not match itself. A path's start, so not the end of a longer one.
PRIVATE = re.compile(rb"(?<![\w.~-])/(?:work|root|home/\w+)/")
SKIPPED = re.compile(r"^(build.*|demo|\.git|\.cache|\.venv.*|__pycache__)$")


def repository_files(root):
    """What git tracks or would add; without git (an unpacked archive) everything but build folders."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-coz", "--exclude-standard"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) \
        if os.path.exists(os.path.join(root, ".git")) else None
    if listed and listed.returncode == 0:
        return sorted(os.fsdecode(name) for name in listed.stdout.split(b"\0") if name)
    found = []
    for directory, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not SKIPPED.match(name)]
        found += [os.path.relpath(os.path.join(directory, name), root) for name in files]
    return sorted(found)


def check(root):
    wrong = []
    names = repository_files(root)
    for name in names:
        path = os.path.join(root, name)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if PRIVATE.search(line):
                    text = line.strip()[:120].decode("utf-8", "backslashreplace")
                    wrong.append(f"{name}:{number}: a path of one machine: {text}")
    return wrong, len(names)


def main():
    try:
        wrong, seen = check(sys.argv[1])
    except FileNotFoundError as error:  # git is not installed, though .git is there
        wrong, seen = [str(error)], 1
    if seen == 0:
        wrong = [f"{sys.argv[1]}: no files found; the repository's path would be right"]
    for line in wrong:
        print(line)
    if not wrong:
        print(f"{seen} files name no private path")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
