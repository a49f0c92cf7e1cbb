"""The tables of bench/peers/run and bench/atrec/run: fp32 as it is without bf16x3 and bf16x6 beside it, these judged by the same targets."""
import os
import pathlib
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH / "peers" / "speed"), str(BENCH / "atrec")]

import contenders
import plot
import report
import shapes
import summary
from results import Results

KEYS = [("dcnv2", 512), ("dcnv2", 4096)]


def rate_of_share(model, batch, share):
    """Examples/s that make this share of a peak of 400 GFLOP/s."""
    return share * 400e9 / shapes.flops(model, batch)


def peers(with_bf16x3):
    """A table's samples, bf16x3 of the larger batch alone: 2 times the peer's rate, 0.9 of the peak."""
    results = Results()
    results.machine["amx"] = True
    for model, batch in KEYS:
        fast = rate_of_share(model, batch, 0.9)
        for name, rate in (("fathom", fast / 2), ("fathom-unfactorised", fast * (0.85 if batch == 512 else 0.84) / 0.9),
                           ("fathom-plain", fast / 3), ("pytorch-stacked", fast / 2.004)):
            results.add("table", model, batch, name, {"examples_per_second": rate} | ({} if "py" in name else {"peak": 400.0}))
    for name, rate in ("fathom", 100e3), ("fathom in turns", 105e3), ("fathom in turns, in memory", 110e3), ("pytorch", 50e3):
        results.add("text", "dlrm", 4096, name, {"value": rate})
    results.add("bf16", "dlrm", 4096, "fathom fp32", {"value": 100e3})
    if with_bf16x3:
        results.add("table", *KEYS[1], "fathom-bf16x3", {"examples_per_second": rate_of_share(*KEYS[1], 0.9), "peak": 400.0})
        for name, rate in ("fathom bf16x3", 240e3), ("fathom bf16x3 in turns", 245e3), ("fathom bf16x3 in turns, in memory", 250e3):
            results.add("text", "dlrm", 4096, name, {"value": rate})
        results.add("bf16", "dlrm", 4096, "fathom bf16x3", {"value": 150e3})
    return results


def atrec(with_bf16x3):
    results = Results()
    for name, peer in ("amz-dien", 10e3), ("elm-wdl", 20e3):
        for kind in "text", "memory":
            results.add("speed", name, 512, f"fathom {kind}", {"examples_per_second": 40e3})
            results.add("speed", name, 512, f"pytorch {kind} stacked", {"examples_per_second": peer})
    if with_bf16x3:
        for kind, rate in ("text", 90e3), ("memory", 30e3):
            results.add("speed", "amz-dien", 512, f"fathom bf16x3 {kind}", {"examples_per_second": rate})
    return results


def rows(text, first):
    """Cells of the lines that begin so."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith(f"| {first} |")]


class Peers(unittest.TestCase):
    def test_shares_of_the_peak(self):
        heads, found = (rows(report.markdown(peers(False)), first) for first in ("model", "DCN-V2"))
        first = heads[0].index("share of peak")
        self.assertEqual(heads[0][first:first + 3], ["share of peak", "factorising off", "all products"])
        self.assertEqual(found[0][first:first + 3], ["0.45", "0.85 (>= 0.85)", "0.30"])
        self.assertEqual(found[1][first:first + 3], ["**0.45, short of 0.97**", "**0.84, short of 0.85**", "0.30"])

    def test_fp32_is_as_without(self):
        before, after = (rows(report.markdown(peers(with_bf16x3)), "DCN-V2") for with_bf16x3 in (False, True))
        self.assertEqual(before, [cells[:-3] for cells in after])
        self.assertNotIn("bf16x3", report.markdown(peers(False)) + plot.svg(peers(False)))

    def test_columns_of_bf16x3(self):
        text = report.markdown(peers(True))
        self.assertEqual(rows(text, "model")[0][-3:], ["Fathom, bf16x3", "against the best peer", "share of fp32 peak"])
        small, large = rows(text, "DCN-V2")
        self.assertEqual(small[-3:], ["–"] * 3)
        self.assertEqual(large[-2:], ["2.00 (>= 1.6)", "**0.90, short of 0.97** (>= 0.85)"])
        self.assertIn("Fathom, bf16x3", plot.svg(peers(True)))

    def test_columns_of_bf16x6(self):
        results = peers(True)
        results.add("table", *KEYS[1], "fathom-bf16x6", {"examples_per_second": rate_of_share(*KEYS[1], 0.99), "peak": 400.0})
        text = report.markdown(results)
        self.assertEqual(rows(text, "model")[0][-6::3], ["Fathom, bf16x6", "Fathom, bf16x3"])
        self.assertEqual(rows(text, "DCN-V2")[1][-4], "0.99 (>= 0.85, >= 0.97)")
        self.assertIn("Fathom, bf16x6", plot.svg(results))

    def test_beside_the_table(self):
        text = report.markdown(peers(True))
        self.assertEqual([cells[2:] for cells in rows(text, "DLRM from Criteo text, bf16x3")],
                         [["PyTorch, pandas in a loader process", "50 k examples/s", "4.80 (>= 4)"]])
        self.assertEqual([cells[1:] for cells in rows(text, "DLRM from Criteo text, in turns, bf16x3")],
                         [["245 k examples/s", "Fathom, bf16x3, 600 batches in memory", "250 k examples/s", "0.98 (>= 0.95)"]])
        self.assertEqual([cells[2:] for cells in rows(text, "DLRM, bf16x3")], [["Fathom, fp32", "100 k examples/s", "1.50"]])
        self.assertEqual(rows(text, "DLRM from Criteo text"), rows(report.markdown(peers(False)), "DLRM from Criteo text"))

    def test_text_in_bf16(self):
        """Of PyTorch's fp32 and its bf16 autocast the faster counts, beside bf16 alone."""
        results = peers(False)
        results.add("text", "dlrm", 4096, "fathom bf16", {"value": 300e3})
        for autocast, cells in (None, ["50 k examples/s", "6.00 (>= 4)"]), (40e3, ["50 k examples/s", "6.00 (>= 4)"]), \
                               (80e3, ["60 k examples/s", "5.00 (>= 4)"]):
            if autocast:
                results.add("text", "dlrm", 4096, "pytorch bf16", {"value": autocast})
            text = report.markdown(results)
            self.assertEqual([found[3:] for found in rows(text, "DLRM from Criteo text, bf16")], [cells])
            self.assertEqual(rows(text, "DLRM from Criteo text"), rows(report.markdown(peers(False)), "DLRM from Criteo text"))


