/* config: every kind of refusal of keys, values and overrides, by its exact message. */
#include "refusals.h"

#define ESCAPE "one ASCII sign that is no letter, digit, double quote or space, such as one backslash, or \"\" for none"

static void keys(void **state) {
    static const struct bad cases[] = {
        {"", NULL,
         "f.yaml: model.name: missing; expected one of lr, fm, wide_deep, deepfm, dcn, dcnv2, "
         "dlrm, din, xdeepfm, can, mmoe, dien, two_tower, dsin, star, atbrg"},
        {"# only a comment\n", NULL,
         "f.yaml: model.name: missing; expected one of lr, fm, wide_deep, deepfm, dcn, dcnv2, "
         "dlrm, din, xdeepfm, can, mmoe, dien, two_tower, dsin, star, atbrg"},
        {"model:\n", NULL,
         "f.yaml:1:1: model.name: missing; expected one of lr, fm, wide_deep, deepfm, dcn, "
         "dcnv2, dlrm, din, xdeepfm, can, mmoe, dien, two_tower, dsin, star, atbrg"},
        {MODEL, NULL,
         "f.yaml: features: missing; list the columns the model sees under features.numeric "
         "and features.categorical"},
        {MODEL "features: {numeric: [{clip: [0, 1]}]}\n", NULL,
         "f.yaml:2:22: features.numeric.0.columns: missing; expected a list of one or more "
         "column names"},
        {MODEL "train:\n  batchsize: 5\n", NULL,
         "f.yaml:3:3: train.batchsize: unknown key; did you mean batch_size? (accepted here: "
         "batch_size, epochs, max_steps, label_smoothing, clip_norm, eval_every, "
         "early_stopping, log_every)"},
        {MODEL "trian:\n  batch_size: 5\n", NULL,
         "f.yaml:2:1: trian: unknown key; did you mean train? (accepted here: seed, threads, "
         "precision, tuning, tile, without, data, tasks, features, embedding, model, optimizer, "
         "train, checkpoint)"},
        {MODEL "train:\n  lr: 0.1\n", NULL,
         "f.yaml:3:3: train.lr: unknown key; did you mean optimizer.dense.lr? (accepted here: "
         "batch_size, epochs, max_steps, label_smoothing, clip_norm, eval_every, "
         "early_stopping, log_every)"},
        {MODEL "data:\n  csv:\n    qqqqqqqq: 0.1\n", NULL,
         "f.yaml:4:5: data.csv: criteo does not use this key (used by: csv); remove it, or "
         "change data.format"},
        {"seed: 1\nthreads: 2\nseed: 3\n", NULL,
         "f.yaml:3:7: seed: given a second time (first in line 1)"},
        {"seed: 1\nthreads: 2\nseed: 3\n", "seed=4",
         "f.yaml:3:7: seed: given a second time (first in line 1)"},
        {MODEL, "train.label_smoothing=0.99999998",
         "--set train.label_smoothing=0.99999998: train.label_smoothing: found 0.99999998, expected a "
         "number, at least 0 and below 1"},
        {MODEL, "model+=x", "--set model+=x: model is no list that += could add to"},
        {MODEL "optimizer: {dense: {name: adam}}\n", "optimizer.dense.initial_accumulator=1",
         "--set optimizer.dense.initial_accumulator=1: optimizer.dense.initial_accumulator: adam does not use this key "
         "(used by: adagrad, rowwise_adagrad, ftrl); remove it, or change optimizer.dense.name"},
        {MODEL "train: {epochs: 1}\ntrain: {epochs: 1}\n", NULL,
         "f.yaml:3:8: train: given a second time (first in line 2)"},
        {MODEL "features: {categorical: [{colums: C1}]}\n", NULL,
         "f.yaml:2:27: features.categorical.0.colums: unknown key; did you mean columns? "
         "(accepted here: columns, name, table, buckets, vocabulary_file, vocabulary_size, "
         "vocabulary_min_count, oov_buckets, bins, min_count, dim, sequence, separator, group, "
         "max_length, keep, pooling, field)"},
        {MODEL "\"\": 1\n", NULL,
         "f.yaml:2:1: '': unknown key (accepted here: seed, threads, precision, tuning, "
         "tile, without, data, tasks, features, embedding, model, optimizer, train, checkpoint)"},
        {MODEL "a\\b\xc3\xa4: 1\n", NULL,
         "f.yaml:2:1: a\\x5cb\\xc3\\xa4: unknown key (accepted here: seed, threads, "
         "precision, tuning, tile, without, data, tasks, features, embedding, model, optimizer, "
         "train, checkpoint)"},
        {MODEL "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
               "a: 1\n",
         NULL,
         "f.yaml:2:1: "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...: "
         "unknown key (accepted here: seed, threads, precision, tuning, tile, without, data, "
         "tasks, features, embedding, model, optimizer, train, checkpoint)"},
    };
    CHECK(cases);
}

