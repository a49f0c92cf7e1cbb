"""The further models in PyTorch, written for speed like torch_models.py: over the whole batch, histories padded to LONGEST."""
import torch
import torch.nn.functional as F
from torch import nn

import shapes
from torch_models import concatenated, mlp

TARGET = 2 * shapes.DIN_DIM


class XDeepFM(nn.Module):
    """A row: the embedding and behind it the id's own weight."""

    def __init__(self, shape):
        super().__init__()
        m = len(shapes.CARDINALITIES)
        below = [m] + shape["cin"]
        self.linear = nn.Linear(shapes.NUMBERS, 1)
        self.cin = nn.ModuleList([nn.Linear(m * a, b, bias=False) for a, b in zip(below, below[1:])])
        self.cin_out = nn.Linear(sum(shape["cin"]), 1, bias=False)
        self.deep = mlp([m * shapes.DIM + shapes.NUMBERS] + shape["hidden"], out=True)

    def forward(self, rows, batch):
        vectors = rows[:, :, :shapes.DIM]
        columns = vectors.transpose(1, 2).contiguous()  # [n, dim, fields]
        x, pooled = columns, []
        for layer in self.cin:
            x = layer((columns[:, :, :, None] * x[:, :, None]).flatten(2))
            pooled.append(x.sum(dim=1))
        linear = rows[:, :, shapes.DIM].sum(dim=1) + self.linear(batch["dense"])[:, 0]
        return linear + self.cin_out(torch.cat(pooled, dim=1))[:, 0] + self.deep(concatenated(vectors, batch))[:, 0]


class MMoE(nn.Module):
    """Experts side by side in the first layer, one product of all of them in each further one."""

    def __init__(self, shape):
        super().__init__()
        inputs = shapes.TASK_FIELDS * shapes.DIM + shapes.TASK_NUMBERS
        self.experts, self.widths = shape["experts"], shape["expert_hidden"]
        self.first = nn.Linear(inputs, self.experts * self.widths[0])
        pairs = list(zip(self.widths, self.widths[1:]))
        self.weights = nn.ParameterList([torch.randn(self.experts, a, b) / a ** 0.5 for a, b in pairs])
        self.biases = nn.ParameterList([torch.zeros(self.experts, 1, b) for _, b in pairs])
        self.gates = nn.Linear(inputs, 2 * self.experts, bias=False)
        self.towers = nn.ModuleList([mlp([self.widths[-1]] + shape["tower"], out=True) for _ in range(2)])

    def forward(self, rows, batch):
        x = concatenated(rows, batch)
        n = len(x)
        gates = self.gates(x).view(n, 2, self.experts).softmax(dim=2)
        y = F.relu(self.first(x)).view(n, self.experts, -1).transpose(0, 1)
        for weight, bias in zip(self.weights, self.biases):
            y = F.relu(torch.baddbmm(bias, y, weight))
        mixed = torch.bmm(gates, y.transpose(0, 1))
        return torch.cat([tower(mixed[:, task]) for task, tower in enumerate(self.towers)], dim=1)

    def loss(self, rows, batch):
        return F.binary_cross_entropy_with_logits(self(rows, batch), batch["labels"], batch["weights"],
                                                  reduction="sum") / len(rows)


