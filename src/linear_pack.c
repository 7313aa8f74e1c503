/* Packing of linear maps (linear.h): kernel and blocks by a model of caches, weights and biases scaled and copied. */
#include "gemm.h"
#include "linear.h"
#include "registry.h"
#include "size.h"
#include "status.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

fovea_matrix fovea_matrix_in_out(const float *data, int64_t in, int64_t out) {
    return (fovea_matrix){data, in, out, out, 1};
}

fovea_matrix fovea_matrix_out_in(const float *data, int64_t out, int64_t in) {
    return (fovea_matrix){data, in, out, 1, in};
}

/* Sizes that depend on the caches. A block of weights takes three quarters of the first-level cache: most of it stays there
 * for all rows of an item, while the gemm brings the next one near. The products of these rows, to which each block adds,
 * take three eighths, and go to y a few rows at a time after the last block, so that the lines of y come from farther while
 * the next rows are computed. The rows themselves, which each panel reads again, take half of the second-level cache.
 *
 * Measured on an AVX-512 core (Intel, family 6 model 207): against panels that each tile reads whole from the second-level
 * cache, 32 rows of 768 x 768 are 10% faster and 512 rows 1%; rows for half of the second-level cache are slower than this
 * by 15% (2048 x 1024 x 1024) and 5% (512 x 2304 x 768), all rows to y at once by 3% to 8%. */
static void choose(fovea_linear *l) {
    const int64_t many = 4096, f = (int64_t)sizeof(float);
    const int64_t in_flight = 48 * 16; /* floats: 48 lines, of about 64 that cores can wait for while they compute */
    const int64_t l1 = l->ctx->cpu.l1d, l2 = l->ctx->cpu.l2;
    l->gemm = fv_gemm_for(l->ctx->isa, many, fv_min(l->out, many));
    l->after = fv_kernel_best(FV_OP_after, l->ctx->isa)->run.after_f32;
    l->panel = l->gemm->nr;
    l->panels = fv_ceil_div(l->out, l->panel);
    const int64_t most = fv_max(l1 / 4 * 3 / (l->panel * f), 64);
    l->k_block = fv_ceil_div(l->in, fv_ceil_div(l->in, most)); /* blocks of equal length */
    l->chunk = fv_round_up(fv_ceil_div(in_flight, l->panel), l->gemm->mr);
    const int64_t rows = fv_min(l1 / 8 * 3 / (l->panel * f), fv_max(l2 / 2 / (l->in * f), 32));
    l->row_block = fv_round_up(fv_max(rows, 1), l->chunk);
}

/* Sizes in memory; false if they do not fit. */
static bool lay_out(fovea_linear *l, int64_t *weight_floats) {
    int64_t bytes, at = 0;
    if (!fv_multiply(l->in, l->panel, weight_floats) || !fv_multiply(*weight_floats, l->panels, weight_floats) ||
        !fv_multiply(*weight_floats, (int64_t)sizeof(float), &bytes))
        return false;
    l->task_bytes = l->row_block * l->panel * (int64_t)sizeof(float);
    fv_reserve(&at, l->ctx->threads, l->task_bytes);
    l->bytes = at < 0 ? 0 : at + FV_ALIGNMENT;
    return at >= 0;
}

/* Columns [first, first + count) of one part's weights into a panel, scaled. A few channels at a time, so that a line
 * of either side is in cache until it is used up, whichever way the weights lie. */
static void pack_columns(const fovea_matrix *w, float scale, int64_t first, int64_t count, float *to, int64_t panel) {
    enum { CHANNELS = 16 };
    for (int64_t k = 0; k < w->in; k += CHANNELS)
        for (int64_t j = 0; j < count; j++)
            for (int64_t i = k; i < fv_min(k + CHANNELS, w->in); i++)
                to[i * panel + j] = scale * w->data[i * w->in_stride + (first + j) * w->out_stride];
}

