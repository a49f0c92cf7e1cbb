"""The twins: Fathom's models in plain PyTorch. Each class is what the file of its name in src/model/ builds; those that
read histories are in models_histories.py."""
import numpy as np
import torch
import torch.nn.functional as F

from models_histories import ATBRG, CAN, DIEN, DIN, DSIN
from twin import Twin, key


class DeepFM(Twin):
    def build(self):
        self.linear("linear")
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def logit(self):
        vectors = self.embeddings(self.fields)
        pairs = 0.5 * (vectors.sum(dim=1) ** 2 - (vectors ** 2).sum(dim=1)).sum(dim=1, keepdim=True)
        x = torch.cat([vectors.flatten(1), self.floats], dim=1)
        deep = self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))
        return self.linear_terms("linear", self.fields) + pairs + deep


class WideDeep(Twin):
    def build(self):
        self.linear("wide")
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def logit(self):
        x = torch.cat([self.embeddings(self.fields).flatten(1), self.floats], dim=1)
        deep = self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))
        return self.linear_terms("wide", self.model["wide"]) + deep


class XDeepFM(Twin):
    def build(self):
        self.linear("linear")
        for i in range(len(self.model["cin"])):
            self.weights[key(f"cin.{i}")] = self.parameter(f"cin.{i}.weight", np.asarray)
        self.weights[key("cin.out")] = self.parameter("cin.out.weight")
        self.mlp("deep", self.model["hidden"])
        self.linear("deep.out")

    def logit(self):
        """Products of vector i of the layer below and embedding j in row j h + i of the weights."""
        vectors = self.embeddings(self.fields)
        below, pooled = vectors, []
        for i in range(len(self.model["cin"])):
            products = (vectors[:, :, None] * below[:, None]).flatten(1, 2)
            below = self.product(f"cin.{i}.weight", products.transpose(1, 2), self.weights[key(f"cin.{i}")]).transpose(1, 2)
            pooled.append(below.sum(dim=2))
        crossed = self.product("cin.out.weight", torch.cat(pooled, dim=1), self.weights[key("cin.out")][:, None])
        x = torch.cat([vectors.flatten(1), self.floats], dim=1)
        deep = self.apply_linear("deep.out", self.apply_mlp("deep", self.model["hidden"], x))
        return self.linear_terms("linear", self.fields) + crossed + deep


class TwoTower(Twin):
    """model.user_fields empty: all that are not the item's. Frequencies are counted over the steps of one run."""

    def build(self):
        self.seen, self.counted = {}, None
        self.towers = {"item": self.model["item_fields"]}
        self.towers["user"] = [field for field in self.fields if field not in self.towers["item"]]
        for name in self.towers:
            self.mlp(name, self.model["hidden"][:-1])
            self.linear(name + ".out")
        self.bias = self.parameter("out.bias")

    def tower(self, name):
        embeddings = [self.pooled(field) for field in self.towers[name]]
        x = torch.cat(self.by_dimension(embeddings) + ([self.floats] if name == "user" else []), dim=1)
        y = self.apply_linear(name + ".out", self.apply_mlp(name, self.model["hidden"][:-1], x))
        return F.normalize(y, dim=1) if self.model.get("normalise") else y

    def logit(self):
        self.user, self.item = self.tower("user") / self.model.get("temperature", 1.0), self.tower("item")
        return (self.user * self.item).sum(dim=1, keepdim=True) + self.bias

    def loss(self, batch):
        logit = self(batch)
        if self.model.get("loss") != "in_batch_softmax":
            return F.binary_cross_entropy_with_logits(logit, torch.from_numpy(batch.label))
        keys = batch.keys[self.towers["item"][0]].tolist()
        if batch is not self.counted:  # a step's loss may be asked for more than once
            self.counted = batch
            for key_ in keys:
                self.seen[key_] = self.seen.get(key_, 0) + 1
        scores = self.user @ self.item.T - torch.tensor([self.seen[key_] for key_ in keys], dtype=logit.dtype).log()
        own = torch.log_softmax(scores, dim=1).diagonal()
        return -(torch.from_numpy(batch.label) * own).sum() / len(keys)


class DCNv2(Twin):
    def build(self):
        for i in range(self.model["cross_layers"]):
            self.linear(f"cross.{i}")
        self.mlp("deep", self.model["hidden"])
        self.linear("out")

    def logit(self):
        x0 = torch.cat([self.embeddings(self.fields).flatten(1), self.floats], dim=1)
        x = x0
        for i in range(self.model["cross_layers"]):
            x = x0 * self.apply_linear(f"cross.{i}", x) + x
        deep = self.apply_mlp("deep", self.model["hidden"], x0)
        return self.apply_linear("out", torch.cat([x, deep], dim=1))


class DLRM(Twin):
    def build(self):
        self.mlp("bottom", self.model["bottom"])
        self.mlp("top", self.model["top"])
        self.linear("top.out")

    def logit(self):
        bottom = self.apply_mlp("bottom", self.model["bottom"], self.floats)
        vectors = torch.cat([bottom[:, None], self.embeddings(self.fields)], dim=1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))
        below = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
        x = torch.cat([bottom, dots[:, below[0], below[1]]], dim=1)
        return self.apply_linear("top.out", self.apply_mlp("top", self.model["top"], x))


