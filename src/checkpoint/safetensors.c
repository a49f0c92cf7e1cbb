/* safetensors files: see safetensors.h. */
#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/text.h"

#define PIECE ((size_t)1 << 20)        /* bytes written or read at once */
#define START_SYNC ((uint64_t)8 << 20) /* bytes that the disk is given at once */
#define LONG_HEADER ((size_t)4 << 20)
#define HEADER_LIMIT ((uint64_t)100 << 20) /* the format's own */

static const struct {
    const char *name;
    size_t bytes;
} types[FTH_TENSOR_TYPES] = {{"F32", 4}, {"U32", 4}, {"U64", 8}};

size_t fth_tensor_row_bytes(const struct fth_tensor *tensor) {
    return (size_t)tensor->columns * types[tensor->type].bytes;
}

/* ---- writing ---- */

/* {"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}} padded with spaces to a multiple of 8. */
static fth_status make_header(const struct fth_tensor *tensors, uint32_t n, struct fth_text *header,
                              fth_error *err) {
    uint64_t offset = 0;
    fth_text_append(header, "{", 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct fth_tensor *t = &tensors[i];
        json_t *name = json_string(t->name);
        char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
        json_decref(name);
        if (!quoted)
            return fth_fail(err, FTH_E_MEMORY, "no memory for a checkpoint's header");
        uint64_t end = offset + t->rows * fth_tensor_row_bytes(t);
        fth_text_printf(header, "%s%s:{\"dtype\":\"%s\",\"shape\":[%llu", i ? "," : "", quoted,
                        types[t->type].name, (unsigned long long)t->rows);
        if (t->n_dims == 2)
            fth_text_printf(header, ",%llu", (unsigned long long)t->columns);
        fth_text_printf(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset,
                        (unsigned long long)end);
        free(quoted);
        offset = end;
    }
    fth_text_append(header, "}", 1);
    while (header->length % 8 && !header->failed)
        fth_text_append(header, " ", 1);
    return header->failed ? fth_fail(err, FTH_E_MEMORY, "no memory for a checkpoint's header") : FTH_OK;
}

struct sink {
    const struct fth_io *io;
    int file;
    const char *path;
    XXH3_state_t *hash;
    uint64_t size, started; /* bytes written, of them on their way to the disk */
};

static fth_status put(struct sink *sink, const void *bytes, size_t n, fth_error *err) {
    XXH3_64bits_update(sink->hash, bytes, n);
    sink->size += n;
    FTH_TRY(fth_io_write(sink->io, sink->file, sink->path, bytes, n, err));
    /* Else the disk would stand still until the fsync, and then this thread until it is done. */
    if (sink->io->start_sync && sink->size - sink->started >= START_SYNC) {
        sink->io->start_sync(sink->io->ctx, sink->file, sink->started, sink->size - sink->started);
        sink->started = sink->size;
    }
    return FTH_OK;
}

/* Rows of a tensor that are written at once. */
struct piece {
    uint32_t tensor;
    uint64_t first, rows; /* rows 0: there is none */
    char *bytes;
};

/* One piece is written while the next one is filled. */
struct pipeline {
    struct sink *sink;
    const struct fth_tensor *tensors;
    uint32_t n;
    size_t room; /* bytes of a piece */
    fth_tensor_fill fill;
    void *ctx;
    struct piece written, filled;
    fth_status status;
    fth_error *err;
};

/* The piece behind this one; empty tensors have none. */
static void step_on(const struct pipeline *p, struct piece *piece) {
    piece->first += piece->rows;
    while (piece->tensor < p->n && piece->first == p->tensors[piece->tensor].rows) {
        piece->tensor++;
        piece->first = 0;
    }
    piece->rows = 0;
    if (piece->tensor == p->n)
        return;
    const struct fth_tensor *tensor = &p->tensors[piece->tensor];
    size_t row = fth_tensor_row_bytes(tensor);
    uint64_t at_once = row ? p->room / row : 1, left = tensor->rows - piece->first;
    piece->rows = left < at_once ? left : at_once;
}

static void run_stage(void *arg, uint32_t task, uint32_t worker) {
    (void)worker;
    struct pipeline *p = arg;
    const struct piece *piece = task ? &p->filled : &p->written;
    if (!piece->rows)
        return;
    if (task)
        p->fill(p->ctx, piece->tensor, piece->first, piece->rows, piece->bytes);
    else
        p->status = put(p->sink, piece->bytes, piece->rows * fth_tensor_row_bytes(&p->tensors[piece->tensor]), p->err);
}

