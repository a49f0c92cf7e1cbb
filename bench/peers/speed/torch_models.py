"""The models in PyTorch, written for speed: each makes logits of embedding rows and floats."""
import torch
import torch.nn.functional as F
from torch import nn

import shapes


class Dice(nn.Module):
    """Zhou et al. 2018, equation 3."""

    def __init__(self, width):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        p = torch.sigmoid(F.batch_norm(x, None, None, training=True, eps=1e-5))
        return (p + (1 - p) * self.slope) * x


ACTIVATIONS = {"relu": lambda width: nn.ReLU(inplace=True), "dice": Dice, "sigmoid": lambda width: nn.Sigmoid()}


def mlp(widths, activation="relu", out=False):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), ACTIVATIONS[activation](b)]
    return nn.Sequential(*layers, *([nn.Linear(widths[-1], 1)] if out else []))


class Interaction(torch.autograd.Function):
    """Inner products of all pairs. Indexing a triangle scatters in its gradient, which is slow; here both ways gather,
    and the gradient is one product with the symmetric matrix."""

    @staticmethod
    def forward(ctx, vectors, below, place):
        ctx.dtype = vectors.dtype
        if torch.is_autocast_enabled("cpu"):
            vectors = vectors.to(torch.get_autocast_dtype("cpu"))
        ctx.save_for_backward(vectors, place)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, below)

    @staticmethod
    def backward(ctx, gradient):
        vectors, place = ctx.saved_tensors
        n = vectors.shape[1]
        symmetric = F.pad(gradient, (0, 1)).index_select(1, place).view(-1, n, n)
        return torch.bmm(symmetric, vectors).to(ctx.dtype), None, None


class DLRM(nn.Module):
    def __init__(self, shape):
        super().__init__()
        n = len(shapes.CARDINALITIES) + 1
        below = torch.tril_indices(n, n, offset=-1)
        place = torch.full((n, n), below.shape[1])
        place[below[0], below[1]] = place[below[1], below[0]] = torch.arange(below.shape[1])
        self.register_buffer("below", below[0] * n + below[1])
        self.register_buffer("place", place.flatten())
        self.bottom = mlp([shapes.NUMBERS] + shape["bottom"])
        self.top = mlp([shapes.DIM + below.shape[1]] + shape["top"], out=True)

    def forward(self, rows, batch):
        bottom = self.bottom(batch["dense"])
        dots = Interaction.apply(torch.cat([bottom[:, None], rows], dim=1), self.below, self.place)
        return self.top(torch.cat([bottom, dots], dim=1))[:, 0]


def concatenated(rows, batch):
    return torch.cat([rows.flatten(1), batch["dense"]], dim=1)


INPUTS = len(shapes.CARDINALITIES) * shapes.DIM + shapes.NUMBERS


class WideDeep(nn.Module):
    """A row: the embedding and behind it the id's own weight."""

    def __init__(self, shape, fields=len(shapes.CARDINALITIES), numbers=shapes.NUMBERS):
        super().__init__()
        self.wide = nn.Linear(numbers, 1)
        self.deep = mlp([fields * shapes.DIM + numbers] + shape["hidden"], out=True)

    def forward(self, rows, batch):
        linear = rows[:, :, shapes.DIM].sum(dim=1) + self.wide(batch["dense"])[:, 0]
        return linear + self.deep(concatenated(rows[:, :, :shapes.DIM], batch))[:, 0]


class DeepFM(WideDeep):
    def forward(self, rows, batch):
        vectors = rows[:, :, :shapes.DIM]
        pairs = 0.5 * (vectors.sum(dim=1) ** 2 - (vectors ** 2).sum(dim=1)).sum(dim=1)
        return super().forward(rows, batch) + pairs


class DCNv2(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.cross = nn.ModuleList([nn.Linear(INPUTS, INPUTS) for _ in range(shape["cross_layers"])])
        self.deep = mlp([INPUTS] + shape["hidden"])
        self.out = nn.Linear(INPUTS + shape["hidden"][-1], 1)

    def forward(self, rows, batch):
        x0 = x = concatenated(rows, batch)
        for layer in self.cross:
            x = torch.addcmul(x, x0, layer(x))
        return self.out(torch.cat([x, self.deep(x0)], dim=1))[:, 0]


class DIN(nn.Module):
    """rows: user, item, category, then LONGEST pairs of item and category, padded."""

    def __init__(self, shape):
        super().__init__()
        target = 2 * shapes.DIN_DIM
        self.attention = mlp([4 * target] + shape["attention"], shape["attention_activation"], out=True)
        self.deep = mlp([shapes.DIN_DIM + 2 * target] + shape["hidden"], shape["activation"], out=True)

    def forward(self, rows, batch):
        n = len(rows)
        query, keys = rows[:, 1:3].flatten(1), rows[:, 3:].reshape(n, shapes.LONGEST, -1)
        queries = query[:, None].expand_as(keys)
        x = torch.cat([queries, keys, queries - keys, queries * keys], dim=2)
        weights = self.attention(x.flatten(0, 1)).view(n, 1, -1) * batch["mask"][:, None]
        pooled = torch.bmm(weights, keys)[:, 0]
        return self.deep(torch.cat([rows[:, 0], query, pooled], dim=1))[:, 0]


class PackedDIN(DIN):
    """The same without padding. rows[0]: each example's user, item and category, then the pairs that are there."""

    def forward(self, rows, batch):
        example, n = batch["example"], len(batch["label"])
        own, keys = rows[0, :3 * n].view(n, 3, -1), rows[0, 3 * n:].view(len(example), -1)
        query = own[:, 1:3].flatten(1)
        queries = query.index_select(0, example)
        weights = self.attention(torch.cat([queries, keys, queries - keys, queries * keys], dim=1))
        pooled = torch.zeros_like(query).index_add(0, example, weights * keys)
        return self.deep(torch.cat([own[:, 0], query, pooled], dim=1))[:, 0]


MODELS = {"dlrm": DLRM, "wide_deep": WideDeep, "deepfm": DeepFM, "dcnv2": DCNv2, "din": DIN}


def row_width(model):
    if model in shapes.SEQUENCES:
        return shapes.DIN_DIM
    return shapes.DIM + (model in shapes.LINEAR)
