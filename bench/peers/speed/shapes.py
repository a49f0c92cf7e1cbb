"""What is compared: the models' shapes, Fathom's configurations of them, their arithmetic and the targets. No packages."""

CARDINALITIES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306,
                 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]  # Criteo Kaggle's
NUMBERS, DIM, DIN_DIM = 13, 16, 18
LONGEST, MEAN_LENGTH = 100, 52
LEARNING_RATE, EPSILON, INITIAL = 0.02, 1e-10, 1e-6  # Adagrad's, everywhere
THREADS, HELD = 2, 16  # batches in memory

MODELS = {
    "dlrm": {"bottom": [512, 256, 64, 16], "top": [512, 256]},
    "wide_deep": {"hidden": [1024, 512, 256]},
    "deepfm": {"hidden": [1024, 256, 32]},
    "dcnv2": {"cross_layers": 3, "hidden": [1024, 512, 256]},
    # As in the code that its authors published with DIEN.
    "din": {"attention": [80, 40], "hidden": [200, 80], "attention_activation": "sigmoid", "activation": "dice"},
}
MLPS = ["dlrm", "wide_deep", "deepfm", "dcnv2"]
BATCHES = [128, 512, 4096]
LINEAR = {"wide_deep", "deepfm"}  # with a weight an id beside the embedding

# (model, batch) -> examples/s of the best peer times this; factorising off, on: share of the FMA peak.
SPEEDUP = {("dlrm", 512): 1.7, ("dlrm", 4096): 1.7, ("wide_deep", 512): 1.5, ("wide_deep", 4096): 1.6,
           ("deepfm", 512): 1.6, ("deepfm", 4096): 2.0, ("dcnv2", 512): 1.5, ("dcnv2", 4096): 1.6,
           ("din", 512): 6.0, ("din", 4096): 6.0, ("dlrm", 128): 1.8, ("wide_deep", 128): 1.8}
SHARE_PLAIN = {(model, batch): share for batch in (512, 4096)
               for model, share in (("dlrm", 0.82), ("wide_deep", 0.84), ("deepfm", 0.84), ("dcnv2", 0.85))}
SHARE_FACTORISED = {("dlrm", 512): 0.82, ("dlrm", 4096): 0.82, ("wide_deep", 4096): 0.98, ("deepfm", 4096): 1.05,
                    ("dcnv2", 4096): 0.97}


def widths(*layers):
    """Multiplications of a chain of layers."""
    return sum(a * b for a, b in zip(layers, layers[1:]))


def flops(model):
    """Of the plain model's matrix products, forward and backward, an example: 2 a multiplication, three products."""
    shape = MODELS[model]
    concatenated = NUMBERS + len(CARDINALITIES) * DIM
    if model == "dlrm":
        vectors = len(CARDINALITIES) + 1
        pairs = vectors * (vectors - 1) // 2
        products = widths(NUMBERS, *shape["bottom"]) + widths(pairs + DIM, *shape["top"], 1) + vectors * vectors * DIM
    elif model == "din":
        target = 2 * DIN_DIM
        position = widths(4 * target, *shape["attention"], 1) + target
        products = MEAN_LENGTH * position + widths(DIN_DIM + 2 * target, *shape["hidden"], 1)
    elif model == "dcnv2":
        products = (shape["cross_layers"] * concatenated ** 2 + widths(concatenated, *shape["hidden"])
                    + concatenated + shape["hidden"][-1])
    else:
        products = widths(concatenated, *shape["hidden"], 1)
    return 6 * products


def generator(model):
    """Arguments of `fathom gen`."""
    if model == "din":
        return ["--preset", "sequence", "--history", f"{MEAN_LENGTH},{LONGEST}", "--zipf", "1.05"]
    return ["--preset", "criteo-kaggle", "--zipf", "1.05"]


def data_file(model):
    return "sequences.csv" if model == "din" else "criteo.tsv"


def configuration(model, file=None):
    """Fathom's, as a structure that JSON (and so YAML) can write."""
    adagrad = {"name": "adagrad", "lr": LEARNING_RATE, "eps": EPSILON, "initial_accumulator": INITIAL}
    history = {"sequence": True, "separator": ";", "group": "history", "max_length": LONGEST}
    if model == "din":
        data = {"format": "csv", "label": "label"}
        features = {"categorical": [{"columns": ["user"]}, {"columns": ["item", "category"]}]
                    + [{"columns": ["hist_" + t], "table": t} | history for t in ("item", "category")]}
    else:
        data = {"format": "criteo"}
        features = {"numeric": [{"columns": ["I1..I13"], "log1p": True}], "categorical": [{"columns": ["C1..C26"]}]}
    return {"seed": 1, "data": data | {"train": file or data_file(model), "shuffle": 0}, "features": features,
            "embedding": {"dim": DIN_DIM if model == "din" else DIM, "memory_limit": 12 << 30},
            "model": {"name": model} | MODELS[model], "optimizer": {"dense": adagrad, "sparse": adagrad},
            "train": {"batch_size": 4096}}
