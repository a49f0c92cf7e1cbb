"""Twins (models.py) of the models that read histories position by position."""
import numpy as np
import torch
import torch.nn.functional as F

from checkpoint import keys_of
from twin import Twin, key

class DIN(Twin):
    """One history: the sequences hist_item and hist_category, compared with item and category."""

    def build(self):
        self.mlp("attention.hist_item", self.model["attention"])
        self.linear("attention.hist_item.out")
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def logit(self):
        offsets = self.batch.offsets["hist_item"]
        example = torch.repeat_interleave(torch.from_numpy(offsets[1:] - offsets[:-1]))
        target = self.embeddings(["item", "category"]).flatten(1)
        keys = torch.cat(self.rows_of(["hist_item", "hist_category"]).chunk(2), dim=1)
        query = target[example]
        x = torch.cat([query, keys, query - keys, query * keys], dim=1)
        x = self.apply_mlp("attention.hist_item", self.model["attention"], x)
        weights = self.apply_linear("attention.hist_item.out", x)
        pooled = torch.zeros(len(offsets) - 1, keys.shape[1], dtype=keys.dtype).index_add(0, example, keys * weights)
        x = torch.cat([self.rows_of(["user"]), target, pooled], dim=1)
        return self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))


class DIEN(Twin):
    """One history: the sequences hist_item and hist_category, with negatives neg_item and neg_category."""

    def build(self):
        for name in ("interest.hist_item", "evolution.hist_item"):
            for part in ("weight", "recurrent"):
                self.weights[key(f"{name}.{part}")] = self.parameter(f"{name}.{part}", np.asarray)
            self.weights[key(f"{name}.bias")] = self.parameter(f"{name}.bias")
        self.weights[key("attention.hist_item")] = self.parameter("attention.hist_item.weight", np.asarray)
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def padded(self, rows, offsets):
        """[examples, longest, n] and which of it is there."""
        lengths = torch.from_numpy(offsets[1:] - offsets[:-1])
        there = torch.arange(int(lengths.max())) < lengths[:, None]
        out = torch.zeros(*there.shape, rows.shape[1], dtype=rows.dtype)
        out[there] = rows
        return out, there

    def recurrent(self, name, x, there, scores=None):
        """Every state; columns of the inputs' weights: candidate, update, reset, of the others: update, reset, candidate."""
        weight, bias, recurrent = (self.weights[key(f"{name}.{part}")] for part in ("weight", "bias", "recurrent"))
        h, states = torch.zeros(len(x), len(recurrent), dtype=x.dtype), []
        for t in range(x.shape[1]):
            inputs = self.shifted(name + ".bias", self.product(name + ".weight", x[:, t], weight), bias)
            candidate, update, reset = inputs.chunk(3, dim=1)
            of_update, of_reset, of_candidate = self.product(name + ".recurrent", h, recurrent).chunk(3, dim=1)
            u = torch.sigmoid(update + of_update)
            if scores is not None:
                u = u * scores[:, t, None]
            g = torch.tanh(candidate + torch.sigmoid(reset + of_reset) * of_candidate)
            h = torch.where(there[:, t, None], (1 - u) * h + u * g, h)
            states.append(h)
        return torch.stack(states, dim=1)

    def auxiliary(self, states, keys, negatives, there):
        """The mean over the examples of an example's mean over its pairs."""
        good = F.softplus(-(states[:, :-1] * keys[:, 1:]).sum(dim=2))
        bad = F.softplus((states[:, :-1] * negatives[:, 1:]).sum(dim=2))
        pairs = there[:, 1:]
        sums = torch.where(pairs, good + bad, torch.zeros((), dtype=good.dtype)).sum(dim=1)
        return (sums / pairs.sum(dim=1).clamp(min=1)).mean() * self.model["auxiliary"]

    def logit(self):
        offsets = self.batch.offsets["hist_item"]
        target = self.embeddings(["item", "category"]).flatten(1)
        keys, there = self.padded(torch.cat(self.rows_of(["hist_item", "hist_category"]).chunk(2), dim=1), offsets)
        negatives, _ = self.padded(torch.cat(self.rows_of(["neg_item", "neg_category"]).chunk(2), dim=1), offsets)
        states = self.recurrent("interest.hist_item", keys, there)
        self.further_loss = self.auxiliary(states, keys, negatives, there)
        query = self.product("attention.hist_item.weight", target, self.weights[key("attention.hist_item")])
        scores = (states * query[:, None]).sum(dim=2)
        some = there.any(dim=1, keepdim=True)  # of an example without positions nothing is used
        scores = torch.where(there | ~some, scores, torch.full((), -np.inf, dtype=scores.dtype)).softmax(dim=1)
        last = self.recurrent("evolution.hist_item", states, there, scores)[:, -1]
        x = torch.cat([self.rows_of(["user"]), target, last], dim=1)
        return self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))


