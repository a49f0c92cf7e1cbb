"""DIEN in PyTorch as Fathom's configuration describes it (Zhou et al. 2019, sections 4.2 and 4.3), written for speed: positions
are packed by time, those of the longest histories first, so that nothing is computed for what is not there; the first GRU
is nn.GRU, the products of the second one's inputs are made for all positions at once, outside of the loop over time."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence

import torch_models
import torch_steps


def pack(history, length):
    """history [positions, 2] ragged by example, length [n] -> what a step reads, in order of time."""
    n, ends = len(length), length.cumsum(0)
    sorted_, order = torch.sort(length, descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(n)
    example = torch.repeat_interleave(length)
    time = torch.arange(len(history)) - (ends - length)[example]
    place = torch.argsort(time * n + rank[example])
    sizes = torch.bincount(time) if len(time) else torch.zeros(0, dtype=torch.int64)
    begins = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)[:-1]])
    row = torch.arange(len(history)) - torch.repeat_interleave(begins, sizes)
    running = torch.repeat_interleave(sizes, sizes)
    later = torch.repeat_interleave(torch.cat([sizes[1:], sizes.new_zeros(1)]), sizes)
    before = (row < later).nonzero()[:, 0]
    return {"history": history[place], "example": example[place], "sizes": sizes, "order": order, "rank": rank,
            "before": before, "after": before + running[before], "pairs": (length - 1).clamp(min=1)[example[place][before]]}


def cell(h, x, attention, u):
    """Equations 2 to 4 of the paper, the update gate scaled by the attention (equation 15)."""
    gates, width = h @ u[:, :2 * h.shape[1]] + x[:, :2 * h.shape[1]], h.shape[1]
    update, reset = torch.sigmoid(gates).chunk(2, 1)
    update = update * attention
    candidate = torch.tanh(torch.addmm(x[:, 2 * width:], reset * h, u[:, 2 * width:]))
    return h + update * (candidate - h)


class DIEN(nn.Module):
    def __init__(self, reading, compiled):
        super().__init__()
        model, dim = reading["model"], reading["dim"]
        self.width, self.auxiliary = dim * len(reading["history"]), model.get("auxiliary", 1.0)
        self.others = len(reading["keys"]) - len(reading["history"])
        self.extractor = nn.GRU(self.width, self.width)
        self.query = nn.Linear(self.width, self.width)
        self.inputs = nn.Linear(self.width, 3 * self.width)
        self.recurrent = nn.Parameter(torch.empty(self.width, 3 * self.width).uniform_(-0.1, 0.1))
        self.deep = torch_models.mlp([self.others * dim + 2 * self.width] + model["hidden"], model["activation"], out=True)
        self.cell = torch.compile(cell, dynamic=True) if compiled else cell

    def evolve(self, states, attention, sizes, n):
        x, h = self.inputs(states), states.new_zeros(int(sizes[0]) if len(sizes) else 0, self.width)
        ended, first = [states.new_zeros(n - len(h), self.width)], 0
        for size in sizes.tolist():
            if size < len(h):
                ended.append(h[size:])
                h = h[:size]
            h = self.cell(h, x[first:first + size], attention[first:first + size, None], self.recurrent)
            first += size
        return torch.cat([h] + ended[::-1])

    def forward(self, rows, batch):
        n = len(batch["label"])
        single, keys = rows[:n * batch["keys"].shape[1]].view(n, -1), rows[n * batch["keys"].shape[1]:].view(-1, self.width)
        target = single[:, -self.width:]
        states = self.extractor(PackedSequence(keys, batch["sizes"]))[0].data
        before, following = states[batch["before"]], keys[batch["after"]]
        absent = following.roll(int(torch.randint(1, max(2, len(following)), ())), 0)
        auxiliary = (F.softplus(-(before * following).sum(1)) + F.softplus((before * absent).sum(1))) / batch["pairs"]
        scores = (states * self.query(target)[batch["example"]]).sum(1)
        powers = torch.exp(scores - scores.detach().max())
        attention = powers / powers.new_zeros(n).index_add(0, batch["example"], powers)[batch["example"]]
        last = self.evolve(states, attention, batch["sizes"], n)[batch["rank"]]
        logit = self.deep(torch.cat([single, last], 1))[:, 0]
        return F.binary_cross_entropy_with_logits(logit, batch["label"]) + self.auxiliary * auxiliary.sum() / n


class Step:
    def __init__(self, reading, rows, compiled):
        self.network, self.rows = DIEN(reading, compiled), rows
        self.optimizer = torch.optim.Adagrad(self.network.parameters(), fused=True, **torch_steps.ADAGRAD)

    def step(self, batch):
        lookups = torch.cat([batch["keys"].flatten(), batch["history"].flatten()])
        rows = F.embedding(lookups, self.rows.weights).requires_grad_()
        loss = self.network(rows, batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.rows.update(lookups, rows.grad)
        return loss
