/* Every model of models.def: built on inputs of all kinds, verified, its gradients against finite
 * differences; impossible inputs are refused with the configuration key. */
#include "model_cases.h"

static void test_gradients(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++) {
        int history = small_has_history((*model)->name);
        assert_ptr_equal(fth_model_find((*model)->name), *model);
        for (int dense = 0; dense < 2; dense++) {
            if (!dense && !strcmp((*model)->name, "star")) /* no domain */
                continue;
            config = config_for((*model)->name);
            inputs = (struct fth_model_inputs){.n_dense = dense * 3, .fields = small_fields, .n_fields = history ? 6 : 5};
            check_model();
        }
    }
    assert_null(fth_model_find("dlr"));
}

static void test_options(void **state) {
    static const char *const names[] = {"wide_deep", "deepfm", "dcn", "dcnv2", "dlrm", "din", "xdeepfm", "can", "dien",
                                        "two_tower"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        config = config_for(names[i]);
        config.batch_norm = 1;
        config.dropout = 0.25;
        config.activation = "sigmoid";
        inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 6};
        check_model();
    }
    for (size_t i = 0; i < 4; i++) {
        static const int64_t equal[] = {6, 6};
        config = config_for(names[i]);
        config.layer_norm = config.residual = 1;
        config.hidden.items = equal;
        inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 3};
        check_model();
    }
}

/* Dimensions may differ where the model does not multiply embeddings with each other. */
static void test_mixed_dimensions(void **state) {
    static const char *const names[] = {"lr", "wide_deep", "dcn", "dcnv2", "din", "can", "dien",
                                        "two_tower"};
    struct fth_model_field fields[6];
    memcpy(fields, small_fields, sizeof fields);
    fields[0].dim = 3;
    fields[2].dim = fields[5].dim = 2;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        config = config_for(names[i]);
        inputs = (struct fth_model_inputs){.n_dense = 3, .fields = fields, .n_fields = 6};
        check_model();
    }
}

/* Its domain is an indicator, the rest is what it works on. */
static void test_star(void **state) {
    static const struct fth_model_indicator wide[] = {{"domain", 0, 3}};
    config = config_for("star");
    config.dropout = 0.25;
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 6};
    check_model();
    config.domain = "";
    refused("model.domain: star needs it");
    config.domain = "domian";
    refused("no feature 'domian'");
    config.domain = "domain";
    config.hidden.n = 0;
    refused("model.hidden");
    config = config_for("star");
    inputs = (struct fth_model_inputs){.n_dense = 3, .indicators = wide, .n_indicators = 1};
    refused("besides the domain");
}

/* Several tasks: an output each; with one expert there is nothing to choose. */
static void test_tasks(void **state) {
    static const char *const names[] = {"click", "cart", "buy"};
    for (uint32_t tasks = 1; tasks <= 3; tasks++)
        for (int64_t experts = 1; experts <= 3; experts += 2)
            for (uint32_t layers = 1; layers <= 2; layers++) {
                config = config_for("mmoe");
                config.experts = experts;
                config.expert_hidden.n = layers;
                config.batch_norm = experts == 3 && layers == 2;
                inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 3,
                                                   .tasks = names, .n_tasks = tasks};
                check_model();
            }
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(3, &graph, &err), FTH_OK);
    graph->n_tasks = 3;
    assert_int_equal(fth_model_find("mmoe")->build(graph, &config, &inputs, &err), FTH_OK);
    assert_int_equal(graph->values[graph->logit].columns, 3);
    fth_graph_destroy(graph);
    config.expert_hidden.n = 0;
    refused("model.expert_hidden");
    config = config_for("mmoe");
    config.tower.n = 0;
    refused("model.tower");
}