static void types(void **state) {
    static const struct bad cases[] = {
        {"seed: -1\n", NULL,
         "f.yaml:1:7: seed: found -1, expected a whole number from 0 to 18446744073709551615"},
        {"seed: 18446744073709551616\n", NULL,
         "f.yaml:1:7: seed: found 18446744073709551616, expected a whole number from 0 to "
         "18446744073709551615"},
        {"threads: many\n", NULL,
         "f.yaml:1:10: threads: found many, expected a whole number from 0 to 4096"},
        {"threads: \"2\"\n", NULL,
         "f.yaml:1:10: threads: found the text '2', expected a whole number from 0 to 4096"},
        {"threads:\n", NULL,
         "f.yaml:1:9: threads: found no value, expected a whole number from 0 to 4096"},
        {"threads: [1, 2]\n", NULL,
         "f.yaml:1:10: threads: found a list, expected a whole number from 0 to 4096"},
        {"threads: {a: 1}\n", NULL,
         "f.yaml:1:10: threads: found a section, expected a whole number from 0 to 4096"},
        {"threads: 5000\n", NULL,
         "f.yaml:1:10: threads: found 5000, expected a whole number from 0 to 4096"},
        {MODEL "train: {batch_size: 0}\n", NULL,
         "f.yaml:2:21: train.batch_size: found 0, expected a whole number from 1 to 1048576"},
        {MODEL "train: {batch_size: 1.5}\n", NULL,
         "f.yaml:2:21: train.batch_size: found 1.5, expected a whole number from 1 to 1048576"},
        {MODEL "train: {clip_norm: -1}\n", NULL,
         "f.yaml:2:20: train.clip_norm: found -1, expected a number from 0 to 1000000000000"},
        {MODEL "train: {clip_norm: .nan}\n", NULL,
         "f.yaml:2:20: train.clip_norm: found .nan, expected a number from 0 to 1000000000000"},
        {MODEL "train: {label_smoothing: 1}\n", NULL,
         "f.yaml:2:26: train.label_smoothing: found 1, expected a number, at least 0 and "
         "below 1"},
        {MODEL "train: 5\n", NULL,
         "f.yaml:2:8: train: found a single value, expected a section of keys such as "
         "batch_size"},
        {MODEL "train: [a]\n", NULL,
         "f.yaml:2:8: train: found a list, expected a section of keys such as batch_size"},
        {"precision: fp23\n", NULL,
         "f.yaml:1:12: precision: found fp23, expected one of fp32, bf16, bf16x3, bf16x6; did you mean fp32?"},
        {"precision: fp64x\n", NULL,
         "f.yaml:1:12: precision: found fp64x, expected one of fp32, bf16, bf16x3, bf16x6"},
        {"tuning:\n", NULL, "f.yaml:1:8: tuning: found no value, expected a text"},
        {"without: {a: b}\n", NULL,
         "f.yaml:1:10: without: found a section, expected a list of texts"},
        {"without: [[a]]\n", NULL, "f.yaml:1:11: without: found a list, expected a list of texts"},
        {MODEL "data: {format: cvs}\n", NULL,
         "f.yaml:2:16: data.format: found cvs, expected one of criteo, csv, libsvm, libffm; "
         "did you mean csv?"},
        {MODEL "data: {block_bytes: 64q}\n", NULL,
         "f.yaml:2:21: data.block_bytes: found 64q, expected a size such as 64k, 1MiB or 2GB, "
         "at least 1024"},
        {MODEL "data: {block_bytes: 2000.5}\n", NULL,
         "f.yaml:2:21: data.block_bytes: found 2000.5, expected a size such as 64k, 1MiB or 2GB, at least 1024"},
        {MODEL "data: {block_bytes: 2.5.0k}\n", NULL,
         "f.yaml:2:21: data.block_bytes: found 2.5.0k, expected a size such as 64k, 1MiB or 2GB, at least 1024"},
        {MODEL "data: {block_bytes: 16}\n", NULL,
         "f.yaml:2:21: data.block_bytes: found 16, expected a size such as 64k, 1MiB or 2GB, "
         "at least 1024"},
        {MODEL "data: {block_bytes: 9999999TB}\n", NULL,
         "f.yaml:2:21: data.block_bytes: found 9999999TB, expected a size such as 64k, 1MiB "
         "or 2GB, at least 1024"},
        {MODEL "data: {format: csv, csv: {delimiter: ab}}\n", NULL,
         "f.yaml:2:38: data.csv.delimiter: found ab, expected one character, or up to eight bytes without "
         "letters and digits; no quote, no line break"},
        {MODEL "data: {format: csv, csv: {delimiter: '\"'}}\n", NULL,
         "f.yaml:2:38: data.csv.delimiter: found the text '\"', expected one character, or up to eight bytes without "
         "letters and digits; no quote, no line break"},
        {MODEL "data: {format: csv, csv: {delimiter: \":::::::::\"}}\n", NULL,
         "f.yaml:2:38: data.csv.delimiter: found the text ':::::::::', expected one character, or up to eight bytes without "
         "letters and digits; no quote, no line break"},
        {MODEL "data: {format: csv, csv: {escape: '\\\\'}}\n", NULL,
         "f.yaml:2:35: data.csv.escape: found the text '\\x5c\\x5c', expected " ESCAPE},
        {MODEL "data: {format: csv, csv: {escape: '\"'}}\n", NULL,
         "f.yaml:2:35: data.csv.escape: found the text '\"', expected " ESCAPE},
        {MODEL "data: {format: csv, csv: {escape: \"\\n\"}}\n", NULL,
         "f.yaml:2:35: data.csv.escape: found the text '\\x0a', expected " ESCAPE},
        {MODEL "data: {format: csv, csv: {escape: n}}\n", NULL,
         "f.yaml:2:35: data.csv.escape: found n, expected " ESCAPE},
        {MODEL "data: {format: csv, csv: {escape: \xc2\xa7}}\n", NULL,
         "f.yaml:2:35: data.csv.escape: found \\xc2\\xa7, expected " ESCAPE},
        {MODEL "data: {format: csv, csv: {escape: }}\n", NULL,
         "f.yaml:2:35: data.csv.escape: found no value, expected " ESCAPE},
        {MODEL "data: {format: csv, csv: {header: maybe}}\n", NULL,
         "f.yaml:2:35: data.csv.header: found maybe, expected true or false"},
        {MODEL "data: {on_bad_line: skip up to many}\n", NULL,
         "f.yaml:2:21: data.on_bad_line: found skip up to many, expected stop, skip, or "
         "\"skip up to N\""},
        {MODEL "data: {holdout: {fraction: 1}}\n", NULL,
         "f.yaml:2:28: data.holdout.fraction: found 1, expected a number above 0 and below 1"},
        {MODEL "data: {holdout: {fraction: 0}}\n", NULL,
         "f.yaml:2:28: data.holdout.fraction: found 0, expected a number above 0 and below 1"},
        {MODEL "data: {holdout: hash}\n", NULL,
         "f.yaml:2:17: data.holdout: found a single value, expected a section of keys such as "
         "by"},
        {MODEL "features: {numeric: [{columns: []}]}\n", NULL,
         "f.yaml:2:32: features.numeric.0.columns: found an empty list, expected a list of "
         "one or more column names"},
        {MODEL "features: {numeric: [{columns: [a, \"\"]}]}\n", NULL,
         "f.yaml:2:32: features.numeric.0.columns: found the text '', expected a column's name"},
        {MODEL "features: {numeric: [{columns: [I1..I99999]}]}\n", NULL,
         "f.yaml:2:32: features.numeric.0.columns: more than 65536 columns in all"},
        {MODEL "features: {numeric: {columns: a}}\n", NULL,
         "f.yaml:2:21: features.numeric: found a section, expected a list of sections, each "
         "begun by \"- \""},
        {MODEL "features: {numeric: [a]}\n", NULL,
         "f.yaml:2:22: features.numeric.0: found a single value, expected a section of keys "
         "such as columns"},
        {MODEL "features: {numeric: [{columns: a, clip: 5}]}\n", NULL,
         "f.yaml:2:41: features.numeric.0.clip: found 5, expected a list of two numbers, the first "
         "below the second, or [] for none"},
        {MODEL "features: {numeric: [{columns: a, clip: [5, 1]}]}\n", NULL,
         "f.yaml:2:41: features.numeric.0.clip: found a list, expected a list of two numbers, "
         "the first below the second, or [] for none"},
        {MODEL "features: {numeric: [{columns: a, clip: [1e39, 1e40]}]}\n", NULL,
         "f.yaml:2:41: features.numeric.0.clip: found a list, expected a list of two numbers, "
         "the first below the second, or [] for none"},
        {MODEL "features: {numeric: [{columns: a, clip: [-1e40, -1e39]}]}\n", NULL,
         "f.yaml:2:41: features.numeric.0.clip: found a list, expected a list of two numbers, "
         "the first below the second, or [] for none"},
        {MODEL "features: {numeric: [{columns: a, clip: [x, 1]}]}\n", NULL,
         "f.yaml:2:42: features.numeric.0.clip: found x, expected a number"},
        {MODEL "features: {numeric: [{columns: a, standardise: yes}]}\n", NULL,
         "f.yaml:2:48: features.numeric.0.standardise: found yes, expected none, running, or "
         "{mean: NUMBER, deviation: NUMBER of 1e-37 or more}"},
        {MODEL "features: {numeric: [{columns: a, standardise: {deviation: 0}}]}\n", NULL,
         "f.yaml:2:60: features.numeric.0.standardise.deviation: found 0, expected a number, at "
         "least 1e-37"},
        {MODEL "features: {numeric: [{columns: a, standardise: {deviaton: 1}}]}\n", NULL,
         "f.yaml:2:49: features.numeric.0.standardise.deviaton: unknown key; did you mean "
         "deviation? (accepted here: mean, deviation)"},
        {MODEL "features: {numeric: [{columns: a, boundaries: [1, b]}]}\n", NULL,
         "f.yaml:2:51: features.numeric.0.boundaries: found b, expected a list of numbers"},
        {MODEL "features: {categorical: [{columns: a, pooling: men}]}\n", NULL,
         "f.yaml:2:48: features.categorical.0.pooling: found men, expected one of sum, mean, "
         "max; did you mean mean?"},
        {"model: {name: deepfmm}\n", NULL,
         "f.yaml:1:15: model.name: found deepfmm, expected one of lr, fm, wide_deep, deepfm, "
         "dcn, dcnv2, dlrm, din, xdeepfm, can, mmoe, dien, two_tower, dsin, star, atbrg; did you mean deepfm?"},
        {"model: {name: transformer}\n", NULL,
         "f.yaml:1:15: model.name: found transformer, expected one of lr, fm, wide_deep, "
         "deepfm, dcn, dcnv2, dlrm, din, xdeepfm, can, mmoe, dien, two_tower, dsin, star, atbrg"},
        {"model: {name: deepfm, hidden: [0]}\n", NULL,
         "f.yaml:1:32: model.hidden: found 0, expected a list of whole numbers from 1 to 65536"},
        {MODEL "optimizer: {dense: {lr: 0}}\n", NULL,
         "f.yaml:2:25: optimizer.dense.lr: found 0, expected a number above 0 and up to 1000"},
        {MODEL "optimizer: {dense: {name: adam, beta2: 1}}\n", NULL,
         "f.yaml:2:40: optimizer.dense.beta2: found 1, expected a number, at least 0 and "
         "below 1"},
    };
    CHECK(cases);
}

