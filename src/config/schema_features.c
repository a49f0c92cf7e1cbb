/* The schema's keys of features: columns made from others, numbers, indicators, categories. See schema.c. */
#include <float.h>
#include <math.h>

#include "config/schema.h"

static const struct fth_choice keeps[] = {{"first", 0}, {"last", 1}, {NULL, 0}};
static const struct fth_choice poolings[] = {{"sum", FTH_CONFIG_POOL_SUM},
                                             {"mean", FTH_CONFIG_POOL_MEAN},
                                             {"max", FTH_CONFIG_POOL_MAX},
                                             {NULL, 0}};

static const struct fth_choice bad_values[] = {{"stop", FTH_BAD_VALUE_STOP},
                                               {"skip", FTH_BAD_VALUE_SKIP},
                                               {"missing", FTH_BAD_VALUE_MISSING},
                                               {NULL, 0}};

enum {
    JOIN = 1 << FTH_DERIVE_JOIN,
    DATE = 1 << FTH_DERIVE_DATE,
    SESSIONS = 1 << FTH_DERIVE_SESSIONS,
    REPLACE = 1 << FTH_DERIVE_REPLACE
};
static const struct fth_choice derivations[] = {{"join", FTH_DERIVE_JOIN},
                                                {"date", FTH_DERIVE_DATE},
                                                {"cross", FTH_DERIVE_CROSS},
                                                {"sessions", FTH_DERIVE_SESSIONS},
                                                {"replace", FTH_DERIVE_REPLACE},
                                                {NULL, 0}};
static const struct fth_choice date_parts[] = {
    {"year", FTH_DATE_YEAR},       {"month", FTH_DATE_MONTH},     {"day", FTH_DATE_DAY},
    {"hour", FTH_DATE_HOUR},       {"minute", FTH_DATE_MINUTE},   {"second", FTH_DATE_SECOND},
    {"weekday", FTH_DATE_WEEKDAY}, {"yearday", FTH_DATE_YEARDAY}, {"weekend", FTH_DATE_WEEKEND},
    {"days", FTH_DATE_DAYS},       {"seconds", FTH_DATE_SECONDS}, {NULL, 0}};

static const char *const format_by[] = {"iso", "iso", "iso", "unix", "iso"};