class MMoE(Twin):
    """Experts side by side in the first layer, [inputs, experts * width]; a logit a task."""

    def build(self):
        self.experts, self.widths = self.model["experts"], self.model["expert_hidden"]
        self.linear("experts.0")
        for i in range(1, len(self.widths)):
            for expert in range(self.experts):
                self.linear(f"expert.{expert}.layer.{i}.0")
        self.slopes[key("gates")] = self.parameter("gates.weight", np.asarray)
        for task in self.config["tasks"]:
            self.mlp(f"tower.{task['name']}", self.model["tower"])
            self.linear(f"tower.{task['name']}.out")

    def logit(self):
        x = torch.cat([self.embeddings(self.fields).flatten(1), self.floats], dim=1)
        gates = self.product("gates.weight", x, self.slopes[key("gates")]).view(len(x), -1, self.experts).softmax(dim=2)
        experts = self.activation("experts.0", self.apply_linear("experts.0", x)).view(len(x), self.experts, -1)
        for i in range(1, len(self.widths)):
            names = [f"expert.{expert}.layer.{i}.0" for expert in range(self.experts)]
            experts = torch.stack([self.activation(name, self.apply_linear(name, experts[:, expert]))
                                   for expert, name in enumerate(names)], dim=1)
        outputs = []
        for number, task in enumerate(self.config["tasks"]):
            name = f"tower.{task['name']}"
            mixed = (gates[:, number, :, None] * experts).sum(dim=1)
            outputs.append(self.apply_linear(name + ".out", self.apply_mlp(name, self.model["tower"], mixed)))
        return torch.cat(outputs, dim=1)


class STAR(Twin):
    """Layers of a domain's weights: shared ones times its own; the domain is the floats of an indicator."""

    def build(self):
        self.layers_of = [f"star.{i}" for i in range(len(self.model["hidden"]))] + ["star.out"]
        for part in ("scale", "shift"):
            self.pair("norm", part)
        for name in self.layers_of:
            self.pair(name, "weight")
            self.pair(name, "bias")
        self.mlp("auxiliary", self.model["auxiliary_hidden"])
        self.linear("auxiliary.out")

    def pair(self, name, part):
        for own in (part, "domain_" + part):
            self.slopes[key(f"{name}.{own}")] = self.parameter(f"{name}.{own}", np.asarray)

    def both(self, name, part, domain):
        """The shared part and the domain's rows of its own."""
        shared, own = self.slopes[key(f"{name}.{part}")], self.slopes[key(f"{name}.domain_{part}")]
        return shared, own.view(-1, *shared.shape)[domain]

    def note_both(self, name, part, domain, y, sums, product=True):
        """Of the gradient of a domain's product, or sum, of the two parts."""
        shared, own = (weight.detach().abs() for weight in self.both(name, part, domain))
        n = len(self.config["features"]["indicator"][0]["values"])
        rows = torch.arange(n) == domain

        def of_own(d):
            all_sums = sums(d) * shared if product else sums(d)
            return rows.view(-1, *[1] * all_sums.dim()) * all_sums

        self.note(f"{name}.{part}", y, lambda d: sums(d) * own if product else sums(d))
        self.note(f"{name}.domain_{part}", y, of_own)

    def star(self, x, domain):
        mean = x.mean(dim=0)
        x = (x - mean) / torch.sqrt(((x - mean) ** 2).mean(dim=0) + 1e-5)
        scale, own_scale = self.both("norm", "scale", domain)
        shift, own_shift = self.both("norm", "shift", domain)
        normed = x.detach()
        x = x * (scale * own_scale) + (shift + own_shift)
        self.note_both("norm", "scale", domain, x, lambda d: (normed.abs() * d).sum(dim=0))
        self.note_both("norm", "shift", domain, x, lambda d: d.sum(dim=0), product=False)
        for name in self.layers_of:
            x = self.star_layer(name, x, domain)
            x = x if name == "star.out" else self.activation(f"{name}, domain {domain}", x)
        return x

    def star_layer(self, name, x, domain):
        weight, own_weight = self.both(name, "weight", domain)
        bias, own_bias = self.both(name, "bias", domain)
        at, weights, biases = x.detach(), weight * own_weight, bias + own_bias
        y = x @ weights + biases
        self.note_both(name, "weight", domain, y, lambda d: at.abs().T @ d)
        self.note_both(name, "bias", domain, y, lambda d: d.sum(dim=0), product=False)
        terms = at.abs() @ weights.detach().abs() + biases.detach().abs()
        self.units[f"{name}, domain {domain}"] = y.detach(), terms
        return self.rounded(y, terms)

    def logit(self):
        n = len(self.config["features"]["indicator"][0]["values"])
        domains = self.floats[:, -n:]
        x = torch.cat([self.embeddings(self.fields).flatten(1), self.floats[:, :-n]], dim=1)
        number = domains.argmax(dim=1)
        rows = [torch.nonzero(number == domain)[:, 0] for domain in range(n)]
        parts = torch.cat([self.star(x[at], domain) for domain, at in enumerate(rows) if len(at)])
        main = torch.zeros(len(x), 1, dtype=x.dtype).index_copy(0, torch.cat(rows), parts)
        y = self.apply_mlp("auxiliary", self.model["auxiliary_hidden"], torch.cat([x, domains], dim=1))
        return main + self.apply_linear("auxiliary.out", y)


TWINS = {"deepfm": DeepFM, "wide_deep": WideDeep, "dcnv2": DCNv2, "dlrm": DLRM, "din": DIN, "mmoe": MMoE, "xdeepfm": XDeepFM,
         "can": CAN, "dien": DIEN, "two_tower": TwoTower, "dsin": DSIN, "star": STAR,
         "atbrg": ATBRG}
