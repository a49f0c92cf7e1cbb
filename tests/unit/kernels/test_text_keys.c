/* kernels/cpu/text_keys: every instruction set against scalar, scalar against the library's hash. */
#include "kernel_test.h"

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

/* Few and many buckets, powers of two and others, some above 2^32. */
static struct fth_text_hash draw_hash(struct call *c) {
    static const uint64_t buckets[] = {0, 0, 1, 2, 3, 97, 1000, 100000, 1 << 20, 0x100000001, INT64_MAX};
    struct fth_text_hash hash = {.salt = draw_word(c), .missing = draw_word(c)};
    uint32_t k = (call_bits(c) >> 8) % (sizeof buckets / sizeof *buckets + 4);
    hash.buckets = k < sizeof buckets / sizeof *buckets ? buckets[k]
                                                        : (draw_word(c) >> 1 >> (call_bits(c) >> 8) % 60) + 1;
    hash.reciprocal = fth_text_reciprocal(hash.buckets);
    return hash;
}

static void tables_agree(void **state) {
    const struct fth_kernels *tables[2], *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    struct call c = {.state = 11};
    for (int round = 0; round < 20000; round++) {
        struct texts texts;
        struct fth_text_hash hash = draw_hash(&c);
        uint64_t got[TEXTS], want[TEXTS];
        draw_texts(&c, (call_bits(&c) >> 8) % (TEXTS + 1), (call_bits(&c) >> 8) % 10,
                   round % 3 ? 8 : round % 2 ? 20 : 300, &texts);
        scalar->text_keys(texts.n, texts.text, texts.begins, texts.ends, &hash, want);
        for (size_t k = 0; k < count; k++) {
            memset(got, 0x5a, sizeof got);
            tables[k]->text_keys(texts.n, texts.text, texts.begins, texts.ends, &hash, got);
            assert_memory_equal(got, want, texts.n * sizeof *got);
            for (size_t i = texts.n; i < TEXTS; i++) /* nothing is written behind the last key */
                assert_true(got[i] == 0x5a5a5a5a5a5a5a5a);
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
        uint64_t keys[TEXTS];
        draw_texts(&c, TEXTS, round % 9, 30, &texts);
        scalar->text_keys(TEXTS, texts.text, texts.begins, texts.ends, &hash, keys);
        for (size_t i = 0; i < TEXTS; i++) {
            uint32_t length = texts.ends[i] - texts.begins[i];
            uint64_t key = fth_hash_bytes(texts.text + texts.begins[i], length, hash.salt);
            if (hash.buckets)
                key = fth_hash_mix(hash.salt ^ fth_hash_mix(key % hash.buckets));
            assert_true(keys[i] == (length ? key : hash.missing));
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
        uint64_t got[TEXTS], want[TEXTS];
        for (size_t i = 0; i < n; i++) {
            uint32_t begin = (call_bits(&c) >> 8) % 248, length = 8 * (call_bits(&c) >> 8 & 1);
            if (round % 2 && (call_bits(&c) >> 8) % 16 == 0)
                length = round % 4 == 1 ? call_bits(&c) >> 1 : (call_bits(&c) >> 8) % 10;
            cells[2 * i * stride] = begin;
            cells[2 * i * stride + 1] = length;
            others |= length & ~8u;
            want[i] = fth_hash_bytes(text + begin, 8, hash.salt);
            if (hash.buckets)
                want[i] = fth_bucket_key(hash.salt, want[i] % hash.buckets);
            want[i] = length ? want[i] : hash.missing;
        }
        for (size_t k = 0; k < count; k++) {
            memset(got, 0x5a, sizeof got);
            assert_int_equal(tables[k]->cell_keys(n, text, cells, stride, &hash, got) != 0, others != 0);
            for (size_t i = 0; i < n; i++)
                assert_true(got[i] == want[i] || (cells[2 * i * stride + 1] & ~8u));
            for (size_t i = n; i < TEXTS; i++)
                assert_true(got[i] == 0x5a5a5a5a5a5a5a5a);
        }
        plain += others == 0 && n > 8;
        free(cells);
    }
    assert_true(plain > 1000);
}

/* Buckets of keys made of them, some beyond the last one, and of other keys. With salt 0 key 0 is a bucket's. */
static void buckets_of_keys(void **state) {
    const struct fth_kernels *tables[FTH_ISA_COUNT];
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 14};
    for (int round = 0; round < 20000; round++) {
        size_t n = (call_bits(&c) >> 8) % (TEXTS + 1);
        uint64_t salt = round % 10 ? draw_word(&c) : 0, *keys = malloc(n * sizeof *keys + 1);
        uint32_t buckets = round % 50 == 0 ? UINT32_MAX : (call_bits(&c) >> 8) % 1000, others = 0;
        uint32_t got[TEXTS], want[TEXTS];
        assert_non_null(keys);
        memset(want, 0x5a, sizeof want);
        for (size_t i = 0; i < n; i++) {
            uint64_t number = (call_bits(&c) >> 8) % 1200;
            int is_one = (call_bits(&c) >> 8) % 8 > 0;
            keys[i] = is_one ? fth_bucket_key(salt, number) : draw_word(&c);
            want[i] = is_one && number < buckets ? (uint32_t)number : buckets;
            others += want[i] == buckets;
        }
        for (size_t k = 0; k < count; k++) {
            memset(got, 0x5a, sizeof got);
            assert_int_equal(tables[k]->key_buckets(n, keys, salt, buckets, got), others);
            assert_memory_equal(got, want, sizeof got); /* nothing behind the last one, too */
        }
        free(keys);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_agree), cmocka_unit_test(cells_agree),
                                       cmocka_unit_test(scalar_is_the_library), cmocka_unit_test(buckets_of_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
