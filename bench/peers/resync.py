"""Each step of Fathom alone: the twin takes all of its state from Fathom's checkpoint before every step.

Free-running curves of equal programs part where a rounding decides something (the kink of ReLU, the sign of a gradient of
almost nothing). So here nothing runs on: step k is computed from Fathom's checkpoint k - 1, by the twin in float32 and by
the twin in float64, the referee, and compared with Fathom's loss of step k and with all of its checkpoint k.

    checkpoint k-1 ---> Fathom's step, float32  ---> checkpoint k
                  \\---> PyTorch's step, float32 ---> its state       each measured against
                   \\--> PyTorch's step, float64 ---> gradients       the float64 gradients

How a state is measured: the smallest c such that every weight and every slot after the step lies between what the
optimizer makes of the float64 gradient - c u s and + c u s, where u is 2^-24, a rounding, and s the largest sum of absolute
terms of that gradient in its tensor (in a table: in its row). If that takes c beyond LIMIT, s becomes what the gradient
differs by, in u, when the referee's own sums are moved by a rounding of their terms and the sums' gradients by one of theirs: an attention weight that is the
small difference of large terms makes all of a row's gradient inexact. So an optimizer that blows up a rounding is allowed for by
its own formula, not by a looser tolerance. What the step has no business with must not change at all: rows outside the batch.

ReLU: a unit whose float64 sum lies within ROUNDINGS of 0 (of its terms' absolute sum) may come out on either side in
float32. PyTorch's side is known, and must differ from the referee's in such units only. Fathom's is found: if no c up to
LIMIT explains its state, such units are switched in the referee, the most helpful one first."""
import numpy as np
import torch
import torch.nn.functional as F

import optimizers
from checkpoint import Checkpoint
from models import TWINS
from twin import key

ROUNDING = 2.0 ** -24
ROUNDINGS = 32
LIMIT = 64.0
NOISES = 4
LEVELS = 2.0 ** np.arange(-3, 13)
SLOTS = {"sgd": [], "adagrad": ["adagrad.sum"], "adam": ["adam.m", "adam.v"]}


class State:
    """All that a step changes, in the twin's shapes: {"w": weights, slot: its values} for every parameter, then every
    table; rows in the order of the start's. A row that no batch has read yet has its first value."""

    def __init__(self, twin, section, checkpoint=None):
        start, roles = twin.start, SLOTS[section["name"]]
        first = np.float32(section.get("initial_accumulator", 0))
        dense = checkpoint.dense if checkpoint else start.dense
        self.step = checkpoint.step if checkpoint else 0
        self.tensors, self.last_step = [], []
        for name, (parameter, convert) in twin.dense.items():
            values = {"w": convert(dense[name])}
            for role in roles:
                values[role] = (convert(dense[f"{name}/{role}"]) if checkpoint
                                else np.full(values["w"].shape, first))
            self.tensors.append(values)
        for number, pack in enumerate(start.packs):
            values = {"w": pack.weights.copy()} | {role: np.full(pack.weights.shape, first) for role in roles}
            last = np.zeros(len(pack.weights), np.int64)
            if checkpoint:
                saved, to = checkpoint.packs[number], np.empty(len(checkpoint.packs[number].weights), np.int64)
                for table, (keys, rows) in saved.sorted.items():
                    to[rows] = pack.rows(table, keys)
                values["w"][to] = saved.weights
                for role in roles:
                    values[role][to] = saved.slots[role]
                last[to] = saved.last_step
            self.tensors.append(values)
            self.last_step.append(last)
        self.moments = {name: value if checkpoint else np.full(value.shape, float(name.endswith("variance")))
                        for name, value in dense.items() if "running_" in name}


