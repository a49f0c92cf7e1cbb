"""AtRec's six workloads, and what of a configuration the peers have to know to read and train the same. No packages.

A reading is a plain structure made of the configuration's features, so that each peer is told of them once:
  numbers     [[column, log1p]]                     a float each
  means       [[column, log1p]]                     a list's mean
  one_hots    [[column, values, is a list]]         a float a value; of a list the counts
  keys        [[column, table]]                     a row of a table
  lists       [[column, table]]                     rows of a table, their mean
  history     [[column, table]]                     rows of a table, kept one by one
  tables      {name: rows}"""
from dataclasses import dataclass


@dataclass
class Workload:
    title: str
    data: str
    preset: list
    lines: int
    held: int  # batches in memory
    chunk: int  # lines that PyTorch's loader process reads at once
    sizes: dict  # of tables without buckets


WORKLOADS = {
    "amz-dien": Workload("amz-DIEN", "amz.csv", ["amz"], 200_000, 16, 8192,
                         {"user": 603668, "item": 367982, "category": 1600}),
    "uba-dien": Workload("uba-DIEN", "uba.csv", ["uba"], 100_000, 16, 8192,
                         {"user": 987994, "item": 4162024, "category": 9439}),
    "elm-deepfm": Workload("elm-DeepFM", "elm.csv", ["elm"], 480_000, 8, 8192, {}),
    "elm-wdl": Workload("elm-WDL", "elm.csv", ["elm"], 480_000, 8, 8192, {}),
    "elm-long-wdl": Workload("elm_y_long-WDL", "elm-long.csv", ["elm-long"], 131_072, 4, 4096, {}),
    "kaggle-deepfm": Workload("kaggle-DeepFM", "kaggle.tsv", ["criteo-kaggle", "--zipf", "1.05"], 1_000_000, 16, 32768, {}),
}


def expand(columns):
    """["I1..I13"] is I1, I2 and so on."""
    for name in [columns] if isinstance(columns, str) else columns:
        first, dots, last = name.partition("..")
        stem = first.rstrip("0123456789")
        yield from (f"{stem}{i}" for i in range(int(first[len(stem):]), int(last[len(stem):]) + 1)) if dots else [name]


def reading(name, configuration):
    features, workload = configuration["features"], WORKLOADS[name]
    out = {"file": configuration["data"]["train"], "batch": configuration["train"]["batch_size"], "chunk": workload.chunk,
           "held": workload.held, "criteo": configuration["data"]["format"] == "criteo", "dim": configuration["embedding"]["dim"],
           "model": configuration["model"], "tables": {}}
    out |= {kind: [] for kind in ("numbers", "means", "one_hots", "keys", "lists", "history")}
    for section in features.get("numeric", []):
        kind = "means" if "separator" in section else "numbers"
        out[kind] += [[column, section.get("log1p", False)] for column in expand(section["columns"])]
    for section in features.get("indicator", []):
        out["one_hots"].append([section["columns"], section["values"], "separator" in section])
    for section in features["categorical"]:
        kind = "keys" if "separator" not in section else "history" if section.get("sequence") else "lists"
        for column in expand(section["columns"]):
            table = section.get("table", column)
            out[kind].append([column, table])
            out["tables"][table] = section.get("buckets") or workload.sizes[table]
    return out