class DSIN(Twin):
    """One history: the sequences hist_item and hist_category, compared with item and category; sessions by length."""

    def build(self):
        name = "session.hist_item"
        self.columns = self.start.dense[f"{name}.column.bias"].size
        for part in ("number.weight", "position.weight", "column.bias"):
            self.take_weights(f"{name}.{part}")
        for part in ("attention.qkv", "attention.out", "interest", "evolved"):
            self.take_weights(f"{name}.{part}.weight", np.asarray)
        for part in ("forward", "backward"):
            self.take_weights(f"{name}.{part}.weight", np.asarray)
            self.take_weights(f"{name}.{part}.recurrent", np.asarray)
            self.take_weights(f"{name}.{part}.bias")
        self.norm(f"{name}.attention.norm", self.columns)
        self.norm(f"{name}.feed_forward.norm", self.columns)
        self.linear(f"{name}.feed_forward.0")
        self.linear(f"{name}.feed_forward.out")
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def take_weights(self, name, convert=np.ravel):
        self.weights[key(name)] = self.parameter(name, convert)

    def part(self, name):
        return self.weights[key("session.hist_item." + name)]

    def times(self, name, x):
        return self.product(f"session.hist_item.{name}", x, self.part(name))

    def plus_number(self, name, x, at):
        """Row i of x plus number at[i] of the parameter."""
        y, numbers = x + self.part(name)[at][:, None], len(self.part(name))
        self.note("session.hist_item." + name, y,
                  lambda d: torch.zeros(numbers, dtype=d.dtype).index_add(0, at, d.sum(dim=1)))
        return y

    def cut(self, offsets):
        """Sessions: of which example, first position, length; counted from the end of an example."""
        most = self.model["session_length"]
        sessions = []
        for example, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
            first = (end - begin) % most
            starts = ([begin] if first else []) + list(range(begin + first, end, most))
            sessions += [(example, start, stop - start) for start, stop in zip(starts, starts[1:] + [end])]
        return np.array(sessions, dtype=np.int64).reshape(-1, 3)

    def attend(self, x, at, inside):
        """Self-attention within sessions; at [sessions, most]: positions, inside: which of them are there."""
        heads = self.model["heads"]
        qkv = self.times("attention.qkv.weight", x)[at]
        q, k, v = (part.view(*at.shape, heads, -1).transpose(1, 2) for part in qkv.chunk(3, dim=2))
        scores = self.rounded(q @ k.transpose(2, 3), q.abs() @ k.abs().transpose(2, 3)) / q.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(~inside[:, None, None, :], -torch.inf), dim=-1)
        y = self.rounded(weights @ v, weights @ v.abs()).transpose(1, 2).flatten(2)[inside]
        return self.times("attention.out.weight", torch.empty_like(x).index_copy(0, at[inside], y))

    def lstm(self, name, x, example, number, count, n_examples):
        """States of all sessions; number: how many sessions of the example come before it."""
        sums = self.shifted(f"session.hist_item.{name}.bias", self.times(name + ".weight", x), self.part(name + ".bias"))
        h = torch.zeros(n_examples, self.columns, dtype=x.dtype)
        c, states = h, torch.zeros(len(x), self.columns, dtype=x.dtype)
        for step in range(count):
            now = torch.nonzero(number == step)[:, 0]
            who = example[now]
            i, f, g, o = (sums[now] + self.times(name + ".recurrent", h[who])).chunk(4, dim=1)
            new_c = torch.sigmoid(f) * c[who] + torch.sigmoid(i) * torch.tanh(g)
            new_h = torch.sigmoid(o) * torch.tanh(new_c)
            c, h = c.index_copy(0, who, new_c), h.index_copy(0, who, new_h)
            states = states.index_copy(0, now, new_h)
        return states

    def add_and_norm(self, name, x, y):
        return self.apply_norm(f"session.hist_item.{name}.norm", self.rounded(x + y, x.abs() + y.abs()))

    def activate(self, name, x, query, example):
        products = self.times(name + ".weight", query)[example] * x
        scores = self.rounded(products.sum(dim=1), products.abs().sum(dim=1))
        n = len(query)
        most = torch.full((n,), -torch.inf, dtype=x.dtype).index_reduce(0, example, scores.detach(), "amax")
        e = torch.exp(scores - most[example])
        weights = e / torch.zeros(n, dtype=x.dtype).index_add(0, example, e)[example]
        weighted = x * weights[:, None]
        return torch.zeros(n, x.shape[1], dtype=x.dtype).index_add(0, example, self.rounded(weighted, weighted.abs()))

    def logit(self):
        target = self.embeddings(["item", "category"]).flatten(1)
        keys = torch.cat(self.rows_of(["hist_item", "hist_category"]).chunk(2), dim=1)
        sessions = self.cut(self.batch.offsets["hist_item"])
        example, start, length = (torch.from_numpy(column.copy()) for column in sessions.T)
        counts = torch.bincount(example, minlength=len(target))
        before = torch.arange(len(example)) - (counts.cumsum(0) - counts)[example]
        behind = counts[example] - 1 - before
        steps = torch.arange(int(length.max()))
        inside = steps[None, :] < length[:, None]
        at = torch.where(inside, start[:, None] + steps, start[:, None])
        position = torch.empty(len(keys), dtype=torch.int64).index_copy(0, at[inside], steps.expand(at.shape)[inside])
        session = torch.repeat_interleave(length)
        number = behind.clamp(max=self.model["sessions"] - 1)[session]
        x = self.plus_number("position.weight", self.plus_number("number.weight", keys, number), position)
        x = self.shifted("session.hist_item.column.bias", x, self.part("column.bias"))
        x = self.add_and_norm("attention", x, self.attend(x, at, inside))
        y = self.activation("session.hist_item.feed_forward.0", self.apply_linear("session.hist_item.feed_forward.0", x))
        y = self.apply_linear("session.hist_item.feed_forward.out", y)
        x = self.add_and_norm("feed_forward", x, y)
        none = torch.zeros(len(length), self.columns, dtype=x.dtype)
        interest = self.rounded(none.index_add(0, session, x), none.index_add(0, session, x.abs())) / length[:, None]
        most = int(counts.max())
        states = torch.cat([self.lstm("forward", interest, example, before, most, len(target)),
                            self.lstm("backward", interest, example, behind, most, len(target))], dim=1)
        x = torch.cat([self.rows_of(["user"]), target, self.activate("interest", interest, target, example),
                       self.activate("evolved", states, target, example)], dim=1)
        return self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))


