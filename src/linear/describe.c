/* The choices for a linear map, in words (heuristics.h, fovea.h). */
#include "linear/linear.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/knobs.h"

#include <stdio.h>
#include <stdlib.h>

static const char *choice_text(const fv_linear_choice *c, char text[256]) {
    snprintf(text, 256, "%s, blocks of %lld rows and %lld channels, %lld rows at once, %lld items a thread",
             c->gemm->name, (long long)c->row_block, (long long)c->k_block, (long long)c->chunk, (long long)c->items);
    return text;
}

/* Adds where the choice for these rows comes from; each: one of several rows of the file, with what it decides. */
static void add_origin(const fovea_linear *l, int64_t rows, bool each, char *text, size_t size, size_t *n) {
    const fv_tuning_use *use = l->tuning;
    char origin[640], choice[256];
    const fv_tuning_row *row = fv_linear_tuned(l, use->threads, rows);
    const fv_linear_choice c = fv_linear_heuristics(l, use->threads, rows, NULL);
    if (!row) {
        int64_t key[FV_TUNING_KEYS];
        const fv_tuning_op op = fv_linear_tuning_keys(l->weight_dtype, rows, l->in, l->out, key);
        fv_tuning_use_find(use, op, key, origin, sizeof origin);
        fv_text_add(text, size, n, "tuned   no: %s; defaults from caches of %lld KiB and %lld KiB\n", origin,
                    (long long)fv_cpu_scaled(l->l1d, c.cache_scale) / 1024,
                    (long long)fv_cpu_scaled(l->l2, c.cache_scale) / 1024);
        return;
    }
    fv_tuning_use_describe(use, row, origin, sizeof origin);
    const fv_interval *box = &row->key[FV_LINEAR_KEY_rows];
    if (each)
        fv_text_add(text, size, n, "tuned   for %lld to %lld rows, %s: %s\n", (long long)box->least,
                    (long long)box->most, origin, choice_text(&c, choice));
    else
        fv_text_add(text, size, n, "tuned   %s\n", origin);
}

/* rows: 0, or the number of rows that it is about. */
static size_t describe(const fovea_linear *l, int64_t rows, char *text, size_t size) {
    char choice[256];
    const int threads = l->tuning->threads;
    const fv_linear_choice none = {0}, c = rows ? fv_linear_heuristics(l, threads, rows, NULL)
                                                : fv_linear_heuristics(l, threads, FV_LINEAR_MANY_ROWS, &none);
    size_t n = 0;
    fv_text_add(text, size, &n, "tier    %s\nweights %lld x %lld in panels of %lld\n", fv_isa_word(l->target.isa),
                (long long)l->in, (long long)l->out, (long long)l->panel);
    if (l->grouped)
        fv_text_add(
            text, size, &n, "format  %s, %s in groups of %lld, %lld bytes, arithmetic %s\ninteger %s, of few rows %s\n",
            fv_enum_name(FV_ENUM_dtype, (int)l->weight_dtype) + sizeof "FOVEA_DTYPE",
            fv_format_of(l->weights.format).name, (long long)l->quantized.group,
            (long long)fovea_linear_weight_bytes(l), fovea_arithmetic_name(l->arithmetic), l->many->name, l->few->name);
    else if (l->weights.scales)
        fv_text_add(text, size, &n, "format  %s, one scale for each output channel\n",
                    fv_format_of(l->weights.format).name);
    if (rows)
        fv_text_add(text, size, &n, "rows    %lld\n", (long long)rows);
    if (l->blocks)
        fv_text_add(text, size, &n, "sums    %s\n", fovea_arithmetic_name(l->arithmetic));
    if (l->pairs)
        fv_text_add(text, size, &n, "pairs   %s%s\n", l->pairs->name, l->pack_x ? ", where bits are equal" : "");
    fv_text_add(text, size, &n, "product %s\nthreads %d, workspace %lld bytes\n", choice_text(&c, choice), threads,
                (long long)fv_linear_workspace(threads, l->thread_bytes));
    bool tuned = false;
    for (int i = 0; i < l->tuned_count && !rows; i++)
        if (fv_tuning_serves(l->tuned[i], l->target.isa, threads)) {
            add_origin(l, l->tuned[i]->key[FV_LINEAR_KEY_rows].least, true, text, size, &n);
            tuned = true;
        }
    if (!tuned)
        add_origin(l, rows ? rows : FV_LINEAR_MANY_ROWS, false, text, size, &n);
    return n;
}

size_t fv_linear_describe_rows(const fovea_linear *l, int64_t rows, char *text, size_t size) {
    return describe(l, rows, text, size);
}

size_t fovea_linear_describe(const fovea_linear *l, char *text, size_t size) {
    FV_HOLD_EXCEPTIONS();
    size = text ? size : 0;
    return l ? describe(l, 0, text, size) : (size_t)snprintf(text, size, "no linear map");
}

void fv_linear_debug(const fovea_linear *l) {
    FV_HOLD_CANCELLATION();
    const size_t size = describe(l, 0, NULL, 0);
    char *text = malloc(size + 1);
    if (!text)
        return;
    describe(l, 0, text, size + 1);
    fputs("fovea linear: ", stderr);
    for (const char *at = text; *at; at++)
        if (*at == '\n' && at[1])
            fputs("; ", stderr);
        else if (*at != ' ' || at[1] != ' ') /* columns */
            fputc(*at, stderr);
    free(text);
}
