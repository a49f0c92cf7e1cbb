"""The table of results as Markdown, targets beside the figures."""
from dataclasses import dataclass
from statistics import median

import comparisons
import shapes
from comparisons import TITLES

HEADS = {"fathom": "Fathom", "fathom-plain": "all products", "pytorch-bags": "PyTorch, a bag a field",
         "pytorch-stacked": "one table", "pytorch-compiled": "torch.compile", "tensorflow": "TensorFlow"}
PEERS = [name for name in HEADS if not name.startswith("fathom")]


@dataclass
class Case:
    """One line of the table; None where nothing was measured."""
    model: str
    batch: int
    rates: dict
    ratio: float = None
    gflops: float = None
    share: float = None
    share_plain: float = None
    between: float = None        # of the FMAs that the machine did in bursts between the steps
    between_plain: float = None


def between(results, model, batch, name):
    shares = [s["in_all"] * shapes.flops(model, batch) / 1e9 / s["between"]
              for s in results.of(model, batch, name) if "between" in s]
    return median(shares) if shares else None


def case_of(results, model, batch):
    rates = {name: results.median(model, batch, name) for name in HEADS}
    case = Case(model, batch, rates)
    best = max((rates[name] for name in PEERS if rates[name]), default=None)
    fathom, peak = rates["fathom"], results.peak()
    if fathom and best:
        case.ratio = fathom / best
    if fathom:
        case.gflops = fathom * shapes.flops(model, batch) / 1e9
        case.share = case.gflops / peak
    case.between = between(results, model, batch, "fathom")
    case.between_plain = between(results, model, batch, "fathom-plain")
    if rates["fathom-plain"]:
        case.share_plain = rates["fathom-plain"] * shapes.flops(model, batch) / 1e9 / peak
    return case


def cases_of(results):
    order = list(shapes.MODELS) + list(shapes.FURTHER)
    return [case_of(results, *case) for case in sorted(results.cases(), key=lambda c: (order.index(c[0]), c[1]))]


def figure(value, target, digits=2):
    """A figure with its target beside it."""
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    if target is None:
        return text
    return f"{text} (>= {target:g})" if round(value, digits) >= target else f"**{text}, short of {target:g}**"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(results, models):
    cases = [case for case in cases_of(results) if case.model in models]
    shown = [name for name in HEADS if any(case.rates[name] for case in cases)]
    heads = ["model", "batch"] + [HEADS[name] for name in shown]
    heads += ["against the best peer", "GFLOP/s", "share of peak", "all products"]
    left = any(case.between for case in cases)
    heads += ["of FMAs between steps", "all products"] if left else []
    lines = [row(heads), row(["---"] * len(heads))]
    for case in cases:
        key = case.model, case.batch
        cells = [TITLES[case.model], str(case.batch)]
        cells += [f"{case.rates[name] / 1e3:.1f}" if case.rates[name] else "" for name in shown]
        cells += [figure(case.ratio, shapes.SPEEDUP.get(key)), f"{case.gflops:.0f}" if case.gflops else ""]
        cells += [figure(case.share, shapes.SHARE_FACTORISED.get(key)),
                  figure(case.share_plain, shapes.SHARE_PLAIN.get(key))]
        cells += [figure(case.between, None), figure(case.between_plain, None)] if left else []
        lines.append(row(cells))
    return lines


def others(results):
    """The lines beside the table."""
    compared = comparisons.lines(results)
    if not compared:
        return []
    lines = [row(["what", "Fathom", "compared with", "", "ratio or figure"]), row(["---"] * 5)]
    for line in compared:
        lines.append(row([line.what, line.ours, line.peer, line.theirs, figure(line.figure, line.target)]))
    return lines


def markdown(results, models=shapes.MODELS):
    """The table of these models, and what is beside it if they are those of the table."""
    lines, cases = [], [case for case in results.cases() if case[0] in models]
    if cases:
        repetitions = max(len(results.values(*case, "fathom")) for case in cases)
        lines += [f"{results.machine.get('cpu', '')}, {shapes.THREADS} threads, {results.machine.get('isa', '')}, "
                  f"{results.peak():.0f} GFLOP/s fp32 FMA peak measured; Fathom, {', '.join(results.versions)}. "
                  f"Thousand examples/s, medians of {repetitions}; targets in brackets.", ""]
        lines += table(results, models) + [""]
    return "\n".join(lines + (others(results) if models is shapes.MODELS else []))
