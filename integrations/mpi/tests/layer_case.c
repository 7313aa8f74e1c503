#include "layer_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_MOST = 256, PATTERN = 0xa5 };
static void *kept[KEPT_MOST];
static int kept_count;

void all_failed(fovea_status status, fovea_status want, int guilty, const char *what) {
    char name[32];
    snprintf(name, sizeof name, "rank %d: ", guilty);
    check(status == want, "%s: %s, not %s (%s)", what, fovea_status_name(status), fovea_status_name(want),
          fovea_mpi_error_detail());
    check(guilty < 0 || strncmp(fovea_mpi_error_detail(), name, strlen(name)) == 0, "%s: the sentence is '%s'", what,
          fovea_mpi_error_detail());
}

void *keep(size_t bytes) {
    void *memory = kept_count < KEPT_MOST ? malloc(bytes + 64) : NULL;
    if (!memory)
        abort();
    memset(memory, PATTERN, bytes + 64);
    return kept[kept_count++] = memory;
}

void free_all(void) {
    while (kept_count > 0)
        free(kept[--kept_count]);
}

static int64_t size_of(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }

void *numbers(rng *r, fovea_dtype dtype, int64_t count) {
    float *floats = keep((size_t)count * sizeof *floats);
    for (int64_t i = 0; i < count; i++)
        floats[i] = (float)(rng_below(r, 4001) - 2000) * 1e-3f;
    if (dtype == FOVEA_DTYPE_F32)
        return floats;
    void *narrow = keep((size_t)(count * size_of(dtype)));
    fovea_convert(count, floats, FOVEA_DTYPE_F32, narrow, dtype);
    return narrow;
}

/* Rows of all heads side by side, with a gap behind each. */
static fovea_tensor with_gaps(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                              int64_t channels) {
    fovea_tensor t = fovea_tensor_bthd(data, dtype, batch, tokens, heads, channels);
    t.stride[1] = channels + 1;
    t.stride[2] = heads * (channels + 1) + 2;
    t.stride[0] = tokens * t.stride[2];
    return t;
}

static size_t bytes_of(const fovea_tensor *t) {
    return (size_t)((t->shape[0] * t->stride[0] + t->stride[2]) * size_of(t->dtype));
}

fovea_tensor filled(rng *r, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens, int64_t channels) {
    fovea_tensor t = with_gaps(NULL, dtype, batch, heads, tokens, channels);
    t.data = numbers(r, dtype, (int64_t)bytes_of(&t) / size_of(dtype));
    return t;
}

fovea_tensor empty_like(const fovea_tensor *t) {
    fovea_tensor other = *t;
    other.data = keep(bytes_of(t));
    return other;
}

bool same_memory(const fovea_tensor *a, const fovea_tensor *b) { return memcmp(a->data, b->data, bytes_of(a)) == 0; }

/* ------------------------------------------------------------------------------------------------------- weights -- */

static const struct {
    const char *name;
    fovea_dtype dtype;
    int64_t group; /* of integers; 0: all channels */
    fovea_packing packing;
} kinds[WEIGHT_KINDS] = {
    [F32_IN_OUT] = {"f32 [in][out]", FOVEA_DTYPE_F32, 0, 0},
    [F32_OUT_IN] = {"f32 [out][in]", FOVEA_DTYPE_F32, 0, 0},
    [BF16] = {"bf16", FOVEA_DTYPE_BF16, 0, 0},
    [Q8_0] = {"q8_0", FOVEA_DTYPE_Q8_0, 0, 0},
    [Q4_K] = {"q4_k", FOVEA_DTYPE_Q4_K, 0, 0},
    [INT8] = {"int8", FOVEA_DTYPE_I8, 0, 0},
    [INT8_GROUPS] = {"int8 in groups", FOVEA_DTYPE_I8, 32, 0},
    [U4_GROUPS] = {"4 bits in groups", FOVEA_DTYPE_U4, 32, 0},
    [GPTQ] = {"gptq", FOVEA_DTYPE_U4, 32, FOVEA_PACKING_GPTQ},
    [AWQ] = {"awq", FOVEA_DTYPE_U4, 32, FOVEA_PACKING_AWQ},
};

const char *weight_name(weight_kind kind) { return kinds[kind].name; }

static void *random_words(rng *r, int64_t count) {
    uint32_t *words = keep((size_t)count * sizeof *words);
    for (int64_t i = 0; i < count; i++)
        words[i] = (uint32_t)rng_next(r);
    return words;
}

static fovea_matrix of_words(rng *r, weight_kind kind, int64_t in, int64_t out) {
    fovea_quantisation *q = keep(sizeof *q);
    fovea_quantisation_init(q);
    const int64_t groups = in / kinds[kind].group;
    q->group_size = kinds[kind].group;
    q->group_scales = numbers(r, FOVEA_DTYPE_F16, groups * out);
    q->scale_dtype = FOVEA_DTYPE_F16;
    q->packing = kinds[kind].packing;
    q->zeros = random_words(r, groups * out / 8);
    fovea_matrix m = fovea_matrix_in_out(random_words(r, in * out / 8), FOVEA_DTYPE_U4, in, out);
    m.quantisation = q;
    return m;
}

fovea_matrix weight(rng *r, weight_kind kind, int64_t in, int64_t out) {
    const fovea_dtype dtype = kinds[kind].dtype;
    if (kind == F32_IN_OUT)
        return fovea_matrix_in_out(numbers(r, dtype, in * out), dtype, in, out);
    if (kind == F32_OUT_IN || kind == BF16)
        return fovea_matrix_out_in(numbers(r, dtype, in * out), dtype, out, in);
    if (kind == GPTQ || kind == AWQ)
        return of_words(r, kind, in, out);
    const fovea_matrix from = fovea_matrix_out_in(numbers(r, FOVEA_DTYPE_F32, in * out), FOVEA_DTYPE_F32, out, in);
    fovea_quantize_options options;
    fovea_quantize_options_init(&options);
    options.group_size = kinds[kind].group;
    options.scale_dtype = kind == INT8_GROUPS ? FOVEA_DTYPE_F32 : FOVEA_DTYPE_F16;
    size_t data = 0, scales = 0;
    if (fovea_quantize_size(dtype, in, out, &options, &data, &scales) != FOVEA_OK)
        abort();
    void *to = keep(data), *of = keep(scales);
    if (fovea_quantize(ctx, &from, dtype, &options, to, scales ? of : NULL, NULL) != FOVEA_OK)
        abort();
    fovea_matrix m = fovea_matrix_out_in(to, dtype, out, in);
    if (scales) {
        fovea_quantisation *q = keep(sizeof *q);
        fovea_quantisation_init(q);
        q->group_size = kinds[kind].group;
        if (q->group_size > 0)
            q->group_scales = of, q->scale_dtype = options.scale_dtype;
        else
            q->scales = of;
        if (kind == U4_GROUPS) { /* a byte each, from 0 to 16 */
            uint8_t *zeros = keep((size_t)(in / q->group_size * out));
            for (int64_t i = 0; i < in / q->group_size * out; i++)
                zeros[i] = (uint8_t)rng_below(r, 17);
            q->zeros = zeros;
        }
        m.quantisation = q;
    }
    return m;
}
