/* Files that results are written to, over any table of file functions: see fathom/tools.h. The table's paths and files
 * must be the operating system's: what is left is looked at, and descriptors are locked, beside the table. */
#ifndef FTH_IO_OUTPUT_H
#define FTH_IO_OUTPUT_H

#include "fathom/tools.h"
#include "io/io.h"

fth_status fth_output_open_io(const struct fth_io *io, const char *path, fth_output *out, fth_error *err);
fth_status fth_output_close_io(const struct fth_io *io, fth_output *out, int whole, fth_error *err);

#endif
