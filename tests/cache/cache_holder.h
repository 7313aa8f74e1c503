/* A cache of one sequence, for tests of what it keeps. */
#ifndef TESTS_CACHE_HOLDER_H
#define TESTS_CACHE_HOLDER_H

#include "attention_case.h"
#include "fp_control.h"

#include <fenv.h>
#include <stdlib.h>

static inline void require(fovea_status status, const char *what) {
    if (!test_check(status == FOVEA_OK, "%s: %s", what, fovea_error_detail()))
        abort();
}

/* A sequence of one layer and one head. */
typedef struct holder {
    fovea_kv_cache *cache;
    int64_t sequence, dim, values;
} holder;

static inline holder hold(const fovea_context *ctx, int64_t dim, int64_t values, fovea_dtype k, fovea_dtype v) {
    holder x = {.dim = dim, .values = values};
    fovea_kv_cache_desc d;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = 1;
    d.head_dim = dim;
    d.value_dim = values;
    d.k_dtype = k;
    d.v_dtype = v;
    d.max_pages = 4;
    require(fovea_kv_cache_create(ctx, &d, &x.cache), "create");
    require(fovea_kv_cache_add(x.cache, &x.sequence), "add");
    return x;
}

static inline void append(const holder *x, const void *k, const void *v, fovea_dtype dtype, int64_t tokens) {
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &x->sequence;
    a.k = fovea_tensor_bhtd((void *)(uintptr_t)k, dtype, 1, 1, tokens, x->dim);
    a.v = fovea_tensor_bhtd((void *)(uintptr_t)v, dtype, 1, 1, tokens, x->values);
    require(fovea_kv_cache_append(x->cache, &a), "append");
}

/* The bytes of a sequence, to be freed. */
static inline char *save(const holder *x, int64_t sequence, size_t *size) {
    require(fovea_kv_cache_save(x->cache, sequence, NULL, 0, size), "size");
    char *data = must_alloc((int64_t)*size, 1);
    require(fovea_kv_cache_save(x->cache, sequence, data, *size, size), "save");
    return data;
}

/* The same of tokens whose rows are appended in a type, in a floating-point mode of the caller's (0 to 3); rows of keys
 * and values become what the type holds. */
static inline char *save_rows(const holder *x, float *const rows[2], fovea_dtype dtype, int64_t tokens, int mode,
                              size_t *size) {
    static const int rounding[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    void *given[2];
    for (int side = 0; side < 2; side++) {
        const int64_t n = tokens * (side ? x->values : x->dim);
        given[side] = must_alloc(n, sizeof(float));
        convert_elements(n, rows[side], FOVEA_DTYPE_F32, given[side], dtype);
        convert_elements(n, given[side], dtype, rows[side], FOVEA_DTYPE_F32);
    }
    fesetround(rounding[mode]);
    fp_flush(mode % 2);
    append(x, given[0], given[1], dtype, tokens);
    fp_flush(0);
    fesetround(FE_TONEAREST);
    free(given[0]);
    free(given[1]);
    return save(x, x->sequence, size);
}

#endif
