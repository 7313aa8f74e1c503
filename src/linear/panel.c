/* One panel of a linear map for rows of an item (execution.h): products go to scratch, and from there, still in cache,
 * through bias, activation and residual to where the caller wants them.
 *
 * Weights of 16 bits are multiplied in one of three ways, which give the same bits:
 *   pairs      bfloat16 by bfloat16, both as pairs, twice as fast: if the guard, fv_pairs_exact(), allows it for the
 *              exponents of a row and of the panel; float16 by float16, where there is FMLAL: always;
 *   registers  x as floats, weights widened in registers: few rows, and many where that costs nothing;
 *   blocks     x as floats, blocks of weights widened to scratch: many rows.
 * Weights in groups are multiplied as integers, few rows and many (groups.c); or, exact, as blocks.
 */
#include "linear/execution.h"

#include "core/core.h"

#include <assert.h>
#include <string.h>

typedef enum path { PATH_FLOATS, PATH_PAIRS, PATH_REGISTERS, PATH_BLOCKS, PATH_FEW_INTEGERS, PATH_INTEGERS } path;

bool fv_linear_pairs(const fv_linear_execution *e) {
    if (e->linear->pairs && !e->linear->pack_x)
        return true;
    return e->linear->pairs && e->choice.pair_rows > 0 && e->rows >= e->choice.pair_rows && fv_float_nearest() &&
           (fv_linear_one_stretch(e) || e->args->x.shape[3] % 2 == 0);
}

bool fv_linear_gathers(const fv_linear_execution *e) {
    return e->index || e->linear->widen_x || e->choice.gather == FV_LINEAR_GATHER_YES ||
           (fv_linear_paired(e->linear) && !fv_linear_one_stretch(e) && e->args->x.shape[3] % 2 != 0);
}

/* How many input channels from k on a call of the product takes: within a block, and within what lies together. */
static int64_t step_at(const fv_linear_execution *e, path way, int64_t k) {
    const int64_t channels = way == PATH_PAIRS || e->integers ? e->linear->in : fv_linear_together(e);
    const int64_t block = way == PATH_BLOCKS ? fv_min(e->choice.k_block, e->choice.widened)
                          : e->integers && e->integers == e->linear->few && !e->linear->quantized.apart
                              ? channels
                              : e->choice.k_block;
    return fv_min(block, channels - k % channels);
}

/* Words of steps [k, k + step) of a panel's columns. */
static fv_operand weights_of(const fovea_linear *l, int64_t panel, int64_t columns, int64_t k, int64_t step) {
    assert(k % 2 == 0 || !fv_linear_paired(l));
    return fv_operand_part(&l->weights, panel * l->panel, columns, k, step);
}

/* A block of weights as floats, in scratch. */
static fv_operand floats_of(const fovea_linear *l, const float *weights, int64_t columns, int64_t step) {
    return (fv_operand){.data = weights, .columns = columns, .steps = step, .row = l->panel, .format = FV_FORMAT_f32};
}

/* Where products of a panel go at last, if its columns lie together there: they are fetched while they are computed. */
static void fetch_y(const fv_linear_execution *e, const fv_row_run *run, int64_t panel, int64_t columns,
                    fv_prefetch *prefetch) {
    const fovea_linear *l = e->linear;
    const fv_linear_part *part = l->parts;
    const int64_t column = panel * l->panel;
    if (l->gated || l->narrow_y || e->places)
        return;
    while (column >= part->first + part->out)
        part++;
    const fovea_tensor *y = &e->args->y[part - l->parts];
    const int64_t at = column - part->first;
    if (!y->data || columns < l->panel || at + columns > part->out || at % y->shape[3] + columns > y->shape[3])
        return;
    prefetch->write = fv_linear_place(y, run, at / y->shape[3], at % y->shape[3]);
    prefetch->write_stride = fv_linear_row_stride(y) * (int64_t)sizeof(float);
}

/* The products of one panel with step channels from k on: scratch begins with them, or goes on. Meanwhile floats of
 * next are prefetched; of rows that are one tile, which wait for each weight, their own weights. */
