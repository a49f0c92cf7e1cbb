/* Files, pipes and memory as one stream of bytes: see source.h. The only file of data/ that reads.
 *
 * Plain bytes go from the file straight into the caller's buffer; compressed ones through input[].
 */
#include "data/source.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "data/source_private.h"

static fth_status wait_readable(struct fth_source *source, fth_error *err) {
    struct pollfd fds[2] = {{.fd = source->file, .events = POLLIN},
                            {.fd = source->wake, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, source->wake >= 0 ? 2 : 1, -1);
        if (n < 0 && errno != EINTR)
            return fth_fail(err, FTH_E_IO, "%s: cannot wait for input: %s", source->name,
                            strerror(errno));
        if (n > 0 && source->wake >= 0 && fds[1].revents)
            return fth_fail(err, FTH_E_INTERRUPTED, "%s: reading was stopped", source->name);
        if (n > 0 && fds[0].revents)
            return FTH_OK;
    }
}

/* A file that has become shorter: what is missing is not to pass for its end. One that was appended to or written over
 * meanwhile: what was read is neither the old one nor the new one, and its last line may be half of one. */
static fth_status check_end(const struct fth_source *source, fth_error *err) {
    struct fth_io_stat now;
    char how[64] = "its time is another one now";
    if (!source->regular)
        return FTH_OK;
    if (source->raw_offset < source->size)
        return fth_fail(err, FTH_E_DATA,
                        "%s: has become shorter while it was read: of %llu bytes none is left behind byte %llu; write new "
                        "data into a new file",
                        source->name, (unsigned long long)source->size, (unsigned long long)source->raw_offset);
    if (source->io->fstat(source->io->ctx, source->file, &now) < 0 ||
        (now.size == source->stat.size && now.modified == source->stat.modified))
        return FTH_OK;
    if (now.size != source->stat.size)
        snprintf(how, sizeof how, "%llu bytes then, %llu now", (unsigned long long)source->stat.size,
                 (unsigned long long)now.size);
    fth_log(FTH_LOG_WARN,
            "%s: was written to while it was read (%s): what was read may be of both states, and its last line half of one; "
            "write new data into a new file",
            source->name, how);
    return FTH_OK;
}

/* Bytes straight from the file, at least one unless at its end. */
static fth_status read_raw(struct fth_source *source, void *buffer, size_t size, size_t *got, fth_error *err) {
    if (source->file < 0) {
        size_t left = (size_t)(source->size - source->raw_offset);
        *got = size < left ? size : left;
        if (*got)
            memcpy(buffer, source->memory + source->raw_offset, *got);
        source->raw_offset += *got;
        return FTH_OK;
    }
    if (size > (size_t)1 << 30)
        size = (size_t)1 << 30;
    for (;;) {
        if (!source->regular && source->io == fth_io_posix())
            FTH_TRY(wait_readable(source, err));
        int64_t n = source->regular ? fth_source_pread(source, buffer, size)
                                    : source->io->read(source->io->ctx, source->file, buffer, size);
        if (n >= 0) {
            *got = (size_t)n;
            source->raw_offset += (uint64_t)n;
            return n == 0 && size > 0 ? check_end(source, err) : FTH_OK;
        }
        if (n == -EAGAIN && source->now)
            return FTH_E_INTERRUPTED;
        if (n != -EINTR && n != -EAGAIN) {
            fth_status status = fth_io_error(err, "read", source->name, n);
            fth_error_frame(err, "offset %llu", (unsigned long long)source->raw_offset);
            return status;
        }
    }
}

fth_status fth_source_fill_input(struct fth_source *source, fth_error *err) {
    if (source->input_at < source->input_n || source->input_end)
        return FTH_OK;
    size_t got;
    FTH_TRY(read_raw(source, source->input, FTH_SOURCE_INPUT_BYTES, &got, err));
    source->input_at = 0;
    source->input_n = got;
    source->input_end = got == 0;
    return FTH_OK;
}

static fth_status start_decoding(struct fth_source *source, fth_error *err) {
    unsigned char *input = malloc(FTH_SOURCE_INPUT_BYTES);
    if (!input)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory to read it", source->name);
    memcpy(input, source->first, source->input_n);
    source->input = input;
    return fth_source_start_decoder(source, err);
}

