/* Every model of models.def: built on inputs of all kinds, verified, its gradients against finite
 * differences; impossible inputs are refused with the configuration key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/batch.h"
#include "gradcheck.h"
#include "small_models.h"

static const int64_t six_four[] = {6, 4}, five[] = {5}, three[] = {3}, maps[] = {4, 3};

/* Sizes at which finite differences are quick; smooth, so that they are right. */
static struct fth_model_config config_for(const char *name) {
    static const char *const items[] = {"item", "category"};
    static const struct small_sizes sizes = {{six_four, 2}, {six_four, 2}, {three, 1}, {maps, 2}};
    struct fth_model_config config = small_model(name, &sizes);
    config.top = config.auxiliary_hidden = (struct fth_ints){five, 1};
    config.tower = config.co_action_layers = (struct fth_ints){three, 1};
    config.item_fields = (struct fth_strings){items, 2};
    config.temperature = 1;
    config.in_batch_softmax = 0;
    config.activation = "tanh";
    return config;
}

/* What the case being checked builds. */
static struct fth_model_config config;
static struct fth_model_inputs inputs;
static const struct fth_model_indicator indicators[] = {{"weekday", 0, 1}, {"domain", 1, 2}};

static fth_id build(struct gradcheck *check) {
    static const float weights[] = {1, 0.25f, 2};
    inputs.indicators = indicators;
    inputs.n_indicators = inputs.n_dense ? 2 : 0;
    if (inputs.n_tasks) {
        check->graph->n_tasks = inputs.n_tasks;
        check->graph->task_weights = weights;
    }
    CHECK_OK(check,
             fth_model_find(config.name)->build(check->graph, &config, &inputs, &check->err));
    assert_true(check->graph->logit >= 0);
    return FTH_NONE;
}

static void check_model(void) {
    static const struct gradcheck_shape shapes[] = {{.examples = 8, .tile = 3},
                                                    {.examples = 1, .tile = 4}};
    for (int i = 0; i < 2; i++)
        if (shapes[i].examples > 1 || !config.batch_norm)
            gradcheck_run(config.name, build, &shapes[i]);
}

static void test_gradients(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++) {
        int history = small_has_history((*model)->name);
        assert_ptr_equal(fth_model_find((*model)->name), *model);
        assert_true(strlen((*model)->summary) > 0);
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

static void refused(const char *part) {
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(inputs.n_dense, &graph, &err), FTH_OK);
    fth_status status = fth_model_find(config.name)->build(graph, &config, &inputs, &err);
    if (status != FTH_E_CONFIG || !strstr(err.message, part))
        fail_msg("%s: status %d, message \"%s\" without \"%s\"", config.name, status, err.message,
                 part);
    fth_graph_destroy(graph);
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

static void test_din_targets(void **state) {
    struct fth_model_field fields[6];
    config = config_for("din");
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 4};
    refused("sequence: true");
    memcpy(fields, small_fields, sizeof fields);
    fields[1].table = "other";
    fields[2].table = "another";
    inputs = (struct fth_model_inputs){.n_dense = 0, .fields = fields, .n_fields = 6};
    refused("shares a table");
    config.target = "user";
    refused("model.target user");
    memcpy(fields, small_fields, sizeof fields);
    fields[0].table = "item";
    config.target = "";
    refused("user or item");
    config.target = "item"; /* decides, and leaves the categories without a target: pooled */
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(0, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("din")->build(graph, &config, &inputs, &err), FTH_OK);
    int pooled = 0, positions = 0;
    for (uint32_t i = 0; i < graph->n_lookups; i++) {
        pooled += graph->lookups[i].field == 5 && graph->lookups[i].pooling == FTH_POOL_MEAN;
        positions += graph->lookups[i].field == 4 && graph->lookups[i].pooling == FTH_POOL_NONE;
    }
    assert_int_equal(pooled, 1);
    assert_int_equal(positions, 1);
    fth_graph_destroy(graph);
}

