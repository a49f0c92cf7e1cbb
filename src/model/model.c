/* The list of models. */
#include "model/model.h"

#include <string.h>

#include "model/parts.h"

static const struct fth_model *const all_models[] = {
#define FTH_MODEL(name) &fth_model_##name,
#include "model/models.def"
#undef FTH_MODEL
    NULL,
};

const struct fth_model *const *fth_models(void) {
    return all_models;
}

const struct fth_model *fth_model_find(const char *name) {
    for (const struct fth_model *const *model = all_models; *model; model++)
        if (!strcmp((*model)->name, name))
            return *model;
    return NULL;
}
