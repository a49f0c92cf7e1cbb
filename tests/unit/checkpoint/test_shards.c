/* Packs of several shards: saved with shards of a few rows instead of millions, restored as any other. */
#include "world.h"

#undef FTH_SHARD_ROWS
#define FTH_SHARD_ROWS ((uint64_t)10)
#define fth_checkpoint_save save_in_small_shards
fth_status save_in_small_shards(const struct fth_io *io, const char *dir, int64_t keep, uint64_t best, int replace,
                                const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                                char **path_out, fth_error *err);
#include "checkpoint/save.c"

static void save_and_restore(uint64_t seed) {
    char *dir = scratch_create(), expected[17], got[17];
    struct world a = world_create(&(struct world_options){.seed = seed});
    struct world b = world_create(&(struct world_options){.unpacked = 1});
    char *path = NULL;
    struct fth_checkpoint_source source = world_source(&a);
    OK(save_in_small_shards(fth_io_posix(), dir, 0, 0, 0, &source, &a.state, &path, err));
    struct fth_pack_info info;
    unsigned files = 2 + 1; /* manifest, configuration, dense */
    for (uint32_t p = 0; p < fth_embedding_packs(a.embedding); p++) {
        fth_embedding_pack_info(a.embedding, p, &info);
        files += (unsigned)((info.rows + 9) / 10);
    }
    assert_int_equal(count_names(path, ""), files);
    OK(world_restore(&b, dir, err));
    world_digest(&a, expected);
    world_digest(&b, got);
    assert_string_equal(got, expected);

    /* One that is gone is named. */
    OK(fth_io_remove(fth_io_posix(), scratch_path(path, "pack-0.2.safetensors"), err));
    REFUSED(FTH_E_CHECKPOINT, world_restore(&b, dir, err), "pack-0.2.safetensors");
    free(path);
    world_destroy(&a);
    world_destroy(&b);
    scratch_remove(dir);
}

static void test_shards(void **state) {
    save_and_restore(1); /* 41 rows a table: the last shard is short */
    save_and_restore(7); /* 40: it is full */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