static const struct fth_key derived_keys[] = {
    {ENUM("as", fth_derived_config, as, "cross", derivations),
     .help = "join: the value that a side file has for it; date: a part of a point in time; cross: the "
             "texts of several columns as one; sessions: for a list of points in time, from the earliest to the "
             "latest, the number of the session that each falls into; replace: a cell's text without some characters, or "
             "with another in their place"},
    {STRING("name", fth_derived_config, name), .help = "the new column's name"},
    {COLUMNS("from", fth_derived_config, from),
     .help = "what it is made from, derived columns that stand before it too; cross: two or more, else one"},
    {STRING("characters", fth_derived_config, characters), .used_by = REPLACE,
     .help = "what is left out wherever it stands, as \"[]'\" of lists like ['a', 'b'] or \"$,\" of $1,234.50; a cell of "
             "which nothing is left is missing"},
    {STRING("by", fth_derived_config, by), .used_by = REPLACE,
     .help = "a character that is put in the place of each, as \".\" for the \",\" of 3,50; \"\": none"},
    {STRING("separator", fth_derived_config, separator), .used_by = JOIN | DATE | SESSIONS,
     .help = "between the values of a cell, which are taken one by one; \"\": a cell is one value"},
    {STRING("file", fth_derived_config, file), .flags = FTH_FREE, .used_by = JOIN,
     .help = "a CSV file whose first line names its columns, or one of the columns given; read once for each join, kept in "
             "memory"},
    {STRINGS("columns", fth_derived_config, columns), .used_by = JOIN,
     .help = "the columns' names in order of a file whose first line is data, too"},
    {STRINGS("key", fth_derived_config, key), .used_by = JOIN,
     .help = "the file's column that is compared, or several, compared with a cross of as many; what is not in it becomes "
             "missing"},
    {STRING("value", fth_derived_config, value), .used_by = JOIN,
     .help = "the file's column that is taken"},
    {STRING("several", fth_derived_config, several), .used_by = JOIN,
     .help = "what stands between the values where a key has several lines: all of them but missing ones, each once, in the "
             "file's order, for a feature with that separator; \"\": two values for a key are refused"},
    {.name = "delimiter",
     .type = FTH_KEY_DELIMITER,
     .offset = AT(const char *, fth_derived_config, delimiter),
     .standard = ",",
     .used_by = JOIN,
     .help = "between two cells of the file"},
    {BOOL("strip", fth_derived_config, strip, "false"), .used_by = JOIN,
     .help = "spaces around the file's cells are dropped"},
    {BOOL("quotes", fth_derived_config, quotes, "true"), .used_by = JOIN,
     .help = "the file's quotes are those of data.csv.quotes; false: signs like others"},
    {.name = "escape",
     .type = FTH_KEY_ESCAPE,
     .offset = AT(const char *, fth_derived_config, escape),
     .used_by = JOIN,
     .help = "the file's, as data.csv.escape"},
    {.name = "format",
     .type = FTH_KEY_STRING,
     .offset = AT(const char *, fth_derived_config, format),
     .standard_by = format_by,
     .used_by = DATE | SESSIONS,
     .help = "iso (\"2014-10-21 13:05:09\", perhaps with T, a fraction, Z or an offset, which is passed "
             "over), unix (seconds, perhaps with a fraction), unix_ms, or a pattern of %Y or %y (69 to 99: 19xx), perhaps "
             "%m or %b (Jan), %d (1 where they lack), %H, or %I and %p (AM, PM), %M %S %f (of a second, digits), and other "
             "bytes; a number that no digit touches may lack its leading 0 (3/7/2024)"},
    {ENUM("part", fth_derived_config, part, "hour", date_parts), .used_by = DATE,
     .help = "weekday: 1 is Monday; weekend: 0 or 1; days, seconds: since 1970"},
    {INT("gap", fth_derived_config, gap, "1800", 0, 1e12), .used_by = SESSIONS,
     .help = "seconds; where more lie between two neighbours, a session begins"},
    {ENUM("on_bad_value", fth_derived_config, on_bad_value, "stop", bad_values), .flags = FTH_FREE,
     .used_by = DATE | SESSIONS,
     .help = "a value that is no such time, or (sessions) one before the value before it: its line is malformed "
             "(data.on_bad_line); skip: it is missing, which leaves it in the session before it; missing: all values of its "
             "list are; the last two are counted"},
};
static const struct fth_section derived_section = {
    KEYS(derived_keys), .selector = 0, .size = sizeof(struct fth_derived_config),
    .help = "Columns made from others, used like those of the file."};

static const struct fth_choice reductions[] = {
    {"mean", FTH_REDUCE_MEAN}, {"sum", FTH_REDUCE_SUM},     {"min", FTH_REDUCE_MIN},
    {"max", FTH_REDUCE_MAX},   {"count", FTH_REDUCE_COUNT}, {NULL, 0}};

