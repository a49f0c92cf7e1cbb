/* Which tables share rows, which rows share packs: once, when an embedding is made.
 *
 * Tables that are looked up by the same keys (their lookups are on the same fields in the same order, and they
 * admit keys alike) share rows: each is a member of them. So a model's linear terms lie beside its
 * embeddings, and a key that both look up is numbered, found and counted once. The table of the largest
 * dimension leads, so that its weights begin at a cache line: its lookups have parts and rows of their own in a
 * batch, its name salts the keys. Those of the others follow: occurrence by occurrence they have the same rows, at
 * another place in them.
 *
 * Packs hold the rows of one list of members' dimensions and optimizers. Views are what the outside sees as packs
 * (checkpoints, inspect), and do not depend on what shares rows: all tables of one dimension and optimizer. Without
 * packing every table has a pack and a view of its own. */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/names.h"
#include "embedding/embedding_private.h"

#define NONE FTH_NO_LOOKUP

struct plan {
    const struct fth_embedding_options *options;
    uint32_t n_tables;
    uint32_t *first;    /* by table: its first lookup */
    uint32_t *next;     /* by lookup: its table's next one, or NONE */
    uint32_t *table_of; /* by lookup */
    uint32_t *lead;     /* by table: the one that leads its rows */
    uint32_t *follower; /* by table: the next one that it leads, or that its leading one does; or NONE */
    uint64_t *min_count;
    uint32_t *pack, *member, *number; /* by table: where it came; its number in the pack */
    void *block;
};

static int make_plan(struct plan *plan) {
    size_t n = plan->options->n_lookups;
    uint32_t *at = plan->block = fth_alloc(n, sizeof(uint64_t) + 8 * sizeof(uint32_t));
    if (!at)
        return 0;
    plan->min_count = plan->block;
    at += 2 * n;
    uint32_t **arrays[] = {&plan->first,    &plan->next, &plan->table_of, &plan->lead,
                           &plan->follower, &plan->pack, &plan->member,   &plan->number};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++, at += n)
        *arrays[i] = at;
    return 1;
}

static const struct fth_lookup *first_of(const struct plan *plan, uint32_t table) {
    return &plan->options->lookups[plan->first[table]];
}

static fth_status check_alike(const struct fth_lookup *a, const struct fth_lookup *b, fth_error *err) {
    if (a->dim == b->dim && !a->zero_init == !b->zero_init)
        return FTH_OK;
    return fth_fail(err, FTH_E_CONFIG,
                    "embedding table '%s' is looked up with dimension %u and %u%s: fields "
                    "that share a table must agree",
                    a->table, b->dim, a->dim, a->dim == b->dim ? ", once starting at zero" : "");
}

/* Tables, numbered as they are met, each with a list of its lookups. */
static fth_status list_tables(struct plan *plan, struct fth_names *names, uint32_t *last, fth_error *err) {
    for (uint32_t i = 0; i < plan->options->n_lookups; i++) {
        const struct fth_lookup *lookup = &plan->options->lookups[i];
        uint32_t table;
        if (!fth_names_add(names, lookup->table, plan->n_tables, &table))
            return fth_fail(err, FTH_E_MEMORY, "no memory for %u embedding lookups", plan->options->n_lookups);
        if (table == FTH_NO_NAME) {
            table = plan->n_tables++;
            plan->first[table] = i;
            plan->min_count[table] = 1;
        } else {
            FTH_TRY(check_alike(lookup, first_of(plan, table), err));
            plan->next[last[table]] = i;
        }
        plan->next[i] = NONE;
        last[table] = i;
        plan->table_of[i] = table;
        if (plan->min_count[table] < lookup->min_count)
            plan->min_count[table] = lookup->min_count;
    }
    return FTH_OK;
}

static int same_keys(const struct plan *plan, uint32_t a, uint32_t b) {
    if (plan->min_count[a] != plan->min_count[b])
        return 0;
    uint32_t i = plan->first[a], j = plan->first[b];
    for (; i != NONE && j != NONE; i = plan->next[i], j = plan->next[j]) {
        const struct fth_lookup *x = &plan->options->lookups[i], *y = &plan->options->lookups[j];
        if (x->field != y->field || x->group != y->group)
            return 0;
    }
    return i == j;
}

/* same_as, by table: the first one with the same keys. Those that may have them begin with one field: `latest` of these,
 * and `before` it, are the ones that are the first with theirs. */
static fth_status find_same(const struct plan *plan, uint32_t *same_as, uint32_t *before, fth_error *err) {
    uint32_t n_fields = 0;
    for (uint32_t t = 0; t < plan->n_tables; t++)
        n_fields = first_of(plan, t)->field >= n_fields ? first_of(plan, t)->field + 1 : n_fields;
    uint32_t *latest = fth_alloc(n_fields, sizeof *latest);
    if (!latest)
        return fth_fail(err, FTH_E_MEMORY, "no memory for embedding tables");
    memset(latest, 0xff, n_fields * sizeof *latest); /* NONE */
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        uint32_t *last = &latest[first_of(plan, t)->field], of = plan->options->packing ? *last : NONE;
        while (of != NONE && !same_keys(plan, of, t))
            of = before[of];
        same_as[t] = of == NONE ? t : of;
        if (of != NONE)
            continue;
        before[t] = *last;
        *last = t;
    }
    fth_free(latest);
    return FTH_OK;
}

