/* Dense parameters: see parameters.h. All of them lie in one region, each start moved by a different
 * number of cache lines so that no two matrices fall on the same cache sets (docs/layout.md). */
#include "runtime/parameters.h"

#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "graph/op.h"
#include "kernels/gemm.h"
#include "kernels/panels.h"
#include "ops/ops.h"

/* Marks the parameters that some node reads transposed. */
static void mark_transposed(const fth_graph *graph, uint8_t *transposed) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs && j < 31; j++)
            if (node->inputs[j] >= 0 && (node->op->inputs_transposed >> j & 1))
                transposed[node->inputs[j]] = 1;
    }
}

/* Marks the parameters of which panels are enough: all nodes work on these, fp32. A data gradient of one column is no
 * matrix product, and reads the row. */
static void mark_in_panels(const fth_graph *graph, uint8_t *in_panels) {
    for (uint32_t v = 0; v < graph->n_values; v++)
        in_panels[v] = graph->values[v].panels == 1 + FTH_FP32 && graph->values[v].rows > 1;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++)
            if (node->inputs[j] >= 0 && (j > 30 || !(node->op->inputs_in_panels >> j & 1)))
                in_panels[node->inputs[j]] = 0;
    }
}

/* Room for a matrix at *offset, which moves on past it; NULL while only measuring. */
static float *place(char *region, size_t *offset, size_t floats, uint32_t *index) {
    size_t start = (*offset + 63) / 64 * 64 + (size_t)(*index * 7 % 64) * 64;
    (*index)++;
    *offset = start + floats * sizeof(float);
    return region ? (float *)(void *)(region + start) : NULL;
}

/* By value: whether a node reads it transposed; whether panels are enough. */
struct uses {
    uint8_t *transposed, *in_panels;
};

/* Called twice: with region NULL for the size, then for the addresses. */
static size_t lay_out(fth_parameters *parameters, const fth_graph *graph, const struct uses *uses,
                      char *region) {
    size_t offset = 0;
    uint32_t index = 0;
    for (uint32_t i = 0; i < parameters->n; i++) {
        struct fth_parameter *p = &parameters->items[i];
        int panels = graph->values[p->value].panels;
        size_t matrix = (size_t)p->rows * p->ld;
        if (!uses->in_panels[p->value])
            p->data = place(region, &offset, matrix, &index);
        for (uint32_t s = 0; s < p->n_slots; s++)
            p->slots[s] = place(region, &offset, matrix, &index);
        if (panels)
            p->panels = place(region, &offset, fth_panels_room(p->precision, p->rows, p->columns), &index);
        size_t copy = panels ? fth_panels_room(p->precision, p->columns, p->rows)
                             : (size_t)p->columns * p->ld_transposed;
        if (uses->transposed[p->value])
            p->transposed = place(region, &offset, copy, &index);
    }
    return offset;
}

/* rows: [rows][columns], room for the weights. */
static void initialise(struct fth_parameter *p, const struct fth_value *value, uint64_t seed,
                       const struct fth_optimizer *optimizer, const struct fth_optimizer_config *config,
                       float *rows) {
    uint64_t stream = fth_hash_bytes(p->name, strlen(p->name), 0);
    float scale = value->init_scale;
    for (uint32_t r = 0; r < p->rows; r++) {
        float *row = rows + (size_t)r * p->columns;
        uint64_t row_stream = fth_hash_mix(stream + r);
        if (value->init == FTH_PARAM_UNIFORM)
            fth_random_uniform(seed, FTH_RANDOM_DENSE_INIT, row_stream, p->columns, -scale, scale, row);
        else if (value->init == FTH_PARAM_NORMAL)
            fth_random_normal(seed, FTH_RANDOM_DENSE_INIT, row_stream, p->columns, 0, scale, row);
        else if (value->init == FTH_PARAM_CONSTANT)
            for (uint32_t c = 0; c < p->columns; c++)
                row[c] = scale;
        else
            memset(row, 0, p->columns * sizeof *row);
    }
    fth_parameter_begin(p, rows, optimizer, config);
}

void fth_parameter_begin(struct fth_parameter *p, const float *rows, const struct fth_optimizer *optimizer,
                         const struct fth_optimizer_config *config) {
    for (uint32_t r = 0; r < p->rows; r++) {
        float *slots[FTH_MAX_SLOTS];
        for (uint32_t s = 0; s < p->n_slots; s++) {
            slots[s] = p->slots[s] + (size_t)r * p->ld;
            for (uint32_t c = 0; c < p->columns; c++)
                slots[s][c] = optimizer->initial(config, s);
        }
        if (p->n_slots && optimizer->begin)
            optimizer->begin(config, p->columns, rows + (size_t)r * p->columns, slots);
    }
    fth_parameter_set(p, rows, p->columns);
}