/* What people have that is not read, by first bytes that no text has (bzip2: that hardly any has). */
static const char *not_read(const unsigned char *bytes, size_t n) {
    static const struct {
        unsigned char bytes[FTH_SOURCE_FIRST_BYTES];
        size_t n;
        const char *what;
    } formats[] = {
        {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, "xz data"},
        {{'B', 'Z', 'h', '9', '1', 'A', 'Y', '&', 'S', 'Y'}, 10, "bzip2 data"},
        {{0x04, 0x22, 0x4d, 0x18}, 4, "lz4 data"},
        {{'P', 'K', 3, 4}, 4, "a zip archive"},
        {{0xff, 0xfe}, 2, "UTF-16 text"},
        {{0xfe, 0xff}, 2, "UTF-16 text"},
    };
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (n >= formats[f].n && memcmp(bytes, formats[f].bytes, formats[f].n) == 0)
            return formats[f].what;
    return NULL;
}

/* The first bytes decide what the stream is; they stay in input[]. */
static fth_status detect(struct fth_source *source, fth_error *err) {
    size_t n = 0;
    while (n < sizeof source->first) {
        size_t got;
        FTH_TRY(read_raw(source, source->input + n, sizeof source->first - n, &got, err));
        if (got == 0)
            break;
        n += got;
    }
    source->input_n = n;
    const unsigned char *b = source->input;
    if (n >= 2 && b[0] == 0x1f && b[1] == 0x8b)
        source->kind = FTH_SOURCE_GZIP;
    else if (n >= 4 && ((b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd) ||
                        ((b[0] & 0xf0) == 0x50 && b[1] == 0x2a && b[2] == 0x4d && b[3] == 0x18)))
        source->kind = FTH_SOURCE_ZSTD;
    const char *other = not_read(b, n);
    if (other)
        return fth_fail(err, FTH_E_DATA, "%s: %s; what can be read is text in UTF-8, plain or as gzip or zstd",
                        source->name, other);
    return source->kind == FTH_SOURCE_PLAIN ? FTH_OK : start_decoding(source, err);
}

static fth_status source_start(struct fth_source *source, const char *name, fth_error *err) {
    source->name = strdup(name);
    source->input = source->first;
    if (!source->name)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory to read it", name);
    return FTH_OK;
}

static fth_status source_open_file(struct fth_source *source, const char *path, fth_error *err) {
    const struct fth_io *io = source->io;
    if (strcmp(path, "-") == 0) {
        /* A stream even when it is a file: its position is shared with others. */
        FTH_TRY(source_start(source, "standard input", err));
        source->file = STDIN_FILENO;
        return detect(source, err);
    }
    FTH_TRY(source_start(source, path, err));
    int result = io->open(io->ctx, path, FTH_IO_STREAM);
    if (result < 0)
        return fth_io_error(err, "open", path, result);
    source->file = result;
    source->close = 1;
    result = io->fstat(io->ctx, source->file, &source->stat);
    if (result < 0)
        return fth_io_error(err, "open", path, result);
    if (source->stat.kind == FTH_IO_DIRECTORY)
        return fth_fail(err, FTH_E_IO, "%s: is a directory, not a data file", path);
    source->regular = source->stat.kind == FTH_IO_FILE;
    source->size = source->regular ? source->stat.size : 0;
    return detect(source, err);
}

fth_status fth_source_open(const struct fth_io *io, const char *path, int wake, fth_source **out,
                           fth_error *err) {
    struct fth_source *source = calloc(1, sizeof *source);
    if (!source)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory to read it", path);
    source->io = io;
    source->file = -1;
    source->wake = wake;
    fth_status status = source_open_file(source, path, err);
    if (status != FTH_OK) {
        fth_source_close(source);
        return status;
    }
    *out = source;
    return FTH_OK;
}

fth_status fth_source_open_memory(const char *name, const void *bytes, size_t n, fth_source **out,
                                  fth_error *err) {
    struct fth_source *source = calloc(1, sizeof *source);
    if (!source)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory to read it", name);
    source->file = source->wake = -1;
    source->regular = 1;
    source->memory = bytes;
    source->size = n;
    fth_status status = source_start(source, name, err);
    if (status == FTH_OK)
        status = detect(source, err);
    if (status != FTH_OK) {
        fth_source_close(source);
        return status;
    }
    *out = source;
    return FTH_OK;
}