static fth_status put_tensors(struct sink *sink, fth_pool *pool, const struct fth_tensor *tensors, uint32_t n,
                              fth_tensor_fill fill, void *ctx, fth_error *err) {
    struct pipeline p = {.sink = sink, .tensors = tensors, .n = n, .room = PIECE, .fill = fill, .ctx = ctx, .err = err};
    for (uint32_t i = 0; i < n; i++)
        if (fth_tensor_row_bytes(&tensors[i]) > p.room)
            p.room = fth_tensor_row_bytes(&tensors[i]);
    char *room = fth_alloc(p.room, 2);
    if (!room)
        return fth_fail(err, FTH_E_MEMORY, "no memory to write a checkpoint");
    p.written.bytes = room;
    p.filled.bytes = room + p.room;
    step_on(&p, &p.filled);
    while (p.status == FTH_OK && (p.filled.rows || p.written.rows)) {
        fth_pool_for(pool, 2, run_stage, &p);
        char *free = p.written.bytes;
        p.written = p.filled;
        step_on(&p, &p.filled);
        p.filled.bytes = free;
    }
    fth_free(room);
    return p.status;
}

fth_status fth_safetensors_write(const struct fth_io *io, fth_pool *pool, const char *path,
                                 const struct fth_tensor *tensors, uint32_t n, fth_tensor_fill fill,
                                 void *ctx, uint64_t *size, uint64_t *checksum, fth_error *err) {
    struct fth_text header = {0};
    struct sink sink = {.io = io, .path = path, .hash = XXH3_createState()};
    fth_status status;
    if (!sink.hash)
        return fth_fail(err, FTH_E_MEMORY, "no memory to write a checkpoint");
    XXH3_64bits_reset(sink.hash);
    FTH_TRY_GOTO(status, make_header(tensors, n, &header, err), done);
    sink.file = io->open(io->ctx, path, FTH_IO_WRITE);
    if (sink.file < 0) {
        status = fth_io_error(err, "create", path, sink.file);
        goto done;
    }
    uint64_t length = header.length;
    status = put(&sink, &length, sizeof length, err);
    if (status == FTH_OK)
        status = put(&sink, header.data, header.length, err);
    if (status == FTH_OK)
        status = put_tensors(&sink, pool, tensors, n, fill, ctx, err);
    if (status == FTH_OK)
        status = fth_io_sync_close(io, sink.file, path, err);
    else
        io->close(io->ctx, sink.file);
    *size = sink.size;
    *checksum = XXH3_64bits_digest(sink.hash);
done:
    XXH3_freeState(sink.hash);
    fth_text_free(&header);
    return status;
}

/* ---- reading ---- */

fth_status fth_json_load(const char *text, size_t n, const char *path, json_t **out, fth_error *err) {
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    void *room = *out ? NULL : fth_alloc((n < LONG_HEADER ? n : LONG_HEADER) + 16384, 16); /* what that may have taken */
    fth_free(room);
    return *out || room ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory to read %s", path);
}

static fth_status damaged(fth_error *err, const char *path, const char *what) {
    return fth_fail(err, FTH_E_CHECKPOINT, "%s: not a safetensors file that Fathom wrote: %s", path, what);
}

static int get_u64(const json_t *json, uint64_t *out) {
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return 0;
    *out = (uint64_t)json_integer_value(json);
    return 1;
}

/* One header entry; data_end is where its data must end. */
static const char *read_entry(const json_t *entry, struct fth_tensor *t, uint64_t *data_end) {
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint32_t k = 0;
    while (type && k < FTH_TENSOR_TYPES && strcmp(types[k].name, type) != 0)
        k++;
    if (!type || k == FTH_TENSOR_TYPES)
        return "a tensor's dtype is not F32, U32 or U64";
    t->type = (enum fth_tensor_type)k;
    t->n_dims = (uint32_t)json_array_size(shape);
    t->columns = 1;
    if (t->n_dims < 1 || t->n_dims > 2 || !get_u64(json_array_get(shape, 0), &t->rows) ||
        (t->n_dims == 2 && !get_u64(json_array_get(shape, 1), &t->columns)))
        return "a tensor's shape is not one or two sizes";
    if (json_array_size(offsets) != 2 || !get_u64(json_array_get(offsets, 0), &t->offset) ||
        !get_u64(json_array_get(offsets, 1), data_end))
        return "a tensor's data_offsets are not two numbers";
    size_t cells, bytes;
    if (!fth_mul_size((size_t)t->rows, (size_t)t->columns, &cells) ||
        !fth_mul_size(cells, types[k].bytes, &bytes) || *data_end < t->offset ||
        *data_end - t->offset != bytes)
        return "a tensor's shape and data_offsets disagree";
    return NULL;
}

