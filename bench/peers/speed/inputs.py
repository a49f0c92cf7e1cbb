"""The peers' batches, in memory: the lines that Fathom reads, with integers for ids.

A column's distinct texts are given different rows of its table, drawn at random, so that popular ids lie scattered in
tables of full size. Fathom makes a row for each id that it meets and has no unused ones."""
import os

import numpy as np

import shapes


def rows_of(texts, count, draws):
    """Texts of a column -> rows below count."""
    distinct, number = np.unique(texts, return_inverse=True)
    count = max(count, len(distinct))
    return draws.permutation(count)[:len(distinct)][number], count


def prepare_criteo(path, lines):
    cells = [line.rstrip("\n").split("\t") for _, line in zip(range(lines), open(path, encoding="utf-8"))]
    columns = list(zip(*cells))
    numbers = np.array([[cell or "0" for cell in column] for column in columns[1:14]]).astype(np.float32).T
    draws, start, keys = np.random.default_rng(1), 0, []
    starts = []
    for texts, count in zip(columns[14:], shapes.CARDINALITIES):
        rows, count = rows_of(np.array(texts), count, draws)
        keys.append(rows + start)
        starts.append(start)
        start += count
    return {"label": np.array(columns[0]).astype(np.float32), "starts": np.array(starts + [start]),
            "dense": np.copysign(np.log1p(np.abs(numbers)), numbers), "keys": np.stack(keys, axis=1).astype(np.int64)}


def padded(cells):
    """Lists of numbers -> [n, LONGEST], 0 behind the end."""
    out = np.zeros((len(cells), shapes.LONGEST), np.int64)
    for line, cell in zip(out, cells):
        line[:len(cell)] = cell
    return out


def prepare_sequences(path, lines):
    """Row 0 of each table pads."""
    with open(path, encoding="utf-8") as file:
        next(file)
        columns = list(zip(*[line.rstrip("\n").split(",") for _, line in zip(range(lines), file)]))
    histories = {name: [c.split(";")[-shapes.LONGEST:] if c else [] for c in columns[i]]
                 for name, i in (("item", 4), ("category", 5))}
    lengths = [len(history) for history in histories["item"]]
    draws, start, starts, out = np.random.default_rng(1), 0, [], {}
    for name, i in (("user", 1), ("item", 2), ("category", 3)):
        texts = list(columns[i]) + [text for history in histories.get(name, []) for text in history]
        rows, count = rows_of(np.array(texts), 0, draws)
        out[name] = rows[:len(columns[i])] + 1
        if name in histories:
            out["hist_" + name] = padded(np.split(rows[len(columns[i]):] + 1, np.cumsum(lengths)[:-1]))
        starts.append(start)
        start += count + 1
    targets = np.stack([out["user"], out["item"], out["category"]], axis=1) + np.array(starts)
    history = np.stack([out["hist_item"] + starts[1], out["hist_category"] + starts[2]], axis=2)
    return {"label": np.array(columns[0]).astype(np.float32), "starts": np.array(starts + [start]),
            "keys": targets.astype(np.int64), "history": history, "length": np.array(lengths)}


def prepare_tasks(path, lines):
    """The domain is the last field; of a label that was not observed the weight is 0."""
    with open(path, encoding="utf-8") as file:
        next(file)
        columns = list(zip(*[line.rstrip("\n").split(",") for _, line in zip(range(lines), file)]))
    numbers = np.array([[cell or "0" for cell in column] for column in columns[3:11]]).astype(np.float32).T
    draws, start, keys, starts = np.random.default_rng(1), 0, [], []
    for texts in columns[11:] + [columns[2]]:
        rows, count = rows_of(np.array(texts), 0, draws)
        keys.append(rows + start)
        starts.append(start)
        start += count
    bought = np.array(columns[1])
    labels = np.stack([np.array(columns[0]), np.where(bought == "", "0", bought)], axis=1).astype(np.float32)
    return {"label": labels[:, 0], "labels": labels, "starts": np.array(starts + [start]),
            "weights": np.stack([np.ones(len(bought)), bought != ""], axis=1).astype(np.float32),
            "domain": np.array([int(text[1:]) for text in columns[2]]),
            "dense": np.copysign(np.log1p(np.abs(numbers)), numbers), "keys": np.stack(keys, axis=1).astype(np.int64)}


PREPARE = {"criteo.tsv": prepare_criteo, "sequences.csv": prepare_sequences, "tasks.csv": prepare_tasks}


def load(folder, model):
    """All held examples of a model's data, by name; prepared once."""
    text = os.path.join(folder, shapes.data_file(model))
    kept = text + ".npz"
    if not os.path.exists(kept) or os.path.getmtime(kept) < os.path.getmtime(text):
        lines = shapes.HELD * max(shapes.BATCHES)
        prepared = PREPARE[shapes.data_file(model)](text, lines)
        np.savez(kept + ".new.npz", **prepared)
        os.replace(kept + ".new.npz", kept)
    with np.load(kept) as arrays:
        return dict(arrays)


def batches(held, size, convert):
    """The held batches of a size; arrays of one entry an example are cut, others left out."""
    n = len(held["label"])
    for first in range(0, min(shapes.HELD * size, n), size):
        yield {name: convert(np.ascontiguousarray(a[first:first + size])) for name, a in held.items() if len(a) == n}
