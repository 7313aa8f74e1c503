/* Picks kernel and blocks of a linear map for a number of rows (heuristics.h): the tuning file's row, or defaults from
 * a model of the caches.
 *
 * The model. A tile of rows streams a panel of weights from L2, and its products start and end once for each block of
 * channels: so blocks are long, up to an eighth of L2. One tile alone reads each weight once and needs no blocks. An
 * item gets a quarter of L2 in rows, but at least three for each column of a panel, so that enough rows share each read
 * of the weights; the rows themselves, which every panel reads again, get three quarters. Where not even ENOUGH_ROWS
 * fit, they come from beyond L2 once for each panel. Products go to y in chunks of a quarter of L1: the lines of y
 * arrive while the next rows are computed. Each thread gets ITEMS items, so that none waits long for the last. Figures,
 * and what lost: docs/lab/linear.md.
 */
#include "linear/linear.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/knobs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 4, ENOUGH_ROWS = 72, MOST_ROWS = 192, MOST_CHANNELS = 1024, SPLIT_ROWS = 64 };
enum { STREAM = 64 };   /* columns: narrower panels, which few rows read as one stream, are prepared for as many rows */
enum { TILE_ROWS = 8 }; /* fewer leave most of a tile of bf16_tile empty, and multiply-adds are as fast */

/* Bytes of a row of x as a product of integers wants it. */
static int64_t integer_bytes(const fovea_linear *l, const fv_kernel *product) {
    return fv_group_words(product->kind, l->in, l->quantized.group) * (int64_t)sizeof(uint32_t);
}

/* Bytes of an element of weights, and of a row of x, as they are multiplied. */
static int64_t weight_bytes(const fovea_linear *l) { return l->grouped ? 1 : fv_dtype_size(l->weight_dtype); }
static int64_t row_bytes(const fovea_linear *l, const fv_linear_choice *c) {
    if (fv_linear_integers(l))
        return integer_bytes(l, fv_linear_many(l, c));
    return l->in * (l->pairs ? fv_dtype_size(l->x_dtype) : (int64_t)sizeof(float));
}

/* Channels of a block whose elements have that many bytes: an eighth of the second-level cache. */
static int64_t channels_that_fit(const fovea_linear *l, int64_t l2, int64_t bytes) {
    return fv_max(fv_min(l2 / 8 / (l->panel * bytes), MOST_CHANNELS), 64);
}

/* Blocks of equal length; one of pairs begins with a first element, and one of bf16_tile with a block of its sums. */
static int64_t block_of(const fovea_linear *l, int64_t most) {
    const int64_t block = fv_ceil_div(l->in, fv_ceil_div(l->in, most));
    if (l->grouped)
        return fv_round_up(block, fv_linear_block_unit(l));
    if (l->arithmetic == FOVEA_ARITHMETIC_BF16_TILE)
        return fv_round_up(block, FV_BLOCK);
    return fv_linear_paired(l) ? fv_round_up(block, 2) : block;
}

/* Rows that take three quarters of the second-level cache. */
static int64_t rows_that_fit(const fovea_linear *l, const fv_linear_choice *c, int64_t l2) {
    return l2 / 4 * 3 / row_bytes(l, c);
}

/* Can a map be multiplied with that product? Strips of panels have the width of its tile, and 8 bits hold integers of
 * q8 alone. */
static bool multiplies(const fovea_linear *l, const fv_kernel *product) {
    return product && fv_kernel_runs(product, l->target) && product->isa == l->many->isa &&
           l->panel % product->nr == 0 && (product->kind != FV_KIND_i8 || l->arithmetic == FOVEA_ARITHMETIC_Q8);
}

bool fv_linear_rows_fit(const fovea_linear *l, const fv_linear_choice *c, int64_t rows) {
    return rows <= rows_that_fit(l, c, fv_cpu_scaled(l->l2, c->cache_scale));
}

