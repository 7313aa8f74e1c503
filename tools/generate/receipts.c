/* Receipts of answers (run.h): what fovea-generate puts into them. */
#include "run.h"

#include "whole_file.h"

#include <stdlib.h>
#include <string.h>

/* In the order of options. */
static const char *const types[] = {"f32", "bf16", "f16", "int8", "int4", NULL},
                         *const weights_words[] = {"stored", "f32", "bf16", "f16", NULL},
                         *const products[] = {"q16", "exact", "q8", "none", NULL};
enum { FLOAT_TYPES = 3, NO_PRODUCTS = 3, WORDS_ALL = 8 };

static void put_real(char word[RECEIPT_WORD], double value) { snprintf(word, RECEIPT_WORD, "%.17g", value); }

void settings_words(const options *o, bool quantized, char words[RECEIPT_SETTINGS][RECEIPT_WORD]) {
    strcpy(words[RECEIPT_TYPE], types[o->dtype]);
    strcpy(words[RECEIPT_WEIGHTS], weights_words[o->weights]);
    strcpy(words[RECEIPT_ARITHMETIC], products[!quantized ? NO_PRODUCTS : o->arithmetic > 0 ? o->arithmetic : 0]);
    strcpy(words[RECEIPT_KEYS], types[o->cache]);
    strcpy(words[RECEIPT_VALUES], types[o->values]);
    put_real(words[RECEIPT_TEMPERATURE], o->temperature);
    snprintf(words[RECEIPT_TOP_K], RECEIPT_WORD, "%lld", (long long)o->top_k);
    put_real(words[RECEIPT_TOP_P], o->top_p);
    put_real(words[RECEIPT_MIN_P], o->min_p);
    put_real(words[RECEIPT_PENALTY], o->penalty);
}

static bool read_word(const char *word, const char *const *words, int most, int *value) {
    for (*value = 0; *value < most && words[*value] != NULL; ++*value)
        if (strcmp(word, words[*value]) == 0)
            return true;
    return false;
}

static bool read_real(const char *word, double least, double most, double *value) {
    char *end;
    *value = strtod(word, &end);
    return end != word && *end == '\0' && *value >= least && *value <= most;
}

const char *settings_read(options *o, const char words[RECEIPT_SETTINGS][RECEIPT_WORD]) {
    double top_k = 0.0;
    if (!read_word(words[RECEIPT_TYPE], types, FLOAT_TYPES, &o->dtype))
        return words[RECEIPT_TYPE];
    if (!read_word(words[RECEIPT_WEIGHTS], weights_words, WORDS_ALL, &o->weights))
        return words[RECEIPT_WEIGHTS];
    if (!read_word(words[RECEIPT_ARITHMETIC], products, WORDS_ALL, &o->arithmetic))
        return words[RECEIPT_ARITHMETIC];
    if (!read_word(words[RECEIPT_KEYS], types, WORDS_ALL, &o->cache))
        return words[RECEIPT_KEYS];
    if (!read_word(words[RECEIPT_VALUES], types, WORDS_ALL, &o->values))
        return words[RECEIPT_VALUES];
    if (!read_real(words[RECEIPT_TEMPERATURE], 0, 100, &o->temperature))
        return words[RECEIPT_TEMPERATURE];
    if (!read_real(words[RECEIPT_TOP_K], 0, 1 << 24, &top_k) || top_k != (double)(int64_t)top_k)
        return words[RECEIPT_TOP_K];
    if (!read_real(words[RECEIPT_TOP_P], 0, 1, &o->top_p))
        return words[RECEIPT_TOP_P];
    if (!read_real(words[RECEIPT_MIN_P], 0, 1, &o->min_p))
        return words[RECEIPT_MIN_P];
    if (!read_real(words[RECEIPT_PENALTY], 0, 100, &o->penalty) || !(o->penalty > 0))
        return words[RECEIPT_PENALTY];
    o->top_k = (int64_t)top_k;
    o->arithmetic = o->arithmetic == NO_PRODUCTS ? -1 : o->arithmetic;
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- writing -- */

static bool writes(const run *r) { return r->ranks == NULL || r->ranks->rank == 0; }

void receipts_begin(run *r, const weights *w) {
    whole_file o;
    if (r->opts->receipt == NULL && r->opts->verify == NULL)
        return;
    if (r->opts->receipt != NULL && writes(r)) {
        if (whole_file_begin(&o, r->opts->receipt, 1, false, to(r)) != 0)
            die(r->complaint);
        whole_file_drop(&o);
    }
    if (model_digest_of(r->ctx, w, &r->digest, to(r)) != 0)
        die(r->complaint);
}

void receipts_write(run *r, receipt_answer *answers, double seconds) {
    receipt made = {
        .bits = FOVEA_BITS_VERSION, .model = r->digest, .seconds = seconds, .count = r->prompts, .answers = answers};
    int64_t rows = 0;
    settings_words(r->opts, model_quantized(r->m), made.settings);
    for (int64_t i = 0; i < r->prompts; i++) {
        receipt_answer *a = &answers[i];
        rows += a->rows.count;
        if (receipt_rows_end(&a->rows) != 0 ||
            receipt_prompt_digest(a->prompt, a->prompt_count, &a->prompt_digest) != 0)
            die("out of memory");
        if (r->opts->private_prompt)
            a->prompt = NULL;
    }
    if (!writes(r))
        return;
    if (receipt_write(&made, r->opts->receipt, false, to(r)) != 0)
        die(r->complaint);
    fprintf(stderr, "\nfovea-generate: %s: %lld tokens, made in %.2f seconds\n", r->opts->receipt, (long long)rows,
            seconds);
}
