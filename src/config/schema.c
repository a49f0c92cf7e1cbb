/* The one table of keys: name, type, place in the structs, default, range, who uses it, what it is
 * for. Parsing, checking, suggestions, printing and docs/configuration.md are made from it.
 *
 * A section may have a selector (model.name, optimizer.*.name, data.format, schedule.kind):
 * `used_by` says for which of its choices a key means something; elsewhere setting the key is
 * refused.
 *
 * Constant; any thread. */
#include <math.h>

#include "config/schema.h"

/* ---- data ---- */
#define POSITIVE_HELP                                                                                                       \
    "label texts that mean 1, all others 0, or a bound of numbers such as \">= 4\" or \"> 15\" (with the space); empty: "  \
    "the label is a number, 1, 0 or -1"
enum { CRITEO = 1u << FTH_FORMAT_CRITEO, CSV = 1u << FTH_FORMAT_CSV };

static const struct fth_choice formats[] = {{"criteo", FTH_FORMAT_CRITEO},
                                            {"csv", FTH_FORMAT_CSV},
                                            {"libsvm", FTH_FORMAT_LIBSVM},
                                            {"libffm", FTH_FORMAT_LIBFFM},
                                            {NULL, 0}};
static const struct fth_choice direct_reads[] = {
    {"auto", FTH_DIRECT_AUTO}, {"on", FTH_DIRECT_ON}, {"off", FTH_DIRECT_OFF}, {NULL, 0}};
static const struct fth_choice holdouts[] = {
    {"none", FTH_HOLDOUT_NONE}, {"hash", FTH_HOLDOUT_HASH}, {"tail", FTH_HOLDOUT_TAIL}, {NULL, 0}};

static const struct fth_key holdout_keys[] = {
    {ENUM("by", fth_data_config, holdout, "none", holdouts),
     .help = "hash: a line is held out by a hash of its number over all files; tail: the last lines of the files, in their "
             "order"},
    {FLOAT("fraction", fth_data_config, holdout_fraction, "0.1", 0, 1,
           FTH_LOW_OPEN | FTH_HIGH_OPEN),
     .help = "share of the lines that is held out; tail: of the files' bytes, from the next line on"},
    {STRING("column", fth_data_config, holdout_column),
     .help = "hash: lines with the same text in this column (a user, a query) are held out together, by a hash of it, "
             "wherever they stand; \"\": each by its number"},
};
static const struct fth_section holdout_section = {
    KEYS(holdout_keys), .selector = -1,
    .help = "A part of `data.train` that is not trained on but evaluated, when `data.valid` is not "
            "given."};

static const struct fth_key csv_keys[] = {
    {.name = "delimiter",
     .type = FTH_KEY_DELIMITER,
     .offset = AT(const char *, fth_data_config, delimiter),
     .standard = ",",
     .help = "between two cells; a tab is written \"\\t\", other signs as they are (\";\", \"::\")"},
    {BOOL("header", fth_data_config, header, "true"),
     .help = "the first line of each file names the columns"},
    {STRINGS("columns", fth_data_config, columns),
     .help =
         "the columns' names in order, for files without a header; a header must agree with them"},
    {BOOL("strip", fth_data_config, strip, "false"),
     .help = "spaces around cells are dropped; those around the values of a list stay, and belong into its separator "
             "(\"; \")"},
    {BOOL("quotes", fth_data_config, quotes, "true"),
     .help = "a cell in double quotes may hold delimiters and line breaks, and quotes doubled; false: a quote is a sign like "
             "others"},
    {.name = "escape",
     .type = FTH_KEY_ESCAPE,
     .offset = AT(const char *, fth_data_config, escape),
     .help = "in a cell, quoted or not, the sign behind this one (a quote, a delimiter, a line break, another escape) is "
             "text, and this one is dropped; mostly a backslash; \"\": none"},
    {STRING("comment", fth_data_config, comment),
     .help = "lines that start with this text are not data"},
    {BOOL("skip_blank", fth_data_config, skip_blank, "true"),
     .help = "blank lines are not data; false: they are malformed"},
};
static const struct fth_section csv_section = {KEYS(csv_keys), .selector = -1,
                                               .help = "How CSV files (RFC 4180) are written."};

