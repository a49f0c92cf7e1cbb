"""The batches that Fathom trains on, made again from the same lines in Python: labels, floats and keys.

Floats are computed as Fathom does: log1p in float32, running statistics in float64 merged batch by batch, a batch's own
values among those that standardise it (src/feature/pass.c)."""
import csv
import os

import numpy as np

from checkpoint import keys_of


class Batch:
    """label [n]; dense [n, floats]; keys: field -> [n], or [positions] for a list; offsets: field -> [n + 1].
    With tasks label is [n, tasks], and weight is 0 where a label was not observed, the task's weight elsewhere."""

    def __init__(self, label, dense, keys, offsets, weight=None):
        self.label, self.dense, self.keys, self.offsets, self.weight = label, dense, keys, offsets, weight


def read_columns(folder, data, limit):
    with open(os.path.join(folder, data["train"]), encoding="utf-8", newline="") as file:
        if data["format"] == "criteo":
            names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
            lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            lines = csv.reader(file)
            names = next(lines)
        rows = [row for _, row in zip(range(limit), lines)]
    if len(rows) < limit:
        raise ValueError(f"{data['train']} has {len(rows)} lines where {limit} are to be trained on")
    return dict(zip(names, zip(*rows)))


def expand(columns):
    """["I1..I13"] is I1, I2 and so on."""
    for name in columns:
        first, dots, last = name.partition("..")
        stem = first.rstrip("0123456789")
        if not dots:
            yield name
        else:
            yield from (f"{stem}{i}" for i in range(int(first[len(stem):]), int(last[len(stem):]) + 1))


class Running:
    """Mean and deviation of all values so far (Chan, Golub, LeVeque 1979)."""

    def __init__(self):
        self.count, self.mean, self.m2 = 0.0, 0.0, 0.0

    def standardise(self, values, missing, missing_value):
        present = values[~missing].astype(np.float64)
        if len(present):
            mean = present.mean()
            total, delta = self.count + len(present), mean - self.mean
            self.mean += delta * (len(present) / total)
            self.m2 += ((present - mean) ** 2).sum() + delta * delta * (self.count * len(present) / total)
            self.count = total
        variance = self.m2 / self.count if self.count else 0.0
        deviation = np.sqrt(variance) if variance > 0 else 1.0
        scaled = (values.astype(np.float64) - self.mean) / deviation
        return np.where(missing, missing_value, scaled).astype(np.float32)


def numeric_column(section, cells, batch_size):
    """The floats of a column: its numbers and, if asked for, where they are missing."""
    missing = np.array([cell == "" for cell in cells])
    x = np.array([cell or "0" for cell in cells]).astype(np.float32)
    if section.get("log1p"):
        x = np.copysign(np.log1p(np.abs(x)), x)
    if section.get("standardise") == "running":
        running = Running()
        parts = [slice(i, i + batch_size) for i in range(0, len(x), batch_size)]
        x = np.concatenate([running.standardise(x[p], missing[p], 0.0) for p in parts])
    x = np.where(missing, np.float32(0), x)
    return [x, missing.astype(np.float32)] if section.get("missing_indicator") else [x]


def kept(section, cell):
    """The texts of a list's cell that are used: the last max_length."""
    return cell.split(section["separator"])[-section["max_length"]:] if cell else []


def labels_of(config, columns):
    """Labels, and with tasks their weights: the task's, 0 where the label was not observed."""
    if "tasks" not in config:
        return np.array(columns["label"]).astype(np.float32), None
    cells = np.stack([np.array(columns[task["label"]]) for task in config["tasks"]], axis=1)
    weight = np.where(cells == "", 0, [task.get("weight", 1) for task in config["tasks"]])
    return np.where(cells == "", "0", cells).astype(np.float32), weight.astype(np.float32)


def read_batches(folder, config):
    """All that a configuration with max_steps trains on; its file is looked for in the folder."""
    batch_size = config["train"]["batch_size"]
    columns = read_columns(folder, config["data"], config["train"]["max_steps"] * batch_size)
    features = config["features"]
    label, weight = labels_of(config, columns)
    floats, keys, offsets = [], {}, {}
    for section in features.get("numeric", []):
        for name in expand(section["columns"]):
            floats += numeric_column(section, columns[name], batch_size)
    for section in features.get("indicator", []):
        for name in expand(section["columns"]):
            cells = np.array(columns[name])
            floats += [(cells == value).astype(np.float32) for value in section["values"]]
    for section in features["categorical"]:
        for name in expand(section["columns"]):
            table, cells = section.get("table", name), columns[name]
            if "separator" in section:
                lists = [kept(section, cell) for cell in cells]
                if max(len(texts) for texts in lists) < 2:
                    raise ValueError(f"{name}: no list of several values; is its separator '{section['separator']}'?")
                offsets[name] = np.cumsum([0] + [len(texts) for texts in lists])
                cells = [text for texts in lists for text in texts]
            keys[name] = keys_of(table, cells)
    dense = np.stack(floats, axis=1) if floats else np.zeros((len(label), 0), np.float32)
    batches = []
    for first in range(0, len(label), batch_size):
        rows = slice(first, first + batch_size)
        ends = {name: o[first:first + batch_size + 1] for name, o in offsets.items()}
        batches.append(Batch(label[rows], dense[rows],
                             {name: k[ends[name][0]:ends[name][-1]] if name in ends else k[rows]
                              for name, k in keys.items()},
                             {name: o - o[0] for name, o in ends.items()},
                             None if weight is None else weight[rows]))
    return batches
