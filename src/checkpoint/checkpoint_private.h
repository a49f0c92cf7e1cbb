/* What the files of checkpoint/ share: names, shards, the manifest's form. */
#ifndef FTH_CHECKPOINT_CHECKPOINT_PRIVATE_H
#define FTH_CHECKPOINT_CHECKPOINT_PRIVATE_H

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

#define FTH_CHECKPOINT_VERSION 1
#define FTH_SHARD_ROWS ((uint64_t)4 << 20) /* rows of a pack in one file */

/* A file as the manifest lists it. */
struct fth_listed_file {
    const char *name;
    uint64_t bytes, checksum;
};

/* A pack as saved. */
struct fth_saved_pack {
    uint32_t dim, n_tables, n_slots, n_files;
    const char **tables, **slots, **files;
    uint64_t rows, candidates;
};

struct fth_checkpoint {
    const struct fth_io *io;
    fth_arena *arena;
    const char *path;
    json_t *manifest;
    struct fth_checkpoint_state state;
    char digest[17];
    struct fth_listed_file *files;
    uint32_t n_files;
    struct fth_saved_pack *packs;
    uint32_t n_packs;
    /* every tensor of every file, for inspect and restore */
    struct fth_tensor *tensors;
    const char **tensor_files;
    uint32_t n_tensors;
};

/* open.c: a step-* folder's manifest alone; no file that it lists is looked at, no tensor known. */
fth_status fth_checkpoint_open_manifest(const struct fth_io *io, const char *path, fth_checkpoint **out, fth_error *err);
/* open.c: NULL when the checkpoint has no such tensor. */
const struct fth_tensor *fth_checkpoint_find(const fth_checkpoint *checkpoint, const char *file,
                                             const char *name);
/* packs.c: what the manifest says of packs against the tensors that are there: types, shapes, numbers of rows.
 * After it readers need not look again. */
fth_status fth_checkpoint_check_packs(const fth_checkpoint *checkpoint, fth_error *err);

/* digest.c */
fth_status fth_checkpoint_digest_u64(const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                                     uint64_t *out, fth_error *err);

/* manifest.c: the text of a manifest, with its own check value; reading verifies it. Owned: free(); NULL: no memory. */
char *fth_manifest_make(const struct fth_checkpoint_state *state, uint64_t digest,
                        const struct fth_listed_file *files, uint32_t n_files,
                        const struct fth_saved_pack *packs, uint32_t n_packs);
fth_status fth_manifest_read(fth_checkpoint *checkpoint, fth_error *err);

/* folder.c: step-* names in a checkpoint.dir, newest last. */
struct fth_step_folder {
    const char *path;
    uint64_t step;
};
fth_status fth_step_folders(const struct fth_io *io, const char *dir, fth_arena *arena,
                            struct fth_step_folder **out, size_t *n, fth_error *err);
const char *fth_step_name(fth_arena *arena, uint64_t step); /* "step-000000001200" */

#endif