static const struct fth_key data_keys[] = {
    {ENUM("format", fth_data_config, format, "criteo", formats),
     .help = "how the files are written; criteo: label, I1 to I13, C1 to C26 between tabs"},
    {STRINGS("train", fth_data_config, train),
     .help = "files, globs (quoted; sorted byte by byte, so day-10 before day-9), or \"-\" for standard input; "
             "plain, gzip or zstd"},
    {STRINGS("valid", fth_data_config, valid), .help = "the held-out part as files of its own"},
    {STRINGS("test", fth_data_config, test), .flags = FTH_NEUTRAL, .help = "what `fathom eval` reads when told no file"},
    {SECTION("holdout", &holdout_section, 0)},
    {SECTION("csv", &csv_section, 0), .used_by = CSV},
    {.name = "on_bad_line",
     .type = FTH_KEY_BAD_LINE,
     .standard = "stop",
     .help = "a malformed line stops the run, or is left out and counted; \"skip up to N\" stops after more than N; one of "
             "more than 64 MiB always stops. csv: one that a quote takes over line ends is malformed up to the first of them, "
             "and what follows is read anew"},
    {INT("shuffle", fth_data_config, shuffle, "0", 0, 1e9),
     .help = "examples that are mixed, so many of the files at a time, in another order each epoch; 0: the order "
             "of the files. Files sorted by time or user are learned best with all of their examples at a time"},
    {INT("queue_depth", fth_data_config, queue_depth, "4", 1, 1024), .flags = FTH_NEUTRAL, .help = "batches read ahead"},
    {BYTES("block_bytes", fth_data_config, block_bytes, "128KiB", 1024), .flags = FTH_NEUTRAL, .help = "text read at once"},
    {ENUM("direct_reads", fth_data_config, direct_reads, "auto", direct_reads), .flags = FTH_NEUTRAL,
     .help = "files straight from the disk, ahead, past the operating system's page cache; auto: where copying what "
             "is cached proves slow, as on some virtual machines, or the files do not fit into half of the memory, as long "
             "as that is no slower"},
    {INT("parse_threads", fth_data_config, parse_threads, "0", 0, 256), .flags = FTH_NEUTRAL,
     .help = "threads beside the training threads that turn text into examples; 0: the training "
             "threads do it between steps"},
    {STRING("label", fth_data_config, label), .used_by = CSV, .help = "the label's column"},
    {STRINGS("positive", fth_data_config, positive), .help = POSITIVE_HELP},
    {STRING("weight", fth_data_config, weight), .used_by = CSV,
     .help = "the sample weight's column; an example of weight 0 does not count, in evaluations, too"},
    {STRING("query", fth_data_config, query), .used_by = CSV | CRITEO,
     .help = "the column that groups examples for the grouped AUC; an empty cell is a group like any other"},
};
static const struct fth_section data_section = {KEYS(data_keys), .selector = 0,
                                                .help = "What is read, and how."};

/* ---- tasks ---- */
static const struct fth_key task_keys[] = {
    {STRING("name", fth_task_config, name), .help = "letters, digits, _ and -"},
    {STRING("label", fth_task_config, label),
     .help = "the label's column; where it is empty the example does not count in this task"},
    {STRINGS("positive", fth_task_config, positive), .help = POSITIVE_HELP},
    {FLOAT("weight", fth_task_config, weight, "1", 0, 1e6, 0),
     .help = "of the task's loss; the loss that is trained is the weighted sum of all tasks'"},
    {STRING("sample_weight", fth_task_config, sample_weight),
     .help = "a column with weights for this task's examples, times data.weight where that is set"},
};
static const struct fth_section task_section = {
    KEYS(task_keys), .selector = -1, .size = sizeof(struct fth_task_config),
    .help = "Several labels an example, in place of `data.label` (csv): one output each, in this order. None: "
            "one task, `data.label`."};

/* ---- embedding ---- */
static const struct fth_choice inits[] = {
    {"uniform", FTH_INIT_UNIFORM}, {"normal", FTH_INIT_NORMAL}, {"zero", FTH_INIT_ZERO}, {NULL, 0}};