static void overrides(void **state) {
    static const struct bad cases[] = {
        {MODEL FEATURES, "train.batchsize=5",
         "--set train.batchsize=5: train.batchsize: unknown key; did you mean batch_size? "
         "(accepted here: batch_size, epochs, max_steps, label_smoothing, clip_norm, "
         "eval_every, early_stopping, log_every)"},
        {MODEL FEATURES, "trian.batch_size=5",
         "--set trian.batch_size=5: trian: unknown key; did you mean train? (accepted here: "
         "seed, threads, precision, tuning, tile, without, data, tasks, features, embedding, model, "
         "optimizer, train, checkpoint)"},
        {MODEL FEATURES, "train.batch_size=five",
         "--set train.batch_size=five: train.batch_size: found five, expected a whole number "
         "from 1 to 1048576"},
        {MODEL FEATURES, "train.batch_size",
         "--set train.batch_size: train.batch_size is not KEY=VALUE, such as train.epochs=2"},
        {MODEL FEATURES, "=5", "--set =5: =5 is not KEY=VALUE, such as train.epochs=2"},
        {MODEL FEATURES, "train..epochs=5",
         "--set train..epochs=5: train..epochs is not a path of keys, such as train.epochs"},
        {MODEL FEATURES, "train.=5",
         "--set train.=5: train. is not a path of keys, such as train.epochs"},
        {MODEL FEATURES, "model.name.x=5",
         "--set model.name.x=5: model.name is a single value, nothing stands below it"},
        {MODEL FEATURES, "features.numeric.0.clip=[0, 1]",
         "--set features.numeric.0.clip=[0, 1]: features.numeric has no items in the file"},
        {MODEL FEATURES, "features.categorical.1.dim=5",
         "--set features.categorical.1.dim=5: features.categorical has no item of that number "
         "(they count from 0)"},
        {MODEL FEATURES, "features.categorical.dim=5",
         "--set features.categorical.dim=5: features.categorical is a list, its items have "
         "numbers from 0"},
        {MODEL FEATURES, "data.train=[a",
         "--set data.train=[a: not YAML: did not find expected ',' or ']' while parsing a "
         "flow sequence"},
        {MODEL FEATURES, "seed.x=5",
         "--set seed.x=5: seed: found a section, expected a whole number from 0 to "
         "18446744073709551615"},
        {MODEL FEATURES, "data.train=\xff",
         "--set data.train=\\xff: data.train=\\xff is not UTF-8 text"},
        {MODEL FEATURES, "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=5",
         "--set a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=5: a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q is "
         "nested too deeply"},
        {MODEL FEATURES, "model.hidden=[5]",
         "--set model.hidden=[5]: model.hidden: lr does not use this key (used by: wide_deep, "
         "deepfm, dcn, dcnv2, din, xdeepfm, can, dien, two_tower, dsin, star, atbrg); remove it, or change model.name"},
        {MODEL FEATURES, "train.epochs=",
         "--set train.epochs=: train.epochs: found the text '', expected a whole number from "
         "1 to 1000000"},
    };
    CHECK(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(types),
        cmocka_unit_test(overrides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