void fth_source_close(fth_source *source) {
    if (!source)
        return;
    fth_source_end_decoder(source);
    fth_direct_close(source->direct.reads);
    if (source->close)
        source->io->close(source->io->ctx, source->file);
    if (source->input != source->first)
        free(source->input);
    free(source->peeked);
    free(source->name);
    free(source);
}

void fth_source_set_wake(fth_source *source, int wake) {
    source->wake = wake;
}

void fth_source_set_now(fth_source *source, int now) {
    source->now = now;
}

int fth_source_can_now(const fth_source *source) {
    return source->regular && source->file >= 0 && source->kind == FTH_SOURCE_PLAIN && source->io->pread_now;
}

int fth_source_again(const fth_source *source) {
    return source->regular;
}

int fth_source_stat(const fth_source *source, struct fth_io_stat *out) {
    *out = source->stat;
    return source->regular && source->file >= 0;
}

int fth_source_size(const fth_source *source, uint64_t *bytes) {
    if (!source->regular || source->kind != FTH_SOURCE_PLAIN)
        return 0;
    *bytes = source->size;
    return 1;
}

/* Past what was peeked. */
static fth_status read_stream(struct fth_source *source, char *buffer, size_t size, size_t *got,
                              fth_error *err) {
    if (source->kind != FTH_SOURCE_PLAIN)
        return fth_source_decode(source, buffer, size, got, err);
    size_t left = source->input_n - source->input_at;
    if (left == 0)
        return read_raw(source, buffer, size, got, err);
    *got = size < left ? size : left;
    memcpy(buffer, source->input + source->input_at, *got);
    source->input_at += *got;
    return FTH_OK;
}

fth_status fth_source_read(fth_source *source, char *buffer, size_t size, size_t *got,
                           fth_error *err) {
    size_t left = source->peeked_n - source->peeked_at;
    if (left == 0)
        return read_stream(source, buffer, size, got, err);
    *got = size < left ? size : left;
    memcpy(buffer, source->peeked + source->peeked_at, *got);
    source->peeked_at += *got;
    return FTH_OK;
}

fth_status fth_source_peek(fth_source *source, size_t want, const char **text, size_t *n,
                           fth_error *err) {
    if (source->peeked_at > 0) {
        source->peeked_n -= source->peeked_at;
        memmove(source->peeked, source->peeked + source->peeked_at, source->peeked_n);
        source->peeked_at = 0;
    }
    if (source->peeked_capacity < want) {
        char *bigger = realloc(source->peeked, want);
        if (!bigger)
            return fth_fail(err, FTH_E_MEMORY, "%s: no memory to read it", source->name);
        source->peeked = bigger;
        source->peeked_capacity = want;
    }
    while (source->peeked_n < want) {
        size_t got;
        FTH_TRY(read_stream(source, source->peeked + source->peeked_n, want - source->peeked_n,
                            &got, err));
        if (got == 0)
            break;
        source->peeked_n += got;
    }
    *text = source->peeked;
    *n = source->peeked_n < want ? source->peeked_n : want;
    return FTH_OK;
}

fth_status fth_source_skip(fth_source *source, uint64_t bytes, fth_error *err) {
    while (bytes > 0) {
        uint64_t buffered = source->peeked_n - source->peeked_at;
        if (buffered == 0 && source->kind == FTH_SOURCE_PLAIN && source->regular &&
            source->input_at == source->input_n && source->raw_offset <= source->size &&
            bytes <= source->size - source->raw_offset) {
            source->raw_offset += bytes;
            return FTH_OK;
        }
        char discard[16384];
        size_t got;
        FTH_TRY(fth_source_read(
            source, discard, bytes < sizeof discard ? (size_t)bytes : sizeof discard, &got, err));
        if (got == 0)
            return fth_fail(
                err, FTH_E_DATA,
                "%s: ends %llu bytes before the place to go on from: the file is not the "
                "one that was read before",
                source->name, (unsigned long long)bytes);
        bytes -= got;
    }
    return FTH_OK;
}