static const struct fth_key numeric_keys[] = {
    {COLUMNS("columns", fth_numeric_config, columns),
     .help = "columns treated alike; \"I1..I13\" is I1, I2 and so on to I13"},
    {STRING("name", fth_numeric_config, name),
     .help = "the feature's name, where columns has one; \"\": the column's"},
    {STRING("separator", fth_numeric_config, separator),
     .help = "between the numbers of a cell (\"3.5;12;7\"); \"\": a cell is one number"},
    {ENUM("reduce", fth_numeric_config, reduce, "mean", reductions),
     .help = "what a list becomes; missing values are left out; count: how many are not missing, "
             "0 in an empty cell"},
    {INT("max_length", fth_numeric_config, max_length, "0", 0, 1e9),
     .help = "values of a list that are used; 0: all"},
    {ENUM("keep", fth_numeric_config, keep_last, "last", keeps),
     .help = "which end of a longer list is used"},
    {ENUM("on_bad_value", fth_numeric_config, on_bad_value, "stop", bad_values), .flags = FTH_FREE,
     .help = "a value of a list that is no number: its line is malformed (data.on_bad_line), the value is "
             "left out, or the list is missing; the last two are counted. reduce count asks for no numbers"},
    {.name = "clip",
     .type = FTH_KEY_CLIP,
     .help = "[low, high]: numbers outside become the nearer end"},
    {BOOL("log1p", fth_numeric_config, log1p, "false"),
     .help = "x becomes sign(x) * log(1 + abs(x))"},
    {.name = "standardise",
     .type = FTH_KEY_STANDARDISE,
     .standard = "none",
     .help = "(x - mean) / deviation, with running statistics or given ones"},
    {BOOL("missing_indicator", fth_numeric_config, missing_indicator, "false"),
     .help = "a second input that is 1 where the number is missing, so that missing has its own "
             "weight"},
    {FLOAT("missing_value", fth_numeric_config, missing_value, "0", -FLT_MAX, FLT_MAX, 0),
     .help = "stands where the number is missing, after the other transforms"},
    {.name = "boundaries",
     .type = FTH_KEY_FLOATS,
     .offset = AT(struct fth_floats, fth_numeric_config, boundaries),
     .low = -INFINITY,
     .high = INFINITY,
     .help = "increasing; adds a categorical copy COLUMN_bucket (NAME_bucket with a name): the number of the interval, of the "
             "value before clip, log1p and standardise"},
    {INT("quantiles", fth_numeric_config, quantiles, "0", 0, 65536),
     .help = "adds the same copy with this many intervals, learned from the first lines; 0: none"},
    {BOOL("bucket_only", fth_numeric_config, bucket_only, "false"),
     .help = "only the categorical copy is a feature, not the number, whose other keys (clip, log1p, standardise, "
             "missing_indicator, missing_value) then change nothing"},
    {STRING("table", fth_numeric_config, table),
     .help = "the copy's embedding table; \"\": one of its own"},
    {INT("dim", fth_numeric_config, dim, "0", 0, 4096),
     .help = "the copy's dimension; 0: embedding.dim"},
};
static const struct fth_section numeric_section = {
    KEYS(numeric_keys), .selector = -1, .size = sizeof(struct fth_numeric_config),
    .help = "Numbers. In this order: list, missing, clip, log1p, standardise."};

static const struct fth_key indicator_keys[] = {
    {COLUMNS("columns", fth_indicator_config, columns), .help = "columns treated alike"},
    {STRING("name", fth_indicator_config, name),
     .help = "the feature's name, where columns has one; \"\": the column's; its inputs are NAME=VALUE"},
    {STRINGS("values", fth_indicator_config, values), .help = "the texts that get an input each"},
    {STRING("separator", fth_indicator_config, separator),
     .help = "between the values of a cell; \"\": a cell is one value"},
    {BOOL("count", fth_indicator_config, count, "false"),
     .help = "an input is how often its value is there; false: 1 if it is"},
    {BOOL("other", fth_indicator_config, other, "false"),
     .help = "one more input for what is neither listed nor missing, NAME=other"},
};
static const struct fth_section indicator_section = {
    KEYS(indicator_keys), .selector = -1, .size = sizeof(struct fth_indicator_config),
    .help = "Texts as numbers: an input for each of a few values (one-hot, multi-hot, counts)."};