static void multiply_block(const fv_linear_execution *e, const fv_linear_buffers *b, path way, const fv_row_run *run,
                           int64_t panel, int64_t columns, int64_t k, int64_t step, float *scratch,
                           fv_prefetch_range *next, int64_t floats) {
    const fovea_linear *l = e->linear;
    const fovea_tensor *x = &e->args->x;
    const int64_t channels = fv_linear_together(e), row = run->first + run->done;
    const fv_epilogue epilogue = {.start = k > 0 ? scratch : NULL, .ldstart = l->panel};
    fv_prefetch prefetch = {.streams = e->choice.prefetch == FV_LINEAR_PREFETCH_OWN, .ahead = e->choice.ahead};
    if (!prefetch.streams)
        fv_prefetch_take(next, floats, &prefetch);
    if (way == PATH_INTEGERS && k + step == l->in)
        fetch_y(e, run, panel, columns, &prefetch);
    if (way != PATH_FLOATS) /* the panel is filled up */
        columns = e->integers ? fv_round_up(columns, l->panel) : fv_min(fv_round_up(columns, FV_LANES), l->panel);
    const fv_operand weights = e->integers          ? b->groups
                               : way == PATH_BLOCKS ? floats_of(l, b->weights, columns, step)
                                                    : weights_of(l, panel, columns, k, step);
    fv_rows rows = {.count = run->count};
    fv_multiply_fn *multiply = l->gemm_widen;
    if (e->integers) {
        rows.stride = fv_group_words(e->integers->kind, l->in, l->quantized.group);
        rows.data = b->integers + row * rows.stride + fv_group_words(e->integers->kind, k, l->quantized.group);
        multiply = e->integers->run.multiply;
    } else if (way == PATH_PAIRS) {
        rows.stride = fv_ceil_div(l->in, 2);
        rows.data = b->pairs + row * rows.stride + k / 2;
        multiply = l->pairs->run.multiply;
    } else {
        rows.stride = e->gathers ? l->in : fv_linear_row_stride(x);
        rows.data =
            e->gathers ? b->x + row * l->in + k : (const float *)fv_linear_place(x, run, k / channels, k % channels);
        if (way != PATH_REGISTERS)
            multiply = l->blocks ? l->blocks : e->choice.gemm->run.multiply;
    }
    multiply(&rows, &weights, scratch, l->panel, &epilogue, &prefetch);
}

/* A block of weights becomes what is multiplied: those of 16 bits, and exact integers, floats. */
static void open_block(const fv_linear_execution *e, fv_linear_buffers *b, path way, int64_t panel, int64_t columns,
                       int64_t k, int64_t step) {
    const fovea_linear *l = e->linear;
    if (e->integers)
        b->groups = fv_linear_open_groups(l, b, panel, columns, k, step, e->integers);
    if (way != PATH_BLOCKS)
        return;
    const fv_operand from = l->grouped ? fv_linear_open_groups(l, b, panel, l->panel, k, step, NULL)
                                       : weights_of(l, panel, l->panel, k, step);
    if (l->unpack)
        l->unpack(&from, b->weights, l->panel);
    else
        l->widen_weights(1, step * l->panel, from.data, 0, b->weights, 0);
}

void fv_linear_read_pairs(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run,
                          fv_exponent_range *all) {
    const fovea_linear *l = e->linear;
    const fovea_tensor *x = &e->args->x;
    const int64_t words = fv_ceil_div(l->in, 2), channels = fv_linear_one_stretch(e) ? l->in : x->shape[3];
    fv_row_run row = *run;
    for (; row.done < run->done + run->count; row.done++) {
        float *to = b->pairs + (row.first + row.done) * words;
        fv_exponent_range *m = &b->exponents[row.first + row.done];
        *m = fv_exponents_none();
        to[words - 1] = 0.0f; /* the second element of an odd channel */
        for (int64_t k = 0; k < l->in && !l->pack_x; k += channels)
            memcpy((uint16_t *)(void *)to + k, fv_linear_place(x, &row, k / channels, 0),
                   (size_t)channels * sizeof(uint16_t));
        for (int64_t k = 0; k < l->in && l->pack_x; k += channels)
            l->pack_x(1, channels, fv_linear_place(x, &row, k / channels, 0), 0, 0, to + k / 2, 0, m, NULL);
        fv_exponents_add(all, *m);
    }
}