class STAR(nn.Module):
    """A domain's rows are taken out by numbers made beforehand."""

    def __init__(self, shape):
        super().__init__()
        inputs = shapes.STAR_FIELDS * shapes.DIM + shapes.TASK_NUMBERS
        widths = [inputs] + shape["hidden"] + [1]
        self.norm = nn.ParameterList([torch.ones(inputs), torch.zeros(inputs)])
        self.own_norm = nn.ParameterList([torch.ones(3, inputs), torch.zeros(3, inputs)])
        pairs = list(zip(widths, widths[1:]))
        self.weights = nn.ParameterList([torch.randn(b, a) / a ** 0.5 for a, b in pairs])
        self.biases = nn.ParameterList([torch.zeros(b) for _, b in pairs])
        self.own_weights = nn.ParameterList([torch.ones(3, b, a) for a, b in pairs])
        self.own_biases = nn.ParameterList([torch.zeros(3, b) for _, b in pairs])
        self.auxiliary = mlp([inputs + 3] + shape["auxiliary_hidden"], out=True)

    def star(self, x, domain):
        x = F.batch_norm(x, None, None, self.norm[0] * self.own_norm[0][domain],
                         self.norm[1] + self.own_norm[1][domain], training=True, eps=1e-5)
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = F.linear(x, weight * self.own_weights[i][domain], bias + self.own_biases[i][domain])
            x = x if i == last else F.relu(x)
        return x

    def forward(self, rows, batch):
        x = concatenated(rows, batch)
        parts = [self.star(x.index_select(0, at), domain) for domain, at in enumerate(batch["domains"])]
        main = torch.cat(parts).index_select(0, batch["domain_place"])
        return (main + self.auxiliary(torch.cat([x, batch["domain"]], dim=1)))[:, 0]


class TwoTower(nn.Module):
    """Softmax over the batch's items, less the logarithm of how often an item was met."""

    def __init__(self, shape):
        super().__init__()
        self.temperature, self.seen = shape["temperature"], None
        hidden, out = shape["hidden"][:-1], shape["hidden"][-1]
        self.user = nn.Sequential(mlp([shapes.DIN_DIM + TARGET] + hidden), nn.Linear(hidden[-1], out))
        self.item = nn.Sequential(mlp([TARGET] + hidden), nn.Linear(hidden[-1], out))

    def forward(self, rows, batch):
        n = len(rows)
        history = rows[:, 3:].reshape(n, shapes.LONGEST, -1)
        mean = torch.bmm(batch["mean"][:, None], history)[:, 0]
        user = F.normalize(self.user(torch.cat([rows[:, 0], mean], dim=1)), dim=1) / self.temperature
        return user, F.normalize(self.item(rows[:, 1:3].flatten(1)), dim=1)

    def before(self, batch):
        """Counts the items."""
        items = batch["items"][:, 0]
        if self.seen is None:
            self.seen = torch.zeros(batch["n_items"], dtype=torch.float32)
        self.seen.index_add_(0, items, torch.ones(len(items)))
        batch["log_q"] = self.seen.index_select(0, items).log_()

    def loss(self, rows, batch):
        user, item = self(rows, batch)
        scores = user @ item.T - batch["log_q"]
        own = scores.diagonal() - scores.logsumexp(dim=1)
        return -(batch["label"] * own).sum() / len(rows)


class DIEN(nn.Module):
    """Without the auxiliary loss. The evolution's inputs are one product over all positions."""

    def __init__(self, shape):
        super().__init__()
        self.interest = nn.GRU(TARGET, TARGET, batch_first=True)
        self.query = nn.Linear(TARGET, TARGET, bias=False)
        self.inputs = nn.Linear(TARGET, 3 * TARGET)
        self.recurrent = nn.Linear(TARGET, 3 * TARGET, bias=False)
        self.deep = mlp([shapes.DIN_DIM + 2 * TARGET] + shape["hidden"], shape["activation"], out=True)

    def forward(self, rows, batch):
        n = len(rows)
        target, keys = rows[:, 1:3].flatten(1), rows[:, 3:].reshape(n, shapes.LONGEST, -1)
        states = self.interest(keys)[0]
        scores = torch.bmm(states, self.query(target)[:, :, None])[:, :, 0]
        scores = scores.masked_fill(batch["mask"] == 0, -1e30).softmax(dim=1) * batch["mask"]
        inputs, h = self.inputs(states).transpose(0, 1), torch.zeros(n, TARGET)
        for x, score in zip(inputs.unbind(0), scores.t()[:, :, None].unbind(0)):  # a score of 0 leaves h as it is
            candidate, update, reset = x.chunk(3, dim=1)
            of_update, of_reset, of_candidate = self.recurrent(h).chunk(3, dim=1)
            u = torch.sigmoid(update + of_update) * score
            g = torch.tanh(candidate + torch.sigmoid(reset + of_reset) * of_candidate)
            h = torch.lerp(h, g, u)
        return self.deep(torch.cat([rows[:, 0], target, h], dim=1))[:, 0]


