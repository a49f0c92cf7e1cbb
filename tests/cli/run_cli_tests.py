#!/usr/bin/env python3
"""Plays a transcript of the program again and compares: run_cli_tests.py FATHOM CASE.txt

A transcript is lines of
    # a comment
    $ a shell command          run in a fresh folder that holds what tests/cli/data holds
    what it prints             standard output
    ! what it says             standard error
    ? 2                        the exit code, where it is not 0
Both streams are compared after what differs from run to run has been replaced (RULES). A command after "$$"
prepares: its output is not compared, but it must succeed. With FATHOM_UPDATE_GOLDEN=1 the file is written anew.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# Times, rates, and numbers whose last digits depend on the instruction set.
RULES = [
    (r"\x1b\[K|\r", ""),
    (r"(\d+ x \d+) +[\d.e-]+$", r"\1 <norm>"),
    (r"threads, (?:scalar|avx2|avx512);", "threads, <isa>;"),
    (r"( {2}seconds +)[\d.]+", r"\1<seconds>"),
    (r"( {2}(?:AUC|log loss|normalised entropy|calibration) +)-?\d+\.\d+", r"\1<number>"),
    (r"(AUC|log loss|NE|calibration|loss) -?\d+\.\d+", r"\1 <number>"),
    (r" +[\d.]+ s +[\d.]+ %", "  <time>"),
    (r"reading [\d.]+ s, parsing [\d.]+ s(?: \(.*?\))?", "reading <time>, parsing <time>"),
    (r"^  \d+ examples/s", "  <rate> examples/s"),
    (r"examples/s \d+", "examples/s <rate>"),
    (r"digest [0-9a-f]{16}", "digest <digest>"),
    (r"^[0-9a-f]{16}$", "<digest>"),
    (r"trained \d+ s on \w+", "trained <time> on <isa>"),
    (r"\b0\.\d{5,9}$", "<probability>"),
    (r"norm [\d.e-]+", "norm <norm>"),
]


def normalise(text, folder):
    text = text.replace(folder, "<folder>")
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return text


def run(command, folder, environment):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
    return done.returncode, normalise(done.stdout, folder), normalise(done.stderr, folder)


def transcript(lines, folder, environment):
    out = []
    for line in lines:
        if line.startswith("#"):
            out.append(line)
        elif line.startswith("$$ "):
            out.append(line)
            code, _, stderr = run(line[3:], folder, environment)
            if code != 0:
                sys.exit(f"{line}\nfailed with {code}:\n{stderr}")
        elif line.startswith("$ "):
            out.append(line)
            code, stdout, stderr = run(line[2:], folder, environment)
            out += stdout.split("\n")[:-1] if stdout.endswith("\n") else stdout.split("\n") if stdout else []
            out += ["! " + text for text in stderr.rstrip("\n").split("\n")] if stderr else []
            if code != 0:
                out.append(f"? {code}")
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, case = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with open(case) as file:
        expected = file.read().split("\n")[:-1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ARGP")}
    environment.update(PATH=os.path.dirname(program) + ":" + os.environ["PATH"], LC_ALL="C")
    environment.setdefault("FATHOM_MAX_ISA", "avx2")
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(os.path.realpath(top), "t")
        shutil.copytree(os.path.join(HERE, "data"), folder)
        got = transcript(expected, folder, environment)
    if got == expected:
        return
    if os.environ.get("FATHOM_UPDATE_GOLDEN") == "1":
        with open(case, "w") as file:
            file.write("\n".join(got) + "\n")
        print(f"written: {case}")
        return
    sys.stdout.writelines(difflib.unified_diff([x + "\n" for x in expected], [x + "\n" for x in got],
                                               "expected", "got"))
    sys.exit(1)


main()
