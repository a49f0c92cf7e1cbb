/* Layers: what models are built from. Each appends nodes to the graph and returns the new value.
 * Parameters are named "<name>.<part>", e.g. "deep.0.weight". Shapes: E examples, P positions of a ragged
 * group, n columns; a layer that works row by row takes either extent. */
#ifndef FTH_OPS_LAYERS_H
#define FTH_OPS_LAYERS_H

#include "graph/graph.h"
#include "kernels/kernels.h"

/* Rows of several lookups, pooled, side by side in the order given: [E, sum of dims]; one lookup with pooling
 * none of a ragged field: [P, dim]. All lookups of one call have one dim. */
fth_status fth_layer_embedding(fth_graph *graph, const char *name, const uint32_t *lookups,
                               uint32_t n_lookups, fth_id *out, fth_error *err);

/* x W + b: [., n] -> [., columns]. W is n x columns, uniform +-1/sqrt(n) like PyTorch's Linear (b too). With
 * columns == 1 it is a row dot, not a matrix product, and its weight lies as one row, 1 x n. */
fth_status fth_layer_linear(fth_graph *graph, const char *name, fth_id x, uint32_t columns, int bias,
                            fth_id *out, fth_error *err);

/* x w + b: [., n] -> [., 1], all from zero: terms of a model that is convex in them, whose result no draw may decide. */
fth_status fth_layer_linear_terms(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err);

/* The linear layer that made `of` on another x: the same parameters serve both. */
fth_status fth_layer_linear_again(fth_graph *graph, fth_id of, fth_id x, fth_id *out, fth_error *err);

/* x + b, one trained number a column, from zero. */
fth_status fth_layer_bias(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err);

/* "relu", "prelu", "dice", "sigmoid", "tanh", "gelu", "none" (PReLU slopes start at 0.25, Dice's at 0; both
 * one a column). Unknown: FTH_E_CONFIG with the accepted names. */
fth_status fth_layer_activation(fth_graph *graph, const char *name, const char *activation, fth_id x,
                                fth_id *out, fth_error *err);

fth_status fth_layer_dropout(fth_graph *graph, const char *name, fth_id x, float drop, fth_id *out,
                             fth_error *err);
/* Batch statistics in training (biased variance; running ones with momentum 0.1, unbiased, like PyTorch),
 * running ones in evaluation; eps 1e-5. affine: trained scale and shift. */
fth_status fth_layer_batch_norm(fth_graph *graph, const char *name, fth_id x, int affine, fth_id *out,
                                fth_error *err);
fth_status fth_layer_layer_norm(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                                fth_error *err);

/* Elementwise on equal shapes. */
fth_status fth_layer_add(fth_graph *graph, fth_id a, fth_id b, fth_id *out, fth_error *err);
fth_status fth_layer_sub(fth_graph *graph, fth_id a, fth_id b, fth_id *out, fth_error *err);
fth_status fth_layer_mul(fth_graph *graph, fth_id a, fth_id b, fth_id *out, fth_error *err);
/* Columns of all inputs side by side. */
fth_status fth_layer_concat(fth_graph *graph, const char *name, const fth_id *inputs, uint32_t n,
                            fth_id *out, fth_error *err);
/* Sum over the columns: [., n] -> [., 1] (the linear terms of LR and FM: dim-1 embeddings). */
fth_status fth_layer_row_sum(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err);

/* FM's second order over vectors of `dim` columns each: [E, f dim] -> [E, 1]. */
fth_status fth_layer_fm(fth_graph *graph, const char *name, fth_id x, uint32_t dim, fth_id *out,
                        fth_error *err);
/* DLRM's pairwise dots: [E, f dim] -> [E, f (f - 1) / 2]. */
fth_status fth_layer_dot_interaction(fth_graph *graph, const char *name, fth_id x, uint32_t dim,
                                     fth_id *out, fth_error *err);
/* A layer of xDeepFM's CIN (Lian et al. 2018, eq. 6 and 7): x [E, h dim] and the embeddings x0 [E, f dim] -> maps
 * [E, maps dim] and the sum of each [E, maps]. Its weight is f h x maps, row j h + i for x's vector i and x0's j. */
fth_status fth_layer_cin(fth_graph *graph, const char *name, fth_id x, fth_id x0, uint32_t dim, uint32_t maps,
                         fth_id *out, fth_id *pooled, fth_error *err);
/* CAN's co-action unit (Bian et al. 2022, eq. 4 to 7): an example's row of `weights` [E, fth_co_action_weights] is a
 * network with tanh between layers, applied to powers 1 .. orders of x [E, d] or of each of its positions [P, d] and summed
 * over these; the outputs of all layers and powers: [E, orders * sum of widths]. */
struct fth_co_action_options {
    const uint32_t *widths; /* at least 2 each */
    uint32_t n, orders;
};
fth_status fth_layer_co_action(fth_graph *graph, const char *name, fth_id weights, fth_id x,
                               const struct fth_co_action_options *options, fth_id *out, fth_error *err);
