/* A checkpoint's state written anew, beside tensors that stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_private.h"

static fth_status write_manifest(const fth_checkpoint *there, const struct fth_checkpoint_state *state, uint64_t digest,
                                 fth_error *err) {
    const char *name = fth_arena_printf(there->arena, "%s/manifest.json", there->path);
    char *text = fth_manifest_make(state, digest, there->files, there->n_files, there->packs, there->n_packs);
    fth_status status = text && name ? fth_io_write_file_atomic(there->io, name, text, strlen(text), err)
                                     : fth_fail(err, FTH_E_MEMORY, "no memory to write a checkpoint");
    free(text);
    return status;
}

fth_status fth_checkpoint_amend(const struct fth_io *io, const char *path, const struct fth_checkpoint_source *source,
                                const struct fth_checkpoint_state *state, int *changed, fth_error *err) {
    fth_checkpoint *there = NULL;
    uint64_t digest = 0;
    char hex[17];
    *changed = 0;
    FTH_TRY(fth_checkpoint_digest_u64(source, state, &digest, err));
    FTH_TRY(fth_checkpoint_open_manifest(io, path, &there, err));
    fth_status status = FTH_OK;
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    if (strcmp(fth_checkpoint_digest(there), hex) != 0) {
        status = write_manifest(there, state, digest, err);
        *changed = status == FTH_OK;
    }
    fth_checkpoint_close(there);
    return status;
}
