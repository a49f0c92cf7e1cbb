"""Vowpal Wabbit's FTRL on the same lines, read from its own cache file (its fastest input)."""
import math
import os
import re
import subprocess
import time

from contenders import Failed, held_in_memory

FTRL = ["--ftrl", "--loss_function", "logistic", "-b", "22", "--ftrl_alpha", "0.05", "--ftrl_beta", "1",
        "--l1", "0.1", "--l2", "0.1"]  # 4M weights: its tables are no larger than Fathom's


def convert(source, target):
    """Numbers by their log, categories as column and text; both of one namespace each."""
    names = [f"C{i}_" for i in range(1, 27)]
    with open(source, encoding="utf-8") as lines, open(target + ".new", "w", encoding="utf-8") as out:
        for line in lines:
            label, *cells = line.rstrip("\n").split("\t")
            numbers = [f"I{i}:{math.copysign(math.log1p(abs(int(cell))), int(cell)):.5g}"
                       for i, cell in enumerate(cells[:13]) if cell and cell != "0"]
            keys = [name + cell for name, cell in zip(names, cells[13:])]
            out.write(f"{'1' if label == '1' else '-1'} |n {' '.join(numbers)} |c {' '.join(keys)}\n")
    os.replace(target + ".new", target)


def run(options, python, *arguments):
    done = subprocess.run([python, "-m", "vowpalwabbit", *FTRL, *arguments], cwd=options.work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    found = re.search(r"number of examples = (\d+)", done.stdout)
    if done.returncode or not found:
        raise Failed(f"vowpalwabbit ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return int(found[1]), re.search(r"average loss = ([0-9.]+)", done.stdout)


def seconds_of(options, python, *arguments):
    begin = time.perf_counter()
    return run(options, python, *arguments), time.perf_counter() - begin


def prepare(options, file, python):
    """Makes the cache; returns how to measure one pass over it."""
    data = os.path.splitext(file)[0]
    lines, cache = f"{data}.vw", f"{data}.cache"
    if not (options.work / cache).exists():
        options.progress("converting for Vowpal Wabbit")
        convert(options.work / file, str(options.work / lines))
        run(options, python, "--data", lines, "--cache_file", f"{data}.making", "--kill_cache")
        os.replace(options.work / f"{data}.making", options.work / cache)

    def measure():
        with held_in_memory(options.work / cache):
            # Without --data it reads no cache either; with both it reads the cache alone.
            (examples, loss), seconds = seconds_of(options, python, "--data", lines, "--cache_file", cache)
            _, without = seconds_of(options, python, "--data", os.devnull) # to start and to end, as Fathom's are left out
            if not examples:
                raise Failed("vowpalwabbit read no examples")
            return {"value": examples / (seconds - without), "loss": float(loss[1])}

    return measure
