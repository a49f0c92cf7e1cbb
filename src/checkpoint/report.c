/* What is inside a checkpoint, for people. Reads tensors piece by piece; nothing is restored. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_private.h"

#define AT_ONCE ((uint64_t)1 << 14)
#define MOST_TOP 1000

struct top_row {
    uint64_t frequency, key;
    double norm;
};

struct table_report {
    uint64_t rows;
    double squares, largest; /* of row norms */
    struct top_row *top;     /* by frequency, falling */
    uint32_t n_top;
};

static fth_status read_piece(const fth_checkpoint *c, const struct fth_tensor *t, int handle,
                             const char *path, uint64_t first, uint64_t n, void *bytes,
                             fth_error *err) {
    size_t row = fth_tensor_row_bytes(t);
    return fth_io_pread(c->io, handle, path, bytes, (size_t)n * row, t->offset + first * row, err);
}

static void keep_top(struct table_report *table, uint32_t room, struct top_row row) {
    uint32_t at = table->n_top;
    while (at > 0 && (table->top[at - 1].frequency < row.frequency ||
                      (table->top[at - 1].frequency == row.frequency &&
                       table->top[at - 1].key > row.key)))
        at--;
    if (at == room)
        return;
    if (table->n_top < room)
        table->n_top++;
    memmove(&table->top[at + 1], &table->top[at], (table->n_top - at - 1) * sizeof row);
    table->top[at] = row;
}

struct buffers {
    uint64_t *keys, *frequency;
    uint32_t *tables;
    float *weights;
};

static void add_rows(const struct buffers *b, const struct fth_saved_pack *pack, uint64_t n,
                     uint32_t top, struct table_report *tables) {
    for (uint64_t i = 0; i < n; i++) {
        if (b->tables[i] >= pack->n_tables)
            continue;
        struct table_report *table = &tables[b->tables[i]];
        double squares = 0;
        for (uint32_t d = 0; d < pack->dim; d++)
            squares += (double)b->weights[i * pack->dim + d] * b->weights[i * pack->dim + d];
        table->rows++;
        table->squares += squares;
        if (sqrt(squares) > table->largest)
            table->largest = sqrt(squares);
        if (top)
            keep_top(table, top, (struct top_row){b->frequency[i], b->keys[i], sqrt(squares)});
    }
}

static fth_status scan_file(const fth_checkpoint *c, const struct fth_saved_pack *pack,
                            const char *file, const struct buffers *b, uint32_t top,
                            struct table_report *tables, fth_error *err) {
    const struct fth_tensor *keys = fth_checkpoint_find(c, file, "keys");
    const struct fth_tensor *which = fth_checkpoint_find(c, file, "tables");
    const struct fth_tensor *weights = fth_checkpoint_find(c, file, "weights");
    const struct fth_tensor *frequency = fth_checkpoint_find(c, file, "frequency");
    const char *path = fth_arena_printf(c->arena, "%s/%s", c->path, file);
    if (!path)
        return fth_fail(err, FTH_E_MEMORY, "no memory to look into a checkpoint");
    int handle = c->io->open(c->io->ctx, path, FTH_IO_READ);
    if (handle < 0)
        return fth_io_error(err, "open", path, handle);
    fth_status status = FTH_OK;
    for (uint64_t first = 0; status == FTH_OK && first < keys->rows; first += AT_ONCE) {
        uint64_t left = keys->rows - first, n = left < AT_ONCE ? left : AT_ONCE;
        status = read_piece(c, keys, handle, path, first, n, b->keys, err);
        if (status == FTH_OK)
            status = read_piece(c, which, handle, path, first, n, b->tables, err);
        if (status == FTH_OK)
            status = read_piece(c, weights, handle, path, first, n, b->weights, err);
        if (status == FTH_OK)
            status = read_piece(c, frequency, handle, path, first, n, b->frequency, err);
        if (status == FTH_OK)
            add_rows(b, pack, n, top, tables);
    }
    c->io->close(c->io->ctx, handle);
    return status;
}

static void print_pack(const struct fth_saved_pack *pack, uint32_t index,
                       const struct table_report *tables, struct fth_text *out) {
    fth_text_printf(out, "\npack %u: dimension %u, %llu rows, %llu candidates, slots:", index, pack->dim,
                    (unsigned long long)pack->rows, (unsigned long long)pack->candidates);
    for (uint32_t s = 0; s < pack->n_slots; s++)
        fth_text_printf(out, " %s", pack->slots[s]);
    fth_text_printf(out, "%s\n  %-24s %12s %12s %12s %12s\n", pack->n_slots ? "" : " none", "table",
                    "rows", "bytes", "mean norm", "max norm");
    for (uint32_t t = 0; t < pack->n_tables; t++) {
        char bytes[32];
        uint64_t row = (uint64_t)pack->dim * 4 * (1 + pack->n_slots);
        fth_format_bytes(bytes, (double)(tables[t].rows * row));
        fth_text_printf(out, "  %-24s %12llu %12s %12.5g %12.5g\n", pack->tables[t],
                        (unsigned long long)tables[t].rows, bytes,
                        tables[t].rows ? sqrt(tables[t].squares / (double)tables[t].rows) : 0,
                        tables[t].largest);
    }
    for (uint32_t t = 0; t < pack->n_tables; t++)
        for (uint32_t i = 0; i < tables[t].n_top; i++)
            fth_text_printf(out, "  %s%-22s key %016llx  frequency %-10llu norm %.5g\n",
                            i ? "  " : "top ", i ? "" : pack->tables[t],
                            (unsigned long long)tables[t].top[i].key,
                            (unsigned long long)tables[t].top[i].frequency, tables[t].top[i].norm);
}