/* Fields of 0 or NULL get their defaults for that many rows. */
static void complete(const fovea_linear *l, int64_t rows, fv_linear_choice *c) {
    if (c->cache_scale <= 0)
        c->cache_scale = 100;
    const int64_t f = (int64_t)sizeof(float), l1 = fv_cpu_scaled(l->l1d, c->cache_scale),
                  l2 = fv_cpu_scaled(l->l2, c->cache_scale);
    if (!c->gemm)
        c->gemm = l->gemm;
    assert(fv_multiply_tuned(c->gemm, l->target));
    if (c->integers <= 0 || !fv_linear_integers(l) || !multiplies(l, fv_linear_many(l, c)))
        c->integers = l->many_number;
    int64_t block = c->row_block;
    if (block <= 0) {
        const int64_t fitting = rows_that_fit(l, c, l2),
                      columns = l->grouped && !l->quantized.apart ? fv_max(l->panel, STREAM) : l->panel,
                      target = fv_max(3 * columns, ENOUGH_ROWS);
        block = fitting >= ENOUGH_ROWS ? fv_min(target, fitting) : target;
        block = fv_min(fv_max(fitting / 3, block), MOST_ROWS);
    }
    if (c->chunk <= 0 && fv_linear_integers(l))
        c->chunk = c->row_block > 0 ? c->row_block : block; /* all rows by each piece of words that is prepared */
    if (c->chunk <= 0) {
        const int64_t chunks = fv_ceil_div(block, fv_max(l1 / 4 / (l->panel * f), 1));
        c->chunk = fv_round_up(fv_ceil_div(block, chunks), fv_linear_tile_rows(l, c)); /* chunks of equal length */
    }
    if (c->row_block <= 0)
        c->row_block = fv_round_up(block, c->chunk);
    c->chunk = fv_min(c->chunk, c->row_block);
    if (c->k_block <= 0)
        c->k_block = rows <= c->gemm->mr && !l->grouped ? l->in : channels_that_fit(l, l2, weight_bytes(l));
    c->k_block = block_of(l, c->k_block);
    if (c->widened <= 0)
        c->widened = channels_that_fit(l, l2, f);
    c->widened = block_of(l, c->widened);
    if (c->items <= 0)
        c->items = ITEMS;
    if (c->split_rows <= 0)
        c->split_rows = SPLIT_ROWS;
    if (c->few_rows == 0)
        c->few_rows = l->few_rows;
    c->few_rows = l->few_rows == 0 ? -1 : c->few_rows;
    if (c->pair_rows == 0)
        c->pair_rows = l->blocks ? TILE_ROWS : 1;
    if (c->prefetch == 0)
        c->prefetch = rows <= (fv_linear_integers(l) ? c->few_rows : c->gemm->mr) ? FV_LINEAR_PREFETCH_OWN
                                                                                  : FV_LINEAR_PREFETCH_NEXT;
    if (c->ahead == 0 || rows > FV_LINEAR_FEW_ROWS)
        c->ahead = FV_AHEAD;
    if (c->gather == 0 || fv_linear_integers(l)) /* integers are in scratch anyway */
        c->gather = FV_LINEAR_GATHER_NO;
}

/* Is the row one for maps of this size, whatever the number of threads and rows? */
static bool serves(const fovea_linear *l, const fv_tuning_row *row) {
    const fv_interval *in = &row->key[FV_LINEAR_KEY_in], *out = &row->key[FV_LINEAR_KEY_out];
    return (row->operation == fv_tuning_of(FV_TUNING_linear_f32, l->weight_dtype, FOVEA_ARITHMETIC_EXACT, false) ||
            row->operation == fv_tuning_of(FV_TUNING_linear_f32, l->weight_dtype, FOVEA_ARITHMETIC_EXACT, true)) &&
           l->in >= in->least && l->in <= in->most && l->out >= out->least && l->out <= out->most;
}

bool fv_linear_find_tuned(fovea_linear *l, const fovea_context *ctx) {
    const fv_tuning_use *use = ctx->tuning;
    const fv_tuning_row *row;
    int count = 0;
    for (int at = 0; (row = fv_tuning_use_next(use, &at)) != NULL;)
        count += serves(l, row);
    if (count == 0)
        return true;
    l->tuned = malloc((size_t)count * sizeof *l->tuned);
    if (!l->tuned)
        return false;
    for (int at = 0; (row = fv_tuning_use_next(use, &at)) != NULL;)
        if (serves(l, row))
            l->tuned[l->tuned_count++] = row;
    return true;
}

