#include "data_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <cmocka.h>

#include "base/hash.h"

static char folder[64];

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", folder);
}

const char *temp_path(const char *name) {
    static char paths[8][256];
    static int next;
    if (!folder[0]) {
        strcpy(folder, "/tmp/fathom-test-XXXXXX");
        if (!mkdtemp(folder))
            fail_msg("cannot make a temporary folder");
        atexit(remove_folder);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *path, const void *bytes, size_t n, const char *mode) {
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void write_file(const char *path, const void *bytes, size_t n) {
    write_bytes(path, bytes, n, "wb");
}

void write_gzip(const char *path, const char *text, size_t n, int append) {
    gzFile file = gzopen(path, append ? "ab" : "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)n), (int)n);
    assert_int_equal(gzclose(file), Z_OK);
}

void write_zstd(const char *path, const char *text, size_t n, int append) {
    size_t bound = ZSTD_compressBound(n);
    void *packed = malloc(bound);
    size_t size = ZSTD_compress(packed, bound, text, n, 3);
    assert_false(ZSTD_isError(size));
    write_bytes(path, packed, size, append ? "ab" : "wb");
    free(packed);
}

char *read_whole(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    struct stat info;
    assert_int_equal(fstat(fileno(file), &info), 0);
    char *bytes = malloc((size_t)info.st_size + 1);
    *n = fread(bytes, 1, (size_t)info.st_size, file);
    bytes[*n] = 0;
    fclose(file);
    return bytes;
}

const char *shared_data(const char *name) {
    static char path[512];
    const char *root = getenv("FATHOM_DATA");
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared/data", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

struct fth_data_config csv_config(const char *const *files, uint32_t n_files,
                                  const char *const *columns, uint32_t n_columns) {
    return (struct fth_data_config){
        .format = FTH_FORMAT_CSV,
        .train = {files, n_files},
        .delimiter = ",",
        .quotes = 1,
        .columns = {columns, n_columns},
        .skip_blank = 1,
        .comment = "",
        .on_bad_line = FTH_BAD_STOP,
        .bad_line_limit = -1,
        .queue_depth = 2,
        .block_bytes = 1 << 20,
        .label = "label",
        .weight = "",
        .query = "",
    };
}

uint64_t cell_hash(const char *text) {
    return fth_hash_bytes(text, strlen(text), 7);
}

static fth_status append_example(struct fth_block *block, uint32_t row, struct fth_batch *out,
                                 fth_error *err) {
    uint32_t at = out->n, total = out->groups[0].total;
    uint64_t hash = 1;
    uint32_t cells = block->n_columns;
    FTH_TRY(fth_batch_reserve(out, at + 1, err));
    if (block->n_columns) {
        FTH_TRY(fth_batch_reserve_positions(out, 0, total + 3, err));
        for (uint32_t c = 0; c < cells; c++) {
            const struct fth_cell *cell = &block->cells[(size_t)row * cells + c];
            uint64_t one = fth_hash_bytes(block->text + cell->offset, cell->length, 7);
            hash = fth_hash_mix(hash * 31 + one);
            if (c < 3)
                out->fields[1].keys[total++] = one;
        }
    } else {
        uint32_t first = block->entry_start[row];
        cells = block->entry_start[row + 1] - first;
        FTH_TRY(fth_batch_reserve_positions(out, 0, total + cells, err));
        hash =
            fth_hash_bytes(block->text + block->labels[row].offset, block->labels[row].length, 7);
        for (uint32_t e = 0; e < cells; e++) {
            const struct fth_entry *entry = &block->entries[first + e];
            uint64_t one = entry->index * 1000003 + entry->field;
            uint32_t bits;
            memcpy(&bits, &entry->value, 4);
            hash = fth_hash_mix(hash * 31 + one + ((uint64_t)bits << 32));
            out->fields[1].keys[total++] = one;
        }
    }
    out->dense[(size_t)at * out->dense_ld] = (float)cells;
    out->label[at] = (float)(hash & 1);
    out->fields[0].keys[at] = hash;
    out->example_number[at] = block->example_number[row];
    out->groups[0].total = total;
    out->groups[0].offsets[at + 1] = total;
    out->n = at + 1;
    return FTH_OK;
}

static fth_status hash_examples(void *ctx, struct fth_block *block, struct fth_batch *out,
                                fth_error *err) {
    fth_batch_clear(out);
    for (uint32_t row = 0; row < block->n_lines; row++) {
        const struct fth_cell *first =
            block->n_columns ? &block->cells[(size_t)row * block->n_columns] : &block->labels[row];
        if (first->length == 6 && memcmp(block->text + first->offset, "refuse", 6) == 0)
            fth_block_refuse(block, block->line_number[row],
                             first->offset - block->line_start[row] + 1,
                             "refused by the transform");
        else
            FTH_TRY(append_example(block, row, out, err));
    }
    return FTH_OK;
}

static fth_status hash_finish(void *ctx, struct fth_batch *batch, int train, fth_error *err) {
    return FTH_OK;
}

struct fth_transform hash_transform(void) {
    static const char *const dense[] = {"cells"};
    static const int32_t group[] = {FTH_NO_GROUP, 0};
    static const uint8_t weighted[] = {0, 0};
    static const uint32_t group_max[] = {3};
    static const struct fth_schema schema = {
        .n_dense = 1,
        .dense_names = dense,
        .n_fields = 2,
        .field_group = group,
        .field_weighted = weighted,
        .n_groups = 1,
        .group_max = group_max,
    };
    return (struct fth_transform){
        .schema = &schema, .examples = hash_examples, .finish = hash_finish};
}

uint64_t batch_digest(uint64_t digest, const struct fth_batch *batch) {
    digest = fth_hash_mix(digest ^ batch->n);
    for (uint32_t i = 0; i < batch->n; i++) {
        digest = fth_hash_mix(digest ^ batch->fields[0].keys[i]);
        digest = fth_hash_mix(digest ^ batch->example_number[i]);
        digest = fth_hash_mix(digest ^ (uint64_t)batch->dense[(size_t)i * batch->dense_ld]);
        digest = fth_hash_mix(digest ^ (uint64_t)batch->label[i]);
        for (uint32_t p = batch->groups[0].offsets[i]; p < batch->groups[0].offsets[i + 1]; p++)
            digest = fth_hash_mix(digest ^ batch->fields[1].keys[p]);
    }
    return digest;
}

struct pause {
    struct fth_filler filler;
    uint32_t pieces; /* a worker */
    atomic_uint taken;
};

static void fill_pause(void *arg, uint32_t worker) {
    struct pause *pause = arg;
    for (uint32_t i = 0; i < pause->pieces && pause->filler.fn && pause->filler.fn(pause->filler.arg, worker); i++)
        atomic_fetch_add(&pause->taken, 1);
}

struct read_result read_all(const struct fth_data_config *config,
                            const struct fth_data_set_options *set_options,
                            const struct fth_reader_options *options) {
    struct read_result result = {0};
    struct fth_transform transform = hash_transform();
    struct fth_batch *batch;
    fth_data_set *set = NULL;
    fth_reader *reader = NULL;
    uint64_t epoch = options->start ? options->start->epoch : 0;
    result.status = fth_data_set_create(config, set_options, &set, &result.error);
    if (result.status == FTH_OK)
        result.status = fth_reader_create(set, &transform, options, &reader, &result.error);
    while (result.status == FTH_OK && epoch + result.epochs < options->epochs) {
        result.status = fth_reader_next(reader, &batch, &result.error);
        if (result.status != FTH_OK)
            break;
        if (!batch) {
            result.epochs++;
            result.digest = fth_hash_mix(result.digest ^ 0xe0);
            continue;
        }
        if (options->pool) { /* as in a step, while the batch is in hand; none at all, some, as many as there are */
            struct pause pause = {.pieces = result.batches % 4 == 3 ? UINT32_MAX : result.batches % 4};
            fth_reader_filler(reader, &pause.filler);
            fth_pool_run(options->pool, fill_pause, &pause);
            result.pieces += pause.taken;
        }
        result.numbers =
            realloc(result.numbers, (result.examples + batch->n) * sizeof *result.numbers);
        memcpy(result.numbers + result.examples, batch->example_number,
               batch->n * sizeof *result.numbers);
        result.batches++;
        result.examples += batch->n;
        result.digest = batch_digest(result.digest, batch);
        fth_reader_release(reader, batch);
    }
    if (reader) {
        /* A failure is told once; behind the end there is nothing. */
        assert_int_equal(fth_reader_next(reader, &batch, NULL), FTH_OK);
        assert_null(batch);
        fth_reader_get_counts(reader, &result.counts);
    }
    fth_reader_destroy(reader);
    fth_data_set_destroy(set);
    return result;
}

void read_result_free(struct read_result *result) {
    free(result->numbers);
}
