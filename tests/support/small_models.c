/* Small configurations: see small_models.h. */
#include "small_models.h"

#include <string.h>

#include "core/batch.h"
#include "kernels/kernels.h"

const struct fth_model_field small_fields[SMALL_FIELDS] = {
    {.name = "user", .table = "user", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "item", .table = "item", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "category", .table = "category", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "tags", .table = "tag", .dim = 4, .group = 0, .pooling = FTH_POOL_SUM},
    {.name = "hist_item", .table = "item", .dim = 4, .group = 0, .sequence = 1},
    {.name = "hist_category", .table = "category", .dim = 4, .group = 0, .sequence = 1},
};

const struct fth_model_indicator small_domain[1] = {{"domain", 1, 2}};

int small_has_history(const char *name) {
    return strstr("din dien dsin atbrg", name) != NULL;
}

struct fth_model_config small_model(const char *name, const struct small_sizes *sizes) {
    static const char *const items[] = {"item"};
    struct fth_ints one_layer = {sizes->bottom.items, 1};
    return (struct fth_model_config){.name = name,
                                     .hidden = sizes->hidden,
                                     .bottom = sizes->bottom,
                                     .top = sizes->hidden,
                                     .attention = sizes->attention,
                                     .cin = sizes->maps,
                                     .cross_layers = 2,
                                     .heads = 2,
                                     .feed_forward = 5,
                                     .session_length = 2,
                                     .sessions = 2,
                                     .co_action_layers = sizes->maps,
                                     .co_action_dim = 4,
                                     .co_action_orders = 2,
                                     .experts = 3,
                                     .expert_hidden = sizes->hidden,
                                     .tower = one_layer,
                                     .item_fields = {items, 1},
                                     .temperature = 0.5,
                                     .in_batch_softmax = 1,
                                     .log_q = 1,
                                     .domain = "domain",
                                     .auxiliary_hidden = one_layer,
                                     .activation = strcmp(name, "din") ? "relu" : "dice",
                                     .target = strcmp(name, "can") ? "" : "item"};
}