static fth_status report_pack(const fth_checkpoint *c, uint32_t index, uint32_t top,
                              struct fth_text *out, fth_error *err) {
    const struct fth_saved_pack *pack = &c->packs[index];
    struct buffers b = {fth_alloc(AT_ONCE, 8), fth_alloc(AT_ONCE, 8), fth_alloc(AT_ONCE, 4),
                        fth_alloc(AT_ONCE * (pack->dim ? pack->dim : 1), 4)};
    struct table_report *tables =
        fth_arena_alloc(c->arena, pack->n_tables + 1, sizeof *tables);
    int ok = b.keys && b.frequency && b.tables && b.weights && tables;
    for (uint32_t t = 0; ok && t < pack->n_tables; t++) {
        tables[t].top = fth_arena_alloc(c->arena, top + 1, sizeof *tables[t].top);
        ok = tables[t].top != NULL;
    }
    fth_status status =
        ok ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory to look into a checkpoint");
    for (uint32_t f = 0; status == FTH_OK && f < pack->n_files; f++)
        status = scan_file(c, pack, pack->files[f], &b, top, tables, err);
    if (status == FTH_OK)
        print_pack(pack, index, tables, out);
    fth_free(b.keys);
    fth_free(b.frequency);
    fth_free(b.tables);
    fth_free(b.weights);
    return status;
}

static fth_status report_dense(const fth_checkpoint *c, struct fth_text *out, fth_error *err) {
    const char *path = fth_arena_printf(c->arena, "%s/dense.safetensors", c->path);
    int handle = path ? c->io->open(c->io->ctx, path, FTH_IO_READ) : -1;
    if (handle < 0)
        return fth_io_error(err, "open", path ? path : c->path, handle);
    fth_text_printf(out, "\n%-36s %16s %12s\n", "dense tensor", "shape", "norm");
    fth_status status = FTH_OK;
    for (uint32_t i = 0; status == FTH_OK && i < c->n_tensors; i++) {
        const struct fth_tensor *t = &c->tensors[i];
        if (strcmp(c->tensor_files[i], "dense.safetensors") != 0 || t->type != FTH_TENSOR_F32)
            continue;
        size_t cells = (size_t)(t->rows * t->columns);
        float *data = fth_alloc(cells ? cells : 1, sizeof(float));
        if (!data)
            status = fth_fail(err, FTH_E_MEMORY, "no memory to look into a checkpoint");
        else
            status = read_piece(c, t, handle, path, 0, t->rows, data, err);
        double squares = 0;
        for (size_t k = 0; status == FTH_OK && k < cells; k++)
            squares += (double)data[k] * data[k];
        fth_free(data);
        char shape[48];
        snprintf(shape, sizeof shape, "%llu x %llu", (unsigned long long)t->rows,
                 (unsigned long long)t->columns);
        fth_text_printf(out, "%-36s %16s %12.5g\n", t->name, shape, sqrt(squares));
    }
    c->io->close(c->io->ctx, handle);
    return status;
}

/* Those of several labels, in the order of the logit's columns. A configuration of another version, which is not read,
 * names none. */
static void report_tasks(const fth_checkpoint *c, struct fth_text *out) {
    struct fth_config *config = NULL;
    fth_error ignored = {0};
    if (fth_config_parse("config.yaml", c->state.config_yaml, strlen(c->state.config_yaml), NULL, 0, &config,
                         &ignored) != FTH_OK)
        return;
    if (config->n_tasks)
        fth_text_printf(out, "\n%-24s %-24s %8s\n", "task", "label", "weight");
    for (uint32_t t = 0; t < config->n_tasks; t++)
        fth_text_printf(out, "%-24s %-24s %8g\n", config->tasks[t].name, config->tasks[t].label,
                        config->tasks[t].weight);
    fth_config_free(config);
}

fth_status fth_checkpoint_report(fth_checkpoint *c, uint32_t top, char **out, fth_error *err) {
    struct fth_text text = {0};
    uint64_t bytes = 0;
    char total[32];
    if (top > MOST_TOP)
        top = MOST_TOP;
    for (uint32_t i = 0; i < c->n_files; i++)
        bytes += c->files[i].bytes;
    fth_format_bytes(total, (double)bytes);
    fth_text_printf(&text,
                    "checkpoint %s\ndigest %s  step %llu  epoch %llu  examples %llu  %s  trained %.0f s on %s\n",
                    c->path, c->digest, (unsigned long long)c->state.step,
                    (unsigned long long)c->state.position.epoch,
                    (unsigned long long)c->state.position.examples_seen, total,
                    c->state.train_seconds, c->state.isa);
    report_tasks(c, &text);
    fth_status status = report_dense(c, &text, err);
    for (uint32_t p = 0; status == FTH_OK && p < c->n_packs; p++)
        status = report_pack(c, p, top, &text, err);
    char *copy = status == FTH_OK && !text.failed ? strdup(fth_text_get(&text)) : NULL;
    fth_text_free(&text);
    if (status != FTH_OK)
        return status;
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory to look into a checkpoint");
    *out = copy;
    return FTH_OK;
}
