"""DIEN in TensorFlow, like dien_torch.py; histories padded to the longest of the batch, loops over time as TensorFlow's
own recurrent layers have them, with the products of inputs outside."""
import tensorflow as tf

import tf_worker


class DIEN:
    def __init__(self, reading, draws):
        model, dim = reading["model"], reading["dim"]
        self.dim, self.singles = dim, len(reading["keys"])
        self.width, self.auxiliary = dim * len(reading["history"]), model.get("auxiliary", 1.0)
        width, others = self.width, self.singles - len(reading["history"])
        self.query = tf_worker.dense(width, width, draws)
        self.layers = [(tf_worker.dense(width, 3 * width, draws), tf_worker.dense(width, 3 * width, draws)) for _ in range(2)]
        self.deep = tf_worker.Mlp([others * dim + 2 * width] + model["hidden"], draws, model["activation"], out=True)

    def recurrent(self, layer, x, attention, mask):
        """x [time, n, width]; states of all times, standing still behind an example's end."""
        inputs, own = layer
        width, n, steps = self.width, tf.shape(x)[1], tf.shape(x)[0]
        x = tf.reshape(tf_worker.apply(inputs, tf.reshape(x, (-1, width))), (steps, n, 3 * width))
        x = tf.TensorArray(tf.float32, steps, element_shape=(None, 3 * width)).unstack(x)  # x[t] would have dense gradients
        attention = tf.TensorArray(tf.float32, steps, element_shape=(None, 1)).unstack(attention)
        h, states = tf.zeros((n, width)), tf.TensorArray(tf.float32, steps, element_shape=(None, width))
        for t in tf.range(steps):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(h, tf.TensorShape((None, width)))])
            now = x.read(t)
            gates = tf.sigmoid(now[:, :2 * width] + tf.matmul(h, own[0][:, :2 * width]))
            update, reset = gates[:, :width] * attention.read(t), gates[:, width:]
            candidate = tf.tanh(now[:, 2 * width:] + tf.matmul(reset * h, own[0][:, 2 * width:]))
            h = h + update * mask[t] * (candidate - h)
            states = states.write(t, h)
        return tf.ensure_shape(states.stack(), (None, None, width)), h

    def loss(self, rows, batch):
        n, width = tf.size(batch["label"]), self.width
        steps = tf.shape(batch["history"])[1]
        single = tf.reshape(rows[:n * self.singles], (-1, self.singles * self.dim))
        keys = tf.transpose(tf.reshape(rows[n * self.singles:], (n, steps, width)), [1, 0, 2])
        mask = tf.transpose(tf.sequence_mask(batch["length"], steps, tf.float32))[:, :, None]
        target = single[:, -width:]
        states, _ = self.recurrent(self.layers[0], keys, tf.ones_like(mask), mask)
        absent = tf.roll(keys[1:], 1, 1)
        pairs = (tf.nn.softplus(-tf.reduce_sum(states[:-1] * keys[1:], 2)) + tf.nn.softplus(tf.reduce_sum(states[:-1] * absent, 2)))
        count = tf.maximum(tf.cast(batch["length"], tf.float32) - 1, 1)
        auxiliary = tf.reduce_mean(tf.reduce_sum(pairs * mask[1:, :, 0], 0) / count)
        scores = tf.reduce_sum(states * tf_worker.apply(self.query, target)[None], 2) + (mask[:, :, 0] - 1) * 1e9
        _, last = self.recurrent(self.layers[1], states, tf.nn.softmax(scores, 0)[:, :, None], mask)
        logit = self.deep(tf.concat([single, last], 1))
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logit)
        return tf.reduce_mean(cross_entropy) + self.auxiliary * auxiliary

    def variables(self):
        out = list(self.query) + self.deep.variables()
        for inputs, own in self.layers:
            out += list(inputs) + [own[0]]
        return out


class Step(tf_worker.Step):
    def __init__(self, reading, rows):
        super().__init__(DIEN(reading, tf.random.Generator.from_seed(1)), rows, reading["dim"])

    @tf.function(reduce_retracing=True)
    def __call__(self, batch):
        lookups = tf.concat([tf.reshape(batch["keys"], (-1,)), tf.reshape(batch["history"], (-1,))], 0)
        rows = tf.gather(self.rows, lookups)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([rows] + self.variables)
            loss = self.model.loss(rows, batch)
        of_rows, *gradients = tape.gradient(loss, [rows] + self.variables)
        self.update(gradients)
        self.update_rows(lookups, of_rows)
        return loss
