/* Dense parameters: see parameters.h. All of them lie in one region, each start moved by a different
 * number of cache lines so that no two matrices fall on the same cache sets (docs/layout.md). */
#include "runtime/parameters.h"

#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "graph/op.h"
#include "kernels/panels.h"
#include "ops/ops.h"

static int is_parameter(const struct fth_value *value) {
    return value->role == FTH_ROLE_PARAMETER || value->role == FTH_ROLE_STATE;
}

/* Marks the parameters that some node reads transposed. */
static void mark_transposed(const fth_graph *graph, uint8_t *transposed) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs && j < 31; j++)
            if (node->inputs[j] >= 0 && (node->op->inputs_transposed >> j & 1))
                transposed[node->inputs[j]] = 1;
    }
}

/* Room for a matrix at *offset, which moves on past it; NULL while only measuring. */
static float *place(char *region, size_t *offset, size_t floats, uint32_t *index) {
    size_t start = (*offset + 63) / 64 * 64 + (size_t)(*index * 7 % 64) * 64;
    (*index)++;
    *offset = start + floats * sizeof(float);
    return region ? (float *)(void *)(region + start) : NULL;
}

/* Called twice: with region NULL for the size, then for the addresses. */
static size_t lay_out(fth_parameters *parameters, const fth_graph *graph, const uint8_t *transposed,
                      char *region) {
    size_t offset = 0;
    uint32_t index = 0;
    for (uint32_t i = 0; i < parameters->n; i++) {
        struct fth_parameter *p = &parameters->items[i];
        int panels = graph->values[p->value].panels;
        size_t matrix = (size_t)p->rows * p->ld;
        p->data = place(region, &offset, matrix, &index);
        for (uint32_t s = 0; s < p->n_slots; s++)
            p->slots[s] = place(region, &offset, matrix, &index);
        if (panels)
            p->panels = place(region, &offset, fth_panels_room(p->precision, p->rows, p->columns), &index);
        size_t copy = panels ? fth_panels_room(p->precision, p->columns, p->rows)
                             : (size_t)p->columns * p->ld_transposed;
        if (transposed[p->value])
            p->transposed = place(region, &offset, copy, &index);
    }
    return offset;
}

static void initialise(struct fth_parameter *p, const struct fth_value *value, uint64_t seed,
                       const struct fth_optimizer *optimizer,
                       const struct fth_optimizer_config *config) {
    uint64_t stream = fth_hash_bytes(p->name, strlen(p->name), 0);
    float scale = value->init_scale;
    for (uint32_t r = 0; r < p->rows; r++) {
        float *row = p->data + (size_t)r * p->ld;
        uint64_t row_stream = fth_hash_mix(stream + r);
        if (value->init == FTH_PARAM_UNIFORM)
            fth_random_uniform(seed, FTH_RANDOM_DENSE_INIT, row_stream, p->columns, -scale, scale, row);
        else if (value->init == FTH_PARAM_NORMAL)
            fth_random_normal(seed, FTH_RANDOM_DENSE_INIT, row_stream, p->columns, 0, scale, row);
        else if (value->init == FTH_PARAM_CONSTANT)
            for (uint32_t c = 0; c < p->columns; c++)
                row[c] = scale;
        for (uint32_t s = 0; s < p->n_slots; s++)
            for (uint32_t c = 0; c < p->columns; c++)
                p->slots[s][(size_t)r * p->ld + c] = optimizer->initial(config, s);
    }
    fth_parameter_refresh(p);
}

void fth_parameter_refresh(struct fth_parameter *p) {
    struct fth_view view = {.rows = p->rows,
                            .columns = p->columns,
                            .ld = p->ld,
                            .data = p->data,
                            .transposed = p->transposed,
                            .ld_transposed = p->ld_transposed,
                            .panels = p->panels,
                            .precision = p->precision};
    fth_ops_store_copies(&view, 0, 0, p->rows, p->columns);
}

static void collect(fth_parameters *parameters, const fth_graph *graph,
                    const struct fth_optimizer *optimizer) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *value = &graph->values[i];
        parameters->of_value[i] = -1;
        if (!is_parameter(value))
            continue;
        parameters->of_value[i] = (int32_t)parameters->n;
        parameters->items[parameters->n++] = (struct fth_parameter){
            .name = value->name,
            .value = value->id,
            .role = value->role,
            .rows = value->rows,
            .columns = value->columns,
            .ld = fth_padded_columns(value->columns),
            .ld_transposed = fth_padded_columns(value->rows),
            .precision = value->panels ? value->panels - 1 : 0,
            .n_slots = value->role == FTH_ROLE_PARAMETER ? optimizer->n_slots : 0,
            .slot_names = {optimizer->slot_names[0], optimizer->slot_names[1]},
        };
    }
}

fth_status fth_parameters_create(const fth_graph *graph, const struct fth_optimizer *optimizer,
                                 const struct fth_optimizer_config *config, uint64_t seed,
                                 fth_parameters **out, fth_error *err) {
    uint32_t room = graph->n_values ? graph->n_values : 1;
    fth_parameters *parameters = fth_alloc(1, sizeof *parameters);
    uint8_t *transposed = fth_alloc(room, 1);
    if (!parameters || !transposed)
        goto memory;
    parameters->items = fth_alloc(room, sizeof *parameters->items);
    parameters->of_value = fth_alloc(room, sizeof(int32_t));
    if (!parameters->items || !parameters->of_value)
        goto memory;
    mark_transposed(graph, transposed);
    collect(parameters, graph, optimizer);
    parameters->bytes = lay_out(parameters, graph, transposed, NULL);
    parameters->region_bytes = parameters->bytes + 64;
    parameters->region = fth_region_alloc(parameters->region_bytes);
    if (!parameters->region)
        goto memory;
    lay_out(parameters, graph, transposed, parameters->region);
    for (uint32_t i = 0; i < parameters->n; i++)
        initialise(&parameters->items[i], &graph->values[parameters->items[i].value], seed, optimizer,
                   config);
    fth_free(transposed);
    *out = parameters;
    return FTH_OK;
memory:
    fth_free(transposed);
    fth_parameters_destroy(parameters);
    return fth_fail(err, FTH_E_MEMORY, "no memory for the dense parameters");
}

void fth_parameters_destroy(fth_parameters *parameters) {
    if (!parameters)
        return;
    if (parameters->region)
        fth_region_free(parameters->region, parameters->region_bytes);
    fth_free(parameters->items);
    fth_free(parameters->of_value);
    fth_free(parameters);
}

struct fth_parameter *fth_parameters_find(fth_parameters *parameters, const char *name) {
    for (uint32_t i = 0; i < parameters->n; i++)
        if (strcmp(parameters->items[i].name, name) == 0)
            return &parameters->items[i];
    return NULL;
}