/* Numbers of a row of weights for inputs of d columns; 0: more than fit 32 bits. */
uint32_t fth_co_action_weights(uint32_t d, const uint32_t *widths, uint32_t n);
/* DCN (Wang et al. 2017, eq. 3): x0 (xl . w) + b + xl. */
fth_status fth_layer_cross(fth_graph *graph, const char *name, fth_id x0, fth_id xl, fth_id *out,
                           fth_error *err);
/* DCN-V2 (Wang et al. 2021, eq. 1): x0 * (W xl + b) + xl, W full. */
fth_status fth_layer_cross_v2(fth_graph *graph, const char *name, fth_id x0, fth_id xl, fth_id *out,
                              fth_error *err);

/* Row by row: exp(x) by their sum over the columns. */
fth_status fth_layer_row_softmax(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err);
/* sum_e gates[e] x_e: gates [., n], x [., n h] as n blocks of h columns -> [., h]. */
fth_status fth_layer_mix_experts(fth_graph *graph, const char *name, fth_id gates, fth_id x, fth_id *out,
                                 fth_error *err);

/* Rows of length 1. */
fth_status fth_layer_normalise(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err);
/* x times a fixed factor. */
fth_status fth_layer_scale(fth_graph *graph, const char *name, fth_id x, float factor, fth_id *out,
                           fth_error *err);
/* With a part a domain; `domain` [., d] is 1 in the row's domain's column, 0 elsewhere (ops/domain.h).
 * x (W * W_d) + b + b_d (STAR, Sheng et al. 2021, eq. 6 to 8): W, b as fth_layer_linear's (W is n x columns also where
 * that is 1), W_d "<name>.domain_weight" [d n, columns] from 1, b_d "<name>.domain_bias" [d, columns] from 0. */
fth_status fth_layer_domain_linear(fth_graph *graph, const char *name, fth_id x, fth_id domain, uint32_t columns,
                                   fth_id *out, fth_error *err);
/* Partitioned normalisation (eq. 4 and 5): batch statistics and running ones a domain, as fth_layer_batch_norm's; trained
 * scale times the domain's, shift plus the domain's. */
fth_status fth_layer_partitioned_norm(fth_graph *graph, const char *name, fth_id x, fth_id domain, fth_id *out,
                                      fth_error *err);

/* [E, n] -> [P, n]: every position of the group gets its example's row. */
fth_status fth_layer_expand(fth_graph *graph, const char *name, fth_id x, int32_t group, fth_id *out,
                            fth_error *err);
/* sum_t w[t] x[t]: [P, n] and optional weights [P, 1] -> [E, n]. */
fth_status fth_layer_segment_sum(fth_graph *graph, const char *name, fth_id x, fth_id weights,
                                 fth_id *out, fth_error *err);
/* Softmax over each example's positions, every column by itself: [P, n] -> [P, n]. */
fth_status fth_layer_segment_softmax(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                                     fth_error *err);
/* <x[t], v> with the position's example's row v: [P, n], [E, n] -> [P, 1]. */
fth_status fth_layer_segment_dot(fth_graph *graph, const char *name, fth_id x, fth_id v, fth_id *out,
                                 fth_error *err);
/* The row of each example's last position (first != 0: of its first), zeros where it has none: [P, n] -> [E, n]. */
fth_status fth_layer_segment_last(fth_graph *graph, const char *name, fth_id x, int first, fth_id *out,
                                  fth_error *err);
/* Recurrent layers over an example's positions (kernels.h has the equations): every state, [P, n] -> [P, units].
 * "<name>.weight" n x 3 units (candidate, update, reset), ".bias", ".recurrent" units x 3 units (update, reset,
 * candidate); an LSTM's 4 units (input, forget, candidate, output). Uniform +-1/sqrt(units). Two units at least.
 * reverse: from the last position to the first. scores [P, 1]: AUGRU's (Zhou et al., AAAI 2019, eqs. 15 and 16). */
fth_status fth_layer_gru(fth_graph *graph, const char *name, fth_id x, uint32_t units, int reverse,
                         fth_id *out, fth_error *err);
fth_status fth_layer_augru(fth_graph *graph, const char *name, fth_id x, fth_id scores, uint32_t units,
                           fth_id *out, fth_error *err);
fth_status fth_layer_lstm(fth_graph *graph, const char *name, fth_id x, uint32_t units, int reverse,
                          fth_id *out, fth_error *err);
/* DIEN's auxiliary loss (Zhou et al., AAAI 2019, eq. 6): the state at a position tells the next row of x from a
 * negative, by their inner products: states, x [P, n]; negatives [P, n], or FTH_NONE: drawn among the rows of x of the
 * tile's other examples. An example's pairs are averaged. Becomes one of graph->losses, `factor` times. */
fth_status fth_layer_next_loss(fth_graph *graph, const char *name, fth_id states, fth_id x, fth_id negatives,
                               float factor, fth_error *err);
