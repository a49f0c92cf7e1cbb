"""The table: models, batch sizes and contenders, in turns."""
import subprocess

import shapes
from contenders import Field


def measure(options, results):
    """Adds a sample a repetition of every contender to the results."""
    for model in options.models or shapes.MODELS:
        field = Field(options, model)
        try:
            for version in field.versions():
                if version not in results.versions:
                    results.versions.append(version)
            for batch in options.batches or batches_of(model):
                for repetition in range(options.repetitions):
                    for name, way in field.ways.items():
                        sample = way(batch)
                        results.add("table", model, batch, name, sample)
                        results.write(options.json)
                        options.progress(f"{model}, batch {batch}, {repetition + 1} of {options.repetitions}, {name}: "
                                         f"{sample['examples_per_second']:,.0f} examples/s")
        finally:
            field.close()


def batches_of(model):
    if model == "xdeepfm":
        return [512]  # of 4096 an outer product has 1.7 GB in PyTorch, forward alone
    return [512, 4096] if model in shapes.SEQUENCES or model in shapes.FURTHER else shapes.BATCHES


def generate(options, models):
    """Data, made once."""
    for file, model in {shapes.data_file(model): model for model in models}.items():
        if not (options.work / file).exists():
            lines = str(shapes.HELD * max(shapes.BATCHES))
            subprocess.run([options.fathom, "gen", *shapes.generator(model), "-n", lines, "-o", file], cwd=options.work,
                           check=True, stdout=subprocess.DEVNULL)