/* Who leads each table's rows: of those with the same keys the first of the largest dimension. */
static void find_leads(struct plan *plan, const uint32_t *same_as) {
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        uint32_t of = same_as[t];
        if (of == t || first_of(plan, plan->lead[of])->dim < first_of(plan, t)->dim)
            plan->lead[of] = t;
    }
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        plan->lead[t] = plan->lead[same_as[t]];
        plan->follower[t] = NONE;
    }
    for (uint32_t t = plan->n_tables; t-- > 0;) {
        if (plan->lead[t] == t)
            continue;
        plan->follower[t] = plan->follower[plan->lead[t]];
        plan->follower[plan->lead[t]] = t;
    }
}

/* Whether its rows are trained by the linear terms' optimizer. */
static int is_linear(const struct plan *plan, uint32_t table) {
    return plan->options->linear && first_of(plan, table)->zero_init;
}

/* ---- views ---- */

static fth_status make_views(struct fth_embedding *embedding, const struct plan *plan,
                             struct fth_table *tables, fth_error *err) {
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        uint32_t v = 0, dim = first_of(plan, t)->dim;
        int linear = is_linear(plan, t);
        while (v < embedding->n_views && !(plan->options->packing && embedding->views[v].dim == dim &&
                                           embedding->views[v].linear == linear))
            v++;
        struct fth_view *view = &embedding->views[v];
        if (v == embedding->n_views) {
            embedding->n_views++;
            view->dim = dim;
            view->linear = linear;
            view->names = fth_alloc(plan->n_tables, sizeof *view->names);
            view->places = fth_alloc(plan->n_tables, sizeof *view->places);
            view->sources = fth_alloc(plan->n_tables, sizeof *view->sources);
            if (!view->names || !view->places || !view->sources)
                return fth_fail(err, FTH_E_MEMORY, "no memory for embedding tables");
        }
        plan->member[t] = v; /* until it has a place */
        tables[t].number = view->n_tables;
        view->names[view->n_tables++] = tables[t].name;
    }
    return FTH_OK;
}

/* ---- packs ---- */

/* The table's members in their order: itself, then who follows it. */
static uint32_t list_members(const struct plan *plan, uint32_t lead, uint32_t *members) {
    uint32_t n = 0;
    for (uint32_t t = lead; t != NONE; t = plan->follower[t])
        members[n++] = t;
    return n;
}

static int fits(const struct fth_pack *pack, const struct plan *plan, const uint32_t *members,
                uint32_t n) {
    if (pack->n_members != n)
        return 0;
    for (uint32_t m = 0; m < n; m++)
        if (pack->members[m].dim != first_of(plan, members[m])->dim ||
            pack->members[m].linear != is_linear(plan, members[m]))
            return 0;
    return 1;
}

static fth_status add_pack(struct fth_embedding *embedding, const struct plan *plan,
                           const uint32_t *members, uint32_t n, fth_error *err) {
    uint32_t number = embedding->n_packs++;
    struct fth_pack *pack = &embedding->packs[number];
    pack->members = fth_alloc(n, sizeof *pack->members);
    if (!pack->members)
        return fth_fail(err, FTH_E_MEMORY, "no memory for embedding tables");
    pack->n_members = pack->one_number = n;
    for (uint32_t m = 0; m < n; m++) {
        struct fth_member *member = &pack->members[m];
        member->dim = first_of(plan, members[m])->dim;
        member->linear = is_linear(plan, members[m]);
        member->optimizer = &embedding->optimizer[member->linear];
        if (member->dim == 1 && pack->one_number == n)
            pack->one_number = m;
        member->view = plan->member[members[m]];
        member->number = embedding->n_members++;
        member->tables = fth_alloc(plan->n_tables, sizeof *member->tables);
        if (!member->tables)
            return fth_fail(err, FTH_E_MEMORY, "no memory for embedding tables");
        struct fth_view *view = &embedding->views[member->view];
        view->sources[view->n_sources++] = (struct fth_place){.pack = number, .member = m};
    }
    pack->tables = pack->members[0].tables;
    return FTH_OK;
}

