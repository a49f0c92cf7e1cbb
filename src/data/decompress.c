/* gzip (any number of members) and zstd (any number of frames) behind fth_source.
 *
 * Invariant: input[input_at] is the first byte that the decoder has not seen, so that
 * raw_offset - (input_n - input_at) is the offset in the file that messages name. */
#include <string.h>
#include <zstd_errors.h>

#include "data/source_private.h"

static unsigned long long offset_here(const struct fth_source *source) {
    return source->raw_offset - (source->input_n - source->input_at);
}

fth_status fth_source_start_decoder(struct fth_source *source, fth_error *err) {
    if (source->kind == FTH_SOURCE_GZIP) {
        memset(&source->gzip, 0, sizeof source->gzip);
        /* 16: a gzip header is required. */
        if (inflateInit2(&source->gzip, MAX_WBITS + 16) != Z_OK)
            return fth_fail(err, FTH_E_MEMORY, "%s: no memory for the gzip decoder", source->name);
        source->gzip_ready = 1;
    } else {
        source->zstd = ZSTD_createDStream();
        if (!source->zstd)
            return fth_fail(err, FTH_E_MEMORY, "%s: no memory for the zstd decoder", source->name);
    }
    return FTH_OK;
}

void fth_source_end_decoder(struct fth_source *source) {
    if (source->gzip_ready)
        inflateEnd(&source->gzip);
    ZSTD_freeDStream(source->zstd);
}

/* After a member: the next one begins, or zeros pad the file to its end (as tapes do). */
static fth_status next_member(struct fth_source *source, fth_error *err) {
    while (source->input_at < source->input_n && source->input[source->input_at] == 0) {
        source->input_at++;
        FTH_TRY(fth_source_fill_input(source, err));
    }
    if (source->input_at == source->input_n)
        return FTH_OK;
    if (source->input[source->input_at] != 0x1f)
        return fth_fail(err, FTH_E_DATA,
                        "%s: offset %llu: bytes behind the gzip data are no gzip member",
                        source->name, offset_here(source));
    if (inflateReset(&source->gzip) != Z_OK)
        return fth_fail(err, FTH_E_DATA, "%s: offset %llu: the gzip decoder failed", source->name,
                        offset_here(source));
    return FTH_OK;
}

static fth_status decode_gzip(struct fth_source *source, char *buffer, size_t size, size_t *got,
                              fth_error *err) {
    z_stream *z = &source->gzip;
    if (!source->in_frame) {
        FTH_TRY(next_member(source, err));
        if (source->input_at == source->input_n)
            return FTH_OK;
        source->in_frame = 1;
    }
    z->next_in = source->input + source->input_at;
    z->avail_in = (uInt)(source->input_n - source->input_at);
    z->next_out = (Bytef *)buffer;
    z->avail_out = (uInt)(size > 1u << 30 ? 1u << 30 : size);
    int result = inflate(z, Z_NO_FLUSH);
    source->input_at = source->input_n - z->avail_in;
    *got = (size_t)(z->next_out - (Bytef *)buffer);
    if (result == Z_STREAM_END) {
        source->in_frame = 0;
        return FTH_OK;
    }
    if (result != Z_OK && result != Z_BUF_ERROR)
        return fth_fail(err, FTH_E_DATA, "%s: offset %llu: the gzip data is damaged (%s)",
                        source->name, offset_here(source), z->msg ? z->msg : "unknown reason");
    return FTH_OK;
}

static fth_status decode_zstd(struct fth_source *source, char *buffer, size_t size, size_t *got,
                              fth_error *err) {
    ZSTD_inBuffer in = {source->input + source->input_at, source->input_n - source->input_at, 0};
    ZSTD_outBuffer out = {buffer, size, 0};
    if (!source->in_frame && in.size == 0)
        return FTH_OK;
    size_t result = ZSTD_decompressStream(source->zstd, &out, &in);
    source->input_at += in.pos;
    if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
        return fth_fail(err, FTH_E_DATA,
                        "%s: offset %llu: the zstd data asks for a window of more than 128 MiB; compress it without --long "
                        "or with --long=27",
                        source->name, offset_here(source));
    if (ZSTD_isError(result))
        return fth_fail(err, FTH_E_DATA, "%s: offset %llu: the zstd data is damaged (%s)",
                        source->name, offset_here(source), ZSTD_getErrorName(result));
    source->in_frame = result != 0;
    *got = out.pos;
    return FTH_OK;
}

fth_status fth_source_decode(struct fth_source *source, char *buffer, size_t size, size_t *got,
                             fth_error *err) {
    *got = 0;
    while (*got == 0) {
        FTH_TRY(fth_source_fill_input(source, err));
        int at_end = source->input_at == source->input_n;
        if (at_end && !source->in_frame)
            return FTH_OK;
        FTH_TRY(source->kind == FTH_SOURCE_GZIP ? decode_gzip(source, buffer, size, got, err)
                                                : decode_zstd(source, buffer, size, got, err));
        if (at_end && *got == 0 && source->in_frame)
            return fth_fail(err, FTH_E_DATA,
                            "%s: offset %llu: the file is truncated: %s data goes on", source->name,
                            offset_here(source), source->kind == FTH_SOURCE_GZIP ? "gzip" : "zstd");
    }
    return FTH_OK;
}
