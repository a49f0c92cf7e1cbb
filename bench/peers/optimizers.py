"""Optimizers of the twins.

Fathom updates embedding rows lazily: a step changes the rows that its batch reads, no others. For SGD and Adagrad that
is what PyTorch's optimizers do with the zero gradients of the other rows. Adam is different: in PyTorch's, averages
decay and weights move in rows without a gradient too. So the rows have an Adam here that is applied to the rows of the
batch, with bias corrections by the global step. (torch.optim.SparseAdam does the same but for eps, which it adds
to the root before the bias correction instead of after it.)"""
import torch


class LazyAdam:
    """Kingma & Ba 2015, as torch.optim.Adam, on the rows of a batch."""

    def __init__(self, tables, lr, betas=(0.9, 0.999), eps=1e-8):
        self.tables, self.lr, self.betas, self.eps, self.step_number = tables, lr, betas, eps, 0
        self.m = [torch.zeros_like(table) for table in tables]
        self.v = [torch.zeros_like(table) for table in tables]

    def load(self, step, slots):
        """Goes on from the state after a step: [m, v] for every table."""
        self.step_number = step
        for m, v, (first, second) in zip(self.m, self.v, slots):
            m.copy_(torch.from_numpy(first))
            v.copy_(torch.from_numpy(second))

    def slots(self):
        return list(zip(self.m, self.v))

    def zero_grad(self):
        for table in self.tables:
            table.grad = None

    @torch.no_grad()
    def step(self, touched):
        self.step_number += 1
        beta1, beta2 = self.betas
        correction1, correction2 = 1 - beta1 ** self.step_number, 1 - beta2 ** self.step_number
        for table, m, v, lookups in zip(self.tables, self.m, self.v, touched):
            if not lookups:  # rows that are only counted
                continue
            rows = torch.unique(torch.cat(lookups))
            g = table.grad[rows]
            m[rows] = beta1 * m[rows] + (1 - beta1) * g
            v[rows] = beta2 * v[rows] + (1 - beta2) * g * g
            table[rows] -= self.lr / correction1 * m[rows] / (v[rows].sqrt() / correction2 ** 0.5 + self.eps)


class Dense:
    """One of torch.optim on whole tables."""

    def __init__(self, optimizer, names=()):
        self.optimizer, self.names = optimizer, names
        self.parameters = optimizer.param_groups[0]["params"]
        self.zero_grad = optimizer.zero_grad

    def load(self, step, slots):
        """Goes on from the state after a step: the values of PyTorch's names for every parameter."""
        for parameter, values in zip(self.parameters, slots):
            if self.names:
                state = {name: torch.tensor(v, dtype=parameter.dtype) for name, v in zip(self.names, values)}
                self.optimizer.state[parameter] = {"step": torch.tensor(float(step))} | state

    def slots(self):
        return [[self.optimizer.state[p][name] for name in self.names] for p in self.parameters]

    def step(self, touched):
        self.optimizer.step()


def make(section, parameters, rows):
    """Of a configuration's optimizer.dense or optimizer.sparse."""
    name, lr, betas = section["name"], section["lr"], section.get("betas", (0.9, 0.999))
    if name == "sgd":
        return Dense(torch.optim.SGD(parameters, lr=lr))
    if name == "adagrad":
        return Dense(torch.optim.Adagrad(parameters, lr=lr, eps=section["eps"],
                                         initial_accumulator_value=section["initial_accumulator"]), ["sum"])
    if name == "adam" and rows:
        return LazyAdam(parameters, lr, betas, section["eps"])
    if name == "adam":
        return Dense(torch.optim.Adam(parameters, lr=lr, betas=betas, eps=section["eps"]), ["exp_avg", "exp_avg_sq"])
    raise ValueError(f"there is no twin of optimizer {name}")
