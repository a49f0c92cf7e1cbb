#!/usr/bin/env python3
"""CSV files with escapes are read as Python's csv reads them: test_escapes.py FATHOM

What Python reads is written with quotes doubled and no escape; both files must train the same model, as data
and as a side file.
"""
import csv
import io
import pathlib
import random
import subprocess
import sys
import tempfile

DATA = "features: {categorical: [{columns: [n, b, c]}]}\nmodel: {name: lr}\ntrain: {batch_size: 7}\n"
JOIN = ("features: {derived: [{as: join, name: b, from: a, file: %s, key: n, value: b%s}], categorical: [{columns: b}]}\n"
        "model: {name: lr}\ntrain: {batch_size: 7}\n")


def written(draw, text, quoted, delimiter, escape):
    """One cell's text, with what must be escaped and some more."""
    if not quoted:
        special = "\r\n\"" + delimiter[0] + escape
        return "".join(escape + c if c in special or draw.random() < 0.05 else c for c in text)
    out = ""
    for c in text:
        twice = c == '"' and draw.random() < 0.5
        out += '""' if twice else escape + c if c in '"' + escape or draw.random() < 0.1 else c
    return '"' + out + '"'


def lines(draw, delimiter, escape):
    """Lines of label, number and two cells."""
    out, n = "y" + delimiter + "n" + delimiter + "b" + delimiter + "c\n", draw.choice([3, 200])
    for number in range(n):
        cells = ["".join(draw.choice("aé,;\t\"\"\\\\^'\n\r ") for _ in range(draw.randrange(8))) for _ in range(2)]
        cells = [written(draw, cell, draw.random() < 0.5, delimiter, escape) for cell in cells]
        out += delimiter.join([str(draw.randrange(2)), str(number), *cells])
        out += draw.choice(["\n", "\r\n"] + [""] * (number + 1 == n))
    return out


def digest(program, folder, name, config):
    path = pathlib.Path(folder, name + ".yaml")
    path.write_text(config, encoding="utf-8")
    for command in ["train", path, "-q", "--set", "checkpoint.dir=" + name, "-t", "2"], ["inspect", "--digest", name]:
        done = subprocess.run([program, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr.decode()}\n{config}")
    return done.stdout


def check(program, folder, seed):
    draw = random.Random(seed)
    delimiter, escape = draw.choice(",;\t^"), draw.choice("\\'")
    text = lines(draw, delimiter, escape)
    read = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, escapechar=escape))
    pathlib.Path(folder, "escaped").write_bytes(text.encode())
    with open(pathlib.Path(folder, "doubled"), "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(read)
    with open(pathlib.Path(folder, "lines"), "w", encoding="utf-8") as file:
        file.write("y,a\n" + "".join(f"{row[0]},{row[1]}\n" for row in read[1:]))
    quoted = {"\t": '"\\t"', "\\": "'\\'", "'": '"\'"'}
    how = f"delimiter: {quoted.get(delimiter, repr(delimiter))}, escape: {quoted[escape]}"
    for config in ("data: {format: csv, train: %s, label: y, csv: {%s}, block_bytes: 1024}\n" + DATA,
                   "data: {format: csv, train: lines, label: y}\n" + JOIN):
        is_join = config.endswith(JOIN)
        both = [config % ("escaped", ", " + how if is_join else how), config % ("doubled", "")]
        if digest(program, folder, f"e{seed}{is_join}", both[0]) != digest(program, folder, f"d{seed}{is_join}", both[1]):
            sys.exit(f"seed {seed}: other models than of Python's cells:\n{both[0]}{text!r}\n{read!r}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(12):
            check(sys.argv[1], folder, seed)


if __name__ == "__main__":
    main()