const fv_tuning_row *fv_linear_tuned(const fovea_linear *l, int threads, int64_t rows) {
    for (int i = 0; i < l->tuned_count; i++)
        if (fv_tuning_serves(l->tuned[i], l->target.isa, threads) &&
            rows >= l->tuned[i]->key[FV_LINEAR_KEY_rows].least && rows <= l->tuned[i]->key[FV_LINEAR_KEY_rows].most)
            return l->tuned[i];
    return NULL;
}

fv_linear_choice fv_linear_heuristics(const fovea_linear *l, int threads, int64_t rows,
                                      const fv_linear_choice *requested) {
    fv_linear_choice choice = {0};
    const fv_tuning_row *row = requested ? NULL : fv_linear_tuned(l, threads, rows);
    if (requested)
        choice = *requested;
    else if (row)
        fv_tuning_to_choice(row->operation, row->knob, &choice);
    complete(l, rows, &choice);
    return choice;
}

fv_linear_scratch fv_linear_lay_out(const fovea_linear *l, const fv_linear_choice *c) {
    const int64_t f = (int64_t)sizeof(float), panel = l->panel * f;
    const bool gathers = c->gather == FV_LINEAR_GATHER_YES;
    fv_linear_scratch s;
    int64_t at = 0;
    s.products = fv_reserve(&at, c->row_block, panel);
    if (l->grouped) {
        const bool exact = !fv_linear_integers(l);
        const int64_t block = fv_min(exact ? c->widened : c->k_block, fv_round_up(l->in, fv_linear_block_unit(l)));
        const int64_t groups = fv_ceil_div(block, l->quantized.group),
                      width = fv_scales_row((fv_group_extra)l->weights.group.extra, l->panel);
        s.x = fv_reserve(&at, exact ? (l->widen_x || gathers ? c->row_block : 0) : 2, l->in * f);
        s.pairs = s.exponents = at;
        s.weights = fv_reserve(&at, exact ? block : 0, panel);
        s.y = fv_reserve(&at, l->narrow_y || l->widen_residual ? c->chunk : 0, panel);
        s.integers = fv_reserve(&at, exact ? 0 : c->row_block,
                                fv_max(integer_bytes(l, fv_linear_many(l, c)), integer_bytes(l, l->few)));
        s.scales = fv_reserve(&at, groups, width * f);
        s.words = fv_reserve(&at, l->expand ? fv_ceil_div(fv_round_up(block, 16), 4) : 0, panel);
        s.bytes = at;
        return s;
    }
    s.integers = s.scales = s.words = at;
    const bool always = l->pairs && !l->pack_x, pairs = fv_linear_paired(l), widens = l->kept->format != FV_FORMAT_f32;
    s.x = fv_reserve(&at, !always && (l->widen_x || pairs || gathers) ? c->row_block : 0, l->in * f);
    s.pairs = fv_reserve(&at, l->pairs ? c->row_block : 0, fv_ceil_div(l->in, 2) * f);
    s.weights = fv_reserve(&at, widens && !always ? c->widened : 0, panel);
    s.y = fv_reserve(&at, l->narrow_y || l->widen_residual ? c->chunk : 0, panel);
    s.exponents = fv_reserve(&at, l->pairs ? c->row_block : 0, (int64_t)sizeof(fv_exponent_range));
    s.bytes = at;
    return s;
}

int64_t fv_linear_workspace(int threads, int64_t thread_bytes) {
    int64_t bytes;
    return fv_multiply(threads, thread_bytes, &bytes) && fv_add(bytes, FV_ALIGNMENT, &bytes) ? bytes : INT64_MAX;
}

int64_t fv_linear_next_part(const fovea_linear *l, const fovea_linear_args *args, int64_t p) {
    while (p < l->part_count && !args->y[p].data)
        p++;
    return p;
}

fv_tuning_op fv_linear_tuning_keys(fovea_dtype dtype, int64_t rows, int64_t in, int64_t out,
                                   int64_t key[FV_TUNING_KEYS]) {
    memset(key, 0, FV_TUNING_KEYS * sizeof *key);
    key[FV_LINEAR_KEY_in] = in;
    key[FV_LINEAR_KEY_out] = out;
    key[FV_LINEAR_KEY_rows] = rows;
    return fv_tuning_of(FV_TUNING_linear_f32, dtype, FOVEA_ARITHMETIC_EXACT, rows <= FV_LINEAR_FEW_ROWS);
}