static const struct fth_key embedding_keys[] = {
    {INT("dim", fth_embedding_config, dim, "16", 1, 4096), .flags = FTH_FIXED, .help = "floats a row"},
    {ENUM("init", fth_embedding_config, init, "uniform", inits),
     .help = "a new row's values, drawn by seed, table and key; linear terms (tables NAME.linear) begin at 0"},
    {FLOAT("init_scale", fth_embedding_config, init_scale, "0.01", 0, 1000, 0),
     .help = "uniform: in [-scale, scale); normal: the deviation"},
    {BYTES("memory_limit", fth_embedding_config, memory_limit, "8GB", 1 << 20), .flags = FTH_NEUTRAL,
     .help = "for all tables; training stops with an error when it is reached"},
    {INT("expected_rows", fth_embedding_config, expected_rows, "0", 0, INT32_MAX), .flags = FTH_NEUTRAL,
     .help = "of all tables, at the end of training: their memory is taken before the first step, not in the steps that make "
             "them; 0: as they are made"},
    {BOOL("huge_pages", fth_embedding_config, huge_pages, "true"), .flags = FTH_NEUTRAL,
     .help = "asked for, for faster lookups"},
};
static const struct fth_section embedding_section = {KEYS(embedding_keys), .selector = -1,
                                                     .help = "All embedding tables."};

/* ---- model ---- */
enum {
    LR = 1 << 0,
    FM = 1 << 1,
    WIDE_DEEP = 1 << 2,
    DEEPFM = 1 << 3,
    DCN = 1 << 4,
    DCNV2 = 1 << 5,
    DLRM = 1 << 6,
    DIN = 1 << 7,
    XDEEPFM = 1 << 8,
    CAN = 1 << 9,
    MMOE = 1 << 10,
    DIEN = 1 << 11,
    TWO_TOWER = 1 << 12,
    DSIN = 1 << 13,
    STAR = 1 << 14,
    ATBRG = 1 << 15,
    HIDDEN = WIDE_DEEP | DEEPFM | DCN | DCNV2 | DIN | XDEEPFM | CAN | DIEN | TWO_TOWER | DSIN |
             ATBRG,
};
static const struct fth_choice models[] = {{"lr", 0},     {"fm", 0},  {"wide_deep", 0},
                                           {"deepfm", 0}, {"dcn", 0}, {"dcnv2", 0},
                                           {"dlrm", 0},   {"din", 0}, {"xdeepfm", 0}, {"can", 0},
                                           {"mmoe", 0},   {"dien", 0},   {"two_tower", 0}, {"dsin", 0}, {"star", 0},
                                           {"atbrg", 0},
                                           {NULL, 0}};
static const struct fth_choice tower_losses[] = {{"pointwise", 0}, {"in_batch_softmax", 1}, {NULL, 0}};
static const struct fth_choice activations[] = {
    {"relu", 0}, {"prelu", 0}, {"dice", 0}, {"sigmoid", 0}, {"tanh", 0}, {"gelu", 0}, {NULL, 0}};
static const struct fth_choice attention_activations[] = {
    {"same", 0},    {"relu", 0}, {"prelu", 0}, {"dice", 0},
    {"sigmoid", 0}, {"tanh", 0}, {"gelu", 0},  {NULL, 0}};

