/* safetensors files: what is written is read; a header that is wrong in any way is refused with the reason,
 * whatever its numbers, and nothing is read past its end. */
#include "world.h"

static char *folder;

static int make_folder(void **state) {
    folder = scratch_create();
    return 0;
}

static int remove_folder(void **state) {
    scratch_remove(folder);
    return 0;
}

/* Value of byte `at` of tensor `index`. */
static uint8_t byte_at(uint32_t index, uint64_t at) {
    return (uint8_t)fth_hash_mix(index * 7919 + at);
}

struct filler {
    const struct fth_tensor *tensors;
    uint64_t calls;
};

static void fill(void *ctx, uint32_t index, uint64_t first, uint64_t n, void *bytes) {
    struct filler *filler = ctx;
    size_t row = fth_tensor_row_bytes(&filler->tensors[index]);
    filler->calls++;
    for (uint64_t i = 0; i < n * row; i++)
        ((uint8_t *)bytes)[i] = byte_at(index, first * row + i);
}

static void test_round_trip(void **state) {
    const struct fth_tensor tensors[] = {
        {"deep.0.weight", FTH_TENSOR_F32, 2, 3, 5, 0}, {"keys", FTH_TENSOR_U64, 1, 7, 1, 0},
        {"empty", FTH_TENSOR_F32, 2, 0, 4, 0},         {"tables", FTH_TENSOR_U32, 1, 7, 1, 0},
        {"\"quoted\\\t\xc3\xa9", FTH_TENSOR_F32, 1, 1, 1, 0},
        {"large", FTH_TENSOR_F32, 2, 3000, 300, 0}, /* several pieces */
        {"none", FTH_TENSOR_U64, 1, 0, 1, 0}};
    enum { N = sizeof tensors / sizeof *tensors };
    struct filler filler = {.tensors = tensors};
    const char *path = scratch_path(folder, "a.safetensors");
    uint64_t size = 0, checksum = 0, again_size = 0, again = 0;
    fth_pool *pool = NULL;
    OK(fth_pool_create(2, &pool, err));
    OK(fth_safetensors_write(fth_io_posix(), pool, path, tensors, N, fill, &filler, &size, &checksum, err));
    fth_pool_destroy(pool);
    assert_true(filler.calls > N);
    OK(fth_file_checksum(fth_io_posix(), path, &again_size, &again, err));
    assert_int_equal(size, again_size);
    assert_int_equal(checksum, again);

    fth_arena *arena = fth_arena_create(4096);
    struct fth_tensor *read = NULL;
    uint32_t n = 0;
    size_t length;
    char *bytes = read_bytes(path, &length);
    OK(fth_safetensors_open(fth_io_posix(), path, arena, &read, &n, err));
    assert_int_equal(length, size);
    assert_int_equal(n, N);
    unsigned found = 0;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < n; k++) {
            if (strcmp(read[k].name, tensors[i].name))
                continue;
            found++;
            assert_int_equal(read[k].type, tensors[i].type);
            assert_int_equal(read[k].n_dims, tensors[i].n_dims);
            assert_int_equal(read[k].rows, tensors[i].rows);
            assert_int_equal(read[k].columns, tensors[i].columns);
            for (uint64_t b = 0; b < read[k].rows * fth_tensor_row_bytes(&read[k]); b++)
                assert_int_equal((uint8_t)bytes[read[k].offset + b], byte_at(i, b));
        }
    assert_int_equal(found, N);
    fth_free(bytes);
    fth_arena_destroy(arena);
}

static fth_status open_bytes(const void *bytes, size_t n, fth_error *err) {
    const char *path = scratch_path(folder, "b.safetensors");
    fth_arena *arena = fth_arena_create(4096);
    struct fth_tensor *tensors = NULL;
    uint32_t count = 0;
    write_bytes(path, bytes, n);
    fth_status status = fth_safetensors_open(fth_io_posix(), path, arena, &tensors, &count, err);
    for (uint32_t i = 0; status == FTH_OK && i < count; i++) {
        uint64_t size = tensors[i].rows * fth_tensor_row_bytes(&tensors[i]);
        assert_true(tensors[i].offset <= n && size <= n - tensors[i].offset);
    }
    fth_arena_destroy(arena);
    return status;
}

/* A file with this header, `data` zero bytes behind it, and the header's length or a given one. */
static fth_status open_header(const char *header, size_t data, uint64_t length, fth_error *err) {
    char bytes[4096] = {0};
    size_t n = strlen(header);
    if (length == UINT64_MAX)
        length = n;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, n);
    return open_bytes(bytes, 8 + n + data, err);
}

