"""A workload's text as tensors, by Polars on one thread: what pandas_text.py makes, for a loader process."""
import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before the import: the steps have the cores, too

import numpy as np
import polars

import pandas_text
from pandas_text import NUMBERS, SEPARATOR, TEXTS, log1p

LINE_BYTES = 1 << 10  # at first; then as many as lines have


def load(reading, queue):
    """The loader process."""
    pandas_text.load(reading, queue, Reader)


class Reader(pandas_text.Reader):
    def blocks(self):
        """For ever: whole lines, as many as a chunk has."""
        n, header = self.reading["chunk"], b""
        while True:
            with open(self.reading["file"], "rb") as file:
                if not self.reading["criteo"]:
                    header = file.readline()
                left, guess = b"", n * LINE_BYTES
                while True:
                    ends = np.flatnonzero(np.frombuffer(left, np.uint8) == ord("\n"))
                    if len(ends) >= n:
                        yield header + left[:ends[n - 1] + 1]
                        guess, left = ends[n - 1] + 1, left[ends[n - 1] + 1:]
                        continue
                    more = file.read(max(guess - len(left), n * 64))
                    if not more:
                        break
                    left += more

    def chunks(self):
        r = self.reading
        if r["criteo"]:
            names = ["label"] + NUMBERS + TEXTS
            types = {name: polars.String if name in TEXTS else polars.Float32 for name in names}
            how = {"separator": "\t", "has_header": False, "schema": types, "quote_char": None}
        else:
            numbers = ["label"] + [column for column, _ in r["numbers"]]
            texts = dict.fromkeys(entry[0] for kind in ("means", "one_hots", "keys", "lists", "history") for entry in r[kind])
            types = {name: polars.Float32 for name in numbers} | {name: polars.String for name in texts}
            how = {"columns": list(types), "schema_overrides": types}
        for block in self.blocks():
            yield self.arrays(polars.read_csv(block, **how))

    def rows_of(self, texts, table):
        return (texts.hash(1).to_numpy() % np.uint64(self.reading["tables"][table])
                + np.uint64(self.starts[table])).astype(np.int64)

    @staticmethod
    def lengths(column):
        """Elements of each cell; empty cells, which are null, have none."""
        separators = column.str.count_matches(SEPARATOR, literal=True).cast(polars.Int64)
        return (separators + 1).fill_null(0).to_numpy()

    @staticmethod
    def tokens(column):
        return column.drop_nulls().str.split(SEPARATOR).explode()

    def mean(self, column):
        values, lengths = self.tokens(column).cast(polars.Float32).to_numpy(), self.lengths(column)
        sums = np.bincount(np.repeat(np.arange(len(column)), lengths), values, len(column))
        return (sums / np.maximum(lengths, 1)).astype(np.float32)

    def counts(self, column, values, is_list):
        lengths = self.lengths(column) if is_list else None
        texts = self.tokens(column) if is_list else column
        example = np.arange(len(column)) if lengths is None else np.repeat(np.arange(len(column)), lengths)
        codes = texts.cast(polars.Enum(values), strict=False).to_physical().cast(polars.Int64).fill_null(-1).to_numpy()
        there = codes >= 0
        out = np.bincount(example[there] * len(values) + codes[there], minlength=len(column) * len(values))
        return out.reshape(-1, len(values)).astype(np.float32)

    def arrays(self, chunk):
        r = self.reading
        dense = [chunk[name].fill_null(0).to_numpy()[:, None] for name, _ in r["numbers"]]
        dense += [self.mean(chunk[name])[:, None] for name, _ in r["means"]]
        for column, (_, log) in zip(dense, [*r["numbers"], *r["means"]]):
            if log:
                column[:] = log1p(column)
        dense += [self.counts(chunk[name], values, is_list) for name, values, is_list in r["one_hots"]]
        n = len(chunk)
        out = {"label": chunk["label"].to_numpy(),
               "dense": np.concatenate(dense, 1).astype(np.float32) if dense else np.zeros((n, 0), np.float32),
               "keys": np.stack([self.rows_of(chunk[name], table) for name, table in r["keys"]], 1)}
        for kind in "lists", "history":
            if r[kind]:
                out[kind] = [self.rows_of(self.tokens(chunk[name]), table) for name, table in r[kind]]
                out[kind + "_lengths"] = [self.lengths(chunk[name]) for name, _ in r[kind]]
        return out
