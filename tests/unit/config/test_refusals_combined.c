/* config: values that do not go together, by the exact message. */
#include "refusals.h"

static void combinations(void **state) {
    static const struct bad cases[] = {
        {MODEL FEATURES "data: {train: \"-\", holdout: {by: tail}}\n", NULL,
         "f.yaml:3:30: data.holdout.by: tail cannot hold out the end of standard input, which "
         "has no known length; name files in data.valid"},
        {MODEL FEATURES "data: {train: \"-\", test: \"-\"}\n", NULL,
         "f.yaml:3:1: data: standard input (\"-\") is given 2 times but can be read once; use "
         "files"},
        {MODEL FEATURES "data: {train: a, holdout: {by: tail, column: C1}}\n", NULL,
         "f.yaml:3:38: data.holdout.column: only for data.holdout.by: hash; set that, or remove it"},
        {MODEL FEATURES "data: {train: a, format: libsvm, holdout: {by: hash, column: C1}}\n", NULL,
         "f.yaml:3:54: data.holdout.column: libsvm and libffm lines have no columns; remove it"},
        {MODEL FEATURES "data: {train: a, holdout: {fraction: 0.2}}\n", NULL,
         "f.yaml:3:18: data.holdout.by: missing; data.holdout.fraction alone holds nothing out: hash or tail "
         "says which lines"},
        {MODEL FEATURES "data: {valid: a, holdout: {by: hash}}\n", NULL,
         "f.yaml:3:28: data.holdout.by: data.valid already names the held-out part; remove "
         "one of the two"},
        {"model: {name: lr}\nfeatures: {numeric: [{columns: I1}]}\ndata: {format: csv, label: y, weight: y}\n", NULL,
         "f.yaml:3:31: data.weight: this column is the label; a weight says how much an example counts"},
        {"model: {name: lr}\nfeatures: {numeric: [{columns: I1}]}\ndata: {format: csv}\n"
         "tasks: [{name: a, label: x, sample_weight: y}, {name: b, label: y}]\n", NULL,
         "f.yaml:4:29: tasks.0.sample_weight: this column is a label; a weight says how much an example counts"},
        {"model: {name: wide_deep, wide: [C1, C1]}\nfeatures: {categorical: [{columns: C1}]}\n", NULL,
         "f.yaml:1:26: model.wide: C1 is listed twice"},
        {"model: {name: two_tower, user_fields: [\"C1\", \"C1\"]}\nfeatures: {categorical: [{columns: C1}]}\n", NULL,
         "f.yaml:1:26: model.user_fields: C1 is listed twice"},
        {"model: {name: two_tower, item_fields: [\"C1\", \"C1\"]}\nfeatures: {categorical: [{columns: C1}]}\n", NULL,
         "f.yaml:1:26: model.item_fields: C1 is listed twice"},
        {"model: {name: can, co_action: [\"C1:C2\", \"C1:C2\"]}\nfeatures: {categorical: [{columns: C1}]}\n", NULL,
         "f.yaml:1:20: model.co_action: C1:C2 is listed twice"},
        {"model: {name: atbrg, relations: [\"C1:C2\", \"C1:C2\"]}\nfeatures: {categorical: [{columns: C1}]}\n", NULL,
         "f.yaml:1:22: model.relations: C1:C2 is listed twice"},
        {"model: {name: dien, negatives: [\"C1\", \"C1\"]}\nfeatures: {categorical: [{columns: C1}]}\n", NULL,
         "f.yaml:1:21: model.negatives: C1 is listed twice"},
        {"model: {name: lr}\nfeatures: {indicator: [{columns: a, separator: \";\", values: [\"x;y\"]}]}\n"
         "data: {format: csv, label: y}\n", NULL,
         "f.yaml:2:53: features.indicator.0.values: a text has the separator in it, which no value of a list can have"},
        {"model: {name: lr}\nfeatures: {numeric: [{columns: I1, missing_value: 1e39}]}\n", NULL,
         "f.yaml:2:51: features.numeric.0.missing_value: found 1e39, expected a number that a 32-bit float can hold"},
        {MODEL FEATURES "train: {early_stopping: {metric: auc}}\n", NULL,
         "f.yaml:3:26: train.early_stopping.metric: nothing is held out to watch auc on; set "
         "data.holdout.by or data.valid"},
        {MODEL FEATURES "train: {eval_every: 5}\n", NULL,
         "f.yaml:3:9: train.eval_every: nothing is held out to evaluate on; set "
         "data.holdout.by or data.valid"},
        {MODEL FEATURES "data: {valid: a}\ntrain: {early_stopping: {metric: gauc}}\n", NULL,
         "f.yaml:4:26: train.early_stopping.metric: gauc needs data.query, the column that "
         "groups examples; set it, or use auc"},
        {MODEL FEATURES "data:\n  csv: {strip: true}\n", NULL,
         "f.yaml:4:8: data.csv: criteo does not use this key (used by: csv); remove it, or "
         "change data.format"},
        {MODEL FEATURES "data:\n  label: x\n", NULL,
         "f.yaml:4:10: data.label: criteo does not use this key (used by: csv); remove it, or "
         "change data.format"},
        {MODEL FEATURES "data: {format: csv}\n", NULL,
         "f.yaml:3:1: data.label: missing; with csv, name the column of the label"},
        {MODEL FEATURES "data: {format: csv, label: y, csv: {header: false}}\n", NULL,
         "f.yaml:3:31: data.csv.columns: missing; without a header the columns' names must be "
         "listed in order"},
        {MODEL FEATURES "data: {format: csv, label: y, csv: {comment: \"\\n\"}}\n", NULL,
         "f.yaml:3:37: data.csv.comment: a line cannot start with a line break"},
        {MODEL FEATURES "data: {format: csv, label: y, csv: {delimiter: ';/;', escape: /}}\n", NULL,
         "f.yaml:3:55: data.csv.escape: the delimiter has this sign, too, and could not be told from an escape; "
         "choose another"},
        {MODEL "features: {derived: [{as: join, name: b, from: a, file: f, key: k, value: v, delimiter: '^', escape: '^'}]}\n",
         NULL,
         "f.yaml:2:94: features.derived.0.escape: the delimiter has this sign, too, and could not be told from an escape; "
         "choose another"},
        {MODEL FEATURES "data: {format: csv, label: C1}\n", NULL,
         "f.yaml:2:27: features.categorical.0.columns: C1 is the label, it cannot be a feature"},
        {MODEL FEATURES "tasks: [{name: t, label: y}]\n", NULL,
         "f.yaml:3:1: tasks: criteo lines have one label; several need data.format csv"},
        {MODEL FEATURES CSV "tasks: [{name: t, label: z}]\n", NULL,
         "f.yaml:3:21: data.label: each of the tasks names its own; remove one of the two"},
        {MODEL FEATURES "data: {format: csv, positive: [a]}\ntasks: [{name: t, label: z}]\n", NULL,
         "f.yaml:3:21: data.positive: each of the tasks names its own; remove one of the two"},
        {MODEL FEATURES "data: {format: csv}\ntasks: [{name: a b, label: z}]\n", NULL,
         "f.yaml:4:10: tasks.0.name: a task needs a name of 1 to 64 letters, digits, '_' or '-'"},
        {MODEL FEATURES "data: {format: csv}\ntasks: [{name: a, label: z}, {name: a, label: y}]\n", NULL,
         "f.yaml:4:31: tasks.1.name: a is already the name of task 0"},
        {MODEL FEATURES "data: {format: csv}\ntasks: [{name: a}]\n", NULL,
         "f.yaml:4:9: tasks.0.label: missing; name the column of the task's label"},
        {MODEL FEATURES "data: {format: csv}\ntasks: [{name: a, label: C1}]\n", NULL,
         "f.yaml:2:27: features.categorical.0.columns: C1 is the label, it cannot be a feature"},
        {MODEL FEATURES "data: {format: csv, holdout: {by: hash}}\ntasks: [{name: a, label: z}]\n"
                        "train: {early_stopping: {metric: auc, task: b}}\n",
         NULL, "f.yaml:5:39: train.early_stopping.task: there is no task of this name under tasks"},
        {MODEL FEATURES CSV "train: {early_stopping: {task: b}}\n", NULL,
         "f.yaml:4:26: train.early_stopping.task: there is one task only; remove it"},
        {MODEL NUMBERS "data: {format: libsvm}\n", NULL,
         "f.yaml:2:12: features.numeric: libsvm and libffm lines have no numeric columns; use "
         "features.categorical, whose rows are weighted by the values"},
        {MODEL FEATURES "optimizer: {sparse: {name: lamb}}\n", NULL,
         "f.yaml:3:22: optimizer.sparse.name: lamb scales by the norm of a whole layer, which "
         "rows updated one by one do not have; use adam or adamw"},
        {MODEL FEATURES "optimizer: {dense: {name: rowwise_adagrad}}\n", NULL,
         "f.yaml:3:21: optimizer.dense.name: rowwise_adagrad keeps one sum a row of an "
         "embedding table, dense parameters have no such rows; use adagrad"},
        {MODEL FEATURES "optimizer: {dense: {name: sgd, beta1: 0.5}}\n", NULL,
         "f.yaml:3:39: optimizer.dense.beta1: sgd does not use this key (used by: adam, "
         "adamw, lamb); remove it, or change optimizer.dense.name"},
        {MODEL FEATURES "optimizer: {schedule: {kind: cosine}}\n", NULL,
         "f.yaml:3:13: optimizer.schedule.total_steps: 0; cosine must end after the warm-up: "
         "expected a whole number above 0"},
        {MODEL FEATURES
         "optimizer:\n  schedule: {kind: polynomial, warmup_steps: 9, total_steps: 9}\n",
         NULL,
         "f.yaml:4:49: optimizer.schedule.total_steps: 9; polynomial must end after the "
         "warm-up: expected a whole number above 9"},
        {MODEL FEATURES "optimizer: {schedule: {total_steps: 9}}\n", NULL,
         "f.yaml:3:37: optimizer.schedule.total_steps: constant does not use this key (used "
         "by: polynomial, cosine); remove it, or change optimizer.schedule.kind"},
        {MODEL FEATURES "checkpoint: {every_steps: 5}\n", NULL,
         "f.yaml:3:14: checkpoint.every_steps: set, but not checkpoint.dir, the folder to "
         "write to; set it too"},
        {MODEL "features: {categorical: [{columns: a, sequence: true}]}\n", NULL,
         "f.yaml:2:26: features.categorical.0.separator: missing; a sequence needs what "
         "stands between its values, such as \";\""},
        {MODEL "features: {categorical: [{columns: a, group: g}]}\n", NULL,
         "f.yaml:2:39: features.categorical.0.group: only columns with a separator have "
         "positions to share"},
        {MODEL "features: {categorical: [{columns: a, max_length: 5}]}\n", NULL,
         "f.yaml:2:39: features.categorical.0.max_length: only for lists; give the separator between a cell's "
         "values, such as \";\""},
        {MODEL "features: {categorical: [{columns: a, keep: first}]}\n", NULL,
         "f.yaml:2:39: features.categorical.0.keep: only for lists; give the separator between a cell's "
         "values, such as \";\""},
        {MODEL "features: {categorical: [{columns: a, pooling: mean}]}\n", NULL,
         "f.yaml:2:39: features.categorical.0.pooling: only for lists; give the separator between a cell's "
         "values, such as \";\""},
        {MODEL "features: {categorical: [{columns: a, separator: ;, sequence: true, pooling: max}]}\n", NULL,
         "f.yaml:2:69: features.categorical.0.pooling: positions of a sequence are kept, and models without "
         "attention take their mean; remove one of the two"},
        {MODEL "features: {categorical: [{columns: a, name: b, bins: 4, separator: ;, max_length: 5}]}\n", NULL,
         "f.yaml:2:71: features.categorical.0.max_length: bins are made of all values of a cell; remove it"},
        {MODEL "features: {numeric: [{columns: a, keep: first}]}\n", NULL,
         "f.yaml:2:35: features.numeric.0.keep: only for lists; give the separator between a cell's numbers, such "
         "as \";\""},
        {MODEL "features: {numeric: [{columns: a, separator: ;, keep: first}]}\n", NULL,
         "f.yaml:2:49: features.numeric.0.keep: all of a list is used; set max_length"},
        {MODEL "features: {categorical: [{columns: a, field: 3}]}\n", NULL,
         "f.yaml:2:39: features.categorical.0.field: only libffm has numbered fields; remove "
         "it"},
        {MODEL "features: {categorical: [{columns: a}, {columns: [b, a]}]}\n", NULL,
         "f.yaml:2:41: features.categorical.1.columns: a is already a feature of "
         "features.categorical.0; list it once, or give one a name"},
        {MODEL
         "features: {categorical: [{columns: a, table: t}, {columns: b, table: t, dim: 4}]}\n",
         NULL,
         "f.yaml:2:1: features: a and b share the table t but differ in dim; give both the "
         "same, or tables of their own"},
        {MODEL "features: {categorical: [{columns: a, separator: \";\", group: g}, {columns: b, "
               "separator: \";\", group: g, max_length: 5}]}\n",
         NULL,
         "f.yaml:2:12: features.categorical: a and b are of the group g but differ in "
         "max_length; give both the same"},
        {MODEL
         "features: {categorical: [{columns: a, table: t}, {columns: b, table: t, buckets: 4}]}\n",
         NULL,
         "f.yaml:2:1: features: a and b share the table t but differ in buckets; give both the "
         "same, or tables of their own"},
        {MODEL
         "features: {categorical: [{columns: a, table: t}, {columns: [b, c], name: d, bins: 9, table: t}]}\n",
         NULL,
         "f.yaml:2:1: features: a and d share the table t but differ in bins; give both the "
         "same, or tables of their own"},
        {MODEL
         "features: {numeric: [{columns: a, quantiles: 4, table: t}], categorical: [{columns: b, "
         "table: t, min_count: 2}]}\n",
         NULL,
         "f.yaml:2:1: features: a_bucket and b share the table t but differ in min_count; give "
         "both the same, or tables of their own"},
        {MODEL "features: {categorical: [{columns: a, separator: \";\", group: g}, {columns: b, "
               "separator: \";\", group: g, sequence: true}]}\n",
         NULL,
         "f.yaml:2:12: features.categorical: a and b are of the group g but differ in sequence; "
         "give both the same"},
        {MODEL "features: {categorical: [{columns: a, separator: \";\", group: g}, {columns: b, "
               "separator: \";\", group: g, keep: first}]}\n",
         NULL,
         "f.yaml:2:12: features.categorical: a and b are of the group g but differ in keep; "
         "give both the same"},
        {MODEL "features: {categorical: [{columns: a, table: t, vocabulary_size: 9}, {columns: b, table: t, "
               "vocabulary_size: 9, vocabulary_min_count: 3}]}\n",
         NULL,
         "f.yaml:2:1: features: a and b share the table t but differ in vocabulary; give both the "
         "same, or tables of their own"},
        {MODEL "features: {derived: [{as: join, name: b, from: [a, c], file: f, key: k, value: v}]}\n", NULL,
         "f.yaml:2:42: features.derived.0.from: a join is made from one column; for a key of several make their "
         "cross before"},
        {MODEL "features: {derived: [{as: date, name: b, from: [a, c]}]}\n", NULL,
         "f.yaml:2:42: features.derived.0.from: only a cross is made from several columns"},
        {MODEL "features: {derived: [{as: replace, name: b, from: a, characters: x, by: yz}]}\n", NULL,
         "f.yaml:2:69: features.derived.0.by: must be one ASCII character, or \"\" for none"},
        {MODEL "features: {derived: [{as: replace, name: b, from: a}]}\n", NULL,
         "f.yaml:2:22: features.derived.0.characters: missing; name those to replace or leave out, such as \"[]'\""},
        {MODEL "features: {derived: [{as: replace, name: b, from: a, characters: \"\\u00e9\"}]}\n", NULL,
         "f.yaml:2:54: features.derived.0.characters: must be ASCII: of longer ones single bytes would be replaced"},
        {MODEL "features: {derived: [{as: cross, name: b, from: [a, c]}, {as: join, name: d, from: a, file: f, key: [k, l], "
               "value: v}]}\n", NULL,
         "f.yaml:2:96: features.derived.1.key: several columns of the file are compared with a cross of as many, which is "
         "made before and named in from"},
        {MODEL "data: {format: csv, label: late}\nfeatures: {derived: [{as: date, name: late, from: time, part: weekend}]}\n",
         NULL,
         "f.yaml:3:33: features.derived.0.name: this is the label's column, and a label is read from the files, never made; "
         "give this one another name, or name a column of the files as the label (positive: its texts that mean 1)"},
        {MODEL "features: {derived: [{as: sessions, name: b, from: a}]}\n", NULL,
         "f.yaml:2:22: features.derived.0.separator: sessions need a list of times, with something between them "
         "that has no digits"},
        {MODEL "features: {derived: [{as: sessions, name: b, from: a, separator: ;0}]}\n", NULL,
         "f.yaml:2:55: features.derived.0.separator: sessions need a list of times, with something between them "
         "that has no digits"},
        {MODEL "features: {derived: [{as: sessions, name: b, from: a, separator: ;, gap: -1}]}\n", NULL,
         "f.yaml:2:74: features.derived.0.gap: found -1, expected a whole number from 0 to 1000000000000"},
        {MODEL "features: {derived: [{as: date, name: b, from: a, gap: 60}]}\n", NULL,
         "f.yaml:2:56: features.derived.0.gap: date does not use this key (used by: sessions); remove it, or change "
         "features.derived.0.as"},
        {MODEL "features: {numeric: [{columns: a, boundaries: [1, 1]}]}\n", NULL,
         "f.yaml:2:35: features.numeric.0.boundaries: not increasing; each must be above the "
         "one before"},
        {MODEL "features: {numeric: [{columns: a, separator: \"5\"}]}\n", NULL,
         "f.yaml:2:35: features.numeric.0.separator: has a digit in it, which numbers have, too"},
        {MODEL "features: {numeric: [{columns: a, boundaries: [1, 2], quantiles: 3}]}\n", NULL,
         "f.yaml:2:55: features.numeric.0.quantiles: boundaries are given, so none are "
         "learned; remove one of the two"},
        {MODEL "features: {numeric: [{columns: a, bucket_only: true}]}\n", NULL,
         "f.yaml:2:35: features.numeric.0.bucket_only: there are no buckets; set boundaries "
         "or quantiles"},
        {MODEL "features: {numeric: [{columns: a, dim: 4}]}\n", NULL,
         "f.yaml:2:35: features.numeric.0.dim: only the bucketised copy has a table; set "
         "boundaries or quantiles"},
        {MODEL "features: {numeric: [{columns: a}, {columns: a}]}\n", NULL,
         "f.yaml:2:37: features.numeric.1.columns: a is already a feature of "
         "features.numeric.0; list it once, or give one a name"},
        {FEATURES "model:\n  name: lr\n  hidden: [5]\n", NULL,
         "f.yaml:4:11: model.hidden: lr does not use this key (used by: wide_deep, deepfm, "
         "dcn, dcnv2, din, xdeepfm, can, dien, two_tower, dsin, star, atbrg); remove it, or change model.name"},
        {FEATURES "model: {name: deepfm, cross_layers: 2}\n", NULL,
         "f.yaml:2:37: model.cross_layers: deepfm does not use this key (used by: dcn, "
         "dcnv2); remove it, or change model.name"},
        {FEATURES "model: {name: deepfm, batch_norm: true, layer_norm: true}\n", NULL,
         "f.yaml:2:41: model.layer_norm: a layer is normalised once; use batch_norm or "
         "layer_norm, not both"},
        {MODEL FEATURES "optimizer: {sparse: {name: ftrl, lr: 1e-40}}\n", NULL,
         "f.yaml:3:34: optimizer.sparse.lr: 1e-40; ftrl divides by it: expected at least 1e-30"},
        {FEATURES "model: {name: can, target: nobody, co_action: [\"C1:C1\"]}\n", NULL,
         "f.yaml:2:20: model.target: the pairs of model.co_action name what acts on what; leave one of the two out"},
        {FEATURES "model: {name: wide_deep, wide: [C2]}\n", NULL,
         "f.yaml:2:26: model.wide: C2 is not a categorical feature"},
        {"features: {categorical: [{columns: C1, dim: 4}]}\nmodel: {name: fm}\n", NULL,
         "f.yaml:1:40: features.categorical.0.dim: 4; fm multiplies fields with each other, "
         "so all have embedding.dim (16)"},
        {NUMBERS "model: {name: dlrm}\n", NULL,
         "f.yaml:2:1: model.bottom: missing; dlrm needs layers over the numeric features, the "
         "last as wide as embedding.dim, such as [64, 16]"},
        {NUMBERS "model: {name: dlrm, bottom: [64, 8]}\n", NULL,
         "f.yaml:2:21: model.bottom: the last layer's width is 8 but embedding.dim is 16; "
         "dlrm multiplies them with each other, so make them equal"},
        {FEATURES "model: {name: dlrm, bottom: [64, 16]}\n", NULL,
         "f.yaml:2:21: model.bottom: there are no numeric features for these layers; remove it"},
        {FEATURES "model: {name: din}\n", NULL,
         "f.yaml:2:9: model.name: din attends to a history but no feature is a sequence; set "
         "sequence: true and a separator for one of features.categorical"},
        {FEATURES "model: {name: din}\ndata: {format: libffm}\n", NULL,
         "f.yaml:2:9: model.name: din attends to a history, and libsvm and libffm lines have none; use csv, or another "
         "model"},
        {"features: {categorical: [{columns: C1, sequence: true}]}\n" MODEL "data: {format: libsvm}\n", NULL,
         "f.yaml:1:40: features.categorical.0.sequence: libsvm and libffm lines have no sequences; use csv"},
        {"features: {categorical: [{columns: [u, i]}]}\nmodel: {name: two_tower, item_fields: [i], loss: "
         "in_batch_softmax}\ntrain: {batch_size: 1}\n", NULL,
         "f.yaml:3:9: train.batch_size: 1; the softmax of model.loss sets an item against the others of its batch; use 2 "
         "or more"},
        {HISTORY "model: {name: din, target: hist}\n", NULL,
         "f.yaml:2:20: model.target: hist is not a single-valued categorical column that "
         "shares its table with a sequence, which din compares it with"},
    };
    CHECK(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