/* Named pairs: a history feeds the item's network by positions; a list is no induction. */
static void test_can_pairs(void **state) {
    static const char *const good[] = {"item:hist_item", "item:user", "user:hist_item"};
    static const char *const bad[][2] = {{"item", "no pair"}, {"item:usr", "did you mean \"user\""},
                                         {"hist_item:item", "item:hist_item"}};
    config = config_for("can");
    config.co_action = (struct fth_strings){good, 3};
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 6};
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(3, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("can")->build(graph, &config, &inputs, &err), FTH_OK);
    int inductions = 0, positions = 0;
    for (uint32_t i = 0; i < graph->n_lookups; i++) {
        inductions += strstr(graph->lookups[i].table, ".co_action") != NULL;
        positions += graph->lookups[i].pooling == FTH_POOL_NONE && graph->lookups[i].group >= 0;
    }
    assert_int_equal(inductions, 2); /* one a field, whatever it acts on */
    assert_int_equal(positions, 1);
    fth_graph_destroy(graph);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        config.co_action = (struct fth_strings){&bad[i][0], 1};
        refused(bad[i][1]);
    }
}

/* The auxiliary loss is part of what is differentiated; negatives are no feature and no history. */
static void test_dien(void **state) {
    static const char *const negatives[] = {"hist_category", "neg_item"}, *const one[] = {"neg_item"};
    static const char *const user[] = {"user"};
    struct fth_model_field fields[8];
    memcpy(fields, small_fields, sizeof small_fields);
    fields[6] = fields[4];
    fields[6].name = "neg_item";
    fields[7] = fields[5];
    fields[7].name = "neg_category";
    inputs = (struct fth_model_inputs){.n_dense = 2, .fields = fields, .n_fields = 7};
    config = config_for("dien");
    config.recurrent = 3;
    config.auxiliary = 0.5;
    config.negatives = (struct fth_strings){one, 1};
    refused("model.negatives: sequence hist_category has none");
    fields[5].table = "other"; /* pooled by its mean */
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(2, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("dien")->build(graph, &config, &inputs, &err), FTH_OK);
    assert_int_equal(graph->n_losses, 1);
    int read = 0;
    for (uint32_t i = 0; i < graph->n_lookups; i++)
        read += graph->lookups[i].field == 6;
    assert_int_equal(read, 1);
    fth_graph_destroy(graph);
    config.auxiliary = 0;
    check_model();
    config.negatives.items = user;
    refused("user is no sequence");
    config.negatives.items = negatives;
    config.negatives.n = 2;
    fields[4].table = "nobody's";
    refused("dien compares a history with a target");
    memcpy(fields, small_fields, sizeof small_fields);
    fields[1].dim = fields[4].dim = 1;
    config = config_for("dien");
    config.target = "item";
    inputs.n_fields = 6;
    refused("embedding.dim");
}

/* Softmax over the batch, vectors of length 1; the sampled items are counted in a table of their own. */
static void test_two_tower(void **state) {
    static const char *const users[] = {"user"}, *const list[] = {"tags", "item"}, *const all[] = {"user", "item"};
    config = config_for("two_tower");
    config.in_batch_softmax = config.normalise = 1;
    config.temperature = 0.5;
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = small_fields, .n_fields = 6};
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

/* Sessions by a feature, which then is no input; two histories; what cannot be. */
static void test_dsin(void **state) {
    struct fth_model_field fields[8];
    memcpy(fields, small_fields, sizeof small_fields);
    fields[6] = (struct fth_model_field){
        .name = "visit", .table = "visit", .dim = 4, .group = 0, .sequence = 1};
    config = config_for("dsin");
    config.session = "visit";
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = fields, .n_fields = 7};
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(3, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("dsin")->build(graph, &config, &inputs, &err), FTH_OK);
    assert_int_equal(graph->n_sessions, 1);
    assert_int_equal(graph->sessions[0].field, 6);
    assert_int_equal(graph->sessions[0].length, 2);
    for (uint32_t i = 0; i < graph->n_lookups; i++)
        assert_int_not_equal(graph->lookups[i].field, 6);
    fth_graph_destroy(graph);
    config.heads = 3;
    refused("model.heads");
    config = config_for("dsin");
    config.session = "user";
    refused("model.session: user is no sequence");
    config.session = "visitt";
    refused("visitt");
    config.session = "hist_category"; /* then it is no part of the history */
    check_model();
    fields[6].group = 1;
    config.session = "visit";
    refused("model.session: visit is of no history's group");
    inputs.n_fields = 4;
    config.session = "";
    refused("dsin needs a history");
}

