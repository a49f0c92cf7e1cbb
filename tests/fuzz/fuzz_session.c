/* Whole sessions over files of any bytes: the input's first byte chooses a configuration, its second switches, behind them are the
 * training data, a side file and a vocabulary, with byte 0x1e between. What trains for four steps gives the same digest and the same
 * predictions as two steps, a checkpoint and two more by other threads and blocks; whatever fails says why. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "fathom/fathom.h"
#include "io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SMALL "embedding: {dim: 4, memory_limit: 64MiB}\ntrain: {batch_size: 3, epochs: 9}\n"
#define HISTORY(item, category)                                                                                  \
    "    - {columns: " item ", table: item, separator: \";\", sequence: true, group: h, max_length: 5}\n"        \
    "    - {columns: " category ", table: category, separator: \";\", sequence: true, group: h, max_length: 5}\n"

static const char *const configs[] = {
    /* Joins, dates, crosses, lists of numbers; a derived query. */
    "data: {format: csv, label: label, query: hour}\n"
    "features:\n"
    "  missing: [\"?\"]\n"
    "  learn_lines: 10\n"
    "  derived:\n"
    "    - {as: join, name: kind, from: item, file: side.csv, key: item_id, value: category}\n"
    "    - {as: join, name: cost, from: item, file: side.csv, key: item_id, value: price}\n"
    "    - {as: join, name: kinds, from: items, separator: \";\", file: side.csv, key: item_id, value: category}\n"
    "    - {as: cross, name: pair, from: [user, category]}\n"
    "    - {as: date, name: hour, from: time, part: hour}\n"
    "  numeric:\n"
    "    - {columns: cost, log1p: true, standardise: running, quantiles: 4}\n"
    "    - {columns: times, separator: \";\", reduce: mean, on_bad_value: skip, clip: [0, 100]}\n"
    "  indicator: [{columns: hour, values: [\"1\", \"2\"], other: true}]\n"
    "  categorical:\n"
    "    - {columns: user, dim: 3}\n"
    "    - {columns: item}\n"
    "    - {columns: kind, table: category}\n" HISTORY("items", "kinds")
    "    - {columns: pair, buckets: 7}\n"
    "model: {name: din, hidden: [8, 4], attention: [4]}\n" SMALL,
    /* Sessions, a vocabulary from a file. */
    "data: {format: csv, label: label}\n"
    "features:\n"
    "  derived: [{as: sessions, name: visit, from: times, separator: \";\", format: unix, gap: 10, on_bad_value: skip}]\n"
    "  categorical:\n"
    "    - {columns: user, vocabulary_file: words.txt, oov_buckets: 2}\n"
    "    - {columns: [item, category]}\n" HISTORY("items", "categories")
    "    - {columns: visit, separator: \";\", sequence: true, group: h, max_length: 5}\n"
    "model: {name: dsin, session: visit, session_length: 2, sessions: 2, heads: 2, feed_forward: 4, hidden: [4]}\n" SMALL,
    /* Learned vocabularies, bins, pooled lists. */
    "data: {format: csv, label: label, weight: price}\n"
    "features:\n"
    "  learn_lines: 0\n"
    "  numeric: [{columns: price, standardise: running, missing_indicator: true, quantiles: 3}]\n"
    "  categorical:\n"
    "    - {columns: user, vocabulary_size: 3, vocabulary_min_count: 2, oov_buckets: 1}\n"
    "    - {columns: [item, category], bins: 5, name: binned}\n"
    "    - {columns: items, separator: \";\", pooling: max, min_count: 2}\n"
    "    - {columns: categories, separator: \";\", pooling: mean, keep: first, max_length: 2}\n"
    "model: {name: deepfm, hidden: [8], batch_norm: true, activation: dice}\n" SMALL,
    "data: {format: csv, label: label}\n"
    "features:\n"
    "  categorical:\n"
    "    - {columns: user}\n"
    "    - {columns: [item, category]}\n" HISTORY("items", "categories")
    "model: {name: dien, hidden: [4], recurrent: 6}\n" SMALL,
    /* Several labels. */
    "data: {format: csv}\n"
    "tasks: [{name: a, label: label}, {name: b, label: category, positive: [c1], sample_weight: price}]\n"
    "features:\n"
    "  numeric: [{columns: price, log1p: true, standardise: {mean: 1, deviation: 2}}]\n"
    "  categorical: [{columns: [user, item]}]\n"
    "model: {name: mmoe, experts: 2, expert_hidden: [4], tower: [2]}\n" SMALL,
    "data: {format: libffm}\nfeatures: {categorical: [{columns: [a, b, c]}]}\nmodel: {name: deepfm, hidden: [4]}\n" SMALL,
};
#define N_CONFIGS (sizeof configs / sizeof *configs)

