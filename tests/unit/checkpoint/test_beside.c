/* Reading a folder that a run saves into meanwhile, keeping one checkpoint: whatever has gone when a file is opened, what
 * is read is a whole checkpoint. */
#include "world.h"

static char *folder, old[600], later[600], aside[600], came_from[600];
static unsigned opened, goes_at; /* files of the old one; the one of them at which it goes, 0: never */
static char spared[64]; /* a file of it that is still there then; "": the folder has gone, too */

static void remove_old(void) {
    char **names = NULL;
    size_t n = 0;
    fth_arena *arena = fth_arena_create(4096);
    OK(fth_io_list(fth_io_posix(), old, arena, &names, &n, err));
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], spared) != 0)
            assert_int_equal(remove(scratch_path(old, names[i])), 0);
    if (!*spared)
        assert_int_equal(remove(old), 0);
    fth_arena_destroy(arena);
}

static int open_as_it_goes(void *ctx, const char *name, enum fth_io_mode mode) {
    const struct fth_io *files = fth_io_posix();
    if (strncmp(name, old, strlen(old)) == 0 && ++opened == goes_at) {
        assert_int_equal(rename(aside, later), 0);
        remove_old();
    }
    return files->open(ctx, name, mode);
}

/* In the folder the old one, beside it the later one. */
static void lay_out(uint64_t seed) {
    struct world a = world_create(&(struct world_options){.seed = seed});
    char *path = NULL;
    folder = scratch_create();
    snprintf(aside, sizeof aside, "%s/later", folder);
    snprintf(later, sizeof later, "%s/step-%012d", folder, 102);
    a.state.step = 102;
    OK(world_save(&a, fth_io_posix(), folder, 0, &path, err));
    assert_string_equal(path, later);
    assert_int_equal(rename(later, aside), 0);
    free(path);
    a.state.step = 101;
    OK(world_save(&a, fth_io_posix(), folder, 0, &path, err));
    snprintf(old, sizeof old, "%s", path);
    free(path);
    world_destroy(&a);
    opened = 0;
}

static fth_status restore(void *ctx, fth_checkpoint *checkpoint, fth_error *err) {
    struct world *into = ctx;
    FTH_TRY(fth_checkpoint_restore(checkpoint, into->pool, into->parameters, into->embedding, 0, err));
    into->state.step = fth_checkpoint_state(checkpoint)->step;
    snprintf(came_from, sizeof came_from, "%s", fth_checkpoint_path(checkpoint));
    return FTH_OK;
}

static void goes_at_any_file(void **state) {
    static const char *const still_there[] = {"", "manifest.json", "dense.safetensors"};
    struct fth_io io = *fth_io_posix();
    io.open = open_as_it_goes;
    for (size_t i = 0; i < sizeof still_there / sizeof *still_there; i++) {
        snprintf(spared, sizeof spared, "%s", still_there[i]);
        for (goes_at = 1;; goes_at++) {
            struct world into = world_create(&(struct world_options){.seed = 0});
            lay_out(1);
            OK(fth_checkpoint_read(&io, folder, restore, &into, err));
            int all = opened < goes_at;
            assert_int_equal(into.state.step, all ? 101 : 102);
            assert_string_equal(came_from, all ? old : later);
            world_destroy(&into);
            scratch_remove(folder);
            if (all)
                break;
        }
        assert_true(goes_at > 6); /* the manifest, what it lists, tensors */
    }
}

/* The one that was asked for by its own name is not another. */
static void the_one_asked_for_goes(void **state) {
    struct fth_io io = *fth_io_posix();
    struct world into = world_create(&(struct world_options){.seed = 0});
    io.open = open_as_it_goes;
    *spared = 0;
    for (goes_at = 1; goes_at <= 3; goes_at++) {
        lay_out(1);
        REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_read(&io, old, restore, &into, err), old);
        scratch_remove(folder);
    }
    world_destroy(&into);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_at_any_file),
        cmocka_unit_test(the_one_asked_for_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