static fth_status place_tables(struct fth_embedding *embedding, const struct plan *plan,
                               const struct fth_table *tables, uint32_t *members, fth_error *err) {
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        if (plan->lead[t] != t)
            continue;
        uint32_t n = list_members(plan, t, members), p = 0;
        while (p < embedding->n_packs &&
               !(plan->options->packing && fits(&embedding->packs[p], plan, members, n)))
            p++;
        if (p == embedding->n_packs)
            FTH_TRY(add_pack(embedding, plan, members, n, err));
        struct fth_pack *pack = &embedding->packs[p];
        for (uint32_t m = 0; m < n; m++) {
            const struct fth_table *from = &tables[members[m]];
            pack->members[m].tables[pack->n_tables] = *from;
            embedding->views[pack->members[m].view].places[from->number] =
                (struct fth_place){.pack = p, .member = m, .table = pack->n_tables};
            plan->pack[members[m]] = p;
            plan->member[members[m]] = m;
            plan->number[members[m]] = pack->n_tables;
        }
        pack->n_tables++;
    }
    return FTH_OK;
}

/* ---- lookups ---- */

static void place_lookups(struct fth_embedding *embedding, const struct plan *plan,
                          const struct fth_table *tables) {
    for (uint32_t i = 0; i < embedding->n_lookups; i++) {
        uint32_t t = plan->table_of[i];
        embedding->lookups[i] = (struct fth_embedding_lookup){.is = plan->options->lookups[i],
                                                              .pack = plan->pack[t],
                                                              .table = plan->number[t],
                                                              .member = plan->member[t],
                                                              .head = plan->first[t],
                                                              .next = plan->next[i]};
        embedding->lookups[i].is.table = tables[t].name;
    }
    struct fth_embedding_lookup **members = embedding->by_member;
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        if (plan->lead[t] != t)
            continue;
        for (uint32_t i = plan->first[t]; i != NONE; i = plan->next[i]) {
            embedding->lookups[i].members = members;
            members += embedding->packs[plan->pack[t]].n_members;
        }
    }
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        uint32_t lead = plan->first[plan->lead[t]];
        for (uint32_t i = plan->first[t]; i != NONE; i = plan->next[i], lead = plan->next[lead]) {
            struct fth_embedding_lookup *lookup = &embedding->lookups[i],
                                        *leading = &embedding->lookups[lead];
            lookup->leading = lead;
            leading->members[lookup->member] = lookup;
            leading->pooled |= fth_lookup_pooled(&lookup->is);
        }
    }
}

static fth_status place(struct fth_embedding *embedding, struct plan *plan,
                        struct fth_table *tables, uint32_t *scratch, fth_error *err) {
    struct fth_names by_name = {0};
    fth_status status = list_tables(plan, &by_name, scratch, err);
    fth_names_free(&by_name);
    FTH_TRY(status);
    FTH_TRY(find_same(plan, scratch, plan->follower, err)); /* memory of followers, who are known next */
    find_leads(plan, scratch);
    char *names = embedding->names;
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const struct fth_lookup *lookup = first_of(plan, t);
        size_t length = strlen(lookup->table);
        tables[t] = (struct fth_table){.name = memcpy(names, lookup->table, length + 1),
                                       .hash = fth_hash_bytes(lookup->table, length, 0),
                                       .min_count = plan->min_count[t],
                                       .zero_init = lookup->zero_init};
        names += length + 1;
    }
    FTH_TRY(make_views(embedding, plan, tables, err));
    FTH_TRY(place_tables(embedding, plan, tables, scratch, err));
    place_lookups(embedding, plan, tables);
    return FTH_OK;
}

fth_status fth_embedding_place(struct fth_embedding *embedding,
                               const struct fth_embedding_options *options, fth_error *err) {
    struct plan plan = {.options = options};
    struct fth_table *tables = fth_alloc(options->n_lookups, sizeof *tables);
    uint32_t *scratch = fth_alloc(options->n_lookups, sizeof *scratch);
    fth_status status = tables && scratch && make_plan(&plan)
                            ? place(embedding, &plan, tables, scratch, err)
                            : fth_fail(err, FTH_E_MEMORY, "no memory for %u embedding lookups",
                                       options->n_lookups);
    fth_free(plan.block);
    fth_free(tables);
    fth_free(scratch);
    return status;
}

static void print_pack(const struct fth_pack *pack, struct fth_text *out) {
    fth_text_printf(out, "  dim");
    for (uint32_t m = 0; m < pack->n_members; m++)
        fth_text_printf(out, "%s %u", m ? " +" : "", pack->members[m].dim);
    for (uint32_t t = 0; t < pack->n_tables; t++)
        for (uint32_t m = 0; m < pack->n_members; m++)
            fth_text_printf(out, "%s%s", m ? " + " : t ? ", " : ": ", pack->members[m].tables[t].name);
    fth_text_printf(out, "\n");
}

void fth_embedding_print(const fth_embedding *embedding, struct fth_text *out) {
    fth_text_printf(out, "rows, a line an index (table + table: looked up by the same keys, they share rows)\n");
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        print_pack(&embedding->packs[p], out);
}

void fth_embedding_free_views(struct fth_embedding *embedding) {
    for (uint32_t v = 0; embedding->views && v < embedding->n_views; v++) {
        fth_free(embedding->views[v].names);
        fth_free(embedding->views[v].places);
        fth_free(embedding->views[v].sources);
    }
    fth_free(embedding->views);
}
