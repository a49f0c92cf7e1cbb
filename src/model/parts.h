/* Parts that several models are made of. All append to the graph while it is built; one thread.
 *
 * Conventions: a field's embedding is a lookup of its table; linear terms are lookups of dimension 1
 * in "<table>.linear", from zero; concatenations put embeddings first and the batch's floats last,
 * which keeps embeddings aligned. A sequence is pooled by its mean where a model does not attend to
 * it. */
#ifndef FTH_MODEL_PARTS_H
#define FTH_MODEL_PARTS_H

#include "model/model.h"
#include "ops/layers.h"

#define FTH_MODEL(name) extern const struct fth_model fth_model_##name;
#include "model/models.def"
#undef FTH_MODEL

/* A choice among the inputs' fields. */
struct fth_parts_fields {
    const uint32_t *items; /* indices into inputs->fields, in order */
    uint32_t n;
};

/* All fields of the inputs. */
fth_status fth_parts_all(fth_graph *graph, const struct fth_model_inputs *inputs,
                         struct fth_parts_fields *out, fth_error *err);

/* The field of a name, and those of a list of names; `key` is the configuration key that has them. */
fth_status fth_parts_field(fth_graph *graph, const char *key, const char *name,
                           const struct fth_model_inputs *inputs, uint32_t *out, fth_error *err);
fth_status fth_parts_named(fth_graph *graph, const char *key, const struct fth_strings *names,
                           const struct fth_model_inputs *inputs, struct fth_parts_fields *out,
                           fth_error *err);

/* Refuses inputs without any feature, or (fields) without a categorical one. */
fth_status fth_parts_need(const char *model, const struct fth_model_inputs *inputs, int fields,
                          fth_error *err);

/* Sum of linear terms: one weight a key of the chosen fields, one a float, and a bias: [E, 1]. */
fth_status fth_parts_linear(fth_graph *graph, const char *name,
                            const struct fth_model_inputs *inputs,
                            const struct fth_parts_fields *fields, fth_id *out, fth_error *err);

/* The chosen fields' embeddings side by side, one node for all of one dimension; `values` has room
 * for fields->n ids. */
fth_status fth_parts_embeddings(fth_graph *graph, const char *name,
                                const struct fth_model_inputs *inputs,
                                const struct fth_parts_fields *fields, fth_id *values,
                                uint32_t *n_values, fth_error *err);

/* The same, named "embedding", where the model needs one dimension for all (`model` for the message): [E, n dim]. */
fth_status fth_parts_vectors(fth_graph *graph, const char *model, const struct fth_model_inputs *inputs,
                             const struct fth_parts_fields *fields, fth_id *out, uint32_t *dim,
                             fth_error *err);

/* Values side by side, the batch's floats (if there are any) last. */
fth_status fth_parts_with_dense(fth_graph *graph, const char *name,
                                const struct fth_model_inputs *inputs, const fth_id *values,
                                uint32_t n, fth_id *out, fth_error *err);

/* Hidden layers as configured ("<name>.0"...), then one output ("<name>.out"): [E, 1]. `key` is the
 * configuration key of the layers. */
fth_status fth_parts_deep(fth_graph *graph, const char *name, const char *key,
                          const struct fth_model_config *config, const struct fth_ints *hidden,
                          fth_id x, fth_id *out, fth_error *err);

/* The options of fth_layer_mlp that a configuration gives. */
struct fth_mlp_options fth_parts_mlp(const struct fth_model_config *config,
                                     const struct fth_ints *hidden);

/* Room for n ids, all FTH_NONE, in the graph's arena. */
fth_status fth_parts_ids(fth_graph *graph, uint32_t n, fth_id **out, fth_error *err);

/* DCN and DCN-V2: crossings ("cross.0"...) and hidden layers ("deep.0"...) over the same inputs,
 * then one output over both ("out"). Sets the logit. */
typedef fth_status fth_parts_cross(fth_graph *graph, const char *name, fth_id x0, fth_id xl,
                                   fth_id *out, fth_error *err);
fth_status fth_parts_crossed(fth_graph *graph, const struct fth_model_config *config,
                             const struct fth_model_inputs *inputs, fth_parts_cross *cross,
                             fth_error *err);

/* A lookup of one field's keys in a table of its own, "<table>.<suffix>", of another dimension. */
fth_status fth_parts_lookup_beside(fth_graph *graph, const struct fth_model_inputs *inputs, uint32_t field,
                                   const char *suffix, uint32_t dim, int positions, uint32_t *out,
                                   fth_error *err);

/* Histories: the sequences of a ragged group, side by side, against the plain fields of the same tables. Which field a
 * sequence is compared with is found by table, among those named model.target where that is set; a sequence without
 * one is pooled by its mean like any other ragged field. */
struct fth_parts_histories {
    fth_graph *graph;
    const struct fth_model_config *config;
    const struct fth_model_inputs *inputs;
    int32_t *target_of; /* [fields] a sequence's target field, else -1 */
    fth_id *target;     /* [fields] a target field's embedding, once made, else FTH_NONE */
    uint8_t *apart;     /* [fields] neither history nor feature: the model's own business */
    fth_id *pooled;     /* what the model made of each history */
    uint32_t n_pooled;
};
/* Matches them; `apart` may be NULL or [fields] (borrowed). Refuses inputs without a history or a target. */
fth_status fth_parts_match(fth_graph *graph, const struct fth_model_config *config,
                           const struct fth_model_inputs *inputs, uint8_t *apart,
                           struct fth_parts_histories *out, fth_error *err);
/* The first field of the next history, from field `from` on; n_fields: there is none. */
uint32_t fth_parts_next_history(const struct fth_parts_histories *histories, uint32_t from);
/* The history's sequences side by side [P, n], their targets in the same order [E, n]. */
fth_status fth_parts_history(struct fth_parts_histories *histories, uint32_t first, fth_id *keys,
                             fth_id *query, fth_error *err);
/* Hidden layers over other fields, targets, pooled histories and floats: the logit. */
fth_status fth_parts_over_histories(struct fth_parts_histories *histories, fth_error *err);

/* The lookup of one field, without pooling when `positions`. */
fth_status fth_parts_lookup(fth_graph *graph, const struct fth_model_inputs *inputs, uint32_t field,
                            int positions, uint32_t *out, fth_error *err);

#endif
