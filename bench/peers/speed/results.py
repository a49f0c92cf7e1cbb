"""Samples of all measurements, kept as JSON; medians of them."""
import json
import os
from statistics import median


class Results:
    def __init__(self):
        self.machine, self.versions, self.samples = {}, [], []

    @classmethod
    def read(cls, path):
        results = cls()
        with open(path, encoding="utf-8") as file:
            results.__dict__.update(json.load(file))
        return results

    def write(self, path):
        """All at once, so that a run that is killed leaves what it had measured."""
        with open(str(path) + ".new", "w", encoding="utf-8") as out:
            json.dump(self.__dict__, out, indent=1)
        os.replace(str(path) + ".new", path)

    def add(self, measure, model, batch, contender, sample):
        sample = dict(sample)
        for key in "cpu", "isa", "amx":
            if key in sample:
                self.machine[key] = sample.pop(key)
        self.samples.append({"measure": measure, "model": model, "batch": batch, "contender": contender} | sample)

    def cases(self):
        """Of the table."""
        return sorted({(s["model"], s["batch"]) for s in self.samples if s["measure"] == "table"})

    def values(self, model, batch, contender, key="examples_per_second", measure="table"):
        return [s[key] for s in self.of(model, batch, contender, measure) if key in s]

    def of(self, model, batch, contender, measure="table"):
        which = measure, model, batch, contender
        return [s for s in self.samples if (s["measure"], s["model"], s["batch"], s["contender"]) == which]

    def median(self, *which):
        values = self.values(*which)
        return median(values) if values else None

    def peak(self):
        """GFLOP/s, measured by Fathom in each of its measurements."""
        values = [s["peak"] for s in self.samples if "peak" in s]
        return median(values) if values else None
