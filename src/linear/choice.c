/* What is decided for a linear map and a number of rows (choice.h): the tuning file's row, or defaults by a
 * model of caches.
 *
 * The model. A tile of rows reads a panel of weights from the second-level cache, which is fast enough for that, and
 * its products begin and end once for each block of channels: so blocks are long, and an eighth of that cache. A single
 * tile, which reads each weight once, needs none. An item has at most as many rows as take a quarter of the cache, but
 * so many, three for each column of a panel, that what is read of the weights, each time from farther, is shared by
 * enough, as long as the rows, which each panel reads again, take three quarters. Where not even 72 rows would, they
 * come from farther, too, once for each panel, and three for each column make a quarter of what comes weights. Products
 * go to y a few rows at a time, a quarter of the first-level cache, so that the lines of y come from farther while the
 * next rows are computed. Threads get four items each, so that none waits long for the last.
 *
 * Measured on Intel, family 6 model 207, as rows x out x in (median of interleaved runs), against weights that lie in
 * the first-level cache whatever the rows are: AVX-512 32, 128 and 512 x 768 x 768 1.01, 1.02, 1.02, 512 x 2304 x 768
 * and 2048 x 1024 x 1024 1.03, 512 x 1024 x 4096 1.03; AVX2, 72 rows of 4096 channels against 288: 1.04 to 1.07. Rows
 * that do not fit, against 72 of them or fewer and weights in the first-level cache: AVX-512 373 x 256 x 7936 1.03,
 * 128 x 1024 x 11008 1.03, 512 x 512 x 16384 1.05, 384 x 256 x 32768 1.09, where they are not fetched ahead, as they
 * would not stay, another 1.02 to 1.06; AVX2 0.99 to 1.01. AVX-512, up to 180 rows against 72: 219 x 256 x 2176 1.02.
 * A single tile without blocks, from memory, AMD family 25 model 17: AVX-512 1 x 1536 x 1088 1.02, 1 x 448 x 3776
 * 1.035, 5 x 448 x 3776 1.03, 1 x 4096 x 4096 1.025; AVX2 1.03, 1.04, 1.015, and 4 x 4096 x 4096 1.00.
 * Tried and lost: blocks of 2048 channels (-2% to -12%), items of 24 rows of 4096 channels (-4%), of 512 rows of 768
 * (-2%), AVX2 192 rows that do not fit (-1% to -3%).
 */
#include "linear/linear.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/tuning.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 4096, ITEMS = 4, ENOUGH_ROWS = 72, MOST_ROWS = 192, MOST_CHANNELS = 1024 };

const fv_kernel *fv_linear_gemm(const fovea_context *ctx, int64_t out) {
    return fv_gemm_for(FV_TYPE_f32, ctx->target, MANY, fv_min(out, MANY));
}

/* Rows that take three quarters of the second-level cache. */
static int64_t rows_that_fit(const fovea_linear *l, int64_t l2) {
    return l2 / 4 * 3 / (l->in * (int64_t)sizeof(float));
}

bool fv_linear_rows_fit(const fovea_linear *l, const fv_linear_choice *c, int64_t rows) {
    return rows <= rows_that_fit(l, fv_cpu_scaled(l->ctx->cpu.l2, c->caches));
}

