/* What data/ parsers make of a text, as text. */
#ifndef FTH_TESTS_PARSED_H
#define FTH_TESTS_PARSED_H

#include "config/config.h"

/* Columns a, b and c without a header. */
struct fth_data_config config_of(int format);
/* Everything the parser said: rows "[a|b|c]line" (entries "label f:i:v"), then the first refusal. */
void parse_to(char *out, size_t size, const struct fth_data_config *config, const char *text, size_t n);
/* At a block size that holds everything and at ones that cut everywhere. */
void expect_n(struct fth_data_config config, const char *text, size_t n, const char *expected);
void expect(struct fth_data_config config, const char *text, const char *expected);

#endif