static const struct fth_key model_keys[] = {
    {STRING("name", fth_model_config, name), .choices = models, .flags = FTH_REQUIRED,
     .help = "the model"},
    {WIDTHS("hidden", fth_model_config, hidden, "[256, 128]"), .used_by = HIDDEN | STAR,
     .help = "widths of the deep part's layers"},
    {WIDTHS("bottom", fth_model_config, bottom, NULL), .used_by = DLRM,
     .help = "widths of the layers over the numbers, where there are some; the last must equal embedding.dim"},
    {WIDTHS("top", fth_model_config, top, "[256, 128]"), .used_by = DLRM,
     .help = "widths of the layers over the interactions, without the last one of width 1"},
    {WIDTHS("cin", fth_model_config, cin, "[128, 128]"), .used_by = XDEEPFM,
     .help = "maps of the interaction network's layers, at least 2 each"},
    {STRINGS("co_action", fth_model_config, co_action), .used_by = CAN,
     .help = "pairs \"INDUCTION:FEED\": a row of the first is a network over rows of the second; empty: "
             "target with every other field"},
    {WIDTHS("co_action_layers", fth_model_config, co_action_layers, "[8, 4]"), .used_by = CAN,
     .help = "widths of these networks, at least 2 each"},
    {INT("co_action_dim", fth_model_config, co_action_dim, "16", 2, 1024), .used_by = CAN,
     .help = "floats of a feed's row"},
    {INT("co_action_orders", fth_model_config, co_action_orders, "2", 1, 16), .used_by = CAN,
     .help = "powers of the feed that the network is applied to, 1 up to this"},
    {STRINGS("user_fields", fth_model_config, user_fields), .used_by = TWO_TOWER,
     .help = "categorical fields of the user's tower, which reads all numbers too; empty: all others than item_fields; "
             "one that is in both towers counts twice towards min_count"},
    {STRINGS("item_fields", fth_model_config, item_fields), .used_by = TWO_TOWER,
     .help = "categorical fields of the item's tower, its id first"},
    {ENUM("loss", fth_model_config, in_batch_softmax, "pointwise", tower_losses), .flags = FTH_FREE, .used_by = TWO_TOWER,
     .help = "pointwise: cross-entropy of each example; in_batch_softmax: a positive example's item against all "
             "items of the batch, so that scores rank items for a user; probabilities and AUC over examples mean little"},
    {BOOL("log_q", fth_model_config, log_q, "true"), .flags = FTH_FREE, .used_by = TWO_TOWER,
     .help = "in_batch_softmax: the logarithm of an item's frequency so far is taken off its score"},
    {BOOL("normalise", fth_model_config, normalise, "false"), .used_by = TWO_TOWER,
     .help = "both towers' vectors are divided by their lengths"},
    {FLOAT("temperature", fth_model_config, temperature, "1", 1e-6, 1000, 0), .used_by = TWO_TOWER,
     .help = "divides the product of the vectors"},
    {INT("cross_layers", fth_model_config, cross_layers, "3", 1, 64), .used_by = DCN | DCNV2,
     .help = "crossings"},
    {WIDTHS("attention", fth_model_config, attention, "[80, 40]"), .used_by = DIN,
     .help = "widths of the attention unit's hidden layers"},
    {INT("experts", fth_model_config, experts, "4", 1, 1024), .used_by = MMOE,
     .help = "experts that the tasks share; 1: one bottom for all, no gates"},
    {WIDTHS("expert_hidden", fth_model_config, expert_hidden, "[128]"), .used_by = MMOE,
     .help = "widths of each expert's layers"},
    {WIDTHS("tower", fth_model_config, tower, "[64]"), .used_by = MMOE,
     .help = "widths of each task's layers, without the last one of width 1"},
    {STRING("domain", fth_model_config, domain), .used_by = STAR,
     .help = "the feature of features.indicator that says which domain an example is of, a value each"},
    {WIDTHS("auxiliary_hidden", fth_model_config, auxiliary_hidden, "[32]"), .used_by = STAR,
     .help = "widths of the layers that read the domain beside the features, without the last one of width 1"},
    {STRING("activation", fth_model_config, activation), .choices = activations, .standard = "relu",
     .used_by = HIDDEN | DLRM | MMOE | STAR,
     .help = "between layers (not of recurrent and graph layers and can's co-actions: tanh there)"},
    {STRING("attention_activation", fth_model_config, attention_activation),
     .choices = attention_activations, .standard = "same", .used_by = DIN | DSIN,
     .help = "between the attention unit's layers (dsin: in the feed-forward layer); same: activation"},
    {FLOAT("base_rate", fth_model_config, base_rate, "0", 0, 1, FTH_HIGH_OPEN),
     .help = "share of positive labels that predictions start from: what the output's bias is moved by before the first "
             "step; 0: the first batch's (with one positive and one negative example more), of each task; 0.5: the bias "
             "stays as it is drawn; nothing with in_batch_softmax"},
    {FLOAT("dropout", fth_model_config, dropout, "0", 0, 1, FTH_HIGH_OPEN | FTH_FREE),
     .used_by = HIDDEN | DLRM | MMOE | STAR, .help = "share of units that is dropped in training"},
    {BOOL("batch_norm", fth_model_config, batch_norm, "false"), .used_by = HIDDEN | DLRM | MMOE,
     .help = "batch normalisation before each activation"},
    {BOOL("layer_norm", fth_model_config, layer_norm, "false"), .used_by = (HIDDEN | DLRM) & ~(DIN | DIEN),
     .help = "layer normalisation before each activation"},
    {BOOL("residual", fth_model_config, residual, "false"), .used_by = HIDDEN & ~(DIN | DIEN),
     .help = "a layer as wide as the one before adds its input to its output"},
    {STRINGS("wide", fth_model_config, wide), .used_by = WIDE_DEEP,
     .help = "categorical fields of the wide part; empty: all"},
    {FLOAT("auxiliary", fth_model_config, auxiliary, "1", 0, 1e6, FTH_FREE), .used_by = DIEN,
     .help = "factor of the auxiliary loss; 0: none"},
    {STRINGS("negatives", fth_model_config, negatives), .flags = FTH_FREE, .used_by = DIEN,
     .help = "sequences of negatives for the auxiliary loss, each of the table and group of the one it is for (of "
             "several alike in the order of features); empty: drawn"},
    {INT("recurrent", fth_model_config, recurrent, "0", 0, 65536), .used_by = DIEN,
     .help = "units of the interest evolution; 0: as many as a position of the history has numbers"},
    {INT("heads", fth_model_config, heads, "2", 1, 256), .used_by = DSIN,
     .help = "heads of the self-attention; they divide the columns of a position"},
    {INT("feed_forward", fth_model_config, feed_forward, "64", 1, 65536), .used_by = DSIN,
     .help = "width of the feed-forward layer behind the self-attention"},
    {STRING("session", fth_model_config, session), .used_by = DSIN,
     .help = "the sequence whose value names a position's session; \"\": only session_length divides"},
    {INT("session_length", fth_model_config, session_length, "10", 1, 4096), .used_by = DSIN,
     .help = "most positions of a session; longer ones are divided, counted from their end"},
    {INT("sessions", fth_model_config, sessions, "5", 1, 4096), .used_by = DSIN,
     .help = "sessions with a bias of their own, from the latest; earlier ones share the last"},
    {STRINGS("relations", fth_model_config, relations), .used_by = ATBRG,
     .help = "\"OF_TARGET:OF_HISTORY\", columns with one entity of the target and of each item of the history, of one "
             "table; \"...:HEAD\": neighbours not of the item but of the entity that column HEAD has. Empty: every "
             "pair that shares a table"},
    {STRING("target", fth_model_config, target), .used_by = DIN | CAN | DIEN | DSIN | ATBRG,
     .help = "din, dien, dsin: the column that is compared with the history; \"\": every column that shares a "
             "sequence's table. can: the column whose rows act on all others, without co_action. atbrg: the item; "
             "\"\": the first that shares a sequence's table"},
};
static const struct fth_section model_section = {
    KEYS(model_keys), .selector = 0,
    .help = "Which model, and its shape. A key that the model does not use is refused."};

