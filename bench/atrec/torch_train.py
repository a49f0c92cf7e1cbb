"""PyTorch, kept and woken in turn: the requests of bench/peers/speed, ways "stacked" and "compiled" on batches in memory,
"text ..." with a loader process that makes the batches of text, "... bf16 ..." by autocast.

usage: torch_train.py FOLDER WORKLOAD"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers" / "speed"))

import torch
import torch.multiprocessing as processes
import torch.nn.functional as F

import dien_torch
import pandas_text
import polars_text
import shapes
import torch_models
import torch_steps

AHEAD = 4  # chunks
LOADERS = {"text": (pandas_text.load, 1), "text2": (pandas_text.load, 2), "text-polars": (polars_text.load, 1)}
NETWORKS = {"wide_deep": torch_models.WideDeep, "deepfm": torch_models.DeepFM}


def pooled_loss(model, single, pooled, batch):
    n = len(single)
    rows = single if pooled is None else torch.cat([single, pooled.view(-1, n, single.shape[2]).transpose(0, 1)], 1)
    return F.binary_cross_entropy_with_logits(model(rows, batch).float(), batch["label"])


class Pooled:
    """Wide & Deep and DeepFM: single rows, and the means of lists by one embedding_bag over all of them."""

    def __init__(self, network, rows, compiled, autocast):
        self.network, self.rows, self.autocast = network, rows, autocast
        self.loss = torch.compile(pooled_loss, dynamic=False) if compiled else pooled_loss
        self.optimizer = torch.optim.Adagrad(network.parameters(), fused=True, **torch_steps.ADAGRAD)

    def step(self, batch):
        single, pooled = F.embedding(batch["keys"], self.rows.weights).requires_grad_(), None
        if "flat" in batch:
            pooled = F.embedding_bag(batch["flat"], self.rows.weights, batch["offsets"], mode="mean").requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.loss(self.network, single, pooled, batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        lookups, gradients, place = batch["keys"].view(-1), single.grad.flatten(0, 1), None
        if pooled is not None:
            of_bags = pooled.grad / batch["length"].clamp(min=1)[:, None]
            place = torch.cat([torch.arange(len(lookups)), batch["bag"] + len(lookups)])
            lookups, gradients = torch.cat([lookups, batch["flat"]]), torch.cat([gradients, of_bags])
        self.rows.update(lookups, gradients, place)
        return loss


class Peer:
    def __init__(self, reading):
        self.reading, reader = reading, pandas_text.Reader(reading)
        self.model, torch_numbers = reading["model"]["name"], len(reading["numbers"]) + len(reading["means"])
        linear = self.model in shapes.LINEAR
        self.rows = torch_steps.Rows([0, reader.rows], reading["dim"] + linear)
        self.numbers = torch_numbers + sum(len(values) for _, values, _ in reading["one_hots"])
        self.held, self.steps = reader.held(reading["held"]), {}

    def step_of(self, way):
        if way not in self.steps:
            torch.manual_seed(1)
            compiled, autocast = way.endswith("compiled"), way.startswith("bf16")
            if self.model == "dien":
                self.steps[way] = dien_torch.Step(self.reading, self.rows, compiled)
            else:
                fields = len(self.reading["keys"]) + len(self.reading["lists"])
                network = NETWORKS[self.model](self.reading["model"], fields, self.numbers)
                self.steps[way] = Pooled(network, self.rows, compiled, autocast)
        return self.steps[way]

    def memory(self, step, seconds):
        done, begin, ends = 0, time.perf_counter(), []
        while not ends or ends[-1] - begin < seconds:
            step.step(self.held[done % len(self.held)])
            done += 1
            ends.append(time.perf_counter())
        times = sorted(b - a for a, b in zip([begin] + ends, ends))
        return self.reading["batch"] / times[len(times) // 2]

    def text(self, step, seconds, load, n_loaders):
        """Between the arrivals of chunks: what the loaders had ready beforehand counts neither way. Each reads the file:
        as much work as parts of it would be."""
        context = processes.get_context("spawn")
        queue = context.Queue(AHEAD)
        loaders = [context.Process(target=load, args=(self.reading, queue), daemon=True) for _ in range(n_loaders)]
        for loader in loaders:
            loader.start()
        examples, begin, end = 0, None, 0
        while not end or end - begin < seconds:
            for batch in pandas_text.cut(queue.get(), self.reading["batch"]):
                step.step(batch)
                examples += self.reading["batch"]
            end = 0 if begin is None else time.perf_counter()
            if begin is None:
                examples, begin = 0, time.perf_counter()
        for loader in loaders:
            loader.terminate()
        for loader in loaders:
            loader.join()
        return examples / (end - begin)


def main():
    answers = os.fdopen(os.dup(1), "w")  # the compiler writes to standard output, too
    os.dup2(2, 1)
    folder, name = sys.argv[1:]
    with open(os.path.join(folder, name + ".reading.json"), encoding="utf-8") as file:
        peer = Peer(json.load(file))
    print(json.dumps({"ready": f"PyTorch {torch.__version__}"}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request["threads"])
        kind, _, way = request["way"].partition(" ")
        is_new = way not in peer.steps
        step = peer.step_of(way)
        for batch in peer.held if is_new else peer.held[:3]:  # compiled for all sizes before it is measured
            step.step(batch)
        rate = (peer.memory(step, request["seconds"]) if kind == "memory" else
                peer.text(step, request["seconds"], *LOADERS[kind]))
        print(json.dumps({"examples_per_second": rate}), file=answers, flush=True)


if __name__ == "__main__":
    main()
