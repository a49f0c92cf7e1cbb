"""TensorFlow, kept and woken in turn, like torch_worker.py: one stacked table, the whole step a tf.function.

usage: tf_worker.py FOLDER MODEL"""
import json
import os
import sys
import time

import shapes

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

import inputs


def dense(inputs_, outputs, draws):
    limit = (6 / (inputs_ + outputs)) ** 0.5
    return [tf.Variable(draws.uniform((inputs_, outputs), -limit, limit)), tf.Variable(tf.zeros(outputs))]


def apply(layer, x):
    return tf.nn.bias_add(tf.matmul(x, layer[0]), layer[1])


class Mlp:
    def __init__(self, widths, draws, activation="relu", out=False):
        self.layers = [dense(a, b, draws) for a, b in zip(widths, widths[1:])]
        self.slopes = [tf.Variable(tf.zeros(b)) if activation == "dice" else None for b in widths[1:]]
        self.activation = activation
        self.out = dense(widths[-1], 1, draws) if out else None

    def activate(self, x, slope):
        if self.activation != "dice":
            return getattr(tf.nn, self.activation)(x)
        mean, variance = tf.nn.moments(x, [0])
        p = tf.sigmoid((x - mean) * tf.math.rsqrt(variance + 1e-5))
        return (p + (1 - p) * slope) * x

    def __call__(self, x):
        for layer, slope in zip(self.layers, self.slopes):
            x = self.activate(apply(layer, x), slope)
        return apply(self.out, x)[:, 0] if self.out else x

    def variables(self):
        own = [v for layer in self.layers + ([self.out] if self.out else []) for v in layer]
        return own + [slope for slope in self.slopes if slope is not None]


INPUTS = len(shapes.CARDINALITIES) * shapes.DIM + shapes.NUMBERS


def concatenated(rows, batch):
    return tf.concat([tf.reshape(rows, (-1, rows.shape[1] * shapes.DIM)), batch["dense"]], 1)


class DLRM:
    def __init__(self, shape, draws):
        self.n = len(shapes.CARDINALITIES) + 1
        pairs = [(i, j) for i in range(self.n) for j in range(i)]
        place = [[len(pairs)] * self.n for _ in range(self.n)]
        for at, (i, j) in enumerate(pairs):
            place[i][j] = place[j][i] = at
        self.below = tf.constant([i * self.n + j for i, j in pairs])
        self.place = tf.constant(place)
        self.bottom = Mlp([shapes.NUMBERS] + shape["bottom"], draws)
        self.top = Mlp([shapes.DIM + len(pairs)] + shape["top"], draws, out=True)

    def interaction(self, vectors):
        """Gathers both ways, as in torch_models.py."""

        @tf.custom_gradient
        def dots(x):
            def gradient(g):
                symmetric = tf.gather(tf.pad(g, [[0, 0], [0, 1]]), self.place, axis=1)
                return tf.matmul(symmetric, x)

            return tf.gather(tf.reshape(tf.matmul(x, x, transpose_b=True), (-1, self.n ** 2)), self.below, axis=1), gradient

        return dots(vectors)

    def __call__(self, rows, batch):
        bottom = self.bottom(batch["dense"])
        return self.top(tf.concat([bottom, self.interaction(tf.concat([bottom[:, None], rows], 1))], 1))

    def variables(self):
        return self.bottom.variables() + self.top.variables()


class WideDeep:
    pairs = False

    def __init__(self, shape, draws, fields=len(shapes.CARDINALITIES), numbers=shapes.NUMBERS):
        self.wide = dense(numbers, 1, draws)
        self.deep = Mlp([fields * shapes.DIM + numbers] + shape["hidden"], draws, out=True)

    def __call__(self, rows, batch):
        vectors = rows[:, :, :shapes.DIM]
        logit = tf.reduce_sum(rows[:, :, shapes.DIM], 1) + apply(self.wide, batch["dense"])[:, 0]
        if self.pairs:
            logit += 0.5 * tf.reduce_sum(tf.reduce_sum(vectors, 1) ** 2 - tf.reduce_sum(vectors ** 2, 1), 1)
        return logit + self.deep(concatenated(vectors, batch))

    def variables(self):
        return self.wide + self.deep.variables()


class DeepFM(WideDeep):
    pairs = True


class DCNv2:
    def __init__(self, shape, draws):
        self.cross = [dense(INPUTS, INPUTS, draws) for _ in range(shape["cross_layers"])]
        self.deep = Mlp([INPUTS] + shape["hidden"], draws)
        self.out = dense(INPUTS + shape["hidden"][-1], 1, draws)

    def __call__(self, rows, batch):
        x0 = x = concatenated(rows, batch)
        for layer in self.cross:
            x = x0 * apply(layer, x) + x
        return apply(self.out, tf.concat([x, self.deep(x0)], 1))[:, 0]

    def variables(self):
        return [v for layer in self.cross + [self.out] for v in layer] + self.deep.variables()