void fv_linear_read_floats(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run) {
    const fovea_linear *l = e->linear;
    const fovea_tensor *x = &e->args->x;
    for (int64_t head = 0; head < x->shape[1]; head++) {
        float *to = b->x + (run->first + run->done) * l->in + head * x->shape[3];
        if (l->widen_x)
            l->widen_x(run->count, x->shape[3], fv_linear_place(x, run, head, 0), fv_linear_row_stride(x), to, l->in);
        else
            l->copy(run->count, x->shape[3], fv_linear_place(x, run, head, 0), fv_linear_row_stride(x), to, l->in);
    }
}

/* count channels of a part from at on, from products at c, and of a gated map those at up, to y. */
static void finish_channels(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run, int64_t p,
                            int64_t at, int64_t count, const float *c, const float *up) {
    const fovea_linear *l = e->linear;
    const fv_linear_part *part = &l->parts[p], *gated = part + 1;
    const fovea_tensor *y = &e->args->y[p], *residual = e->args->residual ? &e->args->residual[p] : NULL;
    const int64_t head = at / y->shape[3], channel = at % y->shape[3];
    const fv_bias_act_residual args = {
        .bias = part->bias ? part->bias + at : NULL,
        .activation = e->activation,
        .residual = !residual           ? NULL
                    : l->widen_residual ? b->y
                                        : fv_linear_place(residual, run, head, channel),
        .ldresidual = !residual           ? 0
                      : l->widen_residual ? l->panel
                                          : fv_linear_row_stride(residual),
        .up = up,
        .ldup = l->panel,
        .up_bias = up && gated->bias ? gated->bias + at : NULL,
    };
    void *to = fv_linear_place(y, run, head, channel);
    if (residual && l->widen_residual)
        l->widen_residual(run->count, count, fv_linear_place(residual, run, head, channel),
                          fv_linear_row_stride(residual), b->y, l->panel);
    l->bias_act_residual(run->count, count, c, l->panel, &args, l->narrow_y ? b->y : to,
                         l->narrow_y ? l->panel : fv_linear_row_stride(y));
    if (l->narrow_y)
        l->narrow_y(run->count, count, b->y, l->panel, to, fv_linear_row_stride(y));
}

/* The same of a map that does not gate, row by row, to their places. */
static void finish_rows(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run, int64_t p,
                        int64_t at, int64_t count, const float *c) {
    const int64_t tokens = e->args->y[p].shape[2];
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t place = e->places[run->token + run->done + i];
        const fv_row_run row = {place / tokens, place % tokens, 0, 1, 0};
        finish_channels(e, b, &row, p, at, count, c + i * e->linear->panel, NULL);
    }
}

/* From scratch to y: columns of panels from one on. */
static void finish(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run, int64_t panel,
                   int64_t columns, const float *scratch) {
    const fovea_linear *l = e->linear;
    const fv_linear_part *part = l->parts;
    const int64_t width = fv_linear_panel_out(l),
                  all = l->gated ? columns - fv_ceil_div(columns, l->panel) * width : columns;
    for (int64_t done = 0, count; done < all; done += count) {
        const int64_t column = panel * width + done;
        while (column >= part->first + part->out)
            part++;
        const int64_t p = part - l->parts, at = column - part->first;
        const fovea_tensor *y = &e->args->y[p];
        const int64_t channels = y->data ? y->shape[3] : part->out;
        count = fv_min(all - done, channels - at % channels);
        if (l->gated)
            count = fv_min(count, width - done % width);
        const float *from = scratch + (l->gated ? done / width * l->panel + done % width : done);
        if (y->data && e->places)
            finish_rows(e, b, run, p, at, count, from);
        else if (y->data)
            finish_channels(e, b, run, p, at, count, from, l->gated ? from + width : NULL);
    }
}

/* The operand that follows a block of weights: the next block, or, after the last of an item, rows of the next item, a
 * part for each block of the last panel. */