static void test_refusals(void **state) {
    struct fth_model_field fields[6];
    memcpy(fields, small_fields, sizeof fields);
    for (const struct fth_model *const *model = fth_models(); *model; model++) {
        config = config_for((*model)->name);
        inputs = (struct fth_model_inputs){.n_dense = 0, .fields = NULL, .n_fields = 0};
        refused("features");
    }
    fields[1].dim = 5;
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = fields, .n_fields = 3};
    config = config_for("fm");
    refused("user has 4 and item 5");
    config = config_for("deepfm");
    refused("embedding.dim");
    config = config_for("dlrm");
    refused("embedding.dim");
    inputs.fields = small_fields;
    config.bottom = (struct fth_ints){five, 1};
    refused("model.bottom");
    config = config_for("dlrm");
    inputs = (struct fth_model_inputs){.n_dense = 0, .fields = small_fields, .n_fields = 1};
    refused("second categorical");
    static const char *const wide[] = {"user", "itme"};
    config = config_for("wide_deep");
    config.wide = (struct fth_strings){wide, 2};
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 3};
    refused("did you mean \"item\"");
    config = config_for("deepfm");
    config.hidden.n = 0;
    refused("model.hidden");
    config = config_for("dcn");
    config.batch_norm = config.layer_norm = 1;
    refused("exclude each other");
    config = config_for("xdeepfm");
    inputs.n_fields = 1;
    refused("needs two");
    inputs.n_fields = 3;
    config.cin.n = 0;
    refused("model.cin");
    static const int64_t one_map[] = {4, 1};
    config.cin = (struct fth_ints){one_map, 2};
    refused("layer 1 has 1 map");
    config = config_for("can");
    config.target = "";
    refused("model.target");
    config.target = "itme";
    refused("did you mean \"item\"");
    config.co_action_layers = (struct fth_ints){one_map, 2};
    refused("layer 1 has 1 unit");
    static const int64_t large[] = {250};
    config.co_action_dim = 16;
    config.co_action_layers = (struct fth_ints){large, 1};
    refused("4096");
    config = config_for("dcnv2");
    config.activation = "rleu";
    refused("relu");
}

/* Pointwise and softmax over the batch, vectors of length 1; the sampled items are counted in a table of their own. */
static void test_two_tower(void **state) {
    static const char *const users[] = {"user"}, *const list[] = {"tags", "item"}, *const all[] = {"user", "item"};
    config = config_for("two_tower");
    config.normalise = 1;
    config.activation = "gelu"; /* differences across a kink of relu are no gradients */
    config.temperature = 0.5;
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 6};
    check_model();
    config.in_batch_softmax = 1;
    check_model();
    config.log_q = 0;
    config.user_fields = (struct fth_strings){users, 1};
    check_model();
    config.log_q = 1;
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(3, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("two_tower")->build(graph, &config, &inputs, &err), FTH_OK);
    assert_true(graph->softmax.sampled >= 0);
    const struct fth_lookup *sampled = &graph->lookups[graph->softmax.sampled];
    assert_string_equal(sampled->table, "item.sampled");
    assert_int_equal(sampled->counted && sampled->field == 1 && sampled->dim == 1, 1);
    fth_graph_destroy(graph);
    config.item_fields = (struct fth_strings){list, 2};
    refused("tags comes first");
    config.item_fields.n = 0;
    refused("model.item_fields");
    config.item_fields = (struct fth_strings){all, 2};
    config.user_fields.n = 0;
    inputs = (struct fth_model_inputs){.fields = small_fields, .n_fields = 2};
    refused("model.user_fields");
    static const int64_t one[] = {8, 1};
    config.hidden.items = one;
    refused("model.hidden");
}

/* The wide part reads the named fields alone, in tables of their own that start at zero. */
static void test_wide(void **state) {
    static const char *const wide[] = {"category"};
    config = config_for("wide_deep");
    config.wide = (struct fth_strings){wide, 1};
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 3};
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(3, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("wide_deep")->build(graph, &config, &inputs, &err), FTH_OK);
    int linear = 0;
    for (uint32_t i = 0; i < graph->n_lookups; i++)
        if (graph->lookups[i].dim == 1) {
            linear++;
            assert_string_equal(graph->lookups[i].table, "category.linear");
            assert_true(graph->lookups[i].zero_init);
            assert_int_equal(graph->lookups[i].field, 2);
        }
    assert_int_equal(linear, 1);
    fth_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_mixed_dimensions),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_two_tower),
        cmocka_unit_test(test_star),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