static void pack_part(fovea_linear *l, const fovea_linear_part *part, const fv_linear_part *to) {
    const float scale = part->scale == 0.0 ? 1.0f : (float)part->scale;
    for (int64_t done = 0, count; done < to->out; done += count) {
        const int64_t column = to->first + done, at = column % l->panel;
        count = fv_min(l->panel - at, to->out - done);
        pack_columns(&part->weight, scale, done, count, l->weights + column / l->panel * l->in * l->panel + at,
                     l->panel);
    }
    for (int64_t j = 0; to->bias && j < to->out; j++)
        to->bias[j] = scale * part->bias[j];
}

/* Memory of a linear whose sizes are known; false if there is none. */
static bool allocate(fovea_linear *l, int64_t weight_floats) {
    l->parts = calloc((size_t)l->part_count, sizeof *l->parts);
    l->bias = calloc((size_t)l->out, sizeof *l->bias);
    const size_t bytes = ((size_t)weight_floats * sizeof(float) + FV_ALIGNMENT - 1) / FV_ALIGNMENT * FV_ALIGNMENT;
    l->weights = aligned_alloc(FV_ALIGNMENT, bytes);
    return l->parts && l->bias && l->weights;
}

void fovea_linear_destroy(fovea_linear *linear) {
    if (!linear)
        return;
    free(linear->parts);
    free(linear->bias);
    free(linear->weights);
    free(linear);
}

fovea_status fovea_linear_pack(const fovea_context *ctx, const fovea_linear_desc *desc, fovea_linear **linear) {
    if (!linear)
        return fv_fail(FOVEA_ERROR_NULL, "linear is NULL: there is nowhere to put the packed weights");
    *linear = NULL;
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL");
    const fovea_status status = fv_linear_check_desc(desc);
    if (status != FOVEA_OK)
        return status;
    const fovea_linear_part *parts = fv_linear_parts(desc);
    fovea_linear *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a linear map (%zu bytes)", sizeof *made);
    made->ctx = ctx;
    made->in = desc->in_features;
    made->part_count = desc->part_count;
    made->activation = (fv_activation)desc->activation;
    for (int64_t p = 0; p < desc->part_count; p++)
        made->out += parts[p].weight.out;
    choose(made);
    int64_t floats;
    if (!lay_out(made, &floats)) {
        const long long out = made->out;
        free(made);
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld x %lld weights are more than any memory holds",
                       (long long)desc->in_features, out);
    }
    if (!allocate(made, floats)) {
        fovea_linear_destroy(made);
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for %lld packed weights", (long long)floats);
    }
    for (int64_t p = 0, first = 0; p < desc->part_count; first += parts[p++].weight.out) {
        made->parts[p] = (fv_linear_part){first, parts[p].weight.out, parts[p].bias ? made->bias + first : NULL};
        pack_part(made, &parts[p], &made->parts[p]);
    }
    *linear = made;
    return FOVEA_OK;
}

size_t fovea_linear_workspace_size(const fovea_linear *linear) { return linear ? (size_t)linear->bytes : 0; }

size_t fovea_linear_describe(const fovea_linear *linear, char *text, size_t size) {
    if (!linear)
        return (size_t)snprintf(text, size, "no linear map");
    return (size_t)snprintf(
        text, size,
        "tier    %s\nproduct %s, %lld x %lld weights in panels of %lld\nblocks  of %lld rows and %lld channels\n"
        "threads %d, workspace %lld bytes\ntuned   no: defaults from caches of %lld KiB and %lld KiB\n",
        fv_isa_word(linear->ctx->isa), linear->gemm->name, (long long)linear->in, (long long)linear->out,
        (long long)linear->panel, (long long)linear->row_block, (long long)linear->k_block, linear->ctx->threads,
        (long long)linear->bytes, (long long)linear->ctx->cpu.l1d / 1024, (long long)linear->ctx->cpu.l2 / 1024);
}