static int by_offset(const void *a, const void *b) {
    const struct fth_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->rows && x->columns) - (y->rows && y->columns); /* empty ones first */
}

static fth_status read_header(const char *path, const json_t *json, uint64_t data_bytes,
                              uint64_t data_start, fth_arena *arena, struct fth_tensor **out,
                              uint32_t *n, fth_error *err) {
    if (!json_is_object(json))
        return damaged(err, path, "the header is not a JSON object");
    struct fth_tensor *tensors = fth_arena_alloc(arena, json_object_size(json) + 1, sizeof *tensors);
    if (!tensors)
        return fth_fail(err, FTH_E_MEMORY, "no memory to read %s", path);
    const char *name;
    json_t *entry;
    *n = 0;
    json_object_foreach((json_t *)json, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        struct fth_tensor *t = &tensors[(*n)++];
        uint64_t end = 0;
        const char *wrong = read_entry(entry, t, &end);
        if (wrong)
            return damaged(err, path, wrong);
        t->name = fth_arena_strdup(arena, name);
        if (!t->name)
            return fth_fail(err, FTH_E_MEMORY, "no memory to read %s", path);
    }
    qsort(tensors, *n, sizeof *tensors, by_offset);
    uint64_t at = 0;
    for (uint32_t i = 0; i < *n; i++) {
        if (tensors[i].offset != at)
            return damaged(err, path, "tensors overlap or leave gaps");
        at += tensors[i].rows * fth_tensor_row_bytes(&tensors[i]);
        tensors[i].offset += data_start;
    }
    if (at != data_bytes)
        return damaged(err, path, "its length is not what its header says");
    *out = tensors;
    return FTH_OK;
}

fth_status fth_safetensors_open(const struct fth_io *io, const char *path, fth_arena *arena,
                                struct fth_tensor **tensors, uint32_t *n, fth_error *err) {
    struct fth_io_stat stat;
    int result = io->stat(io->ctx, path, &stat);
    if (result < 0)
        return fth_io_error(err, "read", path, result);
    int file = io->open(io->ctx, path, FTH_IO_READ);
    if (file < 0)
        return fth_io_error(err, "open", path, file);
    uint64_t length = 0;
    char *header = NULL;
    json_t *json = NULL;
    fth_status status = FTH_OK;
    if (stat.size < sizeof length) {
        status = damaged(err, path, "it is too short");
        goto done;
    }
    FTH_TRY_GOTO(status, fth_io_pread(io, file, path, &length, sizeof length, 0, err), done);
    if (length > HEADER_LIMIT || length > stat.size - sizeof length) {
        status = damaged(err, path, "its header is longer than the file");
        goto done;
    }
    header = fth_alloc((size_t)length + 1, 1);
    if (!header) {
        status = fth_fail(err, FTH_E_MEMORY, "no memory to read %s", path);
        goto done;
    }
    FTH_TRY_GOTO(status, fth_io_pread(io, file, path, header, (size_t)length, sizeof length, err), done);
    FTH_TRY_GOTO(status, fth_json_load(header, (size_t)length, path, &json, err), done);
    uint64_t start = sizeof length + length;
    status = json ? read_header(path, json, stat.size - start, start, arena, tensors, n, err)
                  : damaged(err, path, "its header is not JSON");
done:
    json_decref(json);
    fth_free(header);
    io->close(io->ctx, file);
    return status;
}

fth_status fth_file_checksum(const struct fth_io *io, const char *path, uint64_t *size,
                             uint64_t *checksum, fth_error *err) {
    FTH_TRY(fth_io_check_file(io, path, err));
    int file = io->open(io->ctx, path, FTH_IO_READ);
    if (file < 0)
        return fth_io_error(err, "open", path, file);
    XXH3_state_t *hash = XXH3_createState();
    char *piece = fth_alloc(PIECE, 1);
    fth_status status = FTH_OK;
    if (!hash || !piece)
        status = fth_fail(err, FTH_E_MEMORY, "no memory to check %s", path);
    else
        XXH3_64bits_reset(hash);
    *size = 0;
    for (size_t got = PIECE; status == FTH_OK && got == PIECE;) {
        status = fth_io_read(io, file, path, piece, PIECE, &got, err);
        if (status == FTH_OK) {
            XXH3_64bits_update(hash, piece, got);
            *size += got;
        }
    }
    if (status == FTH_OK)
        *checksum = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    fth_free(piece);
    io->close(io->ctx, file);
    return status;
}