class Stepper:
    """A twin and its optimizers."""

    def __init__(self, start, config, referee=False):
        self.twin = TWINS[config["model"]["name"]](start, config)
        if referee:
            self.twin.double()
        self.parameters = [parameter for parameter, _ in self.twin.dense.values()]
        self.tables = self.twin.row_parameters()
        self.names = list(self.twin.dense) + [f"table of dimension {t.shape[1]}" for t in self.tables]
        self.dense = optimizers.make(config["optimizer"]["dense"], self.parameters, rows=False)
        self.rows = optimizers.make(config["optimizer"]["sparse"], self.tables, rows=True)
        self.roles = SLOTS[config["optimizer"]["dense"]["name"]]

    def load(self, state):
        with torch.no_grad():
            for tensor, values in zip(self.parameters + self.tables, state.tensors):
                tensor.copy_(torch.from_numpy(values["w"]))
        n = len(self.parameters)
        for optimizer, part in (self.dense, state.tensors[:n]), (self.rows, state.tensors[n:]):
            optimizer.load(state.step, [[values[role] for role in self.roles] for values in part])

    def gradients(self, batch):
        loss = self.twin.loss(batch)
        self.dense.zero_grad()
        self.rows.zero_grad()
        loss.backward()
        return loss.item()

    def step(self, batch):
        loss = self.gradients(batch)
        self.dense.step(None)
        self.rows.step(self.twin.touched)
        return loss

    def state(self):
        slots = self.dense.slots() + self.rows.slots()
        return [{"w": tensor.detach().numpy()} | {role: s.numpy() for role, s in zip(self.roles, of)}
                for tensor, of in zip(self.parameters + self.tables, slots)]


