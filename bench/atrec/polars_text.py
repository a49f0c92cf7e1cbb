"""A workload's text as tensors, by Polars on one thread: what pandas_text.py makes, for a loader process."""
import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before the import: the steps have the cores, too

import numpy as np
import polars

import pandas_text
from pandas_text import NUMBERS, SEPARATOR, TEXTS

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

    @staticmethod
    def numbers(column):
        return column.fill_null(0).to_numpy()

    def list_numbers(self, column):
        return self.tokens(column).cast(polars.Float32).to_numpy()

    @staticmethod
    def codes(texts, values):
        codes = texts.cast(polars.Enum(values), strict=False).to_physical()
        return codes.cast(polars.Int64).fill_null(-1).to_numpy()

    @staticmethod
    def columns(chunk):
        return {column.name: column for column in chunk}
