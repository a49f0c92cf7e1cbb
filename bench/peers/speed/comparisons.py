"""What of the samples beside the table is compared with what, and what is to be reached."""
from dataclasses import dataclass, replace

TITLES = {"dlrm": "DLRM", "wide_deep": "Wide & Deep", "deepfm": "DeepFM", "dcnv2": "DCN-V2", "din": "DIN", "lr": "LR", "xdeepfm": "xDeepFM", "mmoe": "MMoE", "star": "STAR", "two_tower": "Two towers",
          "dien": "DIEN", "dsin": "DSIN"}


@dataclass
class Comparison:
    """Of `ours` with the best of `theirs`; with none the figure itself, over `unit`, is what has a target."""
    measure: str
    what: str
    ours: str
    theirs: tuple
    peer: str
    target: float
    unit: float = 1e3
    name: str = "k examples/s"
    only_amx: bool = False
    of: str = "value"  # which figure of the samples


FROM_TEXT = [
    Comparison("text", "{model} from Criteo text", "fathom", ("pytorch",), "PyTorch, pandas in a loader process", 4.0),
    Comparison("text", "{model} from Criteo text, in turns", "fathom in turns", ("fathom in turns, in memory",),
               "Fathom, 600 batches in memory", 0.95),
]


def reduced(comparison, precision, *more):
    """The same of Fathom by fewer bits, with the same target; `more`: of whom else the best counts."""
    c = comparison
    theirs = tuple(name.replace("fathom", f"fathom {precision}") for name in c.theirs)
    return replace(c, what=f"{c.what}, {precision}", ours=c.ours.replace("fathom", f"fathom {precision}"),
                   peer=c.peer.replace("Fathom,", f"Fathom, {precision},") + (", or that by bf16 autocast" if more else ""),
                   theirs=theirs + more)


COMPARISONS = FROM_TEXT + [
    Comparison("parse", "parse and hash Criteo text, a core", "fathom", (), "", 0.8, 1, "GB/s"),
    Comparison("linear", "{model} with FTRL from text", "fathom", (), "", 1.0, 1e6, "M examples/s"),
    Comparison("linear", "{model} with FTRL from text", "fathom", ("vowpalwabbit",), "Vowpal Wabbit from its cache", 5.0),
    Comparison("linear", "{model} with FTRL from text, log loss of the pass", "fathom", ("vowpalwabbit",), "Vowpal Wabbit",
               None, 1, "", of="loss"),
    Comparison("threads", "{model}, two threads", "2 threads", ("1 threads",), "one thread", 1.85),
    Comparison("bf16", "{model}, bf16", "fathom bf16", ("fathom fp32",), "Fathom, fp32", 2.5, only_amx=True),
    Comparison("bf16", "{model}, bf16", "fathom bf16", ("pytorch bf16", "pytorch bf16 compiled"),
               "PyTorch, bf16 autocast", 2.0, only_amx=True),
] + [reduced(one, "bf16x3") for one in FROM_TEXT] + [
    reduced(FROM_TEXT[0], "bf16", "pytorch bf16"), reduced(FROM_TEXT[1], "bf16"),
    Comparison("bf16", "{model}, bf16x3", "fathom bf16x3", ("fathom fp32",), "Fathom, fp32", None),
]


def rate(value):
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


@dataclass
class Line:
    what: str
    ours: str
    peer: str
    theirs: str
    figure: float
    target: float


def line(results, comparison, model):
    c = comparison
    ours = results.median(model, 4096, c.ours, c.of, c.measure)
    if ours is None:
        return None
    target = None if c.only_amx and not results.machine.get("amx") else c.target
    what, shown = c.what.format(model=TITLES[model]), f"{rate(ours / c.unit)} {c.name}".rstrip()
    if not c.theirs:
        return Line(what, shown, "", "", ours / c.unit, target)
    theirs = [results.median(model, 4096, name, c.of, c.measure) for name in c.theirs]
    best = max((value for value in theirs if value is not None), default=None)
    if best is None:
        return None
    return Line(what, shown, c.peer, f"{rate(best / c.unit)} {c.name}".rstrip(), ours / best, target)


def lines(results):
    made = (line(results, comparison, model) for comparison in COMPARISONS for model in TITLES)
    return [one for one in made if one]
