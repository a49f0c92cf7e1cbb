"""The table of results as Markdown, targets beside the figures."""
from dataclasses import dataclass
from statistics import median

import comparisons
import shapes
from comparisons import TITLES

HEADS = {"fathom": "Fathom", "fathom-unfactorised": "factorising off", "fathom-plain": "all products",
         "pytorch-bags": "PyTorch, a bag a field", "pytorch-stacked": "one table", "pytorch-compiled": "torch.compile",
         "tensorflow": "TensorFlow"}
SPLIT = {"fathom-bf16x6": "bf16x6", "fathom-bf16x3": "bf16x3"}  # precisions by AMX, which make all products
PACKED = "pytorch-packed"  # beside the peers that targets were set against
PEERS = [name for name in HEADS if not name.startswith("fathom")]


@dataclass
class Case:
    """One line of the table: figures by contender, none where it was not measured."""
    model: str
    batch: int
    rates: dict
    ratios: dict   # against the best peer
    gflops: dict
    shares: dict   # of the fp32 peak
    between: dict  # of the FMAs that the machine did in bursts between the steps


def between(results, model, batch, name):
    shares = [s["in_all"] * shapes.flops(model, batch) / 1e9 / s["between"]
              for s in results.of(model, batch, name) if "between" in s]
    return median(shares) if shares else None


def case_of(results, model, batch):
    rates = {name: results.median(model, batch, name) for name in [*HEADS, *SPLIT, PACKED]}
    best = max((rates[name] for name in PEERS if rates[name]), default=None)
    ours = {name: rate for name, rate in rates.items() if rate and name not in [*PEERS, PACKED]}
    gflops = {name: rate * shapes.flops(model, batch) / 1e9 for name, rate in ours.items()}
    return Case(model, batch, rates, {name: rate / best for name, rate in ours.items() if best}, gflops,
                {name: value / results.peak() for name, value in gflops.items()},
                {name: between(results, model, batch, name) for name in ours})


def cases_of(results):
    order = list(shapes.MODELS) + list(shapes.FURTHER)
    return [case_of(results, *case) for case in sorted(results.cases(), key=lambda c: (order.index(c[0]), c[1]))]


def figure(value, *targets, digits=2):
    """A figure with its targets beside it, those that it reaches and those that it does not; None is none."""
    if value is None:
        return ""
    text, targets = f"{value:.{digits}f}", [target for target in targets if target is not None]
    short = ", ".join(f"{target:g}" for target in targets if round(value, digits) < target)
    reached = ", ".join(f">= {target:g}" for target in targets if round(value, digits) >= target)
    text = f"**{text}, short of {short}**" if short else text
    return f"{text} ({reached})" if reached else text


def row(cells):
    return "| " + " | ".join(cells) + " |"


def split_cells(case, name):
    """The share beside both targets: all products are made, and there is no faster way to make fewer."""
    if not case.rates[name]:
        return ["–"] * 3
    key = case.model, case.batch
    targets = sorted({table[key] for table in (shapes.SHARE_UNFACTORISED, shapes.SHARE_FACTORISED) if key in table})
    return [f"{case.rates[name] / 1e3:.1f}", figure(case.ratios.get(name), shapes.SPEEDUP.get(key)),
            figure(case.shares[name], *targets)]


def table(results, models):
    cases = [case for case in cases_of(results) if case.model in models]
    shown = [name for name in HEADS if any(case.rates[name] for case in cases)]
    heads = ["model", "batch"] + [HEADS[name] for name in shown]
    heads += ["against the best peer", "GFLOP/s", "share of peak", "factorising off", "all products"]
    left = any(case.between.get(name) for case in cases for name in ("fathom", "fathom-plain"))
    heads += ["of FMAs between steps", "all products"] if left else []
    split = [name for name in SPLIT if any(case.rates[name] for case in cases)]
    for name in split:
        heads += [f"Fathom, {SPLIT[name]}", "against the best peer", "share of fp32 peak"]
    packed = any(case.rates[PACKED] for case in cases)
    heads += ["PyTorch without padding", "Fathom against it"] if packed else []
    lines = [row(heads), row(["---"] * len(heads))]
    for case in cases:
        key = case.model, case.batch
        cells = [TITLES[case.model], str(case.batch)]
        cells += [f"{case.rates[name] / 1e3:.1f}" if case.rates[name] else "" for name in shown]
        gflops = case.gflops.get("fathom")
        cells += [figure(case.ratios.get("fathom"), shapes.SPEEDUP.get(key)), f"{gflops:.0f}" if gflops else ""]
        cells += [figure(case.shares.get("fathom"), shapes.SHARE_FACTORISED.get(key)),
                  figure(case.shares.get("fathom-unfactorised"), shapes.SHARE_UNFACTORISED.get(key)),
                  figure(case.shares.get("fathom-plain"))]
        cells += [figure(case.between.get(name)) for name in ("fathom", "fathom-plain")] if left else []
        for name in split:
            cells += split_cells(case, name)
        if packed:
            rate = case.rates[PACKED]
            cells += [f"{rate / 1e3:.1f}", figure(case.rates["fathom"] / rate)] if rate and case.rates["fathom"] else ["", ""]
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
