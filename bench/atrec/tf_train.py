"""TensorFlow, kept and woken in turn, like torch_train.py: text by tf.data and tf.strings, the step a tf.function.

usage: tf_train.py FOLDER WORKLOAD"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers" / "speed"))

import shapes
import tf_worker  # first, as it sets TensorFlow's log level
import tensorflow as tf

import dien_tf

SEPARATOR = ";"
NETWORKS = {"wide_deep": tf_worker.WideDeep, "deepfm": tf_worker.DeepFM}


def log1p(values):
    return tf.sign(values) * tf.math.log1p(tf.abs(values))


class Reader:
    def __init__(self, reading):
        self.reading, self.starts, self.rows = reading, {}, 0
        for table, rows in reading["tables"].items():
            self.starts[table] = self.rows
            self.rows += rows
        r = reading
        if r["criteo"]:
            self.names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
        else:
            with open(r["file"], encoding="utf-8") as file:
                self.names = next(file).rstrip("\n").split(",")
        numbers = {"label"} | {name for name, _ in r["numbers"]}
        used = numbers | {entry[0] for kind in ("means", "one_hots", "keys", "lists", "history") for entry in r[kind]}
        self.used = [i for i, name in enumerate(self.names) if name in used]
        self.defaults = [tf.constant([0.0]) if self.names[i] in numbers else tf.constant([""]) for i in self.used]
        self.vocabularies = [tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(values, tf.range(len(values))), -1) for _, values, _ in r["one_hots"]]

    def dataset(self):
        r = self.reading
        lines = tf.data.TextLineDataset(r["file"], buffer_size=1 << 20).skip(0 if r["criteo"] else 1).repeat()
        return lines.batch(r["batch"]).map(self.parse, tf.data.AUTOTUNE).prefetch(2)

    def rows_of(self, texts, table):
        return tf.strings.to_hash_bucket_fast(texts, self.reading["tables"][table]) + self.starts[table]

    def parse(self, lines):
        r = self.reading
        cells = tf.io.decode_csv(lines, self.defaults, "\t" if r["criteo"] else ",", select_cols=self.used)
        cells, n = {self.names[i]: cell for i, cell in zip(self.used, cells)}, tf.size(lines)
        lists = {}

        def split(name):
            if name not in lists:
                lists[name] = tf.strings.split(cells[name], SEPARATOR)
            return lists[name]

        def mean(name):
            cells[name] = tf.where(cells[name] == "", "0", cells[name])  # splitting an empty text gives an empty text
            ragged = split(name)
            sums = tf.math.segment_sum(tf.strings.to_number(ragged.values), ragged.value_rowids())
            sums = tf.pad(sums, [[0, n - tf.size(sums)]])
            return sums / tf.maximum(tf.cast(ragged.row_lengths(), tf.float32), 1)

        dense = [(log1p(value) if log else value)[:, None]
                 for (name, log), value in [(entry, cells[entry[0]]) for entry in r["numbers"]]
                 + [(entry, mean(entry[0])) for entry in r["means"]]]
        for (name, values, is_list), vocabulary in zip(r["one_hots"], self.vocabularies):
            if is_list:
                hot = tf.one_hot(vocabulary.lookup(split(name).values), len(values))
                hot = tf.math.unsorted_segment_sum(hot, split(name).value_rowids(), n)
            else:
                hot = tf.one_hot(vocabulary.lookup(cells[name]), len(values))
            dense.append(hot)
        out = {"label": cells["label"], "dense": tf.concat(dense, 1) if dense else tf.zeros((n, 0)),
               "keys": tf.stack([self.rows_of(cells[name], table) for name, table in r["keys"]], 1)}
        if r["lists"]:
            out["flat"] = tf.concat([self.rows_of(split(name).values, table) for name, table in r["lists"]], 0)
            out["length"] = tf.concat([split(name).row_lengths() for name, _ in r["lists"]], 0)
        if r["history"]:
            padded = [tf.RaggedTensor.from_row_splits(self.rows_of(split(name).values, table), split(name).row_splits)
                      .to_tensor() for name, table in r["history"]]
            out["history"] = tf.stack(padded, 2)
            out["length"] = split(r["history"][0][0]).row_lengths()
        return out


class Pooled(tf_worker.Step):
    """Wide & Deep and DeepFM: single rows, and the means of lists by one segment_mean over all of them."""

    def __init__(self, reading, rows):
        fields = len(reading["keys"]) + len(reading["lists"])
        numbers = len(reading["numbers"]) + len(reading["means"]) + sum(len(values) for _, values, _ in reading["one_hots"])
        model = reading["model"]["name"]
        network = NETWORKS[model](reading["model"], tf.random.Generator.from_seed(1), fields, numbers)
        self.fields, self.lists = len(reading["keys"]), len(reading["lists"])
        super().__init__(network, rows, reading["dim"] + (model in shapes.LINEAR))

    @tf.function(reduce_retracing=True)
    def __call__(self, batch):
        width, n, lookups = self.rows.shape[1], tf.size(batch["label"]), tf.reshape(batch["keys"], (-1,))
        single = tf.reshape(tf.gather(self.rows, lookups), (-1, self.fields, width))
        inputs = [single]
        if self.lists:
            bag = tf.repeat(tf.range(self.lists * n), batch["length"])
            entries = tf.gather(self.rows, batch["flat"])
            inputs.append(tf.math.unsorted_segment_mean(entries, bag, self.lists * n))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs + self.variables)
            rows = single
            if self.lists:
                pooled = tf.transpose(tf.reshape(inputs[1], (self.lists, -1, width)), [1, 0, 2])
                rows = tf.ensure_shape(tf.concat([single, pooled], 1), (None, self.fields + self.lists, width))
            logit = self.model(rows, batch)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logit))
        gradients = tape.gradient(loss, inputs + self.variables)
        self.update(gradients[len(inputs):])
        of_rows = tf.reshape(gradients[0], (-1, width))
        if self.lists:
            of_bags = gradients[1] / tf.maximum(tf.cast(batch["length"], tf.float32), 1)[:, None]
            of_rows = tf.concat([of_rows, tf.gather(of_bags, bag)], 0)
            lookups = tf.concat([lookups, batch["flat"]], 0)
        self.update_rows(lookups, of_rows)
        return loss


def measure(step, batches, size, seconds, text):
    """Examples a second behind half a dozen steps: from text all of them in all the time, from memory by the median step,
    as the other contenders are measured."""
    for _ in range(6):
        float(step(next(batches)))
    begin, ends = time.perf_counter(), []
    while not ends or ends[-1] - begin < seconds:
        float(step(next(batches)))
        ends.append(time.perf_counter())
    if text:
        return size * len(ends) / (ends[-1] - begin)
    times = sorted(b - a for a, b in zip([begin] + ends, ends))
    return size / times[len(times) // 2]


def main():
    folder, name = sys.argv[1:]
    tf.config.threading.set_intra_op_parallelism_threads(shapes.THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(shapes.THREADS)
    with open(os.path.join(folder, name + ".reading.json"), encoding="utf-8") as file:
        reading = json.load(file)
    reader = Reader(reading)
    step = dien_tf.Step(reading, reader.rows) if reading["model"]["name"] == "dien" else Pooled(reading, reader.rows)
    held = list(reader.dataset().take(reading["held"]))
    print(json.dumps({"ready": f"TensorFlow {tf.__version__}"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        text = request["way"].startswith("text")
        batches = iter(reader.dataset()) if text else (held[i % len(held)] for i in range(1 << 40))
        rate = measure(step, batches, reading["batch"], request["seconds"], text)
        del batches
        print(json.dumps({"examples_per_second": rate}), flush=True)


if __name__ == "__main__":
    main()