class DSIN(nn.Module):
    """Sessions of a fixed length: histories end at the last column, so that a session is a row of a view."""

    def __init__(self, shape):
        super().__init__()
        self.length, self.heads = shape["session_length"], shape["heads"]
        self.sessions = shapes.LONGEST // self.length
        self.number, self.position = nn.Parameter(torch.zeros(self.sessions, 1, 1)), nn.Parameter(torch.zeros(self.length, 1))
        self.column = nn.Parameter(torch.zeros(TARGET))
        self.qkv, self.out = nn.Linear(TARGET, 3 * TARGET, bias=False), nn.Linear(TARGET, TARGET, bias=False)
        self.norm, self.norm2 = nn.LayerNorm(TARGET), nn.LayerNorm(TARGET)
        self.feed = nn.Sequential(nn.Linear(TARGET, shape["feed_forward"]), nn.ReLU(), nn.Linear(shape["feed_forward"], TARGET))
        self.inputs = nn.ModuleList([nn.Linear(TARGET, 4 * TARGET) for _ in range(2)])
        self.recurrent = nn.ModuleList([nn.Linear(TARGET, 4 * TARGET, bias=False) for _ in range(2)])
        self.queries = nn.ModuleList([nn.Linear(TARGET, width, bias=False) for width in (TARGET, 2 * TARGET)])
        self.deep = mlp([shapes.DIN_DIM + 4 * TARGET] + shape["hidden"], out=True)

    def lstm(self, direction, x, there):
        inputs = self.inputs[direction](x)
        h = c = torch.zeros(len(x), TARGET)
        states = [None] * self.sessions
        for s in range(self.sessions) if direction == 0 else range(self.sessions - 1, -1, -1):
            i, f, g, o = (inputs[:, s] + self.recurrent[direction](h)).chunk(4, dim=1)
            c = (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)) * there[:, s, None]
            h = torch.sigmoid(o) * torch.tanh(c)
            states[s] = h
        return torch.stack(states, dim=1)

    def activate(self, which, x, target, there):
        scores = torch.bmm(x, self.queries[which](target)[:, :, None])[:, :, 0]
        weights = scores.masked_fill(there == 0, -1e30).softmax(dim=1) * there
        return torch.bmm(weights[:, None], x)[:, 0]

    def forward(self, rows, batch):
        n = len(rows)
        target = rows[:, 1:3].flatten(1)
        x = rows[:, 3:].reshape(n, self.sessions, self.length, TARGET)
        mask = batch["mask"].view(n, self.sessions, self.length)
        x = (x + self.number + self.position + self.column).flatten(0, 1)
        q, k, v = self.qkv(x).view(n * self.sessions, self.length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = (mask.flatten(0, 1) - 1)[:, None, None] * 1e30
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(y))
        x = self.norm2(x + self.feed(x)).view(n, self.sessions, self.length, -1)
        counts = mask.sum(dim=2)
        interest = (x * mask[:, :, :, None]).sum(dim=2) / counts.clamp(min=1)[:, :, None]
        there = (counts > 0).float()
        states = torch.cat([self.lstm(0, interest, there), self.lstm(1, interest, there)], dim=2)
        return self.deep(torch.cat([rows[:, 0], target, self.activate(0, interest, target, there),
                                    self.activate(1, states, target, there)], dim=1))[:, 0]


MODELS = {"xdeepfm": XDeepFM, "mmoe": MMoE, "star": STAR, "two_tower": TwoTower, "dien": DIEN, "dsin": DSIN}
