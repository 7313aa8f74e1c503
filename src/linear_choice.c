/* What is decided for a linear map and a number of rows (linear_choice.h): the tuning file's row, or defaults by a
 * model of caches.
 *
 * The model. A block of weights takes three quarters of the first-level cache: most of it stays there for all rows of
 * an item, while the gemm brings the next one near. The products of these rows, to which each block adds, take three
 * eighths, and go to y a few rows at a time after the last block, so that the lines of y come from farther while the
 * next rows are computed. The rows themselves, which each panel reads again, take twice the second-level cache at most:
 * they come evenly, and the more they are, the more share what is read of the weights. Threads get four items each, so
 * that none waits long for the last.
 *
 * Measured on an AVX-512 core (Intel, family 6 model 207): against panels that each tile reads whole from the
 * second-level cache, 32 rows of 768 x 768 are 10% faster and 512 rows 1%; as many rows as half of the second-level
 * cache holds are slower than this by 15% (2048 x 1024 x 1024), 5% (512 x 2304 x 768) and 19% (128 x 4096 x 11008),
 * all rows to y at once by 3% to 8%.
 */
#include "linear.h"

#include "gemm.h"
#include "registry.h"
#include "size.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 4096, ITEMS = 4 };

const fv_kernel *fv_linear_gemm(const fovea_context *ctx, int64_t out) {
    return fv_gemm_for(ctx->isa, MANY, fv_min(out, MANY));
}

/* Fields of 0 or NULL get their defaults. */
static void complete(const fovea_linear *l, fv_linear_choice *c) {
    const int64_t f = (int64_t)sizeof(float), l1 = l->ctx->cpu.l1d, l2 = l->ctx->cpu.l2;
    const int64_t in_flight = 48 * 16; /* floats: 48 lines, of about 64 that cores can wait for while they compute */
    if (!c->gemm)
        c->gemm = l->gemm;
    if (c->k_block <= 0) {
        const int64_t most = fv_max(l1 / 4 * 3 / (l->panel * f), 64);
        c->k_block = fv_ceil_div(l->in, fv_ceil_div(l->in, most)); /* blocks of equal length */
    }
    c->k_block = fv_min(c->k_block, l->in);
    if (c->chunk <= 0)
        c->chunk = fv_round_up(fv_ceil_div(in_flight, l->panel), c->gemm->mr);
    if (c->row_block <= 0) {
        const int64_t rows = fv_min(l1 / 8 * 3 / (l->panel * f), fv_max(2 * l2 / (l->in * f), 32));
        c->row_block = fv_round_up(fv_max(rows, 1), c->chunk);
    }
    c->chunk = fv_min(c->chunk, c->row_block);
    if (c->items <= 0)
        c->items = ITEMS;
}

static void keys_of(const fovea_linear *l, int64_t rows, int64_t key[FV_TUNING_KEYS], fv_tuning_op *op) {
    *op = fv_tuning_of_linear(rows, l->in, l->out, key);
}

/* Is the row one for maps of this size, whatever the number of rows? */
static bool serves(const fovea_linear *l, const fv_tuning_row *row) {
    const fv_interval *in = &row->key[FV_KEY_in], *out = &row->key[FV_KEY_out];
    return (row->operation == FV_TUNING_linear || row->operation == FV_TUNING_linear_few) &&
           row->section == l->ctx->tuning.section && row->isa == l->ctx->isa && row->threads == l->ctx->threads &&
           l->in >= in->least && l->in <= in->most && l->out >= out->least && l->out <= out->most;
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
        if (rows >= l->tuned[i]->key[FV_KEY_rows].least && rows <= l->tuned[i]->key[FV_KEY_rows].most)
            return l->tuned[i];
    return NULL;
}

fv_linear_choice fv_linear_choose(const fovea_linear *l, int64_t rows, const fv_linear_choice *wanted) {
    fv_linear_choice choice = {0};
    const fv_tuning_row *row = wanted ? NULL : fv_linear_tuned(l, rows);
    if (wanted)
        choice = *wanted;
    else if (row)
        choice = fv_tuning_linear_choice(row->knob);
    complete(l, &choice);
    return choice;
}

int64_t fv_linear_workspace(const fovea_linear *l, const fv_linear_choice *choice) {
    int64_t at = 0;
    fv_reserve(&at, l->ctx->threads, fv_linear_task_bytes(l, choice));
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
    const fv_tuning_use *use = &l->ctx->tuning;
    snprintf(text, size, "%s", use->text);
    if (use->section < 0)
        return;
    int64_t key[FV_TUNING_KEYS];
    fv_tuning_op op;
    keys_of(l, rows, key, &op);
    snprintf(text, size, "%.200s has ", use->path);
    const size_t used = strlen(text);
    fv_tuning_why_not(use->tuning, use->section, op, l->ctx->isa, l->ctx->threads, key, text + used, size - used);
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
                            fv_isa_word(l->ctx->isa), (long long)l->in, (long long)l->out, (long long)l->panel,
                            (long long)rows, choice_text(&c, choice), l->ctx->threads, (long long)l->bytes, origin);
}

/* Row number index of those that the tuning file has for the map: for which rows, what and why. */
static void describe_tuned(const fovea_linear *l, int index, char text[1024]) {
    const fv_tuning_row *row = l->tuned[index];
    const fv_interval *rows = &row->key[FV_KEY_rows];
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
                fv_isa_word(l->ctx->isa), (long long)l->in, (long long)l->out, (long long)l->panel,
                choice_text(&plain, choice), l->ctx->threads, (long long)l->bytes);
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
