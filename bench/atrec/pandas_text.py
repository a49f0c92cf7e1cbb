"""A workload's text as tensors, by pandas and NumPy: chunks of lines, cut into batches.

Of lists, all cells of a column are joined and taken apart at once: that was several times as fast as a cell at a time."""
import itertools

import numpy as np
import pandas
import torch

import dien_torch

NUMBERS, TEXTS = [f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)]
SEPARATOR = ";"


def log1p(values):
    return np.copysign(np.log1p(np.abs(values)), values)


class Reader:
    def __init__(self, reading):
        self.reading, start, self.starts = reading, 0, {}
        for table, rows in reading["tables"].items():
            self.starts[table] = start
            start += rows
        self.rows = start

    def chunks(self):
        """For ever, from the file's begin again behind its end."""
        r, common = self.reading, {"keep_default_na": False, "chunksize": self.reading["chunk"]}
        if r["criteo"]:
            types = {name: "float32" for name in ["label"] + NUMBERS} | {name: object for name in TEXTS}
            common |= {"sep": "\t", "header": None, "names": ["label"] + NUMBERS + TEXTS}
            numbers = NUMBERS
        else:
            numbers = [column for column, _ in r["numbers"]]
            texts = [entry[0] for kind in ("means", "one_hots", "keys", "lists", "history") for entry in r[kind]]
            types = {name: "float32" for name in ["label"] + numbers} | {name: object for name in texts}
            common |= {"usecols": list(types)}
        while True:
            for chunk in pandas.read_csv(r["file"], dtype=types, na_values={name: [""] for name in numbers}, **common):
                if len(chunk) == r["chunk"]:
                    yield self.arrays(chunk)

    def rows_of(self, texts, table):
        """Row numbers; of the ways tried, hashing with categorize was the fastest (see torch_text.py)."""
        hashed = pandas.util.hash_array(np.asarray(texts, dtype=object), categorize=True)
        return (hashed % np.uint64(self.reading["tables"][table]) + np.uint64(self.starts[table])).astype(np.int64)

    @staticmethod
    def lengths(cells):
        return np.fromiter((cell.count(SEPARATOR) + 1 if cell else 0 for cell in cells), np.int64, len(cells))

    @staticmethod
    def tokens(cells):
        joined = SEPARATOR.join(cell for cell in cells if cell)
        return joined.split(SEPARATOR) if joined else []

    @staticmethod
    def numbers(cells):
        return np.nan_to_num(cells)

    @staticmethod
    def list_numbers(cells):
        return np.fromstring(SEPARATOR.join(cell for cell in cells if cell), np.float32, sep=SEPARATOR)

    @staticmethod
    def codes(texts, values):
        """Places among the values, -1 of others."""
        return pandas.Categorical(texts, categories=values).codes.astype(np.int64)

    @staticmethod
    def columns(chunk):
        return {name: chunk[name].to_numpy() for name in chunk.columns}

    def mean(self, cells):
        values, lengths = self.list_numbers(cells), self.lengths(cells)
        sums = np.bincount(np.repeat(np.arange(len(cells)), lengths), values, len(cells))
        return (sums / np.maximum(lengths, 1)).astype(np.float32)

    def counts(self, cells, values, is_list):
        texts, example = (self.tokens(cells), np.repeat(np.arange(len(cells)), self.lengths(cells))) if is_list else (
            cells, np.arange(len(cells)))
        codes = self.codes(texts, values)
        there = codes >= 0
        out = np.bincount(example[there] * len(values) + codes[there], minlength=len(cells) * len(values))
        return out.reshape(-1, len(values)).astype(np.float32)

    def arrays(self, chunk):
        r, n = self.reading, len(chunk)
        cells = self.columns(chunk)
        dense = []
        for name, log in r["numbers"]:
            values = self.numbers(cells[name])
            dense.append((log1p(values) if log else values)[:, None])
        for name, log in r["means"]:
            values = self.mean(cells[name])
            dense.append((log1p(values) if log else values)[:, None])
        dense += [self.counts(cells[name], values, is_list) for name, values, is_list in r["one_hots"]]
        out = {"label": self.numbers(cells["label"]),
               "dense": np.concatenate(dense, 1).astype(np.float32) if dense else np.zeros((n, 0), np.float32),
               "keys": np.stack([self.rows_of(cells[name], table) for name, table in r["keys"]], 1)}
        for kind in "lists", "history":
            if r[kind]:
                out[kind] = [self.rows_of(self.tokens(cells[name]), table) for name, table in r[kind]]
                out[kind + "_lengths"] = [self.lengths(cells[name]) for name, _ in r[kind]]
        return out

    def batches(self, chunk):
        """Tensors of each batch of a chunk. What of lists is flat is cut by the lengths' sums."""
        size = self.reading["batch"]
        ends = {kind: [np.concatenate([[0], np.cumsum(lengths)]) for lengths in chunk[kind + "_lengths"]]
                for kind in ("lists", "history") if kind in chunk}
        for first in range(0, len(chunk["label"]) - size + 1, size):
            rows = slice(first, first + size)
            out = {name: torch.from_numpy(np.array(chunk[name][rows])) for name in ("label", "dense", "keys")}
            for kind, at in ends.items():
                flat = [values[e[first]:e[first + size]] for values, e in zip(chunk[kind], at)]
                lengths = [e[first + 1:first + size + 1] - e[first:first + size] for e in at]
                if kind == "lists":
                    length = torch.from_numpy(np.concatenate(lengths))
                    out["flat"], out["length"] = torch.from_numpy(np.concatenate(flat)), length
                    out["bag"] = torch.repeat_interleave(length)
                    out["offsets"] = torch.cat([length.new_zeros(1), length.cumsum(0)[:-1]])
                else:
                    out |= dien_torch.pack(torch.from_numpy(np.stack(flat, 1)), torch.from_numpy(lengths[0]))
            yield out

    def held(self, n):
        return list(itertools.islice((batch for chunk in self.chunks() for batch in self.batches(chunk)), n))


def load(reading, queue, kind=Reader):
    """The loader process: a chunk after the other into the queue. Without lists a chunk is sent whole, as sending many
    tensors takes its time."""
    torch.set_num_threads(1)
    reader = kind(reading)
    for chunk in reader.chunks():
        plain = not reading["lists"] and not reading["history"]
        queue.put({name: torch.from_numpy(np.array(a)) for name, a in chunk.items()} if plain else list(reader.batches(chunk)))


def cut(chunk, size):
    """Batches of what the loader sent."""
    if isinstance(chunk, list):
        return chunk
    return ({name: tensor[first:first + size] for name, tensor in chunk.items()}
            for first in range(0, len(chunk["label"]) - size + 1, size))
