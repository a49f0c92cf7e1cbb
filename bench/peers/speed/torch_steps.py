"""Training steps of PyTorch in several ways; all share one storage of rows, which would not fit three times.

bags      an nn.EmbeddingBag a field with sparse gradients, torch.optim.Adagrad, eager
stacked   one table of all fields; its Adagrad sums gradients by a sort and an embedding_bag over it, which took 6.4 ms
          where torch.optim.Adagrad on a sparse gradient took 16.0 (batch 4096, 26 fields, two Zen 4 cores)
compiled  stacked, with model and loss through torch.compile
packed    stacked, DIN written by hand so that no position is padding (compiled for any number of positions, on a Xeon, it
          made 7.7 in place of 12.5 thousand examples/s)"""
import torch
import torch.nn.functional as F
from torch import nn

import shapes
import torch_further
import torch_models

MODELS = torch_models.MODELS | torch_further.MODELS
ADAGRAD = {"lr": shapes.LEARNING_RATE, "eps": shapes.EPSILON, "initial_accumulator_value": shapes.INITIAL}


def make(model):
    torch.manual_seed(1)
    return MODELS[model](shapes.shape_of(model))


class Rows:
    """Weights and Adagrad's sums of all tables, one behind the other."""

    def __init__(self, starts, width):
        self.starts = starts
        self.weights = torch.empty(starts[-1], width).uniform_(-0.05, 0.05)
        self.sums = torch.full_like(self.weights, shapes.INITIAL)

    @torch.no_grad()
    def update(self, lookups, gradients, place=None):
        """Adagrad on the rows of a step; several lookups of a row are summed first. place: which of the gradients is a
        lookup's, where it is not the one of its number."""
        ordered, order = torch.sort(lookups)
        order = order if place is None else place.index_select(0, order)
        rows, counts = torch.unique_consecutive(ordered, return_counts=True)
        begin = torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]])
        gradient = F.embedding_bag(order, gradients, begin, mode="sum")
        sums = self.sums.index_select(0, rows).addcmul_(gradient, gradient)
        self.sums.index_copy_(0, rows, sums)
        weights = self.weights.index_select(0, rows)
        weights.addcdiv_(gradient, sums.sqrt_().add_(shapes.EPSILON), value=-shapes.LEARNING_RATE)
        self.weights.index_copy_(0, rows, weights)


def loss_of(model, rows, batch):
    if hasattr(model, "loss"):
        return model.loss(rows, batch)
    return F.binary_cross_entropy_with_logits(model(rows, batch).float(), batch["label"])


class Stacked:
    def __init__(self, model, rows, autocast=False):
        self.model, self.rows, self.autocast = make(model), rows, autocast
        self.loss = loss_of
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), fused=True, **ADAGRAD)

    def step(self, batch):
        if hasattr(self.model, "before"):
            self.model.before(batch)
        rows = F.embedding(batch["lookups"], self.rows.weights).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.loss(self.model, rows, batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        lookups, gradients = batch["lookups"].view(-1), rows.grad.flatten(0, 1)
        if "positions" in batch:  # what pads has no gradient
            lookups, gradients = batch["updated"], gradients.index_select(0, batch["positions"])
        self.rows.update(lookups, gradients)
        return loss


class Compiled(Stacked):
    def __init__(self, model, rows, autocast=False):
        super().__init__(model, rows, autocast)
        self.loss = torch.compile(loss_of, dynamic=False)


class Packed(Stacked):
    def __init__(self, model, rows):
        super().__init__(model, rows)
        torch.manual_seed(1)
        self.model = torch_models.PackedDIN(shapes.shape_of(model))
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), fused=True, **ADAGRAD)

    def step(self, batch):
        return super().step(batch["packed"])


class Bags:
    def __init__(self, model, rows):
        self.model, self.din = make(model), model == "din"
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), fused=True, **ADAGRAD)
        parts = [(rows.weights[a:b], rows.sums[a:b]) for a, b in zip(rows.starts, rows.starts[1:])]
        if self.din:  # positions are not pooled by their sum
            self.tables = [nn.Embedding(*w.shape, sparse=True, padding_idx=0, _weight=w) for w, _ in parts]
        else:
            self.tables = [nn.EmbeddingBag(*w.shape, mode="sum", sparse=True, _weight=w) for w, _ in parts]
        self.sparse = torch.optim.Adagrad([table.weight for table in self.tables], **ADAGRAD)
        for table, (_, sums) in zip(self.tables, parts):
            self.sparse.state[table.weight]["sum"] = sums

    def embed(self, batch):
        if self.din:
            user, item, category = self.tables
            history = torch.stack([item(batch["items"]), category(batch["categories"])], dim=2)
            return torch.cat([user(batch["user"])[:, None], history.flatten(1, 2)], dim=1)
        return torch.stack([table(ids, batch["offsets"]) for table, ids in zip(self.tables, batch["fields"])], dim=1)

    def step(self, batch):
        loss = loss_of(self.model, self.embed(batch), batch)
        loss.backward()
        for optimizer in self.optimizer, self.sparse:
            optimizer.step()
            optimizer.zero_grad()
        return loss


def align_right(history, length):
    """Padded in front instead of behind."""
    at = torch.arange(shapes.LONGEST)[None] - (shapes.LONGEST - length)[:, None]
    return history.gather(1, at.clamp(min=0)[:, :, None].expand(history.shape)), at >= 0


def prepare_domains(out, model):
    """STAR: each domain's examples, and where an example is in their order."""
    domain = out.pop("domain")
    if model == "star":
        out["domains"] = [(domain == d).nonzero()[:, 0] for d in range(3)]
        out["domain_place"] = torch.argsort(torch.cat(out["domains"]))
        out["domain"] = F.one_hot(domain, 3).float()
        out["lookups"] = out["lookups"][:, :shapes.STAR_FIELDS].contiguous()


def prepare(batch, starts, model):
    """What the steps read, of tensors cut from the inputs."""
    keys, n = batch["keys"], len(batch["label"])
    out = {"label": batch["label"]}
    if "history" in batch:
        own = keys - starts[:-1]
        history = batch["history"]
        valid = torch.arange(shapes.LONGEST)[None] < batch["length"][:, None]
        if model == "dsin":
            history, valid = align_right(history, batch["length"])
        out["mask"] = valid.float()
        out["mean"] = out["mask"] / batch["length"].clamp(min=1)[:, None]
        out["n_items"] = int(starts[2] - starts[1])
        out["lookups"] = torch.cat([keys, history.flatten(1)], dim=1)
        kept = torch.cat([torch.ones_like(keys, dtype=torch.bool), valid.repeat_interleave(2, dim=1)], dim=1)
        out["positions"] = kept.view(-1).nonzero()[:, 0]
        out["updated"] = out["lookups"].view(-1)[out["positions"]]
        if model == "din":
            out["packed"] = {"label": out["label"], "example": torch.repeat_interleave(batch["length"]),
                             "lookups": torch.cat([keys.flatten(), history[valid].flatten()])[None]}
        out["user"] = own[:, 0].contiguous()
        out["items"] = torch.cat([own[:, 1:2], history[:, :, 0] - starts[1]], dim=1)
        out["categories"] = torch.cat([own[:, 2:3], history[:, :, 1] - starts[2]], dim=1)
    else:
        out["dense"], out["lookups"] = batch["dense"], keys
        out["fields"] = [ids.contiguous() for ids in (keys - starts[:-1]).T]
        out["offsets"] = torch.arange(n)
    if "domain" in batch:
        out |= {name: batch[name] for name in ("labels", "weights", "domain")}
        prepare_domains(out, model)
    return out
