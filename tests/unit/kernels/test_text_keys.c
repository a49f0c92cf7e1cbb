/* kernels/cpu/text_keys: every instruction set against scalar, scalar against the library's hash. */
#include "kernel_test.h"

#include "base/hash.h"
#include "kernels/text_key.h"

#define TEXTS 40

struct texts {
    size_t n, room;
    char *text; /* of `room` bytes and the 64 behind that kernels may read */
    uint32_t *begins, *ends;
};

/* Texts of random bytes that lie one behind the other, of any length up to `longest`, one of two `usual` bytes long; each
 * array has exactly their number, so that AddressSanitizer sees a step outside. */
static void draw_texts(struct call *c, size_t n, uint32_t usual, uint32_t longest, struct texts *out) {
    uint32_t at = 0;
    out->n = n;
    out->begins = malloc(n * sizeof *out->begins + 1);
    out->ends = malloc(n * sizeof *out->ends + 1);
    assert_true(out->begins && out->ends);
    for (size_t i = 0; i < n; i++) {
        out->begins[i] = at;
        at += call_bits(c) >> 8 & 1 ? usual : (call_bits(c) >> 8) % (longest + 1);
        out->ends[i] = at;
        at += (call_bits(c) >> 8) % 3;
    }
    out->room = at;
    out->text = malloc(out->room + 64);
    assert_non_null(out->text);
    for (size_t i = 0; i < out->room + 64; i++)
        out->text[i] = (char)(call_bits(c) >> 8);
}

static void drop_texts(struct texts *texts) {
    free(texts->text);
    free(texts->begins);
    free(texts->ends);
}

static uint64_t draw_word(struct call *c) {
    return (uint64_t)call_bits(c) << 33 ^ (uint64_t)call_bits(c) << 11 ^ call_bits(c) >> 3;
}

/* Few and many buckets, powers of two and others. */
static struct fth_text_hash draw_hash(struct call *c) {
    static const uint32_t buckets[] = {0, 0, 1, 2, 3, 97, 1000, 100000, 1 << 20, 0x80000001, 4000000000, UINT32_MAX - 1};
    struct fth_text_hash hash = {.salt = draw_word(c), .missing = draw_word(c)};
    uint32_t k = (call_bits(c) >> 8) % (sizeof buckets / sizeof *buckets + 4);
    hash.buckets = k < sizeof buckets / sizeof *buckets ? buckets[k]
                                                        : (uint32_t)(draw_word(c) >> 33 >> (call_bits(c) >> 8) % 30) + 1;
    hash.reciprocal = fth_text_reciprocal(hash.buckets);
    return hash;
}

/* What a kernel writes: keys, or numbers, whichever it is to. */
struct made {
    uint64_t keys[TEXTS];
    uint32_t numbers[TEXTS];
};

/* Of a key, if the text is not empty. */
static uint64_t code_of(const struct fth_text_hash *hash, uint64_t key, uint32_t length) {
    if (!length)
        return hash->buckets ? UINT32_MAX : hash->missing;
    return hash->buckets ? key % hash->buckets : key;
}

static uint64_t made_code(const struct fth_text_hash *hash, const struct made *made, size_t i) {
    return hash->buckets ? made->numbers[i] : made->keys[i];
}

static void tables_agree(void **state) {
    const struct fth_kernels *tables[2], *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    struct call c = {.state = 11};
    for (int round = 0; round < 20000; round++) {
        struct texts texts;
        struct fth_text_hash hash = draw_hash(&c);
        struct made got, want;
        memset(&want, 0x5a, sizeof want); /* nothing is written behind the last one, or into the other array */
        draw_texts(&c, (call_bits(&c) >> 8) % (TEXTS + 1), (call_bits(&c) >> 8) % 10,
                   round % 3 ? 8 : round % 2 ? 20 : 300, &texts);
        scalar->text_keys(texts.n, texts.text, texts.begins, texts.ends, &hash, want.keys, want.numbers);
        for (size_t k = 0; k < count; k++) {
            memset(&got, 0x5a, sizeof got);
            tables[k]->text_keys(texts.n, texts.text, texts.begins, texts.ends, &hash, got.keys, got.numbers);
            assert_memory_equal(&got, &want, sizeof got);
        }
        drop_texts(&texts);
    }
}

static void scalar_is_the_library(void **state) {
    const struct fth_kernels *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 12};
    for (int round = 0; round < 1000; round++) {
        struct texts texts;
        struct fth_text_hash hash = draw_hash(&c);
        struct made made;
        draw_texts(&c, TEXTS, round % 9, 30, &texts);
        scalar->text_keys(TEXTS, texts.text, texts.begins, texts.ends, &hash, made.keys, made.numbers);
        for (size_t i = 0; i < TEXTS; i++) {
            uint32_t length = texts.ends[i] - texts.begins[i];
            uint64_t key = fth_hash_bytes(texts.text + texts.begins[i], length, hash.salt);
            assert_true(made_code(&hash, &made, i) == code_of(&hash, key, length));
        }
        drop_texts(&texts);
    }
}

/* A column of cells of which most are empty or of eight bytes; the text of an empty one may lie anywhere. */
static void cells_agree(void **state) {
    const struct fth_kernels *tables[FTH_ISA_COUNT];
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names), plain = 0;
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 13};
    char text[256 + 64];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(call_bits(&c) >> 8);
    for (int round = 0; round < 20000; round++) {
        struct fth_text_hash hash = draw_hash(&c);
        size_t n = (call_bits(&c) >> 8) % (TEXTS + 1), stride = 1 + (call_bits(&c) >> 8) % 3;
        uint32_t *cells = malloc((n ? (n - 1) * stride + 1 : 0) * 2 * sizeof *cells + 1), others = 0;
        assert_non_null(cells);
        uint64_t want[TEXTS];
        struct made got, untouched;
        for (size_t i = 0; i < n; i++) {
            uint32_t begin = (call_bits(&c) >> 8) % 248, length = 8 * (call_bits(&c) >> 8 & 1);
            if (round % 2 && (call_bits(&c) >> 8) % 16 == 0)
                length = round % 4 == 1 ? call_bits(&c) >> 1 : (call_bits(&c) >> 8) % 10;
            cells[2 * i * stride] = begin;
            cells[2 * i * stride + 1] = length;
            others |= length & ~8u;
            want[i] = code_of(&hash, fth_hash_bytes(text + begin, 8, hash.salt), length);
        }
        for (size_t k = 0; k < count; k++) {
            memset(&got, 0x5a, sizeof got);
            memset(&untouched, 0x5a, sizeof untouched);
            uint32_t found = tables[k]->cell_keys(n, text, cells, stride, &hash, got.keys, got.numbers);
            assert_int_equal(found != 0, others != 0);
            for (size_t i = 0; i < n; i++)
                assert_true(made_code(&hash, &got, i) == want[i] || (cells[2 * i * stride + 1] & ~8u));
            size_t keys = hash.buckets ? 0 : n, numbers = hash.buckets ? n : 0;
            assert_memory_equal(got.keys + keys, untouched.keys, (TEXTS - keys) * sizeof *got.keys);
            assert_memory_equal(got.numbers + numbers, untouched.numbers, (TEXTS - numbers) * sizeof *got.numbers);
        }
        plain += others == 0 && n > 8;
        free(cells);
    }
    assert_true(plain > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_agree), cmocka_unit_test(cells_agree),
                                       cmocka_unit_test(scalar_is_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