/* ---- optimizer ---- */
enum {
    SGD = 1 << 0,
    MOMENTUM = 1 << 1,
    ADAGRAD = 1 << 2,
    ROWWISE = 1 << 3,
    ADAM = 1 << 4,
    ADAMW = 1 << 5,
    FTRL = 1 << 6,
    LAMB = 1 << 7,
};
#define OPTIMIZERS                                                                                                          \
    {"sgd", 0}, {"momentum", 0}, {"adagrad", 0}, {"rowwise_adagrad", 0}, {"adam", 0}, {"adamw", 0}, {"ftrl", 0}, {"lamb", 0}
static const struct fth_choice optimizers[] = {OPTIMIZERS, {NULL, 0}};
static const struct fth_choice linear_optimizers[] = {OPTIMIZERS, {FTH_AS_SPARSE, 0}, {NULL, 0}};
/* By optimizer; the last, of as_sparse, is never used. */
static const char *const lr_by[] = {"0.01",  "0.01",  "0.01", "0.01", "0.001",
                                    "0.001", "0.05", "0.001", "1"};
static const char *const eps_by[] = {"1e-8", "1e-8", "1e-10", "1e-10", "1e-8",
                                     "1e-8", "1e-8",  "1e-6", "1"};
static const char *const decay_by[] = {"0", "0", "0", "0", "0", "0.01", "0", "0.01", "0"};

