"""What was measured, as Markdown and as a picture."""
import math
import sys

import shapes
from plot import text
from report import figure, row
from workloads import WORKLOADS

TARGET_TEXT, TARGET_MEAN, TARGET_MEMORY = 5.0, 8.0, {"amz-dien": 5.0, "uba-dien": 5.0}
PEERS = {"PyTorch": "pytorch", "TensorFlow": "tensorflow"}
OURS = {"Fathom": "fathom", "Fathom, bf16x3": "fathom bf16x3"}
BF16, AUTOCAST = "fathom bf16", "pytorch-bf16"  # beside each other, and in no other table
# What is left out: how the table calls it, a name for --without (or arguments), what is measured, and of which models.
ALL, LINEAR, RECURRENT = ("wide_deep", "deepfm", "dien"), ("wide_deep", "deepfm"), ("dien",)
ABLATIONS = [
    ("feature processing in one pass: the three below", "feature_fusion", "text", ALL),
    ("lists of ids: split, cut and hashed in one pass", "fuse_splits", "text", ALL),
    ("lists of numbers: split, parsed and reduced in one pass", "fuse_numbers", "text", LINEAR),
    ("one-hot sums by counting", "fuse_counts", "text", LINEAR),
    ("products by shape (libxsmm makes all)", "gemm_choice", "memory", ALL),
    ("gates split off the loop over time", "gate_split", "memory", RECURRENT),
    ("concatenation in place", "concat_in_place", "memory", ALL),
    ("sums trained without rows", "train_sums", "memory", LINEAR),
    ("first layer factorised", "factorise_first_layer", "memory", LINEAR),
    ("zeros of ReLU left out", "skip_zeros", "memory", LINEAR),
    ("tables in packs", "packing", "memory", ALL),
    ("weights in panels, for the products that read them", "weight_panels", "memory", ALL),
    ("updates with their gradients", "fuse_updates", "memory", ALL),
    ("small work in tiles (one example a tile)", "--set tile=1", "memory", ALL),
]


def best(results, name, peer, kind):
    """The better way of a peer."""
    values = [results.median(name, batch_of(results, name), c, "examples_per_second", "speed")
              for c in contenders_of(results, name) if c.startswith(f"{peer} {kind}")]
    return max((value for value in values if value), default=None)


def batch_of(results, name):
    return next(s["batch"] for s in results.samples if s["model"] == name)


def contenders_of(results, name, measure="speed"):
    return list(dict.fromkeys(s["contender"] for s in results.samples if (s["measure"], s["model"]) == (measure, name)))


def share(text_rate, memory_rate):
    """Of the time from text, what reading batches from memory saves."""
    return f"{max(0.0, 1 - text_rate / memory_rate):.0%}" if text_rate and memory_rate else ""


def rates(results, name, kind, who="fathom"):
    ours = results.median(name, batch_of(results, name), f"{who} {kind}", "examples_per_second", "speed")
    theirs = {peer: best(results, name, peer, kind) for peer in PEERS.values()}
    rivals = list(theirs.values()) + ([best(results, name, AUTOCAST, kind)] if who == BF16 else [])
    strongest = max((value for value in rivals if value), default=None)
    return ours, theirs, ours / strongest if ours and strongest else None


def thousands(value):
    return f"{value / 1e3:.3g}" if value else ""


def names_of(results, measure):
    there = {s["model"] for s in results.samples if s["measure"] == measure}
    return [name for name in WORKLOADS if name in there]


def against(name, kind, ratio):
    """The ratio to the better peer with its target."""
    return figure(ratio, TARGET_TEXT if kind == "text" else TARGET_MEMORY.get(name), digits=1)


def mean_line(ratios):
    """Of the ratios from text."""
    if not ratios:
        return []
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return ["", f"Geometric mean from text: {figure(mean, TARGET_MEAN, digits=1)} times the better peer, of {len(ratios)} workloads."]


def speed_table(results):
    heads = ["workload", "batch"]
    for kind in "from text", "from memory":
        heads += [f"Fathom, {kind}"] + list(PEERS) + ["against the better"]
    heads += [f"feature processing: {who}" for who in ["Fathom"] + list(PEERS)]
    lines, ratios = [row(heads), row(["---"] * len(heads))], []
    for name in names_of(results, "speed"):
        cells, both = [WORKLOADS[name].title, str(batch_of(results, name))], {}
        for kind in "text", "memory":
            ours, theirs, ratio = both[kind] = rates(results, name, kind)
            cells += [thousands(ours)] + [thousands(theirs[peer]) for peer in PEERS.values()] + [against(name, kind, ratio)]
        if both["text"][2]:
            ratios.append(both["text"][2])
        cells.append(share(both["text"][0], both["memory"][0]))
        cells += [share(both["text"][1][peer], both["memory"][1][peer]) for peer in PEERS.values()]
        lines.append(row(cells))
    return lines + mean_line(ratios)


