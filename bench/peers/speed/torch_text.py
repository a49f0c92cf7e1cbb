"""PyTorch from Criteo text: pandas in a loader process, the compiled step of one table in this one.

usage: torch_text.py FILE MODEL LINES [bf16]: by bf16 autocast"""
import json
import sys
import time

import numpy as np
import pandas
import torch
import torch.multiprocessing as processes

import shapes
import torch_models
import torch_steps

BATCH, CHUNK, AHEAD = 4096, 16 * 4096, 4
NUMBERS = [f"I{i}" for i in range(1, 14)]
KEYS = [f"C{i}" for i in range(1, 27)]
TYPES = {name: "float32" for name in ["label"] + NUMBERS} | {name: object for name in KEYS}
STARTS = np.cumsum([0] + shapes.CARDINALITIES).astype(np.int64)


def tensors(chunk):
    """Of the ways tried to read categories and make row numbers of them this was the fastest: 200,000 lines a second;
    dtype category and int(text, 16) did half."""
    numbers = np.nan_to_num(chunk[NUMBERS].to_numpy())
    dense = np.copysign(np.log1p(np.abs(numbers)), numbers)
    keys = np.empty((len(chunk), len(KEYS)), np.int64)
    for i, name in enumerate(KEYS):
        hashed = pandas.util.hash_array(chunk[name].to_numpy(), categorize=True)
        keys[:, i] = hashed % np.uint64(shapes.CARDINALITIES[i]) + np.uint64(STARTS[i])
    return {"label": torch.from_numpy(chunk["label"].to_numpy()), "dense": torch.from_numpy(dense),
            "lookups": torch.from_numpy(keys)}


def load(file, lines, queue, done):
    torch.set_num_threads(1)
    for chunk in pandas.read_csv(file, sep="\t", header=None, names=["label"] + NUMBERS + KEYS, dtype=TYPES,
                                 keep_default_na=False, na_values={name: [""] for name in NUMBERS}, nrows=lines,
                                 chunksize=CHUNK):
        queue.put(tensors(chunk))
    queue.put(None)
    done.wait()  # a process that ends takes its shared tensors with it


def main():
    file, model, lines = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(shapes.THREADS)
    rows = torch_steps.Rows(STARTS.tolist(), torch_models.row_width(model))
    step = torch_steps.Compiled(model, rows, autocast=sys.argv[4:] == ["bf16"])
    context = processes.get_context("spawn")
    queue, done = context.Queue(AHEAD), context.Event()
    loader = context.Process(target=load, args=(file, lines, queue, done))
    loader.start()
    examples, begin = 0, None
    while (chunk := queue.get()) is not None:
        for first in range(0, len(chunk["label"]) - BATCH + 1, BATCH):
            step.step({name: tensor[first:first + BATCH] for name, tensor in chunk.items()})
            if begin is None and first >= 2 * BATCH:  # compiled
                examples, begin = 0, time.perf_counter()
            else:
                examples += BATCH
    print(json.dumps({"value": examples / (time.perf_counter() - begin)}))
    done.set()
    loader.join()


if __name__ == "__main__":
    main()
