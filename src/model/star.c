/* STAR (Sheng et al., CIKM 2021): one model for several domains.
 *
 * Section 3.3, partitioned normalisation (eq. 4 and 5) of the inputs; section 3.4, layers whose weights are a
 * shared matrix times one of the domain's own, element by element, and whose biases are added (eq. 6 to 8);
 * section 3.5, an auxiliary network that reads the domain beside the inputs, whose output is added to the logit
 * (eq. 9). The domain is an indicator's inputs; the main network does not read them. */
#include <string.h>

#include "model/parts.h"

static fth_status find_domain(const struct fth_model_config *config, const struct fth_model_inputs *inputs,
                              const struct fth_model_indicator **out, fth_error *err) {
    for (uint32_t i = 0; i < inputs->n_indicators; i++)
        if (!strcmp(inputs->indicators[i].name, config->domain)) {
            *out = &inputs->indicators[i];
            return FTH_OK;
        }
    if (!*config->domain)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.domain: star needs it: the name of a feature under features.indicator whose values "
                        "are the domains");
    return fth_fail(err, FTH_E_CONFIG,
                    "model.domain: there is no feature '%s' under features.indicator; its values are to be the "
                    "domains",
                    config->domain);
}

/* Embeddings and the batch's floats, all but the domain's. */
static fth_status main_inputs(fth_graph *graph, const struct fth_model_inputs *inputs,
                              const struct fth_model_indicator *domain, fth_id dense, fth_id *out,
                              fth_error *err) {
    struct fth_parts_fields all = {0};
    fth_id *values;
    uint32_t n = 0, behind = domain->first + domain->width;
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_ids(graph, all.n + 2, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    if (domain->first)
        FTH_TRY(fth_graph_view(graph, dense, 0, domain->first, &values[n++], err));
    if (behind < inputs->n_dense)
        FTH_TRY(fth_graph_view(graph, dense, behind, inputs->n_dense - behind, &values[n++], err));
    if (!n)
        return fth_fail(err, FTH_E_CONFIG, "features: star needs features besides the domain; there is none");
    return fth_layer_concat(graph, "star.in", values, n, out, err);
}

/* Layers of the star, then its one output. */
static fth_status star(fth_graph *graph, const struct fth_model_config *config, fth_id x, fth_id domain,
                       fth_id *out, fth_error *err) {
    for (uint32_t l = 0; l < config->hidden.n; l++) {
        const char *name = fth_arena_printf(graph->arena, "star.%u", l);
        if (!name)
            return fth_fail(err, FTH_E_MEMORY, "star: out of memory");
        FTH_TRY(fth_layer_domain_linear(graph, name, x, domain, (uint32_t)config->hidden.items[l], &x, err));
        FTH_TRY(fth_layer_activation(graph, name, config->activation, x, &x, err));
        FTH_TRY(fth_layer_dropout(graph, name, x, (float)config->dropout, &x, err));
    }
    return fth_layer_domain_linear(graph, "star.out", x, domain, 1, out, err);
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    const struct fth_model_indicator *indicator = NULL;
    fth_id dense = FTH_NONE, domain, x, beside[2], main, auxiliary;
    FTH_TRY(fth_parts_need("star", inputs, 0, err));
    FTH_TRY(find_domain(config, inputs, &indicator, err));
    if (!config->hidden.n)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.hidden: star needs at least one hidden layer, such as [256, 128]");
    FTH_TRY(fth_graph_input(graph, FTH_ROLE_DENSE, &dense, err));
    FTH_TRY(fth_graph_view(graph, dense, indicator->first, indicator->width, &domain, err));
    FTH_TRY(main_inputs(graph, inputs, indicator, dense, &x, err));
    beside[0] = x;
    beside[1] = domain;
    FTH_TRY(fth_layer_partitioned_norm(graph, "norm", x, domain, &main, err));
    FTH_TRY(star(graph, config, main, domain, &main, err));
    FTH_TRY(fth_layer_concat(graph, "auxiliary.in", beside, 2, &auxiliary, err));
    FTH_TRY(fth_parts_deep(graph, "auxiliary", "model.auxiliary_hidden", config, &config->auxiliary_hidden, auxiliary,
                           &auxiliary, err));
    return fth_layer_add(graph, main, auxiliary, &graph->logit, err);
}

const struct fth_model fth_model_star = {.name = "star", .build = build};