def reduced_table(results, title, who):
    """Fathom by fewer bits beside the same peers, in bf16 beside PyTorch's autocast, too; none where none was measured."""
    heads, lines, ratios, autocast = ["workload", "batch"], [], [], who == BF16
    for kind in "from text", "from memory":
        heads += [f"{title}, {kind}"] + ["PyTorch, bf16 autocast"] * autocast
        heads.append("against the best" if autocast else "against the better")
    for name in names_of(results, "speed"):
        cells = [WORKLOADS[name].title, str(batch_of(results, name))]
        for kind in "text", "memory":
            ours, _, ratio = rates(results, name, kind, who)
            cells += [thousands(ours) or "–"] + [thousands(best(results, name, AUTOCAST, kind)) or "–"] * autocast
            cells.append(against(name, kind, ratio) or "–")
            ratios += [ratio] if ratio and kind == "text" else []
        lines.append(row(cells))
    measured = any(s["contender"].startswith(f"{who} ") for s in results.samples)
    return ["", row(heads), row(["---"] * len(heads))] + lines + mean_line(ratios) if measured else []


def ablation_table(results):
    names = names_of(results, "ablation")
    lines = [row(["left out"] + [WORKLOADS[name].title for name in names]), row(["---"] * (len(names) + 1))]
    for label, _, kind, _ in ABLATIONS:
        cells = []
        for name in names:
            full, without = (results.median(name, batch_of(results, name), contender, "examples_per_second", "ablation")
                             for contender in ("all, text" if kind == "text" else "all", label))
            cells.append(f"{full / without:.2f}" if full and without else "")
        if any(cells):
            lines.append(row([label + (", from text" if kind == "text" else "")] + cells))
    return lines


def speed_part(results):
    if not names_of(results, "speed"):
        return ""
    counts = [s["contender"] for s in results.samples if s["measure"] == "speed" and s["model"] == names_of(results, "speed")[0]]
    head = (f"{results.machine.get('cpu', '')}, {shapes.THREADS} threads, {results.machine.get('isa', '')}; Fathom, "
            f"{', '.join(results.versions)}. Thousand examples/s, medians of {max(map(counts.count, counts))}, of each peer "
            "the better of its ways; targets in brackets. Feature processing: the share of the time from text that "
            "batches in memory save. AtRec's own ratios are not in what of the paper and its scripts we could read.")
    return "\n".join([head, ""] + speed_table(results) + reduced_table(results, "Fathom, bf16x3", OURS["Fathom, bf16x3"])
                     + reduced_table(results, "Fathom, bf16", BF16) + [""])


def ablation_part(results):
    if not names_of(results, "ablation"):
        return ""
    return "\n".join(["Examples/s with everything over examples/s with one thing left out:", ""] + ablation_table(results))


# A page's part between <!-- MARK --> and <!-- end MARK -->.
PARTS = {"atrec": speed_part, "atrec ablation": ablation_part}


def markdown(results):
    return "\n".join(part(results) for part in PARTS.values())


def svg(results):
    """A group of bars a workload, from text and from memory, as multiples of the better peer's (dashed)."""
    width, left, bar, y = 860, 130, 13, 60
    colours = {"fathom": "#0b5fa5", "fathom bf16x3": "#4a9c7d", "pytorch": "#e89b3f", "tensorflow": "#8a8f98"}
    titles = {who: title for title, who in (OURS | PEERS).items()}
    bars, longest = [], 1.0
    for name in names_of(results, "speed"):
        for kind in "text", "memory":
            ours = {who: rates(results, name, kind, who)[0] for who in OURS.values()}
            theirs = {peer: best(results, name, peer, kind) for peer in PEERS.values()}
            found = {who: value for who, value in (ours | theirs).items() if value}
            reference = max((found[peer] for peer in PEERS.values() if peer in found), default=max(found.values(), default=None))
            bars.append((f"{WORKLOADS[name].title}, {kind}", found, reference))
            longest = max([longest] + [value / reference for value in found.values()])
    scale, body = (width - left - 90) / longest, []
    shown = [who for who in colours if any(who in found for _, found, _ in bars)]
    for i, who in enumerate(shown):
        body += [f'<rect x="{left + i * 120}" y="30" width="12" height="12" fill="{colours[who]}"/>',
                 text(left + i * 120 + 18, 41, titles[who])]
    for title, found, reference in bars:
        body.append(text(left - 8, y + len(found) * bar / 2 + 4, title, 'text-anchor="end" font-size="9"'))
        for who, value in found.items():
            length = value / reference * scale
            body.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" fill="{colours[who]}"/>')
            body.append(text(left + length + 5, y + 10, thousands(value), 'font-size="10"'))
            y += bar
        y += 8
    body.append(f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="52" y2="{y}" stroke="#444" stroke-dasharray="3 3"/>')
    title = "Bars: examples/s as a multiple of the better peer (dashed). Figures: thousand examples/s."
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" '
                      'font-family="sans-serif" font-size="12" fill="#222">',
                      f'<rect width="{width}" height="{y}" fill="white"/>', text(left, 18, title)] + body + ["</svg>", ""])


def paste(path, results):
    """A part of which there are no samples stays as it is."""
    page = path.read_text(encoding="utf-8")
    for mark, part in PARTS.items():
        words = part(results)
        before, begin, rest = page.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- end {mark} -->\n")
        if not begin or not end:
            sys.exit(f"run: {path} has no lines <!-- {mark} --> and <!-- end {mark} -->")
        if words:
            page = f"{before}{begin}\n{words}\n\n{end}{after}"
    path.write_text(page, encoding="utf-8")