/* Fields of 0 or NULL get their defaults for so many rows. */
static void complete(const fovea_linear *l, int64_t rows, fv_linear_choice *c) {
    if (c->caches <= 0)
        c->caches = 100;
    const int64_t f = (int64_t)sizeof(float), l1 = fv_cpu_scaled(l->ctx->cpu.l1d, c->caches),
                  l2 = fv_cpu_scaled(l->ctx->cpu.l2, c->caches);
    if (!c->gemm)
        c->gemm = l->gemm;
    assert(fv_kernel_is(c->gemm, FV_OP_gemm, FV_TYPE_f32, l->ctx->target));
    int64_t block = c->row_block;
    if (block <= 0) {
        const int64_t fitting = rows_that_fit(l, l2), wanted = fv_max(3 * l->panel, ENOUGH_ROWS);
        block = fitting >= ENOUGH_ROWS ? fv_min(wanted, fitting) : wanted;
        block = fv_min(fv_max(fitting / 3, block), MOST_ROWS);
    }
    if (c->chunk <= 0) {
        const int64_t chunks = fv_ceil_div(block, fv_max(l1 / 4 / (l->panel * f), 1));
        c->chunk = fv_round_up(fv_ceil_div(block, chunks), c->gemm->mr); /* chunks of equal length */
    }
    if (c->row_block <= 0)
        c->row_block = fv_round_up(block, c->chunk);
    c->chunk = fv_min(c->chunk, c->row_block);
    if (c->k_block <= 0 && rows <= c->gemm->mr)
        c->k_block = l->in;
    if (c->k_block <= 0)
        c->k_block = fv_max(fv_min(l2 / 8 / (l->panel * f), MOST_CHANNELS), 64);
    c->k_block = fv_ceil_div(l->in, fv_ceil_div(l->in, c->k_block)); /* blocks of equal length */
    if (c->items <= 0)
        c->items = ITEMS;
}

/* Is the row one for maps of this size, whatever the number of rows? */
static bool serves(const fovea_linear *l, const fv_tuning_row *row) {
    const fv_interval *in = &row->key[FV_LINEAR_KEY_in], *out = &row->key[FV_LINEAR_KEY_out];
    return (row->operation == FV_TUNING_linear_f32 || row->operation == FV_TUNING_linear_few_f32) &&
           row->section == l->ctx->tuning.section && row->isa == l->ctx->target.isa &&
           row->threads == l->ctx->threads.count && l->in >= in->least && l->in <= in->most && l->out >= out->least &&
           l->out <= out->most;
}

bool fv_linear_find_tuned(fovea_linear *l) {
    const fv_tuning_use *use = &l->ctx->tuning;
    int count = 0;
    for (int i = 0; use->section >= 0 && i < use->tuning->rows; i++)
        count += serves(l, &use->tuning->row[i]);
    if (count == 0)
        return true;
    l->tuned = malloc((size_t)count * sizeof *l->tuned);
    if (!l->tuned)
        return false;
    for (int i = 0; i < use->tuning->rows; i++)
        if (serves(l, &use->tuning->row[i]))
            l->tuned[l->tuned_count++] = &use->tuning->row[i];
    return true;
}

const fv_tuning_row *fv_linear_tuned(const fovea_linear *l, int64_t rows) {
    for (int i = 0; i < l->tuned_count; i++)
        if (rows >= l->tuned[i]->key[FV_LINEAR_KEY_rows].least && rows <= l->tuned[i]->key[FV_LINEAR_KEY_rows].most)
            return l->tuned[i];
    return NULL;
}

fv_linear_choice fv_linear_choose(const fovea_linear *l, int64_t rows, const fv_linear_choice *wanted) {
    fv_linear_choice choice = {0};
    const fv_tuning_row *row = wanted ? NULL : fv_linear_tuned(l, rows);
    if (wanted)
        choice = *wanted;
    else if (row)
        fv_tuning_to_choice(row->operation, row->knob, &choice);
    complete(l, rows, &choice);
    return choice;
}

int64_t fv_linear_workspace(const fovea_linear *l, const fv_linear_choice *choice) {
    int64_t at = 0;
    fv_reserve(&at, l->ctx->threads.count, fv_linear_task_bytes(l, choice));
    return at < 0 ? 0 : at + FV_ALIGNMENT;
}

/* ----------------------------------------------------------------------------------------------------- in words -- */

static const char *choice_text(const fv_linear_choice *c, char text[256]) {
    snprintf(text, 256, "%s, blocks of %lld rows and %lld channels, %lld rows at once, %lld items a thread",
             c->gemm->name, (long long)c->row_block, (long long)c->k_block, (long long)c->chunk, (long long)c->items);
    return text;
}

/* Why the tuning file does not decide for so many rows. */
static void why_default(const fovea_linear *l, int64_t rows, char *text, size_t size) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = fv_linear_tuning_keys(rows, l->in, l->out, key);
    fv_tuning_use_find(&l->ctx->tuning, op, key, text, size);
}

