#!/usr/bin/env python3
"""Looks for configuration keys in messages of the sources that no configuration has: a reader would set them in vain.

usage: check_keys.py ROOT

The keys are those of docs/configuration.md, which a test holds equal to the schema. Exit code 1: each stands on a line
"file:line: key".
"""
import os
import re
import sys

TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
FILE = re.compile(r"\.(c|h|py|md|yaml|csv|tsv|txt|json|gz|zst)$")


def known_keys(root):
    keys, section = set(), ""
    with open(os.path.join(root, "docs/configuration.md"), encoding="utf-8") as file:
        for line in file:
            heading, key = re.match(r"## (\S+)", line), re.match(r"\| `(\w+)` \|", line)
            if heading:
                section = heading.group(1)
                keys.add(section)
            elif key:
                keys.add(f"{section}.{key.group(1)}")
    return keys


def check(root):
    keys = known_keys(root)
    sections = sorted({key.split(".")[0] for key in keys} - {"The"})
    named = re.compile(r"(?<![\w./-])(?:%s)(?:\.[a-z_0-9]+)+" % "|".join(sections))
    wrong, seen = [], 0
    for directory, _, files in os.walk(os.path.join(root, "src")):
        for name in sorted(files):
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.join(directory, name)
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    for text in TEXT.findall(line):
                        for found in named.findall(text):
                            key = re.sub(r"\.\d+", "", found)
                            if FILE.search(key):
                                continue
                            seen += 1
                            if key not in keys:
                                wrong.append(f"{os.path.relpath(path, root)}:{number}: {key}")
    return wrong, seen


def main():
    wrong, seen = check(sys.argv[1])
    for line in wrong:
        print(line)
    if not seen:
        print(f"{sys.argv[1]}: no keys found; the repository's path would be right")
    elif not wrong:
        print(f"{seen} keys in messages exist")
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
