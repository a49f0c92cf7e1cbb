"""What a checkpoint of Fathom holds, by the safetensors package, and the keys of its rows (src/feature/program.h)."""
import glob
import json
import os

import numpy as np
import xxhash
from safetensors.numpy import load_file

MISSING = 0x9D1C5F0B6A3E8247
MASK = (1 << 64) - 1


def mix(x):
    """splitmix64's finaliser, the key of a number."""
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def keys_of(table, texts):
    """The keys of cells of a table's column; an empty cell is missing."""
    salt = xxhash.xxh3_64_intdigest(table.encode(), 0)
    known = {"": mix(salt ^ MISSING)}
    for text in texts:
        if text not in known:
            known[text] = xxhash.xxh3_64_intdigest(text.encode(), salt)
    return np.array([known[text] for text in texts], dtype=np.uint64)


class Pack:
    """The rows of all tables of one dimension: weights[row], and which row a key of a table has."""

    def __init__(self, folder, described):
        files = [load_file(os.path.join(folder, name)) for name in described["files"]]
        tables = np.concatenate([file["tables"] for file in files])
        keys = np.concatenate([file["keys"] for file in files])
        self.weights = np.concatenate([file["weights"] for file in files])
        self.slots = {name: np.concatenate([file[name] for file in files]) for name in files[0] if "." in name}
        self.last_step = np.concatenate([file["last_step"] for file in files])
        self.sorted = {}
        for number, name in enumerate(described["tables"]):
            rows = np.nonzero(tables == number)[0]
            order = np.argsort(keys[rows])
            self.sorted[name] = keys[rows][order], rows[order]

    def rows(self, table, keys):
        known, rows = self.sorted[table]
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        if not np.array_equal(known[at], keys):
            absent = keys[known[at] != keys]
            raise ValueError(f"table {table} has no row for key {absent[0]} and {len(absent) - 1} others")
        return rows[at]


class Checkpoint:
    """The checkpoint of a folder at a step, or its newest."""

    def __init__(self, directory, step=None):
        name = "step-*" if step is None else f"step-{step:012}"
        folder = sorted(glob.glob(os.path.join(directory, name)))[-1]
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.step = manifest["step"]
        self.dense = load_file(os.path.join(folder, "dense.safetensors"))
        self.packs = [Pack(folder, described) for described in manifest["packs"]]

    def pack_of(self, table):
        for number, pack in enumerate(self.packs):
            if table in pack.sorted:
                return number
        raise ValueError(f"the checkpoint has no table {table}")
