"""What is measured beside the table: text, parsing, linear models, threads, reduced precision.

Each function adds samples; comparisons.py says which are compared and what is to be reached."""
import json
import os
import re
import statistics
import subprocess

import shapes
import vowpal
from contenders import BF16, BF16X3, HERE, Failed, Fathom, Worker, environment, held_in_memory, python_of

LINEAR = {"data": {"format": "criteo", "shuffle": 0},
          "features": {"numeric": [{"columns": ["I1..I13"], "log1p": True}], "categorical": [{"columns": ["C1..C26"]}]},
          "model": {"name": "lr"}, "optimizer": {"dense": {"name": "adagrad", "lr": 0.02},
                                                 "sparse": {"name": "ftrl", "lr": 0.05, "l1": 0.1, "l2": 0.1}},
          "train": {"batch_size": 4096}}


def text_file(options):
    """Generated lines, made once."""
    name = f"criteo-{options.lines}.tsv"
    if not (options.work / name).exists():
        options.progress(f"generating {options.lines:,} lines")
        subprocess.run([options.fathom, "gen", *shapes.generator("dlrm"), "-n", str(options.lines), "-o", name + ".new"],
                       cwd=options.work, check=True, stdout=subprocess.DEVNULL)
        os.replace(options.work / (name + ".new"), options.work / name)
    return name


def rate_of_training(fathom, *arguments):
    printed = fathom.call("train", fathom.config, "--threads", str(shapes.THREADS), *arguments)
    found = re.search(r"^ +([0-9]+) examples/s(?:,.*)?$", printed, re.MULTILINE)
    if not found:
        raise Failed(f"fathom train printed no examples/s:\n{printed}")
    return {"value": float(found[1])}


def needs(options, peer):
    """Whether a peer is asked for and there; if it is not there, that is said."""
    if options.contenders and not any(name.startswith(peer) for name in options.contenders):
        return None
    if not python_of(peer):
        options.progress(f"{peer} is left out: bench/peers/setup {peer} installs it")
    return python_of(peer)


def in_turns(options, results, measure, model, batch, ways):
    for repetition in range(options.repetitions):
        for name, way in ways.items():
            sample = way()
            for beside, rate in sample.pop("beside", {}).items():
                results.add(measure, model, batch, beside, {"value": rate})
            value = sample.pop("examples_per_second", None)
            sample = sample if value is None else {"value": value} | sample
            results.add(measure, model, batch, name, sample)
            results.write(options.json)
            options.progress(f"{measure}: {model}, {repetition + 1} of {options.repetitions}, {name}: {sample['value']:,.6g}")


ROWS_A_LINE = 0.8  # new in ten million lines; the others' tables are there before the first step, too
HELD_BESIDE_TEXT = 600  # batches: a few passes over them do not learn them by heart


def rate_from_text(options, fathom, file, *arguments):
    with held_in_memory(options.work / file):
        return rate_of_training(fathom, *arguments)


def pandas_peer(options, model, file, *precision):
    with held_in_memory(options.work / file):
        done = subprocess.run([python_of("pytorch"), os.path.join(HERE, "torch_text.py"), file, model,
                               str(options.peer_lines), *precision],
                              cwd=options.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              env=environment(str(options.work)))
    if done.returncode:
        raise Failed(f"torch_text.py ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rates_in_turns(options, fathom, file, memory, *arguments):
    """Steps from text and, as `memory`, in memory, in turns in one process."""
    with held_in_memory(options.work / file):
        read = fathom.bench(4096, "--from-text", "--batches", str(HELD_BESIDE_TEXT), *arguments, seconds=20)
    turns = read["text_and_memory_in_turns"]
    return {"value": turns["from_text"]["examples_per_second"],
            "beside": {memory: turns["in_memory"]["examples_per_second"]}}


def text(options, results):
    file = text_file(options)
    for model in options.models or ["dlrm", "deepfm"]:
        configuration = shapes.configuration(model, file)
        configuration["embedding"]["expected_rows"] = int(ROWS_A_LINE * options.lines)
        fathom = Fathom(options, model, file, configuration)
        ways = {}
        for name, arguments in fathom.precisions().items():
            ways |= {name: lambda arguments=arguments: rate_from_text(options, fathom, file, *arguments),
                     f"{name} in turns": lambda name=name, arguments=arguments: rates_in_turns(
                         options, fathom, file, f"{name} in turns, in memory", *arguments)}
        if needs(options, "pytorch"):
            ways["pytorch"] = lambda: pandas_peer(options, model, file)
            if fathom.amx:
                ways["pytorch bf16"] = lambda: pandas_peer(options, model, file, "bf16")
        in_turns(options, results, "text", model, 4096, ways)


def parse(options, results):
    fathom = Fathom(options, "dlrm")

    def way():
        return {"value": fathom.bench(4096)["parse_and_hash"]["gigabytes_per_second"]}

    in_turns(options, results, "parse", "dlrm", 4096, {"fathom": way})


def linear(options, results):
    """With what was learned: the mean log loss of examples before they were learned from, which both print of a pass."""
    file = text_file(options)
    fathom = Fathom(options, "lr", configuration=LINEAR | {"data": LINEAR["data"] | {"train": file},
                                                          "embedding": {"expected_rows": int(ROWS_A_LINE * options.lines)}})
    losses = options.work / "lr-losses.txt"

    def way():
        rate = rate_from_text(options, fathom, file, "--losses", str(losses))
        return rate | {"loss": statistics.fmean(float(line) for line in losses.read_text(encoding="utf-8").split())}

    ways = {"fathom": way}
    if needs(options, "vowpalwabbit"):
        ways["vowpalwabbit"] = vowpal.prepare(options, file, python_of("vowpalwabbit"))
    in_turns(options, results, "linear", "lr", 4096, ways)


def threads(options, results):
    for model in options.models or shapes.MLPS:
        fathom = Fathom(options, model)
        ways = {f"{n} threads": lambda n=n: fathom.measure(4096, threads=n) for n in (1, shapes.THREADS)}
        in_turns(options, results, "threads", model, 4096, ways)


def bf16(options, results):
    for model in options.models or shapes.MLPS:
        fathom = Fathom(options, model)
        if not re.search(r"precisions.*\bbf16\b", fathom.call("info")):
            options.progress("bf16 is left out: this CPU has no products of bf16")
            return
        ways = {"fathom bf16": lambda: fathom.measure(4096, *BF16),
                "fathom fp32": lambda: fathom.measure(4096)}
        if fathom.amx:
            ways["fathom bf16x3"] = lambda: fathom.measure(4096, *BF16X3)
        worker = Worker(options, "pytorch", "torch_worker.py", model) if needs(options, "pytorch") else None
        if worker:
            ways |= {f"pytorch {way}": lambda way=way: worker.measure(way, 4096) for way in ("bf16", "bf16 compiled")}
        try:
            in_turns(options, results, "bf16", model, 4096, ways)
        finally:
            if worker:
                worker.close()


MEASURES = {"text": text, "parse": parse, "linear": linear, "threads": threads, "bf16": bf16}
