/* The reader tests' files: see reader_files.h. */
#include "reader_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const char *const columns[3] = {"label", "x", "text"};

char *csv_text(uint32_t from, uint32_t to, size_t *n) {
    char *text = malloc((size_t)(to - from) * 80 + 1);
    *n = 0;
    for (uint32_t i = from; i < to; i++) {
        *n += (size_t)sprintf(text + *n, "%u,%u,", i & 1, i * 2654435761u % 1000);
        if (i % 7 == 3)
            *n += (size_t)sprintf(text + *n, "\"a\n,\"\"%u\"\"\n\"", i);
        else
            *n +=
                (size_t)sprintf(text + *n, "%.*s%u", (int)(i % 23), "xxxxxxxxxxxxxxxxxxxxxxxx", i);
        *n += (size_t)sprintf(text + *n, i % 5 ? "\n" : "\r\n");
    }
    return text;
}

static char paths[3][256];
const char *files[3];

static fth_pool *pool;

void set_threads(struct fth_data_config *config, struct fth_reader_options *options,
                        int64_t threads) {
    config->parse_threads = threads < 0 ? 0 : threads;
    options->pool = threads < 0 ? pool : NULL;
}

int free_pool(void **state) {
    fth_pool_destroy(pool);
    return 0;
}

int make_files(void **state) {
    if (fth_pool_create(3, &pool, NULL) != FTH_OK)
        return -1;
    static const uint32_t cut[] = {0, 400, 401, LINES};
    for (int f = 0; f < 3; f++) {
        size_t n;
        char name[16];
        char *text = csv_text(cut[f], cut[f + 1], &n);
        sprintf(name, "part-%d", f);
        strcpy(paths[f], temp_path(name));
        files[f] = paths[f];
        if (f == 0)
            write_file(paths[f], text, n - 1); /* without its LF */
        else
            (f == 1 ? write_gzip : write_zstd)(paths[f], text, n, 0);
        free(text);
    }
    return 0;
}

struct fth_data_config make_config(void) {
    return csv_config(files, 3, columns, 3);
}

const struct fth_data_set_options train_set = {.part = FTH_PART_TRAIN, .seed = 5};
const struct fth_data_set_options valid_set = {.part = FTH_PART_VALID, .seed = 5};

struct fth_reader_options train_options(void) {
    return (struct fth_reader_options){.batch_size = 64, .seed = 5, .epochs = 2, .train = 1};
}
