/* What is in a checkpoint. */
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "fathom/fathom.h"

fth_status fth_inspect_checkpoint(const char *path, uint32_t top, char **out, fth_error *err) {
    fth_checkpoint *checkpoint = NULL;
    FTH_TRY(fth_checkpoint_open(fth_io_posix(), path, &checkpoint, err));
    fth_status status = fth_checkpoint_report(checkpoint, top, out, err);
    fth_checkpoint_close(checkpoint);
    return status;
}

fth_status fth_inspect_digest(const char *path, char out[17], fth_error *err) {
    fth_checkpoint *checkpoint = NULL;
    FTH_TRY(fth_checkpoint_open(fth_io_posix(), path, &checkpoint, err));
    memcpy(out, fth_checkpoint_digest(checkpoint), 17);
    fth_checkpoint_close(checkpoint);
    return FTH_OK;
}
