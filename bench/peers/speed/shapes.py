"""What is compared: the models' shapes, Fathom's configurations of them, their arithmetic and the targets. No packages."""
import os

CARDINALITIES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306,
                 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]  # Criteo Kaggle's
NUMBERS, DIM, DIN_DIM = 13, 16, 18
LONGEST, MEAN_LENGTH = 100, 52
LEARNING_RATE, EPSILON, INITIAL = 0.02, 1e-10, 1e-6  # Adagrad's, everywhere
THREADS = int(os.environ.get("PEERS_THREADS", "2"))  # of everyone
HELD = 16  # batches in memory

MODELS = {
    "dlrm": {"bottom": [512, 256, 64, 16], "top": [512, 256]},
    "wide_deep": {"hidden": [1024, 512, 256]},
    "deepfm": {"hidden": [1024, 256, 32]},
    "dcnv2": {"cross_layers": 3, "hidden": [1024, 512, 256]},
    # As in the code that its authors published with DIEN.
    "din": {"attention": [80, 40], "hidden": [200, 80], "attention_activation": "sigmoid", "activation": "dice"},
}
# Measured where they are named: beside PyTorch alone, without targets.
FURTHER = {
    "xdeepfm": {"cin": [64, 64], "hidden": [400, 400]},
    "mmoe": {"experts": 8, "expert_hidden": [512, 256], "tower": [128]},
    "star": {"domain": "domain", "hidden": [512, 256, 128], "auxiliary_hidden": [32]},
    "two_tower": {"item_fields": ["item", "category"], "loss": "in_batch_softmax", "normalise": True,
                  "temperature": 0.05, "hidden": [512, 256, 64]},
    "dien": {"hidden": [200, 80], "activation": "dice", "auxiliary": 0},
    "dsin": {"heads": 4, "feed_forward": 72, "session_length": 10, "sessions": 10, "hidden": [200, 80]},
}
# A domain's examples are never as many in two batches; 100 steps of a loop by hand take minutes to compile.
NOT_COMPILED = {"star", "dien"}
SEQUENCES, TASKS = {"din", "two_tower", "dien", "dsin"}, {"mmoe", "star"}
TASK_NUMBERS, TASK_FIELDS, STAR_FIELDS = 8, 9, 8
TASK_IDS = 1000000  # a column's at most
MLPS = ["dlrm", "wide_deep", "deepfm", "dcnv2"]
BATCHES = [128, 512, 4096]
LINEAR = {"wide_deep", "deepfm", "xdeepfm"}  # with a weight an id beside the embedding

# (model, batch) -> examples/s of the best peer times this; share of the FMA peak, first layers factorised or not.
SPEEDUP = {("dlrm", 512): 1.7, ("dlrm", 4096): 1.7, ("wide_deep", 512): 1.5, ("wide_deep", 4096): 1.6,
           ("deepfm", 512): 1.6, ("deepfm", 4096): 2.0, ("dcnv2", 512): 1.5, ("dcnv2", 4096): 1.6,
           ("din", 512): 6.0, ("din", 4096): 6.0, ("dlrm", 128): 1.8, ("wide_deep", 128): 1.8}
SHARE_UNFACTORISED = {(model, batch): share for batch in (512, 4096)
                      for model, share in (("dlrm", 0.82), ("wide_deep", 0.84), ("deepfm", 0.84), ("dcnv2", 0.85))}
SHARE_FACTORISED = {("dlrm", 512): 0.82, ("dlrm", 4096): 0.82, ("wide_deep", 4096): 0.98, ("deepfm", 4096): 1.05,
                    ("dcnv2", 4096): 0.97}


def widths(*layers):
    """Multiplications of a chain of layers."""
    return sum(a * b for a, b in zip(layers, layers[1:]))


def shape_of(model):
    return MODELS[model] if model in MODELS else FURTHER[model]


