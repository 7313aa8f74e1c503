/* Facts and words of element types (dtypes.h). */
#include "core/dtypes.h"

#include <stddef.h>

/* n, w, b, e and y: the parameters of the list. */
#define FACTS(n, w, b, e, y, ...)                                                                                      \
    [FOVEA_DTYPE_##n] = {.name = w, .bits = b, .block_elements = e, .block_bytes = y, __VA_ARGS__},
const fovea_dtype_facts fv_dtypes[FV_DTYPES] = {
    {.bits = 8, .block_elements = 1, .block_bytes = 1},
#define FV_DTYPE(...) FACTS(__VA_ARGS__, .computed = 0)
#define FV_DTYPE_FLOAT(...) FACTS(__VA_ARGS__, .computed = 1, .stored = 1, .cached = 1)
#define FV_DTYPE_SCALED(...) FACTS(__VA_ARGS__, .stored = 1, .cached = 1, .scaled = 1)
#define FV_DTYPE_PAGES(...) FACTS(__VA_ARGS__, .cached = 1, .scaled = 1)
#define FV_DTYPE_WEIGHTS(...) FACTS(__VA_ARGS__, .stored = 1, .scaled = 1)
#define FV_DTYPE_BLOCKS(...) FACTS(__VA_ARGS__, .stored = 1)
#include "core/dtypes.inc"
};

const fovea_dtype_facts *fovea_dtype_info(fovea_dtype dtype) {
    return fv_dtype_word(dtype) ? fv_dtype_of(dtype) : NULL;
}

#define WORD(name, word, bits, elements, bytes) word,
#define VALUE(name, word, bits, elements, bytes) FOVEA_DTYPE_##name,
#define NONE(name, word, bits, elements, bytes)

const char *const fv_dtype_words[] = {
#define FV_DTYPE NONE
#define FV_DTYPE_FLOAT WORD
#include "core/dtypes.inc"
    NULL};
const char *const fv_kv_dtype_words[] = {
#define FV_DTYPE NONE
#define FV_DTYPE_FLOAT WORD
#define FV_DTYPE_SCALED WORD
#define FV_DTYPE_PAGES WORD
#include "core/dtypes.inc"
    NULL};
const fovea_dtype fv_kv_dtype_of_word[] = {
#define FV_DTYPE NONE
#define FV_DTYPE_FLOAT VALUE
#define FV_DTYPE_SCALED VALUE
#define FV_DTYPE_PAGES VALUE
#include "core/dtypes.inc"
};
const char *const fv_weight_dtype_words[] = {
#define FV_DTYPE NONE
#define FV_DTYPE_FLOAT WORD
#define FV_DTYPE_SCALED WORD
#define FV_DTYPE_WEIGHTS WORD
#define FV_DTYPE_BLOCKS WORD
#include "core/dtypes.inc"
    NULL};
const fovea_dtype fv_dtype_of_word[] = {
#define FV_DTYPE NONE
#define FV_DTYPE_FLOAT VALUE
#define FV_DTYPE_SCALED VALUE
#define FV_DTYPE_WEIGHTS VALUE
#define FV_DTYPE_BLOCKS VALUE
#include "core/dtypes.inc"
};