void fth_parameter_set(struct fth_parameter *p, const float *rows, uint32_t ld) {
    for (uint32_t r = 0; p->data && r < p->rows; r++)
        memcpy(p->data + (size_t)r * p->ld, rows + (size_t)r * ld, p->columns * sizeof *rows);
    struct fth_view view = {.rows = p->rows,
                            .columns = p->columns,
                            .ld = ld,
                            .data = (float *)(uintptr_t)rows, /* read only */
                            .transposed = p->transposed,
                            .ld_transposed = p->ld_transposed,
                            .panels = p->panels,
                            .precision = p->precision};
    fth_ops_store_copies(&view, 0, 0, p->rows, p->columns);
}

void fth_parameter_get(const struct fth_parameter *p, uint32_t first, uint32_t n, float *out) {
    struct fth_panels_target panels = {p->panels, p->rows, p->columns, p->precision};
    for (uint32_t r = first; r < first + n; r++, out += p->columns)
        if (p->data)
            memcpy(out, p->data + (size_t)r * p->ld, p->columns * sizeof *out);
        else
            fth_panels_row(&panels, r, out);
}

static void collect(fth_parameters *parameters, const fth_graph *graph,
                    const struct fth_optimizer *optimizer) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *value = &graph->values[i];
        parameters->of_value[i] = -1;
        if (!fth_role_is_saved(value->role))
            continue;
        parameters->of_value[i] = (int32_t)parameters->n;
        parameters->items[parameters->n++] = (struct fth_parameter){
            .name = value->name,
            .value = value->id,
            .role = value->role,
            .later = value->later,
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

/* First values; room for the rows of one parameter after the other. */
static int initialise_all(fth_parameters *parameters, const fth_graph *graph, uint64_t seed,
                          const struct fth_optimizer *optimizer, const struct fth_optimizer_config *config) {
    size_t most = 1;
    for (uint32_t i = 0; i < parameters->n; i++) {
        size_t weights = (size_t)parameters->items[i].rows * parameters->items[i].columns;
        most = weights > most ? weights : most;
    }
    float *rows = fth_alloc(most, sizeof *rows);
    for (uint32_t i = 0; rows && i < parameters->n; i++)
        initialise(&parameters->items[i], &graph->values[parameters->items[i].value], seed, optimizer, config, rows);
    fth_free(rows);
    return rows != NULL;
}

static int make(fth_parameters *parameters, const fth_graph *graph, const struct uses *uses) {
    parameters->bytes = lay_out(parameters, graph, uses, NULL);
    parameters->region_bytes = parameters->bytes + 64;
    parameters->region = fth_region_alloc(parameters->region_bytes);
    if (parameters->region)
        lay_out(parameters, graph, uses, parameters->region);
    return parameters->region != NULL;
}

fth_status fth_parameters_create(const fth_graph *graph, const struct fth_optimizer *optimizer,
                                 const struct fth_optimizer_config *config, uint64_t seed,
                                 fth_parameters **out, fth_error *err) {
    uint32_t room = graph->n_values ? graph->n_values : 1;
    fth_parameters *parameters = fth_alloc(1, sizeof *parameters);
    struct uses uses = {fth_alloc(room, 1), fth_alloc(room, 1)};
    int made = 0;
    if (parameters) {
        parameters->items = fth_alloc(room, sizeof *parameters->items);
        parameters->of_value = fth_alloc(room, sizeof(int32_t));
    }
    if (uses.transposed && uses.in_panels && parameters && parameters->items && parameters->of_value) {
        mark_transposed(graph, uses.transposed);
        mark_in_panels(graph, uses.in_panels);
        collect(parameters, graph, optimizer);
        made = make(parameters, graph, &uses) && initialise_all(parameters, graph, seed, optimizer, config);
    }
    fth_free(uses.transposed);
    fth_free(uses.in_panels);
    if (!made) {
        size_t bytes = parameters ? parameters->bytes : 0;
        fth_parameters_destroy(parameters);
        return fth_fail(err, FTH_E_MEMORY, "no memory for the dense parameters (%zu bytes), whose number the model's widths say",
                        bytes);
    }
    *out = parameters;
    return FTH_OK;
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