class ATBRG(Twin):
    """Target item, history hist_item; relations "target:history" or "target:history:head". Rows of nodes are the
    target's of all examples, then all positions'."""

    def build(self):
        self.relations = [(text.split(":") + ["item"])[:3] for text in self.model["relations"]]
        self.beyond = {}  # a head's relations
        for target, _, head in self.relations:
            self.beyond.setdefault(head, []).append(target)
        for head, targets in self.beyond.items():
            for name in (f"graph.{target}" for target in targets):
                self.weights[key(name)] = self.parameter(name + ".message.weight", np.asarray)
                if len(targets) > 1:
                    self.linear(name + ".attention")
                    self.linear(name + ".score")
            self.linear(f"graph.{head}.out")
        self.weights["activation"] = self.parameter("graph.hist_item.activation.weight", np.asarray)
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def kept(self, offsets):
        """Relation -> which nodes' entities another node has, too, or lead to such a one."""
        kept = {}
        for target, history, _ in self.relations:
            targets, positions = self.batch.keys[target], self.batch.keys[history]
            of_targets, of_positions = np.zeros(len(targets), bool), np.zeros(len(positions), bool)
            for i, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
                nodes = np.append(positions[begin:end], targets[i])
                shared = ((nodes[:, None] == nodes).sum(axis=1) > 1) & (nodes != keys_of(self.table_of[target], [""]))
                of_positions[begin:end], of_targets[i] = shared[:-1], shared[-1]
            kept[target] = torch.from_numpy(np.append(of_targets, of_positions))
        for target, _, head in reversed(self.relations):
            if head in kept:
                kept[head] |= kept[target]
        return kept

    def extract(self, head, nodes, kept):
        targets, node = self.beyond[head], nodes[head]
        weights = torch.stack([kept[target] for target in targets], dim=1).to(node.dtype)
        if len(targets) > 1:
            scores = [self.apply_linear(f"graph.{target}.score", torch.tanh(self.apply_linear(
                f"graph.{target}.attention", torch.cat([node, nodes[target]], dim=1)))) for target in targets]
            weights = weights * (torch.cat(scores, dim=1) + (weights - 1) * 1e9).softmax(dim=1)
        messages = torch.stack([self.product(f"graph.{target}.message.weight", nodes[target],
                                             self.weights[key(f"graph.{target}")]) for target in targets], dim=1)
        near = (weights[:, :, None] * messages).sum(dim=1)
        return torch.tanh(self.apply_linear(f"graph.{head}.out", torch.cat([node, near], dim=1)))

    def logit(self):
        offsets, n = self.batch.offsets["hist_item"], len(self.batch.label)
        histories = {"item": "hist_item"} | {target: history for target, history, _ in self.relations}
        nodes = {target: torch.cat([self.rows_of([target]), self.rows_of([history])])
                 for target, history in histories.items()}
        plain = [nodes[field][:n] for field in self.fields if field in nodes]
        kept = self.kept(offsets)
        for head in reversed(self.beyond):
            nodes[head] = self.extract(head, nodes, kept)
        target, items, example = nodes["item"][:n], nodes["item"][n:], self.examples("hist_item")
        query = self.product("graph.hist_item.activation.weight", target, self.weights["activation"])
        scores = (query[example] * items).sum(dim=1)
        most = torch.full((n,), -torch.inf, dtype=scores.dtype).index_reduce(0, example, scores.detach(), "amax")
        e = torch.exp(scores - most[example])
        weights = e / torch.zeros(n, dtype=e.dtype).index_add(0, example, e)[example]
        history = torch.zeros_like(target).index_add(0, example, items * weights[:, None])
        x = torch.cat([self.rows_of(["user"]), *plain, target, history], dim=1)
        return self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))


