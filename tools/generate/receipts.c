/* Receipts of answers (run.h): what fovea-generate puts into them. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

static const char *const setting_options[RECEIPT_SETTINGS] = {
    "--type",        "--weights", "--arithmetic", "--cache", "--values",
    "--temperature", "--top-k",   "--top-p",      "--min-p", "--repetition-penalty"};
static const char no_products[] = "none"; /* with quantized weights */

void settings_words(const options *opts, bool quantized, char words[RECEIPT_SETTINGS][RECEIPT_WORD]) {
    for (int i = 0; i < RECEIPT_SETTINGS; i++)
        options_word(opts, setting_options[i], words[i], RECEIPT_WORD);
    if (!quantized)
        strcpy(words[RECEIPT_ARITHMETIC], no_products);
}

const char *settings_read(options *opts, const char words[RECEIPT_SETTINGS][RECEIPT_WORD]) {
    for (int i = 0; i < RECEIPT_SETTINGS; i++)
        if (i == RECEIPT_ARITHMETIC && strcmp(words[i], no_products) == 0)
            opts->arithmetic = -1;
        else if (!options_set(opts, setting_options[i], words[i]))
            return words[i];
    return opts->penalty > 0 ? NULL : words[RECEIPT_PENALTY];
}

/* ----------------------------------------------------------------------------------------------------- writing -- */

static bool writes(const run *r) { return r->ranks == NULL || r->ranks->rank == 0; }

void receipts_begin(run *r, const weights *w) {
    if (r->opts->receipt == NULL && r->opts->verify == NULL)
        return;
    if ((r->opts->receipt != NULL && writes(r) && receipt_writable(r->opts->receipt, to(r)) != 0) ||
        model_digest_of(r->ctx, w, &r->digest, to(r)) != 0)
        die(r->complaint);
}

void receipts_write(run *r, receipt_answer *answers, double seconds) {
    receipt made = {.head = {.bits = FOVEA_BITS_VERSION, .model = r->digest, .seconds = seconds},
                    .count = r->prompts,
                    .answers = answers};
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
    if (receipt_write(&made, r->opts->receipt, to(r)) != 0)
        die(r->complaint);
    fprintf(stderr, "\nfovea-generate: %s: %lld tokens, made in %.2f seconds\n", r->opts->receipt, (long long)rows,
            seconds);
}