/* all: who uses what every optimizer has; 0: everybody. */
#define RATES_AND_PENALTIES(all)                                                                                            \
    {FLOAT("lr", fth_optimizer_config, lr, NULL, 0, 1000, FTH_LOW_OPEN), .standard_by = lr_by, .used_by = (all),            \
     .help = "learning rate"},                                                                                              \
    {FLOAT("eps", fth_optimizer_config, eps, NULL, 1e-37, 1, 0), .standard_by = eps_by,                                     \
     .used_by = ADAGRAD | ROWWISE | ADAM | ADAMW | LAMB, .help = "added to the denominator"},                               \
    {FLOAT("beta1", fth_optimizer_config, beta1, "0.9", 0, 1, FTH_HIGH_OPEN),                                               \
     .used_by = ADAM | ADAMW | LAMB, .help = "decay of the first moment"},                                                  \
    {FLOAT("beta2", fth_optimizer_config, beta2, "0.999", 0, 1, FTH_HIGH_OPEN),                                             \
     .used_by = ADAM | ADAMW | LAMB, .help = "decay of the second moment"},                                                 \
    {FLOAT("momentum", fth_optimizer_config, momentum, "0.9", 0, 1, FTH_HIGH_OPEN),                                         \
     .used_by = MOMENTUM, .help = "decay of the velocity"},                                                                 \
    {FLOAT("weight_decay", fth_optimizer_config, weight_decay, NULL, 0, 1000, 0),                                           \
     .standard_by = decay_by, .used_by = ADAMW | LAMB,                                                                      \
     .help = "decoupled: w -= lr * weight_decay * w (not of biases, slopes, normalisation's scales and shifts, dsin's "     \
             "number and position)"},                                                                                       \
    {FLOAT("l1", fth_optimizer_config, l1, "0", 0, 1e6, 0), .used_by = FTRL, .help = "L1 penalty"},                         \
    {FLOAT("l2", fth_optimizer_config, l2, "0", 0, 1e6, 0), .used_by = (all),                                               \
     .help = "L2 penalty; except with ftrl, added to the gradient: g += l2 * w (not of biases, slopes, normalisation's "    \
             "scales and shifts, dsin's number and position)"},                                                             \
    {FLOAT("initial_accumulator", fth_optimizer_config, initial_accumulator, "0", 0, 1e6, 0),                               \
     .used_by = ADAGRAD | ROWWISE | FTRL, .help = "the sum of squares at the start"},                                       \
    {FLOAT("lr_power", fth_optimizer_config, lr_power, "-0.5", -10, 0, 0), .used_by = FTRL,                                 \
     .help = "exponent of the accumulator"},                                                                                \
    {FLOAT("beta", fth_optimizer_config, beta, "1", 0, 1e6, 0), .used_by = FTRL,                                            \
     .help = "smooths the first rates"},

static const struct fth_key optimizer_keys[] = {
    {STRING("name", fth_optimizer_config, name), .choices = optimizers, .standard = "adagrad",
     .help = "rowwise_adagrad: sparse only; lamb: dense only; ftrl takes the sum of a batch's gradients, the others "
             "their mean"},
    RATES_AND_PENALTIES(0)
};
static const struct fth_key linear_keys[] = {
    {STRING("name", fth_optimizer_config, name), .choices = linear_optimizers, .standard = FTH_AS_SPARSE,
     .help = FTH_AS_SPARSE ": all that optimizer.sparse says; lamb: dense only"},
    RATES_AND_PENALTIES(SGD | MOMENTUM | ADAGRAD | ROWWISE | ADAM | ADAMW | FTRL | LAMB)
};
static const struct fth_section dense_section = {KEYS(optimizer_keys), .selector = 0,
                                                 .help = "For the layers' parameters."};
static const struct fth_section sparse_section = {
    KEYS(optimizer_keys), .selector = 0,
    .help = "For embedding rows. A row is updated in the steps that touch it only; l2 and weight_decay act there alone, "
            "against the mean of a batch, so that they weigh the more on rare keys the larger the batch is."};

