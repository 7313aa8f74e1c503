/* Where a model is, wherever the program is called from. */
#ifndef MODELS_MODEL_PLACE_H
#define MODELS_MODEL_PLACE_H

#include "path.h"

/* For --help. */
#define MODEL_PLACE_HELP                                                                                               \
    "default: FOVEA_MODEL; else all-MiniLM-L6-v2, in build/models of the program's build tree, or where "              \
    "tools/embed/fetch.py puts it"

typedef struct model_place {
    char folder[PATH_MOST]; /* of config.json and the tokenizer */
    char file[PATH_MOST];   /* the safetensors file */
} model_place;

/* The model that is given: a folder with model.safetensors, or a safetensors file. NULL: the default, as above.
 * Returns 0; or -1 after a complaint that says where it is not, or what is there in place of it. */
int model_place_find(const char *given, model_place *place, complaint to);

/* Its name for people: that of the folder, or of the file if it is not model.safetensors. */
const char *model_place_name(const model_place *place, char name[PATH_MOST]);

#endif
