/* Models that compare a history with a target, each with what it asks of its fields: gradients against finite
 * differences, refusals. */
#include "model_cases.h"

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

/* Two sequences of one table in a group take the negatives in their order; one that is left over, or fits none, is refused. */
static void test_dien_negatives_alike(void **state) {
    static const char *const both[] = {"neg_second", "neg_first"}, *const many[] = {"neg_first", "neg_second", "neg_third"};
    struct fth_model_field fields[9];
    memcpy(fields, small_fields, sizeof small_fields);
    fields[5] = fields[4];
    fields[5].name = "hist_second";
    for (uint32_t i = 6; i < 9; i++)
        fields[i] = fields[4];
    fields[6].name = "neg_first";
    fields[7].name = "neg_second";
    fields[8].name = "neg_third";
    inputs = (struct fth_model_inputs){.n_dense = 2, .fields = fields, .n_fields = 8};
    config = config_for("dien");
    config.auxiliary = 0.5;
    config.negatives = (struct fth_strings){both, 2};
    check_model();
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(2, &graph, &err), FTH_OK);
    assert_int_equal(fth_model_find("dien")->build(graph, &config, &inputs, &err), FTH_OK);
    uint32_t order[2] = {0}, n = 0;
    for (uint32_t i = 0; i < graph->n_lookups; i++)
        if (graph->lookups[i].field >= 6) {
            assert_true(n < 2);
            order[n++] = graph->lookups[i].field;
        }
    assert_int_equal(n, 2);
    assert_true(order[0] == 7 && order[1] == 6); /* as they are named */
    fth_graph_destroy(graph);
    config.negatives.n = 1; /* so the other one is a history */
    refused("model.negatives: sequence neg_first has none");
    inputs.n_fields = 9;
    config.negatives = (struct fth_strings){many, 3};
    refused("model.negatives: neg_third stands in for no sequence");
    fields[8].table = "category";
    refused("model.negatives: neg_third stands in for no sequence");
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_din_targets),
        cmocka_unit_test(test_can_pairs),
        cmocka_unit_test(test_dien),
        cmocka_unit_test(test_dien_negatives_alike),
        cmocka_unit_test(test_dsin),
        cmocka_unit_test(test_atbrg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