static const struct fth_section linear_section = {
    KEYS(linear_keys), .selector = 0,
    .help = "For the rows of linear terms (the wide part of wide_deep, the first-order terms of deepfm, fm and xdeepfm, all "
            "of lr's), where they are to have another optimizer than the embeddings, such as FTRL with l1 beside AdaGrad "
            "(Cheng et al. 2016, section 3.2). Linear terms of numbers and the bias are optimizer.dense's."};

enum { SCHEDULED = 1 << FTH_SCHEDULE_POLYNOMIAL | 1 << FTH_SCHEDULE_COSINE };
static const struct fth_choice schedules[] = {{"constant", FTH_SCHEDULE_CONSTANT},
                                              {"polynomial", FTH_SCHEDULE_POLYNOMIAL},
                                              {"cosine", FTH_SCHEDULE_COSINE},
                                              {NULL, 0}};
static const struct fth_key schedule_keys[] = {
    {ENUM("kind", fth_schedule_config, kind, "constant", schedules),
     .help = "the learning rates' course after the warm-up"},
    {INT("warmup_steps", fth_schedule_config, warmup_steps, "0", 0, 1e12),
     .help = "steps over which the rates rise from 0, linearly"},
    {INT("total_steps", fth_schedule_config, total_steps, "0", 0, 1e12), .used_by = SCHEDULED,
     .help = "the step at which the decline ends"},
    {FLOAT("end_factor", fth_schedule_config, end_factor, "0", 0, 1, 0), .used_by = SCHEDULED,
     .help = "the rates there, as a share of lr"},
    {FLOAT("power", fth_schedule_config, power, "1", 0, 100, FTH_LOW_OPEN),
     .used_by = 1 << FTH_SCHEDULE_POLYNOMIAL, .help = "1: a straight line"},
};
static const struct fth_section schedule_section = {KEYS(schedule_keys), .selector = 0,
                                                    .help = "Holds for all optimizers."};

static const struct fth_key optimizer_groups[] = {
    {SECTION("dense", &dense_section, offsetof(struct fth_config, dense_optimizer))},
    {SECTION("sparse", &sparse_section, offsetof(struct fth_config, sparse_optimizer))},
    {SECTION("linear", &linear_section, offsetof(struct fth_config, linear_optimizer))},
    {SECTION("schedule", &schedule_section, offsetof(struct fth_config, schedule))},
};
static const struct fth_section optimizer_section = {
    KEYS(optimizer_groups), .selector = -1, .help = "How parameters follow their gradients."};

/* ---- train and checkpoint ---- */
static const struct fth_choice metrics[] = {
    {"", 0}, {"auc", 0}, {"log_loss", 0}, {"normalised_entropy", 0}, {"gauc", 0}, {NULL, 0}};
static const struct fth_key early_keys[] = {
    {STRING("metric", fth_train_config, early_stop_metric), .choices = metrics,
     .help = "what is watched on the held-out part; \"\": nothing, training does not stop early"},
    {STRING("task", fth_train_config, early_stop_task),
     .help = "whose metric is watched; \"\": the first task's"},
    {INT("patience", fth_train_config, early_stop_patience, "2", 1, 1e6),
     .help = "evaluations in a row without a better value, after which training stops"},
    {FLOAT("min_delta", fth_train_config, early_stop_min_delta, "0", 0, 1e6, 0),
     .help = "a value is better when it is by more than this"},
};
static const struct fth_section early_section = {KEYS(early_keys), .selector = -1,
                                                 .help = "Ends training when it no longer helps."};

