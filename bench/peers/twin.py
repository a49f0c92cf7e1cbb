"""What the twins (models.py) share: parameters made from a checkpoint of Fathom's initial values, layers, the loss.

Names of layers are Fathom's; linear weights are stored [inputs, outputs] there. What the checkpoint holds and a twin does
not ask for is an error.

A twin in float64 (`.double()`) is the referee of resync.py, which also asks for two things of the forward: that ReLU's
units listed in `flips` go to the other side of 0 (or all to `sides`), that every linear layer's sums are moved by `noise`
of their terms up or down, and (`noting`) that what a gradient's terms are made of is kept. Weights of no linear layer go
through `product` and `shifted` for that, or say it themselves (`note`)."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from batches import expand


def key(name):
    """PyTorch wants no dots in names."""
    return name.replace(".", "/")


class Twin(nn.Module):
    def __init__(self, start, config):
        super().__init__()
        self.start, self.config, self.model = start, config, config["model"]
        self.left = {name for name in start.dense if "running_" not in name}
        self.dense = {}  # Fathom's name -> parameter, and what turns Fathom's array into its shape
        self.flips, self.sides, self.signs, self.noise, self.noting = {}, None, {}, None, False
        self.layers = nn.ModuleDict()
        self.slopes = nn.ParameterDict()
        self.weights = nn.ParameterDict()  # of no linear layer
        self.tables = nn.ParameterList([torch.tensor(pack.weights) for pack in start.packs])
        self.fields, self.table_of = [], {}
        for section in config["features"]["categorical"]:
            for name in expand(section["columns"]):
                self.fields.append(name)
                self.table_of[name] = section.get("table", name)
        self.build()
        if self.left:
            raise ValueError(f"{self.model['name']}: the twin has no {', '.join(sorted(self.left))}")

    # ---- parameters ----

    def take(self, name):
        self.left.remove(name)
        return self.start.dense[name]

    def parameter(self, name, convert=np.ravel):
        parameter = nn.Parameter(torch.tensor(np.ascontiguousarray(convert(self.take(name)))))
        self.dense[name] = parameter, convert
        return parameter

    def norm(self, name, width):
        norm = nn.LayerNorm(width, eps=1e-5)
        norm.weight = self.parameter(name + ".scale")
        norm.bias = self.parameter(name + ".shift")
        self.layers[key(name)] = norm

    def linear(self, name):
        bias = self.parameter(name + ".bias")
        weight = self.parameter(name + ".weight", np.asarray if len(bias) == 1 else np.transpose)
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight, layer.bias = weight, bias
        self.layers[key(name)] = layer

    def mlp(self, name, widths):
        for i in range(len(widths)):
            layer = f"{name}.{i}"
            self.linear(layer)
            if self.model.get("layer_norm"):
                self.norm(layer + ".norm", widths[i])
            if self.model["activation"] == "dice":
                self.slopes[key(layer)] = self.parameter(layer + ".slope")

    def row_parameters(self):
        return list(self.tables)

    def dense_parameters(self):
        return list(self.layers.parameters()) + list(self.slopes.parameters()) + list(self.weights.parameters())

    # ---- forward ----

    def rows_of(self, fields, suffix=""):
        """The rows of fields of one dimension, [keys of all fields, dim]; notes which rows the step touches."""
        tables = [self.table_of[field] + suffix for field in fields]
        number = self.start.pack_of(tables[0])
        pack = self.start.packs[number]
        rows = [pack.rows(table, self.batch.keys[field]) for table, field in zip(tables, fields)]
        rows = torch.from_numpy(np.concatenate(rows))
        self.touched[number].append(rows)
        found = F.embedding(rows, self.tables[number])
        if self.noting:
            found.retain_grad()
            self.found[number].append(found)
        return found

    def embeddings(self, fields, suffix=""):
        """[n, fields, dim]"""
        rows = self.rows_of(fields, suffix)
        return rows.view(len(fields), len(self.batch.label), -1).transpose(0, 1)

    def examples(self, field):
        """Which example a row of a field belongs to."""
        offsets = self.batch.offsets.get(field)
        if offsets is None:
            return torch.arange(len(self.batch.label))
        return torch.repeat_interleave(torch.from_numpy(offsets[1:] - offsets[:-1]))

    def pooled(self, field):
        """A field's row an example: its own, or the mean of a list's."""
        rows, example = self.rows_of([field]), self.examples(field)
        if field not in self.batch.offsets:
            return rows
        sums = torch.zeros(len(self.batch.label), rows.shape[1], dtype=rows.dtype).index_add(0, example, rows)
        return sums / torch.bincount(example, minlength=len(sums)).clamp(min=1)[:, None]

    @staticmethod
    def by_dimension(embeddings):
        """As Fathom puts them side by side: fields of one dimension together, in the order of the first of each."""
        dims = list(dict.fromkeys(embedding.shape[1] for embedding in embeddings))
        return [embedding for dim in dims for embedding in embeddings if embedding.shape[1] == dim]

    def linear_terms(self, name, fields):
        """A weight a key, a weight a float, a bias."""
        return self.embeddings(fields, ".linear").sum(dim=1) + self.apply_linear(name, self.floats)

    def apply_linear(self, name, x):
        y = self.layers[key(name)](x)
        if self.noting:
            y.retain_grad()
            self.linears[name] = x.detach(), y
        return self.rounded(y, self.terms(name, x.detach()))

    def terms(self, name, x):
        """The absolute sums of a linear layer's terms."""
        layer = self.layers[key(name)]
        return x.abs() @ layer.weight.detach().abs().T + layer.bias.detach().abs()

    def note(self, name, y, sums):
        """y is made with the parameter `name`: sums(|dy|) are the sums of that gradient's absolute terms, in any shape
        that is the same in all of a step's notes of the name."""
        if self.noting:
            y.retain_grad()
            self.notes.setdefault(name, []).append((y, sums))

    def rounded(self, y, terms):
        """y, a sum of terms of these absolute sums; its gradient is rounded, too."""
        if self.noise is None:
            return y
        y = y + self.noise(terms.detach())
        y.register_hook(lambda d: d + self.noise(d.abs()))
        return y

    def product(self, name, x, weight):
        """x times the parameter `name`, which is `weight` as a matrix."""
        y = x @ weight
        at = x.detach()
        self.note(name, y, lambda d: at.abs().flatten(0, -2).T @ d.flatten(0, -2))
        return self.rounded(y, at.abs() @ weight.detach().abs())

    def shifted(self, name, x, bias):
        """x plus the parameter `name`, a row."""
        y = x + bias
        self.note(name, y, lambda d: d.flatten(0, -2).sum(dim=0))
        return y

    def apply_norm(self, name, x):
        y = self.layers[key(name)](x)
        if self.noting:
            y.retain_grad()
            self.norms[name] = x.detach(), y
        return self.rounded(y, y.abs())

    def apply_mlp(self, name, widths, x):
        for i in range(len(widths)):
            layer = f"{name}.{i}"
            x = self.apply_linear(layer, x)
            if self.model.get("layer_norm"):
                x = self.apply_norm(layer + ".norm", x)
            x = self.activation(layer, x)
        return x

    def activation(self, name, x):
        kind = self.model["activation"]
        if kind == "relu":
            return self.relu(name, x)
        if kind != "dice":
            return getattr(F, kind)(x)
        p = torch.sigmoid(F.batch_norm(x, None, None, training=True, eps=1e-5))
        y = (p + (1 - p) * self.slopes[key(name)]) * x
        if self.noting:
            y.retain_grad()
            self.dices[name] = x.detach(), p.detach(), y
        return y

    def relu(self, name, x):
        on = x.detach() > 0 if self.sides is None else self.sides[name]
        for example, unit in self.flips.get(name, ()):
            on[example, unit] ^= True
        self.signs[name] = on
        return torch.where(on, x, torch.zeros((), dtype=x.dtype))

    def forward(self, batch):
        self.batch = batch
        self.floats = torch.from_numpy(batch.dense).to(self.tables[0].dtype)
        self.touched, self.found = [[] for _ in self.tables], [[] for _ in self.tables]
        self.linears, self.norms, self.dices = {}, {}, {}
        self.notes, self.units = {}, {}
        self.further_loss = 0
        logit = self.logit()
        return logit if "tasks" in self.config else logit[:, 0]

    def loss(self, batch):
        logit = self(batch)
        label = torch.from_numpy(batch.label).to(logit.dtype)
        if batch.weight is None:
            return F.binary_cross_entropy_with_logits(logit, label) + self.further_loss
        weight = torch.from_numpy(batch.weight).to(logit.dtype)
        return F.binary_cross_entropy_with_logits(logit, label, weight, reduction="sum") / len(label)
