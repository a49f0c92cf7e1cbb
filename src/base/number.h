/* Decimal text to float, exactly: the value is the nearest float, as strtof in the C locale gives it.
 *
 * Accepted: [+-] digits [. digits] [e [+-] digits], at least one digit before the exponent. Refused:
 * anything else, so also spaces, "inf", "nan", hexadecimal and trailing bytes. The text need not be
 * NUL-terminated. Pure; any thread; nothing allocated. */
#ifndef FTH_BASE_NUMBER_H
#define FTH_BASE_NUMBER_H

#include <stddef.h>

enum fth_number { FTH_NUMBER_OK, FTH_NUMBER_MALFORMED, FTH_NUMBER_TOO_LARGE };

/* FTH_NUMBER_TOO_LARGE: well-formed, but the nearest float is infinite. *out set only on OK. */
enum fth_number fth_number_parse(const char *bytes, size_t length, float *out);

#endif