static const struct fth_key train_keys[] = {
    {INT("batch_size", fth_train_config, batch_size, "4096", 1, 1 << 20),
     .help = "examples a step; their losses' sum is divided by it, that of the short batch that ends an epoch, too (of an epoch "
             "of one batch by its examples)"},
    {INT("epochs", fth_train_config, epochs, "1", 1, 1e6), .flags = FTH_NEUTRAL,
     .help = "times the training data is read"},
    {INT("max_steps", fth_train_config, max_steps, "0", 0, 1e12), .flags = FTH_NEUTRAL,
     .help = "training ends after this many steps; 0: with the epochs"},
    {FLOAT("label_smoothing", fth_train_config, label_smoothing, "0", 0, 1, FTH_HIGH_OPEN),
     .help = "s turns the label y into y * (1 - s) + s / 2"},
    {FLOAT("clip_norm", fth_train_config, clip_norm, "0", 0, 1e12, 0),
     .help = "gradients are scaled down to this global norm; 0: never"},
    {INT("eval_every", fth_train_config, eval_every, "0", 0, 1e12),
     .help = "steps between evaluations; 0: at the end of each epoch"},
    {SECTION("early_stopping", &early_section, 0)},
    {INT("log_every", fth_train_config, log_every, "100", 1, 1e12), .flags = FTH_NEUTRAL,
     .help = "steps between lines where there is no terminal"},
};
static const struct fth_section train_section = {KEYS(train_keys), .selector = -1,
                                                 .help = "The course of training."};

static const struct fth_key checkpoint_keys[] = {
    {STRING("dir", fth_checkpoint_config, dir),
     .help = "folder of the checkpoints; \"\": none are written"},
    {INT("every_steps", fth_checkpoint_config, every_steps, "0", 0, 1e12),
     .help = "steps between checkpoints; 0: only at the end and when interrupted"},
    {FLOAT("every_minutes", fth_checkpoint_config, every_minutes, "0", 0, 1e6, 0),
     .help = "the same by time"},
    {INT("keep", fth_checkpoint_config, keep, "2", 1, 1e6), .help = "the last ones that are kept"},
    {BOOL("keep_best", fth_checkpoint_config, keep_best, "true"),
     .help = "with train.early_stopping.metric: the one of the best evaluation is saved and kept besides"},
};
static const struct fth_section checkpoint_section = {KEYS(checkpoint_keys), .selector = -1,
                                                      .help = "What is saved while training."};

/* ---- the root ---- */
static const struct fth_choice precisions[] = {
    {"fp32", FTH_PRECISION_FP32}, {"bf16", FTH_PRECISION_BF16},
    {"bf16x3", FTH_PRECISION_BF16X3}, {"bf16x6", FTH_PRECISION_BF16X6}, {NULL, 0}};
static const struct fth_key root_keys[] = {
    {.name = "seed",
     .type = FTH_KEY_U64,
     .offset = AT(uint64_t, fth_config, seed),
     .standard = "42",
     .help = "every random draw follows from it"},
    {INT("threads", fth_config, threads, "0", 0, 4096), .flags = FTH_NEUTRAL,
     .help = "0: all cores; results do not depend on it"},
    {ENUM("precision", fth_config, precision, "fp32", precisions),
     .help = "of matrix products, with fp32 sums and weights; where the CPU has it bf16, or bf16x3 and bf16x6 (each "
             "number as two bf16, 16 bits, or three, which are all of fp32's, for AMX); some small products stay fp32 "
             "(docs/kernels.md)"},
    {STRING("tuning", fth_config, tuning),
     .help = "a file made by `fathom tune`; \"\": the built-in choices"},
    {INT("tile", fth_config, tile, "0", 0, 65536),
     .help = "examples that one thread carries through the layers at once (by AMX: a multiple "
             "of 32, rounded up); 0: planned"},
    {STRINGS("without", fth_config, without),
     .help = "optimisations that are switched off, by name"},
    {SECTION("data", &data_section, offsetof(struct fth_config, data))},
    {SECTIONS("tasks", &task_section, fth_config, tasks, n_tasks)},
    {SECTION("features", &fth_schema_features, offsetof(struct fth_config, features)), .flags = FTH_FIXED},
    {SECTION("embedding", &embedding_section, offsetof(struct fth_config, embedding))},
    {SECTION("model", &model_section, offsetof(struct fth_config, model)), .flags = FTH_FIXED},
    {SECTION("optimizer", &optimizer_section, 0)},
    {SECTION("train", &train_section, offsetof(struct fth_config, train))},
    {SECTION("checkpoint", &checkpoint_section, offsetof(struct fth_config, checkpoint)), .flags = FTH_NEUTRAL},
};
const struct fth_section fth_schema_root = {KEYS(root_keys), .selector = -1,
                                            .help = "The whole run."};
