/* Configuration files and overrides: the input is YAML text, then overrides, between NUL bytes. Whatever comes
 * is either refused with a message or printed to a text that reads back and prints the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#define MAX_OVERRIDES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *overrides[MAX_OVERRIDES];
    struct fth_config *config = NULL, *again = NULL;
    fth_error err = {0};
    size_t n = 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    size_t length = strlen(text);
    for (size_t at = length + 1; at < size && n < MAX_OVERRIDES; at += strlen(text + at) + 1)
        overrides[n++] = text + at;
    fth_status status = fth_config_parse("fuzz", text, length, overrides, n, &config, &err);
    if (status != FTH_OK) {
        if (status != FTH_E_CONFIG || err.code != status || !*err.message || config)
            abort();
    } else {
        char *first = fth_config_print(config);
        if (!first ||
            fth_config_parse("printed", first, strlen(first), NULL, 0, &again, &err) != FTH_OK)
            abort();
        char *second = fth_config_print(again);
        if (!second || strcmp(first, second) != 0)
            abort();
        free(first);
        free(second);
    }
    fth_config_free(config);
    fth_config_free(again);
    free(text);
    return 0;
}