class DIN:
    def __init__(self, shape, draws):
        target = 2 * shapes.DIN_DIM
        self.attention = Mlp([4 * target] + shape["attention"], draws, shape["attention_activation"], out=True)
        self.deep = Mlp([shapes.DIN_DIM + 2 * target] + shape["hidden"], draws, shape["activation"], out=True)

    def __call__(self, rows, batch):
        width = 2 * shapes.DIN_DIM
        query = tf.reshape(rows[:, 1:3], (-1, width))
        keys = tf.reshape(rows[:, 3:], (-1, shapes.LONGEST, width))
        queries = tf.broadcast_to(query[:, None], tf.shape(keys))
        x = tf.concat([queries, keys, queries - keys, queries * keys], 2)
        weights = tf.reshape(self.attention(tf.reshape(x, (-1, 4 * width))), (-1, 1, shapes.LONGEST))
        pooled = tf.matmul(weights * batch["mask"][:, None], keys)[:, 0]
        return self.deep(tf.concat([rows[:, 0], query, pooled], 1))

    def variables(self):
        return self.attention.variables() + self.deep.variables()


MODELS = {"dlrm": DLRM, "wide_deep": WideDeep, "deepfm": DeepFM, "dcnv2": DCNv2, "din": DIN}


class Step:
    def __init__(self, model, rows, width):
        self.model = model
        self.rows = tf.Variable(tf.random.uniform((rows, width), -0.05, 0.05))
        self.row_sums = tf.Variable(tf.fill((rows, width), shapes.INITIAL))
        self.variables = self.model.variables()
        self.sums = [tf.Variable(tf.fill(v.shape, shapes.INITIAL)) for v in self.variables]

    def update_rows(self, lookups, gradients):
        """Adagrad on a row wants its lookups summed first."""
        rows, place = tf.unique(lookups)
        gradient = tf.math.unsorted_segment_sum(gradients, place, tf.size(rows))
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=self.rows.handle, accum=self.row_sums.handle, lr=shapes.LEARNING_RATE, epsilon=shapes.EPSILON,
            grad=gradient, indices=rows, use_locking=False)

    def update(self, gradients):
        for v, sums, gradient in zip(self.variables, self.sums, gradients):
            tf.raw_ops.ResourceApplyAdagradV2(var=v.handle, accum=sums.handle, lr=shapes.LEARNING_RATE,
                                              epsilon=shapes.EPSILON, grad=gradient, use_locking=False)

    @tf.function
    def __call__(self, batch):
        rows = tf.gather(self.rows, batch["lookups"])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([rows] + self.variables)
            logit = self.model(rows, batch)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logit))
        of_rows, *gradients = tape.gradient(loss, [rows] + self.variables)
        self.update(gradients)
        self.update_rows(tf.reshape(batch["lookups"], (-1,)), tf.reshape(of_rows, (-1, self.rows.shape[1])))
        return loss


def prepare(batch):
    if "history" not in batch:
        return {"label": batch["label"], "dense": batch["dense"], "lookups": batch["keys"]}
    history = tf.reshape(batch["history"], (len(batch["label"]), -1))
    return {"label": batch["label"], "lookups": tf.concat([batch["keys"], history], 1),
            "mask": tf.sequence_mask(batch["length"], shapes.LONGEST, tf.float32)}


def main():
    folder, model = sys.argv[1:]
    tf.config.threading.set_intra_op_parallelism_threads(shapes.THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    held = inputs.load(folder, model)
    width = shapes.DIN_DIM if model == "din" else shapes.DIM + (model in shapes.LINEAR)
    network = MODELS[model](shapes.MODELS[model], tf.random.Generator.from_seed(1))
    step = Step(network, int(held["starts"][-1]), width)
    batches = {}
    print(json.dumps({"ready": f"TensorFlow {tf.__version__}"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        size = request["batch"]
        if size not in batches:
            batches[size] = [prepare(batch) for batch in inputs.batches(held, size, tf.constant)]
        for batch in batches[size][:3]:
            loss = step(batch)
        done, begin, ends = 0, time.perf_counter(), []
        while not ends or ends[-1] - begin < request["seconds"]:
            loss = step(batches[size][done % len(batches[size])])
            done += 1
            ends.append(time.perf_counter())
        times = sorted(b - a for a, b in zip([begin] + ends, ends))
        answer = {"examples_per_second": size / times[len(times) // 2], "steps": done, "loss": float(loss)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