size_t fv_linear_describe_rows(const fovea_linear *l, int64_t rows, char *text, size_t size) {
    char choice[256], origin[1024], why[640];
    const fv_tuning_row *row = fv_linear_tuned(l, rows);
    const fv_linear_choice c = fv_linear_choose(l, rows, NULL);
    if (row)
        fv_tuning_describe_row(row, l->ctx->tuning.path, origin, sizeof origin);
    else {
        why_default(l, rows, why, sizeof why);
        snprintf(origin, sizeof origin, "no: %s; defaults from caches of %lld KiB and %lld KiB", why,
                 (long long)l->ctx->cpu.l1d / 1024, (long long)l->ctx->cpu.l2 / 1024);
    }
    return (size_t)snprintf(text, size,
                            "tier    %s\nweights %lld x %lld in panels of %lld\nrows    %lld\nproduct %s\nthreads %d, "
                            "workspace %lld bytes\ntuned   %s\n",
                            fv_isa_word(l->ctx->target.isa), (long long)l->in, (long long)l->out, (long long)l->panel,
                            (long long)rows, choice_text(&c, choice), l->ctx->threads.count, (long long)l->bytes,
                            origin);
}

/* Row number index of those that the tuning file has for the map: for which rows, what and why. */
static void describe_tuned(const fovea_linear *l, int index, char text[1024]) {
    const fv_tuning_row *row = l->tuned[index];
    const fv_interval *rows = &row->key[FV_LINEAR_KEY_rows];
    const fv_linear_choice c = fv_linear_choose(l, rows->least, NULL);
    char origin[400], choice[256];
    fv_tuning_describe_row(row, l->ctx->tuning.path, origin, sizeof origin);
    snprintf(text, 1024, "for %lld to %lld rows, %s: %s", (long long)rows->least, (long long)rows->most, origin,
             choice_text(&c, choice));
}

/* Where there is none: why. */
static void describe_default(const fovea_linear *l, char text[1024]) {
    char why[640];
    why_default(l, MANY, why, sizeof why);
    snprintf(text, 1024, "no: %s; defaults from caches of %lld KiB and %lld KiB", why,
             (long long)l->ctx->cpu.l1d / 1024, (long long)l->ctx->cpu.l2 / 1024);
}

size_t fovea_linear_describe(const fovea_linear *l, char *text, size_t size) {
    if (!l)
        return (size_t)snprintf(text, size, "no linear map");
    char choice[256], tuned[1024];
    const fv_linear_choice none = {0}, plain = fv_linear_choose(l, MANY, &none);
    size_t n = 0;
    fv_text_add(text, size, &n,
                "tier    %s\nweights %lld x %lld in panels of %lld\nproduct %s\nthreads %d, workspace %lld bytes\n",
                fv_isa_word(l->ctx->target.isa), (long long)l->in, (long long)l->out, (long long)l->panel,
                choice_text(&plain, choice), l->ctx->threads.count, (long long)l->bytes);
    for (int i = 0; i < l->tuned_count; i++) {
        describe_tuned(l, i, tuned);
        fv_text_add(text, size, &n, "tuned   %s\n", tuned);
    }
    if (l->tuned_count == 0) {
        describe_default(l, tuned);
        fv_text_add(text, size, &n, "tuned   %s\n", tuned);
    }
    return n;
}

void fv_linear_debug(const fovea_linear *l) {
    char choice[256], tuned[1024];
    const fv_linear_choice none = {0}, plain = fv_linear_choose(l, MANY, &none);
    fprintf(stderr, "fovea linear: weights %lld x %lld in panels of %lld: %s; ", (long long)l->in, (long long)l->out,
            (long long)l->panel, choice_text(&plain, choice));
    for (int i = 0; i < l->tuned_count; i++) {
        describe_tuned(l, i, tuned);
        fprintf(stderr, "%stuned %s", i ? "; " : "", tuned);
    }
    if (l->tuned_count == 0) {
        describe_default(l, tuned);
        fprintf(stderr, "tuned %s", tuned);
    }
    fputc('\n', stderr);
}