/* Relations by tables and by name, entities of entities; the target and the history share each layer; refusals. */
static void test_atbrg(void **state) {
    static const char *const chain[] = {"category:hist_category", "shop:hist_shop", "town:hist_town:shop",
                                        "kind:hist_kind:shop"};
    static const struct {
        const char *relations[2], *part;
    } bad[] = {{{"category"}, "is no pair"},
               {{"categoyr:hist_category"}, "did you mean \"category\"?"},
               {{"category:hist_categoyr"}, "did you mean \"hist_category\"?"},
               {{"hist_category:hist_category"}, "the first is a list"},
               {{"category:tags"}, "the second is no sequence"},
               {{"category:hist_shop"}, "both need one `table`"},
               {{"category:hist_category", "category:hist_category"}, "in a relation before it"},
               {{"category:hist_category:shop", "shop:hist_shop"}, "no relation before it begins with shop"},
               {{"visit:hist_visit"}, "hist_visit is not of the group of hist_item"},
               {{"item:hist_item"}, "in no relation"}};
    struct fth_model_field fields[14];
    memcpy(fields, small_fields, sizeof small_fields);
    static const char *const more[] = {"shop", "town", "kind", "visit"};
    static const char *const of_history[] = {"hist_shop", "hist_town", "hist_kind", "hist_visit"};
    for (uint32_t i = 0; i < 4; i++) {
        fields[6 + i] = (struct fth_model_field){.name = more[i], .table = more[i], .dim = 3 + i, .group = FTH_NO_GROUP};
        fields[10 + i] = fields[6 + i];
        fields[10 + i].name = of_history[i];
        fields[10 + i].group = i == 3;
        fields[10 + i].sequence = 1;
    }
    config = config_for("atbrg");
    inputs = (struct fth_model_inputs){.n_dense = 3, .fields = fields, .n_fields = 13};
    check_model(); /* category, shop, town and kind, all of the items */
    config.relations = (struct fth_strings){chain, 4};
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(3, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("atbrg")->build(graph, &config, &inputs, &err), FTH_OK);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        int readers = 0;
        if (graph->values[i].role != FTH_ROLE_PARAMETER || strncmp(graph->values[i].name, "graph.", 6) ||
            !strcmp(graph->values[i].name, "graph.hist_item.activation.weight"))
            continue;
        for (uint32_t j = 0; j < graph->n_nodes; j++)
            for (uint32_t k = 0; k < graph->nodes[j]->n_inputs; k++)
                readers += graph->nodes[j]->inputs[k] == (fth_id)i;
        assert_int_equal(readers, 2);
    }
    fth_graph_destroy(graph);
    inputs.n_fields = 14;
    config.target = "item";
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        config.relations = (struct fth_strings){bad[i].relations, bad[i].relations[1] ? 2 : 1};
        refused(bad[i].part);
    }
    config.relations.n = 0;
    config.target = "user";
    refused("model.target: atbrg compares");
    config.target = "";
    inputs.n_fields = 5;
    refused("model.relations: atbrg needs a relation");
    inputs.n_fields = 4;
    refused("atbrg needs a history");
    fields[6].table = "category";
    inputs.n_fields = 7;
    refused("name the pairs, such as shop:hist_category");
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
        cmocka_unit_test(test_gradients),        cmocka_unit_test(test_options),
        cmocka_unit_test(test_mixed_dimensions), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_din_targets),      cmocka_unit_test(test_wide),
        cmocka_unit_test(test_can_pairs),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_dien),
        cmocka_unit_test(test_two_tower),
        cmocka_unit_test(test_dsin),
        cmocka_unit_test(test_atbrg),
        cmocka_unit_test(test_star),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
