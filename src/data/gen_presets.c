/* Named settings of the generator: gen_presets.def lists them, each is a function here. */
#include <stdio.h>
#include <string.h>

#include "fathom/gen.h"

static void set_common(fth_gen_options *o, fth_gen_format format) {
    memset(o, 0, sizeof *o);
    o->format = format;
    o->seed = 1;
    o->examples = 1000000;
    o->threads = 1;
    o->base_rate = 0.25;
    o->signal = 1.4;
    o->shares = (fth_gen_shares){.linear = 0.5, .numeric = 0.25, .interaction = 0.15, .nonlinear = 0.1};
    o->head = 20;
    o->rank = 4;
}

static void add_number(fth_gen_options *o, double mean, double deviation, int decimals, int shift,
                       double missing) {
    fth_gen_number *number = &o->numbers[o->n_numbers++];
    *number = (fth_gen_number){.mean = mean, .deviation = deviation, .decimals = decimals,
                               .shift = shift, .missing = missing};
    snprintf(number->name, sizeof number->name, "I%u", o->n_numbers);
}

static void add_column(fth_gen_options *o, uint64_t cardinality, double zipf, double missing,
                       int interacts) {
    fth_gen_column *column = &o->columns[o->n_columns++];
    *column = (fth_gen_column){.cardinality = cardinality, .zipf = zipf, .missing = missing,
                               .interacts = interacts};
    snprintf(column->name, sizeof column->name, "C%u", o->n_columns);
}

/* The columns of the Criteo Kaggle display advertising set: cardinalities, and roughly its skew, missing
 * rates and spread of integers. */
static void set_criteo(fth_gen_options *o, uint64_t cap, double zipf) {
    static const struct {
        double mean, deviation, missing;
        int shift;
    } numbers[13] = {{0.6, 1.1, 0.45, 1}, {2.5, 2.0, 0, 3},    {1.8, 1.3, 0.21, 0}, {1.6, 0.9, 0.21, 0},
                     {8.0, 1.8, 0.02, 1}, {3.6, 1.6, 0.22, 1}, {1.5, 1.4, 0.04, 1}, {2.1, 1.0, 0, 1},
                     {3.8, 1.5, 0.04, 1}, {0.3, 0.5, 0.45, 1}, {0.9, 0.8, 0.04, 1}, {0.2, 0.7, 0.76, 1},
                     {1.6, 1.0, 0.21, 0}};
    static const struct {
        uint64_t cardinality;
        double missing;
        int interacts;
    } columns[26] = {{1460, 0, 1},        {583, 0, 0},     {10131227, 0.03, 0}, {2202608, 0.03, 0},
                     {305, 0, 1},         {24, 0.12, 0},   {12517, 0, 0},       {633, 0, 1},
                     {3, 0, 0},           {93145, 0, 0},   {5683, 0, 0},        {8351593, 0.03, 0},
                     {3194, 0, 0},        {27, 0, 1},      {14992, 0, 0},       {5461306, 0.03, 0},
                     {10, 0, 1},          {5652, 0, 0},    {2173, 0.44, 0},     {4, 0.44, 0},
                     {7046547, 0.03, 0},  {18, 0.76, 0},   {15, 0, 0},          {286181, 0.03, 0},
                     {105, 0.44, 1},      {142572, 0.44, 0}};
    set_common(o, FTH_GEN_CRITEO);
    for (int j = 0; j < 13; j++)
        add_number(o, numbers[j].mean, numbers[j].deviation, 0, numbers[j].shift, numbers[j].missing);
    for (int f = 0; f < 26; f++)
        add_column(o, columns[f].cardinality < cap ? columns[f].cardinality : cap, zipf,
                   columns[f].missing, columns[f].interacts);
}

static void set_criteo_small(fth_gen_options *o) { set_criteo(o, 10000, 1.5); }

static void set_criteo_kaggle(fth_gen_options *o) {
    set_criteo(o, UINT64_MAX, 1.1);
    o->examples = 45840617;
}

static void add_mixed_columns(fth_gen_options *o) {
    static const uint64_t cardinality[8] = {2, 10, 50, 200, 1000, 5000, 20000, 100000};
    for (int f = 0; f < 8; f++)
        add_column(o, cardinality[f], 1.2, f % 3 == 2 ? 0.05 : 0, f >= 1 && f <= 4);
}

static void set_csv(fth_gen_options *o) {
    set_common(o, FTH_GEN_CSV);
    for (int j = 0; j < 4; j++)
        add_number(o, 2, 1 + 0.25 * j, 0, 1, j % 2 ? 0.1 : 0);
    for (int j = 0; j < 4; j++)
        add_number(o, 0.5 * j, 1 + j, 3, 0, j % 2 ? 0.1 : 0);
    add_mixed_columns(o);
}

static void set_tasks(fth_gen_options *o) {
    set_csv(o);
    o->conversions = 1;
    o->domains = 3;
}

static void add_named_column(fth_gen_options *o, const char *name, uint64_t cardinality, double zipf) {
    add_column(o, cardinality, zipf, 0, 0);
    strcpy(o->columns[o->n_columns - 1].name, name);
}

static void set_sequence(fth_gen_options *o) {
    set_common(o, FTH_GEN_CSV);
    add_named_column(o, "user", 100000, 0.6);
    o->sequence = (fth_gen_sequence){.items = 5000, .categories = 40, .zipf = 1.0, .mean_length = 20,
                                     .max_length = 100,
                                     .names = {"item", "category", "hist_item", "hist_category"}};
    o->shares = (fth_gen_shares){.linear = 0.3, .sequence = 0.7};
}