class Referee(Stepper):
    """The step in float64 from a state: gradients, the sums of their terms, units near the kink."""

    def __init__(self, start, config):
        super().__init__(start, config, referee=True)
        self.twin.noting = True

    def compute(self, batch, flips=()):
        self.twin.flips = {}
        for name, example, unit in flips:
            self.twin.flips.setdefault(name, []).append((example, unit))
        self.loss = self.gradients(batch)
        scales = self.scales_of_dense()
        self.g = [p.grad.numpy().copy() for p in self.parameters]
        self.scale = [np.asarray(scales[name]) for name in self.twin.dense]
        self.touched = []
        for table, lookups, found in zip(self.tables, self.twin.touched, self.twin.found):
            if not lookups:  # rows that are only counted
                self.touched.append(np.empty(0, np.int64))
                self.g.append(np.empty((0, table.shape[1])))
                self.scale.append(np.empty((0, 1)))
                continue
            lookups = torch.cat(lookups).numpy()
            rows, at = np.unique(lookups, return_inverse=True)
            sums = np.zeros(len(rows))
            np.add.at(sums, at, np.concatenate([f.grad.abs().amax(dim=1).numpy() for f in found]))
            self.touched.append(rows)
            self.g.append(table.grad.numpy()[rows])
            self.scale.append(sums[:, None])
        self.signs = dict(self.twin.signs)

    def widen(self, batch):
        """Scales by what a rounding in each of the referee's own sums does to the gradients."""
        draws, twin = torch.Generator().manual_seed(1), self.twin
        noted = twin.linears, twin.norms, twin.dices, twin.notes, twin.units
        twin.noting, twin.sides = False, self.signs
        twin.noise = lambda terms: ROUNDING * terms * (
            torch.randint(0, 2, terms.shape, generator=draws) * 2 - 1)
        for _ in range(NOISES):
            self.gradients(batch)
            moved = [p.grad.numpy() for p in self.parameters]
            moved += [t.grad.numpy()[rows] if len(rows) else self.g[len(self.parameters) + i]
                      for i, (t, rows) in enumerate(zip(self.tables, self.touched))]
            for i, g in enumerate(moved):
                axis = None if i < len(self.parameters) else 1
                apart = np.abs(g - self.g[i]).max(axis=axis, keepdims=axis is not None) / ROUNDING
                self.scale[i] = np.maximum(self.scale[i], apart)
        twin.noting, twin.sides, twin.noise = True, None, None
        twin.linears, twin.norms, twin.dices, twin.notes, twin.units = noted

    def scales_of_dense(self):
        scales = {}
        for name, (x, y) in self.twin.linears.items():
            d = y.grad.abs()
            scales[name + ".weight"] = (d.T @ x.abs()).max().item()
            scales[name + ".bias"] = d.sum(dim=0).max().item()
        for name, (x, y) in self.twin.norms.items():
            scales[name + ".scale"] = (F.layer_norm(x, x.shape[1:], eps=1e-5) * y.grad).abs().sum(dim=0).max().item()
            scales[name + ".shift"] = y.grad.abs().sum(dim=0).max().item()
        for name, pairs in self.twin.notes.items():
            scales[name] = sum(sums(y.grad.abs()) for y, sums in pairs).max().item()
        for name, (x, p, y) in self.twin.dices.items():
            scales[name + ".slope"] = ((1 - p) * x * y.grad).abs().sum(dim=0).max().item()
        return scales

    def sums(self, name):
        """A layer's pre-activations and the absolute sums of their terms."""
        if name in self.twin.units:
            return self.twin.units[name]
        x, y = self.twin.linears[name]
        terms, z = self.twin.terms(name, x), y.detach()
        if name + ".norm" in self.twin.norms:
            norm, out = self.twin.layers[key(name + ".norm")], self.twin.norms[name + ".norm"][1]
            deviation = (z.var(dim=1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            terms = (terms + terms.mean(dim=1, keepdim=True)) / deviation * norm.weight.detach().abs()
            terms, z = terms + norm.bias.detach().abs(), out.detach()
        return z, terms

    def near_kink(self):
        """(layer, example, unit) -> |z| as a share of its terms."""
        near = {}
        for name in self.signs:
            z, terms = self.sums(name)
            share = z.abs() / terms
            for example, unit in torch.nonzero(share <= ROUNDINGS * ROUNDING).tolist():
                near[name, example, unit] = share[example, unit].item()
        return near


# ---- what an optimizer makes of a gradient: {role: (value, what its roundings are measured by)} ----

def number(x):
    return float(np.float32(x))


def rule_sgd(section, step, before, g):
    moved = number(section["lr"]) * g
    w = before["w"] - moved
    return {"w": (w, np.abs(w) + 8 * np.abs(moved))}, []


def rule_adagrad(section, step, before, g):
    total = before["adagrad.sum"] + g * g
    moved = number(section["lr"]) * g / (np.sqrt(total) + number(section["eps"]))
    w = before["w"] - moved
    return {"w": (w, np.abs(w) + 8 * np.abs(moved)), "adagrad.sum": (total, 3 * total)}, [np.zeros(())]


def rule_adam(section, step, before, g):
    beta1, beta2 = number(0.9), number(0.999)
    rate, root = number(section["lr"]) / (1 - beta1 ** step), np.sqrt(1 - beta2 ** step)
    kept, new = beta1 * before["adam.m"], (1 - beta1) * g
    m, v = kept + new, beta2 * before["adam.v"] + (1 - beta2) * g * g
    divisor = np.sqrt(v) / root + number(section["eps"])
    w = before["w"] - rate * m / divisor
    with np.errstate(divide="ignore", invalid="ignore"):  # where m / sqrt(v) is largest in g
        peak = np.nan_to_num((1 - beta1) * beta2 * before["adam.v"] / (kept * (1 - beta2)), posinf=0, neginf=0)
    moved = rate * (np.abs(kept) + np.abs(new)) / divisor
    return {"w": (w, np.abs(w) + 8 * moved), "adam.m": (m, 3 * (np.abs(kept) + np.abs(new))),
            "adam.v": (v, 3 * v)}, [np.zeros(()), peak]


RULES = {"sgd": rule_sgd, "adagrad": rule_adagrad, "adam": rule_adam}


def explains(section, step, before, after, g, error):
    """Which elements lie where gradients within the error would put them."""
    rule = RULES[section["name"]]
    turns = rule(section, step, before, g)[1]
    ok = np.ones(g.shape, bool)
    made = [rule(section, step, before, at)[0]
            for at in [g, g - error, g + error] + [np.clip(turn, g - error, g + error) for turn in turns]]
    for role in after:
        low = np.minimum.reduce([m[role][0] - ROUNDING * m[role][1] for m in made])
        high = np.maximum.reduce([m[role][0] + ROUNDING * m[role][1] for m in made])
        ok &= (after[role] >= low) & (after[role] <= high)
    return ok


def needed(section, step, before, after, g, scale):
    """The smallest of LEVELS that explains all elements."""
    scale = np.broadcast_to(scale, g.shape).ravel()
    before, after = ({role: v.astype(np.float64).ravel() for role, v in s.items()} for s in (before, after))
    g = g.ravel()
    for level in LEVELS:
        left = ~explains(section, step, before, after, g, level * ROUNDING * scale)
        if not left.any():
            return level
        g, scale = g[left], scale[left]
        before, after = ({role: v[left] for role, v in s.items()} for s in (before, after))
    return np.inf


class Run:
    """One model and optimizer: 200 steps, each from Fathom's checkpoint; beside it the free-running twins."""

    def __init__(self, config, start, batches, losses, directory):
        section = config["optimizer"]["dense"]
        if section["name"] == "adam":  # Fathom has its decays as floats
            section = section | {"betas": [number(0.9), number(0.999)]}
        config = config | {"optimizer": {"dense": section, "sparse": section}}
        self.section, self.batches, self.losses, self.directory = section, batches, losses, directory
        self.referee, self.single = Referee(start, config), Stepper(start, config)
        self.free, self.free64 = Stepper(start, config), Stepper(start, config, referee=True)
        self.faults, self.kinks, self.kinks_of_single, self.jumps = [], [], 0, []
        self.ours = self.theirs = self.loss_apart = 0.0
        self.curves, self.parted = {"float32": [], "float64": []}, {}

    def all(self):
        before = State(self.referee.twin, self.section)
        for i, batch in enumerate(self.batches):
            after = State(self.referee.twin, self.section, Checkpoint(self.directory, i + 1))
            self.one(batch, before, after)
            before = after

    def measure(self, batch, after, before):
        """The largest c of all tensors, and the tensor; by wider scales where that is needed."""
        worst = self.measure_once(after, before)
        if worst[0] > LIMIT:
            self.referee.widen(batch)
            worst = self.measure_once(after, before)
        return worst

    def measure_once(self, after, before):
        worst, n = (0.0, ""), len(self.referee.parameters)
        for i, name in enumerate(self.referee.names):
            rows = self.referee.touched[i - n] if i >= n else slice(None)
            c = needed(self.section, before.step + 1, {r: v[rows] for r, v in before.tensors[i].items()},
                       {r: v[rows] for r, v in after[i].items()}, self.referee.g[i], self.referee.scale[i])
            worst = max(worst, (c, name))
        return worst

    def fault(self, step, text):
        self.faults.append(f"step {step}: {text}")

    def one(self, batch, before, after):
        step = before.step + 1
        for stepper in (self.single, self.referee):
            stepper.load(before)
        loss = self.single.step(batch)
        self.loss_apart = max(self.loss_apart, abs(loss - self.losses[before.step]) / abs(loss))
        self.referee.compute(batch)
        near = self.referee.near_kink()
        self.compare_twin(step, batch, before, near)
        self.compare_fathom(step, batch, before, after, near)
        self.compare_rest(step, before, after)
        self.run_free(step, batch)

    def compare_twin(self, step, batch, before, near):
        flips = [(name, *at) for name, on in self.single.twin.signs.items()
                 for at in torch.nonzero(on != self.referee.signs[name]).tolist()]
        for flip in set(flips) - set(near):
            self.fault(step, f"PyTorch's {flip} is on the other side of 0, and not by rounding")
        if flips:
            self.referee.compute(batch, flips)
        self.kinks_of_single += len(flips)
        self.theirs = max(self.theirs, self.measure(batch, self.single.state(), before)[0])
        self.referee.compute(batch)

    def compare_fathom(self, step, batch, before, after, near):
        flips, left = [], list(near)
        c, name = self.measure(batch, after.tensors, before)
        while c > LIMIT and left:
            tried = []
            for unit in left:
                self.referee.compute(batch, flips + [unit])
                tried.append((*self.measure(batch, after.tensors, before), unit))
            best = min(tried)
            if best[0] >= c:
                break
            c, name = best[:2]
            flips.append(best[2])
            left.remove(best[2])
        if near:
            self.referee.compute(batch, flips)
        self.kinks += [(step, flip, near[flip]) for flip in flips]
        self.ours = max(self.ours, c)
        if c > LIMIT:
            self.fault(step, f"Fathom's {name} is {c:g} roundings off, {len(near)} units near 0")
        self.note_jumps(step, before, after)

    def note_jumps(self, step, before, after):
        """Weights that two steps from the same state move apart by a thousandth of the largest move of their tensor."""
        n = len(self.referee.parameters)
        for i, twin in enumerate(self.single.state()):
            rows = self.referee.touched[i - n] if i >= n else slice(None)
            if i >= n and not len(rows):
                continue
            old, ours, theirs = (s["w"][rows] for s in (before.tensors[i], after.tensors[i], twin))
            apart = np.abs(ours - theirs)
            far = np.argwhere(apart > 1e-3 * np.abs(theirs - old).max() + 2 * ROUNDING * np.abs(old))
            if len(far):
                at = tuple(max(far.tolist(), key=lambda at: apart[tuple(at)]))
                scale = np.broadcast_to(self.referee.scale[i], old.shape)[at]
                self.jumps.append((step, self.referee.names[i], len(far), apart[at], self.referee.g[i][at], scale))

    def compare_rest(self, step, before, after):
        """What a step must leave alone, and running moments."""
        n = len(self.referee.parameters)
        for i, rows in enumerate(self.referee.touched):
            others = np.ones(len(after.last_step[i]), bool)
            others[rows] = False
            for role, values in after.tensors[n + i].items():
                if not np.array_equal(values[others], before.tensors[n + i][role][others]):
                    self.fault(step, f"{role} of rows outside the batch changed")
            if not len(rows):
                continue  # only counted
            if not (after.last_step[i][rows] == step).all() or (after.last_step[i][others] == step).any():
                self.fault(step, "rows of the step are not the batch's")
        for name, (x, _, _) in self.referee.twin.dices.items():
            for kind, now in ("mean", x.mean(dim=0)), ("variance", x.var(dim=0)):
                old = before.moments[f"{name}.dice.running_{kind}"].ravel().astype(np.float64)
                new = after.moments[f"{name}.dice.running_{kind}"].ravel()
                size = x.abs().max().item() ** (1 if kind == "mean" else 2) + np.abs(old).max()
                if np.abs(new - (old + 0.1 * (now.numpy() - old))).max() > 16 * ROUNDING * size:
                    self.fault(step, f"running {kind} of {name}")

    def run_free(self, step, batch):
        """The free-running twins' step; notes where one first has a unit on the other side of 0 than Fathom."""
        for kind, stepper in ("float32", self.free), ("float64", self.free64):
            self.curves[kind].append(stepper.step(batch))
            units = [(name, *at) for name, on in stepper.twin.signs.items()
                     for at in torch.nonzero(on != self.referee.signs[name]).tolist()]
            if units and kind not in self.parted:
                name, example, unit = units[0]
                z, terms = (x[example, unit].item() for x in self.referee.sums(name))
                self.parted[kind] = step, f"{name}, unit {unit}, example {example}", z, abs(z) / terms

    def apart(self, kind, curve=None):
        """How far Fathom's curve, or another, is from a free-running twin's, relative."""
        curve, twin = np.array(self.losses if curve is None else curve), np.array(self.curves[kind])
        return np.abs(curve - twin) / np.abs(twin)

    def check_free(self, tolerance):
        """A free curve that parts does so after an event that is known."""
        beyond = np.nonzero(self.apart("float32") > tolerance)[0]
        events = [self.parted[kind][0] for kind in ("float32",) if kind in self.parted]
        events += [jump[0] for jump in self.jumps]
        if len(beyond) and not (events and min(events) <= beyond[0] + 1):
            self.fault(beyond[0] + 1, "the free-running curves part without a unit at its kink before")

    def events(self):
        """What the differences come from, for people."""
        for step, (name, example, unit), share in self.kinks:
            yield f"step {step}: Fathom rounds {name}, unit {unit}, example {example} to the other side: {share:.1e} of its terms"
        for kind, (step, unit, z, share) in self.parted.items():
            yield f"step {step}: free-running {kind} is on the other side at {unit}: z = {z:.1e}, {share:.1e} of its terms"
        for step, name, count, apart, g, scale in self.jumps[:1]:
            yield (f"step {step}: {count} weights of {name} move otherwise, by up to {apart:.1e}: "
                   f"gradient {g:.1e}, its terms {scale:.1e}; {len(self.jumps)} such tensors in all steps")