static const struct fth_key categorical_keys[] = {
    {COLUMNS("columns", fth_categorical_config, columns),
     .help = "columns treated alike; \"C1..C26\" is C1, C2 and so on to C26"},
    {STRING("name", fth_categorical_config, name),
     .help = "the feature's name, where columns has one; \"\": the column's. With bins there must be one"},
    {STRING("table", fth_categorical_config, table),
     .help = "the embedding table, to share one between columns, their linear terms, too; \"\": the feature's own"},
    {INT("buckets", fth_categorical_config, buckets, "0", 0, 4e9),
     .help = "keys are hashes modulo this number; 0: whole 64-bit hashes"},
    {STRING("vocabulary_file", fth_categorical_config, vocabulary_file),
     .help = "a text a line (gzip and zstd by content), none of them empty or there twice: these get rows of their own"},
    {INT("vocabulary_size", fth_categorical_config, vocabulary_size, "0", 0, 1e9),
     .help = "the same for at most so many of the most frequent texts of the first features.learn_lines "
             "lines; 0: none is learned"},
    {INT("vocabulary_min_count", fth_categorical_config, vocabulary_min_count, "1", 1, 1e15),
     .help = "of these, only what is there at least this often"},
    {INT("oov_buckets", fth_categorical_config, oov_buckets, "0", 0, 1e9),
     .help = "rows that the texts outside the vocabulary share, by their hash; 0: they count as missing"},
    {INT("bins", fth_categorical_config, bins, "0", 0, 1e12),
     .help = "all columns together become one feature: their texts are projected on so many bins and each "
             "bin's sign gets a row (OP+OSRP: 2 bins rows at most); 0: each column is a feature"},
    {INT("min_count", fth_categorical_config, min_count, "0", 0, 4e9), .flags = FTH_FREE,
     .help = "a key gets a row when it has been seen this often, all epochs together; 0: at once"},
    {INT("dim", fth_categorical_config, dim, "0", 0, 4096),
     .help = "the table's dimension; 0: embedding.dim"},
    {BOOL("sequence", fth_categorical_config, sequence, "false"),
     .help = "positions are kept for attention; false with a separator: values are pooled"},
    {STRING("separator", fth_categorical_config, separator),
     .help = "between the values of a cell; \"\": a cell is one value"},
    {STRING("group", fth_categorical_config, group),
     .help = "columns whose positions belong together (an item and its category) name one group"},
    {INT("max_length", fth_categorical_config, max_length, "0", 0, 65536),
     .help = "values of a cell that are used; 0: 100, of a libsvm or libffm line 1,048,576, and training says so where there "
             "are more"},
    {ENUM("keep", fth_categorical_config, keep_last, "last", keeps),
     .help = "which end of a longer cell is used"},
    {ENUM("pooling", fth_categorical_config, pooling, "sum", poolings),
     .help = "how the rows of a cell's values become one vector; of a sequence that the model attends to nowhere: their mean"},
    {INT("field", fth_categorical_config, ffm_field, "-1", -1, 65535),
     .help = "libffm: the field's number; -1: by order"},
};
static const struct fth_section categorical_section = {
    KEYS(categorical_keys), .selector = -1, .size = sizeof(struct fth_categorical_config),
    .help = "Texts (or numbers taken as names) that get a row of an embedding table each."};

static const struct fth_key features_keys[] = {
    {STRINGS("missing", fth_features_config, missing), .flags = FTH_FREE,
     .help = "texts that mean missing besides the empty cell; of labels, too, but for 0, 1, -1 and what data.positive names"},
    {INT("learn_lines", fth_features_config, learn_lines, "100000", 0, 1e9),
     .help = "lines from which quantiles and vocabularies are learned, the first ones; 0: all of the training "
             "data, in a first pass (docs/features.md says what is kept of it)"},
    {SECTIONS("derived", &derived_section, fth_features_config, derived, n_derived)},
    {SECTIONS("numeric", &numeric_section, fth_features_config, numeric, n_numeric)},
    {SECTIONS("indicator", &indicator_section, fth_features_config, indicator, n_indicator)},
    {SECTIONS("categorical", &categorical_section, fth_features_config, categorical,
              n_categorical)},
};
const struct fth_section fth_schema_features = {KEYS(features_keys), .selector = -1,
                                                    .help = "From columns to inputs."};