static void set_sessions(fth_gen_options *o) {
    set_sequence(o);
    strcpy(o->sequence.times, "hist_time");
}

/* Histories that move: what counts is what came last, and whether it goes towards the target. */
static void set_interest(fth_gen_options *o) {
    set_sequence(o);
    o->columns[0].cardinality = 5000;
    o->sequence.items = 2000;
    o->sequence.categories = 100;
    o->sequence.interests = 4;
    o->sequence.mean_length = 24;
    o->sequence.max_length = 48;
    o->signal = 2;
    o->base_rate = 0.5;
    o->shares = (fth_gen_shares){.linear = 0.1, .sequence = 0.9};
}

/* The sizes of the sets below are told in docs/atrec.md: what is published, and what is assumed. */
static void set_amz(fth_gen_options *o) {
    set_sequence(o);
    o->examples = 2 * 603668;
    o->base_rate = 0.5;
    o->columns[0].cardinality = 603668;
    o->columns[0].zipf = 0;
    o->sequence.items = 367982;
    o->sequence.categories = 1600;
    o->sequence.mean_length = 13.7;
}

static void set_uba(fth_gen_options *o) {
    set_amz(o);
    o->examples = 2 * (uint64_t)987994;
    o->columns[0].cardinality = 987994;
    o->sequence.items = 4162024;
    o->sequence.categories = 9439;
    o->sequence.mean_length = 50;
}

static void set_elm(fth_gen_options *o) {
    static const struct {
        const char *name;
        double mean, deviation;
        int decimals;
    } numbers[] = {{"avg_price", 20, 7, 2}, {"ctr_30", 2.5, 1, 0},  {"ord_30", 1, 0.8, 0},
                   {"total_amt_30", 4, 1.5, 0}, {"rank_7", 3, 1.5, 0}, {"rank_30", 3, 1.5, 0},
                   {"rank_90", 3, 1.5, 0}};
    static const struct {
        const char *name;
        uint64_t cardinality;
        double zipf;
    } columns[] = {{"user_id", 1000000, 0.5}, {"gender", 3, 0.5},  {"visit_city", 400, 1},
                   {"is_supervip", 2, 1},     {"times", 1000, 0.5}, {"geohash12", 500000, 0.8}};
    static const fth_gen_attribute attributes[] = {
        {"shop_id", "shop_id_list", 100000, 0, -1, ""},
        {"merge_standard_food_id", "merge_standard_food_id_list", 20000, 0, -1, ""},
        {"brand_id", "brand_id_list", 30000, 0, -1, ""},
        {"shop_aoi_id", "shop_aoi_id_list", 50000, 0, -1, ""},
        {"shop_geohash_6", "shop_geohash6_list", 50000, 0, -1, ""},
        {"shop_geohash_12", "", 100000, 0, -1, ""},
        {"city_id", "", 400, 0, -1, ""},
        {"district_id", "", 3000, 0, -1, ""},
        {"", "price_list", 10000, 0, 2, ""},
        {"", "timediff_list", 100000, 1, 0, ""},
        {"hours", "hours_list", 24, 1, 0, ""},
        {"time_type", "time_type_list", 5, 1, -1, "breakfast lunch tea dinner night"},
        {"weekdays", "weekdays_list", 7, 1, 0, ""}};
    set_sequence(o);
    o->examples = 10000000;
    o->base_rate = 0.05;
    o->n_columns = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        add_number(o, numbers[i].mean, numbers[i].deviation, numbers[i].decimals, 1, 0);
        strcpy(o->numbers[i].name, numbers[i].name);
    }
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        add_named_column(o, columns[i].name, columns[i].cardinality, columns[i].zipf);
    o->sequence = (fth_gen_sequence){.items = 500000, .categories = 200, .zipf = 1, .mean_length = 25,
                                     .max_length = 50,
                                     .names = {"item_id", "category_1_id", "item_id_list",
                                               "category_1_id_list"},
                                     .n_attributes = sizeof attributes / sizeof *attributes};
    memcpy(o->sequence.attributes, attributes, sizeof attributes);
    o->shares = (fth_gen_shares){.linear = 0.4, .numeric = 0.2, .sequence = 0.4};
}

static void set_elm_long(fth_gen_options *o) {
    set_elm(o);
    o->sequence.mean_length *= 8;
    o->sequence.max_length *= 8;
}

static void set_libsvm(fth_gen_options *o) {
    set_common(o, FTH_GEN_LIBSVM);
    for (int j = 0; j < 4; j++)
        add_number(o, 0, 1, 3, 0, j % 2 ? 0.1 : 0);
    add_mixed_columns(o);
}

static void set_libffm(fth_gen_options *o) {
    set_libsvm(o);
    o->format = FTH_GEN_LIBFFM;
}

static const struct {
    const char *name, *description;
    void (*set)(fth_gen_options *);
} presets[] = {
#define FTH_GEN_PRESET(function, name, description) {name, description, set_##function},
#include "data/gen_presets.def"
#undef FTH_GEN_PRESET
};

#define N_PRESETS (sizeof presets / sizeof *presets)

int fth_gen_preset(const char *name, fth_gen_options *out) {
    for (size_t i = 0; name && out && i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            presets[i].set(out);
            return 1;
        }
    return 0;
}

const char *fth_gen_preset_name(size_t index, const char **description) {
    if (index >= N_PRESETS)
        return NULL;
    if (description != NULL)
        *description = presets[index].description;
    return presets[index].name;
}
