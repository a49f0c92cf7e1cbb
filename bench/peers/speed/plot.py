"""The table as a picture: a panel a batch size, bars of examples/s a model as multiples of the best peer."""
from html import escape

import report
import shapes

LABELS = {"fathom": "Fathom", "fathom-unfactorised": "Fathom, factorising off", "fathom-plain": "Fathom, all products",
          **{name: f"Fathom, {precision}" for name, precision in report.SPLIT.items()},
          "pytorch-bags": "PyTorch, a bag a field", "pytorch-stacked": "PyTorch, one table",
          "pytorch-compiled": "PyTorch, torch.compile", "tensorflow": "TensorFlow"}
COLOURS = {"fathom": "#0b5fa5", "fathom-unfactorised": "#4487c2", "fathom-plain": "#7fb2dd",
           "fathom-bf16x6": "#2f7d6b", "fathom-bf16x3": "#7cc4a4",
           "pytorch-bags": "#f3c98b", "pytorch-stacked": "#e89b3f", "pytorch-compiled": "#c0651a", "tensorflow": "#8a8f98"}
BAR, GAP, LEFT, WIDTH, LEGEND, COLUMNS = 13, 16, 100, 860, 20, 3


def text(x, y, words, extra=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {extra}>{escape(words)}</text>'


def legend(names):
    out = []
    for i, name in enumerate(names):
        x, y = LEFT + (i % COLUMNS) * 240, 30 + (i // COLUMNS) * LEGEND
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLOURS[name]}"/>')
        out.append(text(x + 18, y + 11, LABELS[name]))
    return out


def bars(case, names, y, scale):
    """A model's group of bars; lengths are examples/s over the best peer's, the figures examples/s."""
    out, best = [], max((case.rates[n] for n in report.PEERS if case.rates[n]), default=None)
    best = best or max(rate for rate in case.rates.values() if rate)
    shown = [name for name in names if case.rates[name]]
    out.append(text(LEFT - 8, y + len(shown) * BAR / 2 + 4, report.TITLES[case.model], 'text-anchor="end"'))
    for i, name in enumerate(shown):
        length = case.rates[name] / best * scale
        out.append(f'<rect x="{LEFT}" y="{y + i * BAR}" width="{length:.1f}" height="{BAR - 2}" '
                   f'fill="{COLOURS[name]}"/>')
        out.append(text(LEFT + length + 5, y + i * BAR + 10, f"{case.rates[name] / 1e3:.1f}", 'font-size="10"'))
    return out, len(shown) * BAR + GAP


def svg(results):
    cases = [case for case in report.cases_of(results) if case.model in shapes.MODELS]
    names = [name for name in LABELS if any(case.rates[name] for case in cases)]
    longest = max(max(r for r in case.rates.values() if r)
                  / (max((case.rates[n] for n in report.PEERS if case.rates[n]), default=0) or max(
                      r for r in case.rates.values() if r)) for case in cases)
    scale = (WIDTH - LEFT - 60) / longest
    body, y = legend(names), 36 + -(-len(names) // COLUMNS) * LEGEND
    for batch in sorted({case.batch for case in cases}):
        body.append(text(LEFT, y + 14, f"batch {batch}", 'font-weight="bold"'))
        y, first = y + 26, y + 22
        for case in cases:
            if case.batch == batch:
                drawn, height = bars(case, names, y, scale)
                body, y = body + drawn, y + height
        body.append(f'<line x1="{LEFT + scale:.1f}" x2="{LEFT + scale:.1f}" y1="{first}" y2="{y - GAP + 2}" '
                    'stroke="#444" stroke-dasharray="3 3"/>')
    title = "Bars: examples/s as a multiple of the best peer (dashed). Figures: thousand examples/s."
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
                      f'height="{y}" font-family="sans-serif" font-size="12" fill="#222">',
                      f'<rect width="{WIDTH}" height="{y}" fill="white"/>', text(LEFT, 18, title)] + body
                     + ["</svg>", ""])
