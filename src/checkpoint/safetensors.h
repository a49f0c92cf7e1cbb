/* safetensors files (the format of Hugging Face's library of that name): 8 bytes of header length,
 * a JSON header, then the tensors' bytes, little-endian, without gaps, in the header's order.
 *
 *   | u64 length | {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} | data ... |
 *
 * Written and read piece by piece: memory does not grow with the file. Every byte goes into an XXH3 checksum.
 * Threads: one at a time per file, but for the pool that writing is given. */
#ifndef FTH_CHECKPOINT_SAFETENSORS_H
#define FTH_CHECKPOINT_SAFETENSORS_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"
#include "io/io.h"

enum fth_tensor_type { FTH_TENSOR_F32, FTH_TENSOR_U32, FTH_TENSOR_U64, FTH_TENSOR_TYPES };

struct fth_tensor {
    const char *name;
    enum fth_tensor_type type;
    uint32_t n_dims;      /* 1 or 2 */
    uint64_t rows;
    uint64_t columns;     /* 1 when n_dims is 1 */
    uint64_t offset;      /* of its data in the file; set by open and write */
};

size_t fth_tensor_row_bytes(const struct fth_tensor *tensor);

/* Puts rows [first, first + n) of tensor `index`, tightly packed, into `bytes`. */
typedef void (*fth_tensor_fill)(void *ctx, uint32_t index, uint64_t first, uint64_t n, void *bytes);

/* Writes and fsyncs a new file. *size and *checksum (XXH3 64 of all bytes) are set. `fill` is called in the file's order,
 * by one of the pool's workers, while another one writes what it gave before. */
fth_status fth_safetensors_write(const struct fth_io *io, fth_pool *pool, const char *path,
                                 const struct fth_tensor *tensors, uint32_t n, fth_tensor_fill fill,
                                 void *ctx, uint64_t *size, uint64_t *checksum, fth_error *err);

/* Reads and checks the header: types, shapes, offsets without gaps that end where the file ends. Names are in
 * the arena, order is that of the data. */
fth_status fth_safetensors_open(const struct fth_io *io, const char *path, fth_arena *arena,
                                struct fth_tensor **tensors, uint32_t *n, fth_error *err);

/* A JSON text (owned: json_decref); NULL: it is none. The library does not always tell that from memory that was not there,
 * so memory is asked for once more: FTH_E_MEMORY. */
fth_status fth_json_load(const char *text, size_t n, const char *path, json_t **out, fth_error *err);

/* Size and XXH3 64 of a whole file. */
fth_status fth_file_checksum(const struct fth_io *io, const char *path, uint64_t *size,
                             uint64_t *checksum, fth_error *err);

#endif