static fv_prefetch_range next_after(const fv_linear_execution *e, int64_t panel, int64_t k, int64_t step,
                                    const fv_prefetch_range *rows) {
    const fovea_linear *l = e->linear;
    if (rows->at < rows->end) {
        const int64_t count = (rows->end - rows->at) / l->in;
        return (fv_prefetch_range){rows->at + count * k, rows->at + count * (k + step)};
    }
    const bool more = k + step < l->in;
    const int64_t bytes = fv_operand_bytes(l->weights.format, step, l->panel); /* floats are the unit */
    const char *const end = (const char *)l->memory + l->panels * fv_linear_panel_bytes(l),
                      *at = more ? weights_of(l, panel, l->panel, k + step, l->in - k - step).data
                                 : (const char *)l->memory + (panel + 1) * fv_linear_panel_bytes(l);
    return (fv_prefetch_range){(const float *)(const void *)at,
                               (const float *)(const void *)(at + fv_min(bytes, end - at))};
}

/* Rows go through a block of weights all before the next, but for the last block, after which a few at a time go to y,
 * whose lines come from farther while the next rows are computed. */
static void run_path(const fv_linear_execution *e, path way, const fv_row_run *rows, int64_t panel, int64_t panels,
                     const fv_prefetch_range *next_rows, fv_linear_buffers *b) {
    assert(rows->count <= e->choice.row_block); /* of scratch */
    const fovea_linear *l = e->linear;
    const int64_t last = panel + panels - 1, width = fv_linear_panel_out(l),
                  columns = (panels - 1) * l->panel + (l->gated ? width + fv_min(width, l->parts[0].out - last * width)
                                                                : fv_min(l->panel, l->out - last * l->panel));
    int64_t k = 0, step;
    for (; (step = step_at(e, way, k)) < l->in - k; k += step) {
        fv_prefetch_range after = next_after(e, panel, k, step, next_rows);
        open_block(e, b, way, panel, columns, k, step);
        multiply_block(e, b, way, rows, panel, columns, k, step, b->products, &after, after.end - after.at);
    }
    open_block(e, b, way, panel, columns, k, step);
    fv_prefetch_range after = next_after(e, panel, k, step, next_rows);
    const int64_t floats = after.end - after.at;
    fv_row_run few = *rows;
    for (int64_t left = rows->count; left > 0; left -= few.count, few.done += few.count) {
        few.count = fv_min(left, e->choice.chunk);
        float *at = b->products + (k > 0 ? (few.done - rows->done) * l->panel
                                         : 0); /* beginning here, the same few lines again and again */
        multiply_block(e, b, way, &few, panel, columns, k, step, at, &after,
                       fv_ceil_div(floats * few.count, rows->count));
        finish(e, b, &few, panel, columns, at);
    }
}

/* The first rows of a run that are multiplied in one way: how many. */
static int64_t rows_alike(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *rows,
                          int64_t panel, bool *pairs) {
    *pairs = e->pairs;
    if (!e->pairs || b->all_paired)
        return rows->count;
    const fv_exponent_range *x = b->exponents + rows->first + rows->done, w = e->linear->exponents[panel];
    int64_t count = 1;
    for (*pairs = fv_pairs_exact(x[0], w); count < rows->count && fv_pairs_exact(x[count], w) == *pairs;)
        count++;
    return count;
}

int64_t fv_linear_panels(const fv_linear_execution *e) {
    const bool stream = e->integers && e->integers == e->linear->few && !e->linear->quantized.apart;
    return stream && e->rows == 1 ? e->choice.chunk : 1;
}

void fv_linear_run_panels(const fv_linear_execution *e, const fv_row_run *rows, int64_t panel, int64_t panels,
                          const fv_prefetch_range *next_rows, fv_linear_buffers *b) {
    fv_row_run run = *rows;
    for (int64_t left = rows->count; left > 0; left -= run.count, run.done += run.count) {
        bool pairs;
        run.count = left;
        run.count = rows_alike(e, b, &run, panel, &pairs);
        const path way = e->integers ? run.count <= e->choice.few_rows ? PATH_FEW_INTEGERS : PATH_INTEGERS
                         : e->linear->weights.format == FV_FORMAT_f32 ? PATH_FLOATS
                         : pairs                                      ? PATH_PAIRS
                         : run.count <= e->choice.few_rows            ? PATH_REGISTERS
                                                                      : PATH_BLOCKS;
        run_path(e, way, &run, panel, panels, next_rows, b);
        b->products_done += run.count;
        b->paired_done += pairs ? run.count : 0;
    }
}
