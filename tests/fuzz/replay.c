/* Runs a fuzz target without libFuzzer: every file of the corpus folders on the command line, then for each
 * file its prefixes and some fixed pseudo-random changes, so that an ordinary test run meets damaged
 * input too. The same inputs at every run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIXES 40
#define CHANGES 100
#define MAX_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t random_state = 1;

static uint32_t next_random(uint32_t limit) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % limit);
}

/* An exactly sized copy, so that a sanitizer sees reading past the end. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_changed(const uint8_t *data, size_t size) {
    static const char bytes[] = "\0\n\r\t ,:;\"'#-[]{}0919.eE+aZ\x7f\x80\xff";
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    for (uint32_t n = 1 + next_random(4); n--;) {
        uint32_t at = next_random((uint32_t)size);
        uint8_t byte = (uint8_t)bytes[next_random(sizeof bytes - 1)];
        switch (next_random(3)) {
        case 0: copy[at] = byte; break;
        case 1: copy[at] = (uint8_t)next_random(256); break;
        default: memmove(copy + at, copy + next_random((uint32_t)size), 1); break;
        }
    }
    run(copy, size);
    free(copy);
}

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MAX_BYTES);
    if (!file || !data) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(1);
    }
    size_t size = fread(data, 1, MAX_BYTES, file);
    fclose(file);
    run(data, size);
    random_state = size + 1; /* not from the folder's order */
    for (size_t i = 0; i < PREFIXES && size; i++)
        run(data, size * i / PREFIXES);
    for (int i = 0; i < CHANGES && size; i++)
        run_changed(data, size);
    free(data);
}

int main(int argc, char **argv) {
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            fprintf(stderr, "%s: no such corpus folder\n", argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            run_file(path);
            n++;
        }
        closedir(folder);
    }
    printf("%d files, and %d changed copies of each\n", n, PREFIXES + CHANGES);
    return n ? 0 : 1;
}
