"""PyTorch, kept and woken in turn: reads a JSON request a line, answers a JSON line (see workers.py).

usage: torch_worker.py FOLDER MODEL"""
import json
import os
import sys
import time

import torch

import inputs
import shapes
import torch_models
import torch_steps

STEPS = {"bags": torch_steps.Bags, "stacked": torch_steps.Stacked, "compiled": torch_steps.Compiled,
         "packed": torch_steps.Packed,
         "bf16": lambda model, rows: torch_steps.Stacked(model, rows, autocast=True),
         "bf16 compiled": lambda model, rows: torch_steps.Compiled(model, rows, autocast=True)}


def main():
    answers = os.fdopen(os.dup(1), "w")  # the compiler writes to standard output, too
    os.dup2(2, 1)
    folder, model = sys.argv[1:]
    held = inputs.load(folder, model)
    starts = torch.from_numpy(held["starts"])
    rows = torch_steps.Rows(held["starts"].tolist(), torch_models.row_width(model))
    ways, batches = {}, {}
    print(json.dumps({"ready": f"PyTorch {torch.__version__}"}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        way, size = request["way"], request["batch"]
        torch.set_num_threads(request.get("threads", shapes.THREADS))
        if way not in ways:
            ways[way] = STEPS[way](model, rows)
        if size not in batches:
            batches[size] = [torch_steps.prepare(batch, starts, model)
                             for batch in inputs.batches(held, size, torch.from_numpy)]
        for batch in batches[size][:3]:
            loss = ways[way].step(batch)
        done, begin, ends = 0, time.perf_counter(), []
        while not ends or ends[-1] - begin < request["seconds"]:
            loss = ways[way].step(batches[size][done % len(batches[size])])
            done += 1
            ends.append(time.perf_counter())
        times = sorted(b - a for a, b in zip([begin] + ends, ends))
        answer = {"examples_per_second": size / times[len(times) // 2], "steps": done, "loss": loss.item()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
