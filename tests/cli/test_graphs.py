#!/usr/bin/env python3
"""`fathom graph` of every example, optimised and plain: test_graphs.py FATHOM

What is printed must be a graph (each value is made before a node reads it), and all together must have every operation.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BF16 = ["--set", "precision=bf16"]
# Settings for operations that no example has as it is.
FURTHER = {"deepfm.yaml": ["--set", "model.activation=prelu", "--set", "optimizer.dense.name=lamb"]}
NODE = re.compile(r"  (?P<makes>%.*?|) ?=? ?(?P<op>[a-z][a-z0-9_]*)\((?P<reads>[^)]*)\)(?P<how>.*)")
FEATURES = re.compile(r"^  \S.*", re.M)


def graph(program, *options):
    done = subprocess.run([program, "graph", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    if set(BF16) <= set(options) and "needs a CPU with" in done.stderr:
        return ""
    if done.returncode != 0 or done.stderr:
        sys.exit(f"graph {' '.join(map(str, options))}: {done.returncode}\n{done.stderr}")
    if re.search(r"\(null\)|\bnan\b|%!", done.stdout):
        sys.exit(f"graph {' '.join(map(str, options))} prints what is no text:\n{done.stdout}")
    return done.stdout


def check_values(text, of):
    """The lines of both passes; returns the names of their operations."""
    made, operations, within = set(), set(), False
    for line in text.splitlines():
        if not line.startswith("  "):
            within = line in ("forward", "backward", "update")
        elif within:
            node = NODE.fullmatch(line)
            if not node:
                sys.exit(f"{of}: what is this? {line}")
            for value in re.findall(r"%\d+", node["reads"]):
                if value not in made:
                    sys.exit(f"{of}: {value} is read before it is made: {line}")
            made.update(re.findall(r"%\d+", node["makes"]))
            operations.add(node["op"])
    return operations


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = sys.argv[1]
    refused = subprocess.run([program, "graph", "-w", "nothing", EXAMPLES / "lr.yaml"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=60).stdout
    optimisations = re.search(r"there are: (.*)\)", refused)[1].split(", ")
    plain = [word for name in optimisations for word in ("-w", name)]
    seen = set()
    for example in sorted(EXAMPLES.glob("*.yaml")):
        for options in [], plain, BF16, *([FURTHER[example.name]] if example.name in FURTHER else []):
            seen |= check_values(graph(program, *options, example), f"{example.name} {' '.join(options)}")
        if not FEATURES.search(graph(program, "--features", example)):
            sys.exit(f"{example.name}: no features")
        if not graph(program, "--dot", example).startswith("digraph"):
            sys.exit(f"{example.name}: no digraph")
    operations = set(re.findall(r"^FTH_OP\((\w+)\)", (ROOT / "src/ops/ops.def").read_text(), re.M))
    missing = operations - seen
    info = subprocess.run([program, "info"], stdout=subprocess.PIPE, text=True, timeout=60).stdout
    if "amx-bf16" not in re.search(r"instruction set in use +(.*)", info)[1]:
        missing = {name for name in missing if not re.search("rounded|tiles", name)} # round_once is for AMX
    if missing or seen - operations:
        sys.exit(f"no example has {sorted(missing)}; no operation is {sorted(seen - operations)}")


if __name__ == "__main__":
    main()
