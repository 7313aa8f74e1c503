/* Operands of a kernel that is timed by itself (operands.h). */
#include "operands.h"

#include "bench.h"

#include <stdlib.h>
#include <string.h>

int64_t operands_room(const operands *o) {
    int64_t most = o->m * o->n;
    most = o->m * o->k > most ? o->m * o->k : most;
    return o->n * o->k > most ? o->n * o->k : most;
}

void operands_free(operands *o) {
    for (int i = 0; i < INPUTS; i++) {
        free(o->in[i]);
        o->in[i] = NULL;
    }
    for (int i = 0; i < OUTPUTS; i++) {
        free(o->out[i]);
        o->out[i] = NULL;
    }
    free(o->work);
    o->work = NULL;
    free(o->mask);
    o->mask = NULL;
    free(o->words);
    o->words = NULL;
}

/* 2 n numbers from 0.125 to 1 of a type of 16 bits. */
static void fill_halves(float *to, int64_t n, fv_type type) {
    const int first = type == FV_TYPE_f16 ? 0x3000 : 0x3e00, count = type == FV_TYPE_f16 ? 0xc00 : 0x180;
    uint32_t random = 1;
    for (int64_t i = 0; i < 2 * n; i++) {
        random = random * 1664525U + 1013904223U;
        const uint16_t half = (uint16_t)(first + (int)(random >> 16) % count);
        memcpy((char *)to + i * (int64_t)sizeof half, &half, sizeof half);
    }
}

/* Any bits as integers, and in[0] as rows of integers in groups. */
static int make_groups(operands *o, const fv_kernel *kernel) {
    uint32_t random = 1, *to = (uint32_t *)o->in[2];
    for (int64_t i = 0; i < operands_room(o); i++)
        to[i] = random = random * 1664525U + 1013904223U;
    const fv_kernel *quantize = fv_kernel_named("quantize_i8_1x1_scalar");
    if (kernel->op != FV_OP_multiply)
        return 0;
    const int64_t bytes = fv_group_words(kernel->kind, o->k, OPERANDS_GROUP) * o->m * (int64_t)sizeof(uint32_t);
    if (!quantize || (o->words = bench_alloc(bytes)) == NULL)
        return -1;
    memset(o->words, 0, (size_t)bytes);
    quantize->run.quantize_i8(o->m, o->k, OPERANDS_GROUP, kernel->kind,
                              kernel->kind == FV_KIND_i8 ? FV_Q8_MOST : FV_I8_MOST, o->in[0], o->k, o->words);
    return 0;
}

/* Integers from -127 to 127, and the queries in[0] as integers, too. */
static int make_int8(operands *o, const fv_kernel *kernel) {
    int8_t *to = (int8_t *)o->in[2];
    uint32_t random = 1;
    for (int64_t i = 0; i < o->n * o->k; i++) {
        random = random * 1664525U + 1013904223U;
        to[i] = (int8_t)((int)(random >> 16) % 255 - 127);
    }
    if (kernel->kind != FV_KIND_i16)
        return 0;
    if ((o->words = bench_alloc(fv_i8_row_words(o->k) * o->m * (int64_t)sizeof(fv_i8_word))) == NULL)
        return -1;
    fv_i8_rows(o->m, o->k, o->in[0], o->k, o->words);
    return 0;
}

int operands_make(operands *o, const fv_kernel *kernel) {
    const int64_t n = operands_room(o), bytes = n * (int64_t)sizeof(float);
    for (int i = 0; i < INPUTS; i++) {
        if ((o->in[i] = bench_alloc(bytes)) == NULL)
            return -1;
        bench_fill(o->in[i], n, i == 0 ? -4 : 0.125F, i == 0 ? 0 : 1, (uint64_t)i);
    }
    const int narrow = kernel->type == FV_TYPE_bf16 || kernel->type == FV_TYPE_f16;
    const int both = kernel->op == FV_OP_multiply && kernel->kind != FV_KIND_f32 &&
                     kernel->kind != FV_KIND_i16; /* a is of words, too */
    for (int i = both ? 1 : 2; narrow && i < INPUTS; i++)
        fill_halves(o->in[i], n, kernel->type);
    const int groups = operands_in_groups(kernel) || kernel->op == FV_OP_expand;
    if (groups ? make_groups(o, kernel) != 0 : kernel->type == FV_TYPE_i8 && make_int8(o, kernel) != 0)
        return -1;
    if (kernel->op == FV_OP_scales)
        fill_halves(o->in[2], n, FV_TYPE_f16);
    for (int i = 0; i < OUTPUTS; i++) {
        if ((o->out[i] = bench_alloc(bytes)) == NULL)
            return -1;
        bench_fill(o->out[i], n, i == 0 ? -4 : 0.5F, i == 0 ? 0 : 1, (uint64_t)(8 + i));
    }
    if ((o->work = bench_alloc(bytes)) == NULL || (o->mask = bench_alloc(n)) == NULL)
        return -1;
    bench_fill(o->work, n, 0.5F, 1, (uint64_t)(8 + OUTPUTS));
    for (int64_t i = 0; i < n; i++)
        o->mask[i] = i % 7 != 0;
    memset(&o->bits, 0xff, sizeof o->bits);
    return 0;
}
