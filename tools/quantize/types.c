/* types.h. */
#include "types.h"

#include <fnmatch.h>
#include <string.h>

enum { PATTERN_MOST = 256 };

static const struct {
    const char *name;
    fovea_dtype dtype;
    int block;
    unsigned gguf, file;
} types[TYPES] = {
    [TYPE_KEEP] = {.name = "keep"},
    [TYPE_Q8_0] = {"q8_0", FOVEA_DTYPE_Q8_0, 32, 8, 7},
    [TYPE_Q4_0] = {"q4_0", FOVEA_DTYPE_Q4_0, 32, 2, 2},
    [TYPE_Q4_1] = {"q4_1", FOVEA_DTYPE_Q4_1, 32, 3, 3},
    [TYPE_Q4_K] = {"q4_k", FOVEA_DTYPE_Q4_K, 256, 12, 14},
    [TYPE_INT8] = {.name = "int8", .dtype = FOVEA_DTYPE_I8},
    [TYPE_INT4] = {.name = "int4", .dtype = FOVEA_DTYPE_U4},
};

const char *type_name(tensor_type t) { return types[t].name; }
fovea_dtype type_dtype(tensor_type t) { return types[t].dtype; }
bool type_in_gguf(tensor_type t) { return types[t].block > 0; }
int type_block(tensor_type t) { return types[t].block; }

unsigned type_gguf(tensor_type t, unsigned *file_type) {
    *file_type = types[t].file;
    return types[t].gguf;
}

/* The part of a list up to the next comma; false if it is too long. *list is moved behind it. */
static bool next(const char **list, char part[PATTERN_MOST]) {
    const size_t length = strcspn(*list, ",");
    const bool short_enough = length < PATTERN_MOST;
    memcpy(part, *list, short_enough ? length : 0);
    part[short_enough ? length : 0] = '\0';
    *list += length + ((*list)[length] == ',');
    return short_enough;
}

/* Cuts "PATTERN=TYPE" at the last =; -1 if the type is none of GGUF's. */
static int cut(char *part) {
    char *equals = strrchr(part, '=');
    if (equals == NULL || equals == part)
        return -1;
    *equals = '\0';
    for (int t = TYPE_KEEP; t <= TYPE_Q4_K; t++)
        if (strcmp(equals + 1, types[t].name) == 0)
            return t;
    return -1;
}

bool types_valid(const char *list, const char **wrong) {
    char part[PATTERN_MOST];
    while (list != NULL && *list != '\0') {
        *wrong = list;
        if (!next(&list, part) || cut(part) < 0)
            return false;
    }
    return true;
}

int types_of(const char *list, const char *name) {
    char part[PATTERN_MOST];
    while (list != NULL && *list != '\0') {
        const int t = next(&list, part) ? cut(part) : -1;
        if (t >= 0 && fnmatch(part, name, 0) == 0)
            return t;
    }
    return -1;
}

bool fits(const char *patterns, const char *name) {
    char part[PATTERN_MOST];
    while (patterns != NULL && *patterns != '\0')
        if (next(&patterns, part) && fnmatch(part, name, 0) == 0)
            return true;
    return false;
}