/* DIN's attention unit (Zhou et al. 2018, section 4.3) and its weighted sum: query [E, n], keys [P, n],
 * MLP over [q, k, q - k, q * k] with `hidden` layers, one weight a position, no softmax -> [E, n]. */
fth_status fth_layer_attention(fth_graph *graph, const char *name, fth_id query, fth_id keys,
                               const int64_t *hidden, uint32_t n_hidden, const char *activation,
                               fth_id *out, fth_error *err);

/* What a segment of positions is: an example's, or a session's of a group of graph.h. */
#define FTH_NO_SESSIONS (-1)
/* Where a position stands. */
enum fth_position_index {
    FTH_POSITION_FROM_START, /* the position's number within its segment */
    FTH_POSITION_FROM_END,   /* the same from the last: 0 */
    FTH_SESSION_FROM_END,    /* the number of its session from the example's last: 0 */
};
/* Self-attention of several heads (Vaswani et al. 2017, sec. 3.2.2) among an example's positions (`sessions`
 * FTH_NO_SESSIONS) or a session's: [P, n] -> [P, n]; heads divide n. "<name>.qkv.weight" is [n, 3 n], queries, keys
 * and values side by side, "<name>.out.weight" [n, n]. No biases, residual or norm. */
fth_status fth_layer_self_attention(fth_graph *graph, const char *name, fth_id x, uint32_t heads,
                                    int32_t sessions, fth_id *out, fth_error *err);
/* x plus "<name>.weight"'s row for where the position stands (ops.h); the last for what is beyond its `rows`.
 * `one`: a number for all columns, else a row of n. */
fth_status fth_layer_position_bias(fth_graph *graph, const char *name, fth_id x, uint32_t rows, int one,
                                   enum fth_position_index index, int32_t sessions, fth_id *out,
                                   fth_error *err);
/* x[t] W v[i]: [P, n] and [E, m] -> [P, 1]; "<name>.weight" is W transposed, [m, n]. */
fth_status fth_layer_bilinear(fth_graph *graph, const char *name, fth_id x, fth_id v, fth_id *out,
                              fth_error *err);
/* A relation of a graph over an example's target and its behaviours, the positions of a ragged group: one neighbour of
 * each, by fields of the batch. */
struct fth_graph_relation {
    uint32_t target, history; /* fields: the target's neighbour, the behaviours' */
    uint64_t missing;         /* the key that stands for none */
    int32_t head;             /* whose neighbour it is: an earlier relation's, or -1: the item's itself */
};
/* Graph prune (ATBRG, Feng et al. 2020): which neighbours link the target and behaviours, [E, 2 n] and [P, 2 n]: in
 * column r 1 where relation r's is kept, else 0; in column n + r 0 or -1e9, to be added before a softmax. */
fth_status fth_layer_prune_graph(fth_graph *graph, const char *name, int32_t group,
                                 const struct fth_graph_relation *relations, uint32_t n, fth_id *target,
                                 fth_id *behaviours, fth_error *err);
/* Sum, mean or maximum of the positions of an example, [P, n] -> [E, n], or of a session, [S, n]. */
fth_status fth_layer_segment_pool(fth_graph *graph, const char *name, fth_id x, fth_pooling pooling,
                                  int32_t sessions, fth_id *out, fth_error *err);

/* Hidden layers: linear, [batch norm | layer norm], activation, dropout; residual adds the layer's input where
 * shapes agree. "<name>.0.weight", "<name>.1.weight", ... */
struct fth_mlp_options {
    const int64_t *hidden;
    uint32_t n_hidden;
    const char *activation;
    float dropout;
    int batch_norm, layer_norm, residual;
};
fth_status fth_layer_mlp(fth_graph *graph, const char *name, fth_id x, const struct fth_mlp_options *options,
                         fth_id *out, fth_error *err);

/* Where a model has set graph->softmax: the mean over the batch of label * weight * (log sum exp - score), without
 * smoothing (batch_softmax.c). Else the mean binary cross-entropy of graph->logit against the batch's labels,
 * sample weights as factors, divided by the number of examples; of several tasks the sum, each times its weight
 * (graph->task_weights). Plus the means of graph->losses. Sets graph->loss. Gradients are divided by fth_run's mean_over. */
fth_status fth_layer_loss(fth_graph *graph, float label_smoothing, fth_error *err);

/* Of the graph as the model has built it, before passes: the parameter (of one row) whose column *column is added to the
 * logit of a task as it stands; the first one, where several are. 0: there is none. */
int fth_layer_output_bias(const fth_graph *graph, uint32_t task, fth_id *bias, uint32_t *column);

/* After fth_graph_differentiate: update nodes for every parameter that has a gradient, and one for all
 * embedding rows. clip_norm > 0: the global norm over all of them is taken first (its own phase). */
fth_status fth_layer_updates(fth_graph *graph, float clip_norm, fth_error *err);

#endif