static void check_told(fth_status status, const fth_error *err) {
    CHECK(status == FTH_OK || (status == err->code && *err->message));
    CHECK(status != FTH_E_ARGUMENT && status != FTH_E_UNSUPPORTED);
}

static fth_session *session_of(const uint8_t *choice, int other) {
    unsigned switches = choice[1];
    const char *text = configs[choice[0] % N_CONFIGS];
    const char *overrides[] = {"data.train=data.csv", "seed=7", switches & 1 ? "data.on_bad_line=skip" : "data.on_bad_line=stop",
                               switches & 2 ? "data.shuffle=4" : "data.shuffle=0",
                               switches & 4 ? "data.holdout.by=hash" : "data.holdout.by=none",
                               other ? "train.max_steps=2" : "train.max_steps=4", other ? "threads=2" : "threads=1",
                               other ? "data.block_bytes=1024" : "data.block_bytes=65536"};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    if (fth_config_parse("fuzz", text, strlen(text), overrides, sizeof overrides / sizeof *overrides, &config, &err) != FTH_OK)
        fprintf(stderr, "%s\n", err.message);
    CHECK(config);
    check_told(fth_session_create(config, FTH_FOR_ALL, &session, &err), &err);
    fth_config_free(config);
    return session;
}

static int trains(fth_session *session) {
    fth_error err = {0};
    fth_status status = fth_session_train(session, NULL, NULL, &err);
    check_told(status, &err);
    return status == FTH_OK;
}

/* Of the training data, whose labels are not looked at. Owned: free(). */
static char *predictions(fth_session *session) {
    char *text = NULL;
    size_t bytes = 0;
    uint64_t lines = 0, seen = 0;
    fth_error err = {0};
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out);
    fth_status status = fth_session_predict(session, "data.csv", out, &lines, &err);
    fclose(out);
    check_told(status, &err);
    for (size_t i = 0; i < bytes; i++)
        seen += text[i] == '\n';
    CHECK(seen == lines);
    return text;
}

static void check_resumed(const uint8_t *choice, fth_session *whole) {
    static const char *const more[] = {"train.max_steps=4"};
    char before[17], after[17], *expected = predictions(whole), *got;
    fth_session *half = session_of(choice, 1), *rest = NULL;
    fth_error err = {0};
    CHECK(half && trains(half));
    CHECK(fth_session_save(half, "saved", 1, &err) == FTH_OK);
    CHECK(fth_session_open("saved", more, 1, &rest, &err) == FTH_OK && trains(rest));
    CHECK(fth_session_digest(whole, before, &err) == FTH_OK && fth_session_digest(rest, after, &err) == FTH_OK);
    CHECK(strcmp(before, after) == 0);
    got = predictions(rest);
    CHECK(strcmp(got, expected) == 0);
    CHECK(fth_io_remove(fth_io_posix(), "saved", NULL) == FTH_OK);
    free(expected);
    free(got);
    fth_session_destroy(half);
    fth_session_destroy(rest);
}

static char folder[] = "/tmp/fathom-fuzz-XXXXXX";

static void leave_folder(void) {
    if (chdir("/") == 0)
        fth_io_remove(fth_io_posix(), folder, NULL);
}

static void enter_folder(void) {
    static int entered;
    if (entered)
        return;
    entered = 1;
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    atexit(leave_folder);
}

static void ignore(void *ctx, int level, const char *line) {}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"data.csv", "side.csv", "words.txt"};
    const uint8_t *at = data + 2, *end = data + size;
    if (size < 2 || size > 20000)
        return -1;
    enter_folder();
    fth_log_to(ignore, NULL);
    for (int i = 0; i < 3; i++) {
        const uint8_t *mark = at < end ? memchr(at, 0x1e, (size_t)(end - at)) : NULL, *stop = mark ? mark : end;
        int file = open(names[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(file >= 0 && write(file, at, (size_t)(stop - at)) == stop - at);
        close(file);
        at = mark ? mark + 1 : end;
    }
    fth_session *session = session_of(data, 0);
    if (session && trains(session))
        check_resumed(data, session);
    else if (session)
        free(predictions(session));
    fth_session_destroy(session);
    return 0;
}