class AtRec(unittest.TestCase):
    def test_fp32_is_as_without(self):
        before, after = summary.markdown(atrec(False)), summary.markdown(atrec(True))
        self.assertTrue(after.startswith(before))
        self.assertNotIn("bf16x3", before + summary.svg(atrec(False)))

    def test_a_part_without_samples_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("a\n<!-- atrec -->\nold\n<!-- end atrec -->\nb\n<!-- atrec ablation -->\nkept\n"
                            "<!-- end atrec ablation -->\nc\n")
            summary.paste(page, atrec(False))
            text = page.read_text()
        self.assertIn("| amz-DIEN |", text)
        self.assertNotIn("old", text)
        self.assertTrue(text.endswith("<!-- end atrec -->\nb\n<!-- atrec ablation -->\nkept\n<!-- end atrec ablation -->\nc\n"))

    def test_table_of_bf16x3(self):
        text = summary.markdown(atrec(True))
        self.assertEqual(rows(text, "amz-DIEN")[1], ["amz-DIEN", "512", "90", "9.0 (>= 5)", "30", "**3.0, short of 5**"])
        self.assertEqual(rows(text, "elm-WDL")[1], ["elm-WDL", "512"] + ["–"] * 4)
        self.assertIn("Geometric mean from text: 9.0 (>= 8) times the better peer, of 1 workloads.", text)
        self.assertIn("bf16x3", summary.svg(atrec(True)))

    def test_table_of_bf16(self):
        """PyTorch's autocast is a rival there, and nowhere else."""
        results = atrec(False)
        for name, peer in ("amz-dien", None), ("elm-wdl", 25e3):
            for kind in "text", "memory":
                results.add("speed", name, 512, f"fathom bf16 {kind}", {"examples_per_second": 120e3})
                if peer:
                    results.add("speed", name, 512, f"pytorch-bf16 {kind} compiled", {"examples_per_second": peer})
        text = summary.markdown(results)
        self.assertTrue(text.startswith(summary.markdown(atrec(False)).rstrip("\n")))
        self.assertEqual(rows(text, "amz-DIEN")[1], ["amz-DIEN", "512", "120", "–", "12.0 (>= 5)", "120", "–", "12.0 (>= 5)"])
        self.assertEqual(rows(text, "elm-WDL")[1], ["elm-WDL", "512", "120", "25", "**4.8, short of 5**", "120", "25", "4.8"])


class Measured(unittest.TestCase):
    """With a program in Fathom's place."""

    def ways(self, isa):
        with tempfile.TemporaryDirectory() as work:
            program = os.path.join(work, "fathom")
            with open(program, "w", encoding="utf-8") as out:
                out.write(f"#!/bin/sh\necho 'instruction set in use {isa}'; echo 'FATHOM_MAX_ISA (avx512 or amx-bf16)'\n")
            os.chmod(program, 0o755)
            options = types.SimpleNamespace(fathom=program, work=work, seconds=1, progress=lambda text: None,
                                            contenders=["fathom", "fathom-bf16x6", "fathom-bf16x3"])
            return list(contenders.Field(options, "dlrm").ways), list(contenders.Fathom(options, "dlrm").precisions())

    def test_with_amx_alone(self):
        self.assertEqual(self.ways("avx512, amx-bf16"), (["fathom", "fathom-bf16x6", "fathom-bf16x3"],
                                                            ["fathom", "fathom bf16x3", "fathom bf16"]))
        self.assertEqual(self.ways("avx512, avx512-bf16"), (["fathom"], ["fathom"]))


if __name__ == "__main__":
    unittest.main()