static void test_good_headers(void **state) {
    OK(open_header("{}", 0, UINT64_MAX, err));
    OK(open_header("{\"__metadata__\":{\"x\":\"y\"}}   ", 0, UINT64_MAX, err));
    OK(open_header("{\"b\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[8,16]},"
                   "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}", 16, UINT64_MAX, err));
    OK(open_header("{\"b\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[4,4]},"
                   "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, UINT64_MAX, err));
}

#define ENTRY(dtype, shape, offsets) \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_bad_headers(void **state) {
    static const struct {
        const char *header;
        size_t data;
        const char *reason;
    } cases[] = {
        {"", 0, "not JSON"},
        {"[]", 0, "not a JSON object"},
        {"3", 0, "not JSON"},
        {"{\"a\":1", 0, "not JSON"},
        {"{\"a\":{}} x", 0, "not JSON"},
        {"{\"\xff\":{}}", 0, "not JSON"},
        {"{\"a\":3}", 0, "dtype"},
        {"{\"a\":{}}", 0, "dtype"},
        {ENTRY("\"F16\"", "[1]", "[0,2]"), 2, "dtype"},
        {ENTRY("7", "[1]", "[0,4]"), 4, "dtype"},
        {ENTRY("\"F32\"", "[]", "[0,4]"), 4, "shape"},
        {ENTRY("\"F32\"", "[1,1,1]", "[0,4]"), 4, "shape"},
        {ENTRY("\"F32\"", "{}", "[0,4]"), 4, "shape"},
        {ENTRY("\"F32\"", "[-1]", "[0,4]"), 4, "shape"},
        {ENTRY("\"F32\"", "[1.0]", "[0,4]"), 4, "shape"},
        {ENTRY("\"F32\"", "[1]", "[0]"), 4, "data_offsets"},
        {ENTRY("\"F32\"", "[1]", "[0,\"4\"]"), 4, "data_offsets"},
        {ENTRY("\"F32\"", "[1]", "[4,0]"), 4, "disagree"},
        {ENTRY("\"F32\"", "[1]", "[0,8]"), 8, "disagree"},
        {ENTRY("\"F32\"", "[1]", "[4,8]"), 8, "gaps"},
        {ENTRY("\"F32\"", "[2]", "[0,8]"), 4, "length"},
        {ENTRY("\"F32\"", "[1]", "[0,4]"), 5, "length"},
        {ENTRY("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, "disagree"}, /* * 4 is 2^64 */
        {ENTRY("\"U64\"", "[4294967296,4294967296]", "[0,0]"), 0, "disagree"},
        {ENTRY("\"F32\"", "[9223372036854775807,2]", "[0,8]"), 8, "disagree"},
        {ENTRY("\"F32\"", "[9223372036854775808]", "[0,8]"), 8, "not JSON"},
        {ENTRY("\"F32\"", "[2305843009213693951]", "[0,9223372036854775804]"), 8, "length"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        REFUSED(FTH_E_CHECKPOINT, open_header(cases[i].header, cases[i].data, UINT64_MAX, err),
                "b.safetensors", cases[i].reason);
}

static void test_lengths(void **state) {
    const char *good = ENTRY("\"F32\"", "[1]", "[0,4]");
    size_t n = strlen(good);
    const uint64_t wrong[] = {0, 1, n - 1, n + 1, n + 4, n + 5, 1u << 31, (uint64_t)1 << 40, UINT64_MAX - 1,
                              UINT64_MAX - 7, (uint64_t)1 << 63};
    OK(open_header(good, 4, n, err));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        REFUSED(FTH_E_CHECKPOINT, open_header(good, 4, wrong[i], err), "b.safetensors");
    for (size_t length = 0; length < 8; length++)
        REFUSED(FTH_E_CHECKPOINT, open_bytes("\2\0\0\0\0\0\0\0{}", length, err), "too short");
    REFUSED(FTH_E_IO, fth_safetensors_open(fth_io_posix(), scratch_path(folder, "none"), NULL, NULL, NULL, err),
            "none");
}

/* Any byte may be anything: a refusal, or a header whose tensors lie in the file (open_bytes checks). */
static void test_every_byte(void **state) {
    const char *header = "{\"b\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[8,16]},"
                         "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
    char bytes[512] = {0};
    uint64_t length = strlen(header);
    size_t n = 8 + length + 16, refused = 0;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    static const uint8_t changes[] = {1, 2, 0x10, 0x80, 0xff};
    for (size_t at = 0; at < n - 16; at++)
        for (size_t k = 0; k < sizeof changes; k++) {
            fth_error err = {0};
            bytes[at] ^= (char)changes[k];
            fth_status status = open_bytes(bytes, n, &err);
            assert_true(status == FTH_OK || (status == FTH_E_CHECKPOINT && *err.message));
            refused += status != FTH_OK;
            bytes[at] ^= (char)changes[k];
        }
    assert_true(refused > (n - 16) * sizeof changes * 9 / 10); /* all but names */
    for (size_t cut = 0; cut < n; cut++)
        REFUSED(FTH_E_CHECKPOINT, open_bytes(bytes, cut, err), "b.safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_good_headers),
        cmocka_unit_test(test_bad_headers), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