class CAN(Twin):
    """Pairs of model.co_action; the induction's field has one value an example, the feed's may be a list."""

    def build(self):
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def co_action(self, weights, x, example):
        """A row of weights is layers' matrices and biases; x: a row an example or position."""
        outputs = []
        for order in range(1, self.model["co_action_orders"] + 1):
            h, at, layers = x ** order, 0, self.model["co_action_layers"]
            for i, width in enumerate(layers):
                n = h.shape[1]
                matrix = weights[:, at:at + n * width].view(-1, n, width)
                bias = weights[:, at + n * width:at + (n + 1) * width]
                at += (n + 1) * width
                h = torch.bmm(h[:, None], matrix[example])[:, 0] + bias[example]
                h = torch.tanh(h) if i + 1 < len(layers) else h
                outputs.append(h)
        outputs = torch.cat(outputs, dim=1)
        return torch.zeros(len(weights), outputs.shape[1], dtype=outputs.dtype).index_add(0, example, outputs)

    def logit(self):
        inductions, feeds, units = {}, {}, []
        for induction, feed in (pair.split(":") for pair in self.model["co_action"]):
            if induction not in inductions:
                inductions[induction] = self.rows_of([induction], ".co_action")
            if feed not in feeds:
                feeds[feed] = self.rows_of([feed], ".feed")
            units.append(self.co_action(inductions[induction], feeds[feed], self.examples(feed)))
        embeddings = [self.pooled(field) for field in self.fields]
        x = torch.cat(self.by_dimension(embeddings) + units + [self.floats], dim=1)
        return self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))