def further_products(model, shape, batch):
    """Multiplications of an example's forward, of the plain model."""
    target, own = 2 * DIN_DIM, DIN_DIM + 2 * DIN_DIM
    if model == "xdeepfm":
        fields, maps = len(CARDINALITIES), shape["cin"]
        cin = sum(fields * a * b for a, b in zip([fields] + maps, maps))
        return DIM * cin + sum(maps) + widths(NUMBERS + fields * DIM, *shape["hidden"], 1)
    if model == "mmoe":
        inputs, experts, layers = TASK_NUMBERS + TASK_FIELDS * DIM, shape["experts"], shape["expert_hidden"]
        tower = widths(layers[-1], *shape["tower"], 1) + inputs * experts + experts * layers[-1]
        return experts * widths(inputs, *layers) + 2 * tower
    if model == "star":
        inputs = TASK_NUMBERS + STAR_FIELDS * DIM
        return widths(inputs, *shape["hidden"], 1) + widths(inputs + 3, *shape["auxiliary_hidden"], 1)
    if model == "two_tower":
        hidden = shape["hidden"]
        return widths(own, *hidden) + widths(target, *hidden) + batch * hidden[-1]
    if model == "dien":
        position = 4 * target * 3 * target + 2 * target
        return MEAN_LENGTH * position + target * target + widths(own + target, *shape["hidden"], 1)
    length, sessions = shape["session_length"], MEAN_LENGTH / shape["session_length"]
    position = 4 * target * target + 2 * length * target + 2 * target * shape["feed_forward"]
    lstms = 2 * 2 * target * 4 * target
    return (MEAN_LENGTH * position + sessions * lstms + 3 * target * target
            + widths(own + 3 * target, *shape["hidden"], 1))


def flops(model, batch):
    """Of the plain model's matrix products, forward and backward, an example: 2 a multiplication, three products."""
    shape = shape_of(model)
    concatenated = NUMBERS + len(CARDINALITIES) * DIM
    if model in FURTHER:
        return 6 * further_products(model, shape, batch)
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
    if model in SEQUENCES:
        return ["--preset", "sequence", "--history", f"{MEAN_LENGTH},{LONGEST}", "--zipf", "1.05"]
    if model in TASKS:
        return ["--preset", "tasks", "--cap", str(TASK_IDS), "--zipf", "1.05"]
    return ["--preset", "criteo-kaggle", "--zipf", "1.05"]


def data_file(model):
    return "sequences.csv" if model in SEQUENCES else "tasks.csv" if model in TASKS else "criteo.tsv"


def configuration(model, file=None):
    """Fathom's, as a structure that JSON (and so YAML) can write."""
    adagrad = {"name": "adagrad", "lr": LEARNING_RATE, "eps": EPSILON, "initial_accumulator": INITIAL}
    history = {"sequence": True, "separator": ";", "group": "history", "max_length": LONGEST}
    tasks = {}
    if model in SEQUENCES:
        data = {"format": "csv", "label": "label"}
        features = {"categorical": [{"columns": ["user"]}, {"columns": ["item", "category"]}]
                    + [{"columns": ["hist_" + t], "table": t} | history for t in ("item", "category")]}
    elif model in TASKS:
        data = {"format": "csv"} | ({"label": "label"} if model == "star" else {})
        features = {"numeric": [{"columns": ["I1..I8"], "log1p": True}],
                    "categorical": [{"columns": ["C1..C8"] + (["domain"] if model == "mmoe" else [])}]}
        if model == "star":
            features["indicator"] = [{"columns": ["domain"], "values": ["d0", "d1", "d2"]}]
        else:
            tasks = {"tasks": [{"name": "click", "label": "label"}, {"name": "buy", "label": "converted"}]}
    else:
        data = {"format": "criteo"}
        features = {"numeric": [{"columns": ["I1..I13"], "log1p": True}], "categorical": [{"columns": ["C1..C26"]}]}
    return {"seed": 1, "data": data | {"train": file or data_file(model), "shuffle": 0}, **tasks, "features": features,
            "embedding": {"dim": DIN_DIM if model in SEQUENCES else DIM, "memory_limit": 12 << 30},
            "model": {"name": model} | shape_of(model), "optimizer": {"dense": adagrad, "sparse": adagrad},
            "train": {"batch_size": 4096}}
