/* Vocabulary files: a text a line, read whole before training begins; a warning afterwards where they do not fit. */
#include <string.h>

#include "data/source.h"
#include "train/session_private.h"

struct words {
    char *text; /* all of the file */
    size_t length;
    const char **items;
    size_t *lengths;
    uint32_t n;
};

static fth_status read_whole(const char *path, struct words *out, fth_error *err) {
    fth_source *source = NULL;
    size_t capacity = 1 << 16, got = 0;
    fth_status status;
    FTH_TRY_GOTO(status, fth_source_open(fth_io_posix(), path, -1, &source, err), done);
    for (;;) {
        if (!out->text || out->length + 1 >= capacity) {
            char *larger = fth_alloc(2 * capacity, 1);
            if (!larger) {
                status = fth_fail(err, FTH_E_MEMORY, "%s: no memory for a vocabulary", path);
                goto done;
            }
            if (out->text)
                memcpy(larger, out->text, out->length);
            fth_free(out->text);
            out->text = larger;
            capacity *= 2;
        }
        FTH_TRY_GOTO(status,
                     fth_source_read(source, out->text + out->length, capacity - 1 - out->length, &got, err),
                     done);
        if (got == 0)
            break;
        out->length += got;
    }
done:
    fth_source_close(source);
    return status;
}

/* Lines without their ends, LF or CRLF, behind a byte order mark. An empty one is no text. */
static fth_status cut_lines(const char *path, struct words *out, fth_error *err) {
    size_t lines = 1;
    for (size_t i = 0; i < out->length; i++)
        lines += out->text[i] == '\n';
    if (lines > UINT32_MAX)
        return fth_fail(err, FTH_E_LIMIT, "%s: %zu lines are more than a vocabulary can hold", path, lines);
    out->items = fth_alloc(lines, sizeof *out->items);
    out->lengths = fth_alloc(lines, sizeof *out->lengths);
    if (!out->items || !out->lengths)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory for %zu texts", path, lines);
    const char *p = out->text, *end = out->text + out->length;
    if (out->length >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((stop ? stop : end) - p);
        if (length && p[length - 1] == '\r')
            length--;
        if (length == 0)
            return fth_fail(err, FTH_E_DATA, "%s:%u: an empty line where a text of the vocabulary should be",
                            path, out->n + 1);
        out->items[out->n] = p;
        out->lengths[out->n++] = length;
        p = stop ? stop + 1 : end;
    }
    return FTH_OK;
}

static fth_status load(fth_feature_program *program, uint32_t v, const char *path, fth_error *err) {
    struct words words = {0};
    uint32_t twice = 0;
    fth_status status;
    FTH_TRY_GOTO(status, read_whole(path, &words, err), done);
    FTH_TRY_GOTO(status, cut_lines(path, &words, err), done);
    status = fth_feature_set_vocabulary(program, v, words.items, words.lengths, words.n, &twice, err);
    if (status == FTH_OK && twice < words.n) {
        char quoted[96];
        fth_text_quote(quoted, sizeof quoted, words.items[twice], words.lengths[twice]);
        status = fth_fail(err, FTH_E_DATA, "%s:%u: '%s' is there a second time", path, twice + 1, quoted);
    }
done:
    fth_free(words.text);
    fth_free(words.items);
    fth_free(words.lengths);
    return status;
}

/* The text is the configuration's own, of features that share a table the first one's. */
static uint32_t item_of(const struct fth_features_config *features, const char *path) {
    uint32_t i = 0;
    while (i + 1 < features->n_categorical && features->categorical[i].vocabulary_file != path)
        i++;
    return i;
}

fth_status fth_session_vocabularies(struct fth_session *session, fth_error *err) {
    const char *path;
    fth_status status = FTH_OK;
    for (uint32_t v = 0; status == FTH_OK && (path = fth_feature_vocabulary_file(session->program, v)); v++) {
        if (*path)
            status = load(session->program, v, path, err);
        if (status != FTH_OK)
            fth_error_frame(err, "features.categorical.%u.vocabulary_file", item_of(&session->config->features, path));
    }
    return status;
}

void fth_session_warn(struct fth_session *session, const fth_feature_program *program) {
    if (!session->warned)
        session->warned = fth_feature_warn_vocabularies(program);
}
