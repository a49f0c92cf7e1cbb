#!/usr/bin/env python3
"""The safetensors package of Python opens Fathom's checkpoints and finds what must be there.

usage: test_safetensors.py FATHOM

Values are computed here a second time: one step of logistic regression that begins at the base rate has a closed form,
and how often and when a key was seen is counted. Names and shapes are those of a DeepFM. Exit code 77, skipped: no safetensors package."""
import collections
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

CHOSEN = os.environ.get("FATHOM_PYTHON")
if CHOSEN and os.environ.get("FATHOM_PYTHON_RUNS") != CHOSEN:
    os.environ["FATHOM_PYTHON_RUNS"] = CHOSEN
    os.execv(CHOSEN, [CHOSEN] + sys.argv)

try:
    import numpy as np
    from safetensors import safe_open
except ImportError as error:
    if CHOSEN:
        sys.exit(f"FATHOM_PYTHON={CHOSEN}: {error}; it needs the packages safetensors and numpy")
    print(f"skipped: {error}; pip install safetensors numpy, or set FATHOM_PYTHON to a Python that has them")
    sys.exit(77)

FATHOM = ""

# A step's gradient of a weight is the sum of (probability - label) / examples over the examples that have the key.
LOGISTIC = """
data: {format: csv, train: data.csv, label: label}
features: {categorical: [{columns: [colour, size]}]}
model: {name: lr}
optimizer:
  dense: {name: sgd, lr: 0.5}
  sparse: {name: adagrad, lr: 0.25, initial_accumulator: 0.0625}
train: {batch_size: %d}
checkpoint: {dir: model}
"""

DEEPFM = """
data: {format: csv, train: data.csv, label: label}
features:
  numeric: [{columns: [price], missing_indicator: true}]
  categorical: [{columns: [colour, size]}]
embedding: {dim: 5}
model: {name: deepfm, hidden: [7, 3]}
optimizer: {dense: {name: adam}, sparse: {name: momentum}}
train: {batch_size: 16}
checkpoint: {dir: model}
"""


def examples():
    """(label, price, colour, size); prices and sizes are missing here and there."""
    for i in range(60):
        price, size = i / 4 if i % 9 else "", f"s{i % 5 * (i % 3)}" if i % 11 else ""
        yield int(i % 7 in (0, 3, 4)), price, f"c{int(i ** 0.5)}", size


def train(folder, config):
    """Returns the manifest and {file: {tensor: array}} of the checkpoint at the end."""
    with open(os.path.join(folder, "data.csv"), "w", encoding="utf-8") as file:
        file.write("label,price,colour,size\n")
        file.writelines(",".join(map(str, example)) + "\n" for example in examples())
    with open(os.path.join(folder, "config.yaml"), "w", encoding="utf-8") as file:
        file.write(config)
    subprocess.run([FATHOM, "train", "config.yaml", "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    model = os.path.join(folder, "model")
    (step,) = os.listdir(model)
    with open(os.path.join(model, step, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    files = {}
    for name in os.listdir(os.path.join(model, step)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(model, step, name), framework="np") as tensors:
                files[name] = {tensor: tensors.get_tensor(tensor) for tensor in tensors.keys()}
    return manifest, files


def rows_of(pack, number, *names):
    """One tuple a row of a table, sorted: rows stand in no order that means something."""
    mine = pack["tables"] == number
    return np.array(sorted(zip(*(pack[name][mine].flatten().tolist() for name in names))))


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_values_of_one_step(self):
        lines = list(examples())
        manifest, files = train(self.folder.name, LOGISTIC % len(lines))
        self.assertEqual(manifest["step"], 1)
        self.assertEqual(sorted(files), ["dense.safetensors", "pack-0.safetensors"])
        share = (sum(line[0] for line in lines) + 1) / (len(lines) + 2)  # model.base_rate of the first batch
        slope = sum(share - line[0] for line in lines) / len(lines)
        np.testing.assert_allclose(files["dense.safetensors"]["linear.bias"],
                                   [[math.log(share / (1 - share)) - 0.5 * slope]], rtol=1e-6)
        pack = files["pack-0.safetensors"]
        for name in pack:
            self.assertEqual(pack[name].dtype, {"keys": np.uint64, "tables": np.uint32, "frequency": np.uint64,
                                                "last_step": np.uint64}.get(name, np.float32), name)
        for column, table in ((2, "colour.linear"), (3, "size.linear")):
            expected = []
            for key in {line[column] for line in lines}:
                mine = [line for line in lines if line[column] == key]
                g = sum(share - line[0] for line in mine) / len(lines)
                total = 0.0625 + g * g
                expected.append((len(mine), 1, -0.25 * g / total ** 0.5, total))
            number = manifest["packs"][0]["tables"].index(table)
            rows = rows_of(pack, number, "frequency", "last_step", "weights", "adagrad.sum")
            self.assertEqual(rows.shape, (len(expected), 4))
            np.testing.assert_allclose(rows, sorted(expected), rtol=1e-6, atol=1e-9)

    def test_names_and_shapes(self):
        lines = list(examples())
        manifest, files = train(self.folder.name, DEEPFM)
        dense, shapes = files["dense.safetensors"], {}
        for name, shape in {"linear.weight": (1, 2), "linear.bias": (1, 1), "deep.0.weight": (12, 7),
                            "deep.0.bias": (1, 7), "deep.1.weight": (7, 3), "deep.1.bias": (1, 3),
                            "deep.out.weight": (1, 3), "deep.out.bias": (1, 1)}.items():
            for slot in ("", "/adam.m", "/adam.v"):
                shapes[name + slot] = shape
        self.assertEqual({name: array.shape for name, array in dense.items()}, shapes)
        for name, array in dense.items():
            self.assertEqual(array.dtype, np.float32, name)
            self.assertTrue(np.isfinite(array).all() and (array != 0).any(), name)
        keys = {column: {line[column] for line in lines} for column in (2, 3)}
        total = len(keys[2]) + len(keys[3])
        for described in manifest["packs"]:
            (name,) = described["files"]
            pack, dim = files[name], described["dim"]
            self.assertEqual({tensor: array.shape for tensor, array in pack.items()},
                             {"keys": (total,), "tables": (total,), "frequency": (total,), "last_step": (total,),
                              "weights": (total, dim), "momentum.velocity": (total, dim)})
            self.assertEqual(len(set(zip(pack["tables"].tolist(), pack["keys"].tolist()))), total)
        self.assertEqual(sorted(described["dim"] for described in manifest["packs"]), [1, 5])

    def test_when_keys_were_seen(self):
        lines = list(examples())
        manifest, files = train(self.folder.name, DEEPFM)
        described = next(pack for pack in manifest["packs"] if pack["dim"] == 5)
        pack = files[described["files"][0]]
        for column, table in ((2, "colour"), (3, "size")):
            counts = collections.Counter(line[column] for line in lines)
            last = {line[column]: i // 16 + 1 for i, line in enumerate(lines)}
            rows = rows_of(pack, described["tables"].index(table), "frequency", "last_step")
            np.testing.assert_array_equal(rows, sorted((counts[key], last[key]) for key in counts))


if __name__ == "__main__":
    FATHOM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
