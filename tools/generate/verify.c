/* Checking receipts (run.h): all rows of an answer in one prefill, in chunks, each token drawn again. Exit status 0:
 * each step is as the receipt has it; 1: the first that is not; 2: this program or this model cannot tell. */
#include "run.h"

#include "sample.h"
#include "splitmix.h"

#include "cli.h"
#include "stopwatch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DIFFERS = 1, CANNOT_TELL = CLI_USAGE };

#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
static void
end(const options *opts, int status, const char *format, ...) {
    char why[COMPLAINT_MOST], all[2 * COMPLAINT_MOST];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    snprintf(all, sizeof all, "%.1000s: %s: %s", opts->verify, status == DIFFERS ? "differs" : "cannot tell", why);
    run_end(status, all);
}

/* Room for the longest of its answers. */
static int64_t longest(const receipt *stated) {
    int64_t most = 1;
    for (int64_t i = 0; i < stated->count; i++) {
        const receipt_answer *a = &stated->answers[i];
        const int64_t used = a->prompt_count + (a->rows.count > 0 ? a->rows.count - 1 : 0); /* the last is only drawn */
        most = used > most ? used : most;
    }
    return most;
}

receipt *verify_begin(options *opts) {
    static char why[COMPLAINT_MOST];
    receipt *stated;
    run_failure = CANNOT_TELL;
    if (receipt_read(opts->verify, &stated, (complaint){why, sizeof why}) != 0)
        die(why);
    if (stated->head.bits != FOVEA_BITS_VERSION)
        end(opts, CANNOT_TELL, "it was made with version %" PRId64 " of the bits, this program computes version %d",
            stated->head.bits, FOVEA_BITS_VERSION);
    const char *unknown = settings_read(opts, (const char(*)[RECEIPT_WORD])stated->settings);
    if (unknown != NULL)
        end(opts, CANNOT_TELL, "the setting \"%s\" is unknown", unknown);
    opts->context = longest(stated);
    opts->parallel = stated->count > 1 ? stated->count : 0; /* each line of --file is a prompt */
    if (opts->model == NULL && opts->word_count > 0) {
        opts->model = opts->words[0];
        memmove(opts->words, opts->words + 1, (size_t)--opts->word_count * sizeof *opts->words);
    }
    return stated;
}

static void check_model(const run *r, const model_digest *stated) {
    const options *o = r->opts;
    const model_digest *own = &r->digest;
    if (!sha256_equal(&own->arrays, &stated->arrays) || !sha256_equal(&own->settings, &stated->settings))
        end(o, CANNOT_TELL, "it is of another model: arrays or settings of this one have another SHA-256");
    if (!sha256_equal(&own->weights, &stated->weights))
        end(o, DIFFERS, "weights: arrays have the names and shapes that it states, but other bytes");
    if (!sha256_equal(&own->tokenizer, &stated->tokenizer))
        end(o, DIFFERS, "the tokenizer has another SHA-256");
    if (!sha256_equal(&own->template, &stated->template))
        end(o, DIFFERS, "the chat template has another SHA-256");
}

/* The ids of prompt and answer, one behind the other. */
static void read_prompt(run *r, const receipt_answer *a, int64_t number, int32_t *ids) {
    sha256_digest digest;
    if (a->prompt == NULL && number >= r->prompts)
        end(r->opts, CANNOT_TELL, "the prompt of answer %" PRId64 " is private: give it behind the model, or by --file",
            number + 1);
    if (number < r->prompts &&
        (run_prompt(r, r->texts[r->same_prompt ? 0 : number], ids) != a->prompt_count ||
         (a->prompt != NULL && memcmp(ids, a->prompt, (size_t)a->prompt_count * sizeof *ids) != 0)))
        end(r->opts, CANNOT_TELL, "the prompt given is not that of answer %" PRId64, number + 1);
    if (a->prompt != NULL)
        memcpy(ids, a->prompt, (size_t)a->prompt_count * sizeof *ids);
    if (receipt_prompt_digest(ids, a->prompt_count, &digest) != 0)
        die("out of memory");
    if (!sha256_equal(&digest, &a->prompt_digest))
        end(r->opts, a->prompt != NULL ? DIFFERS : CANNOT_TELL, "the prompt of answer %" PRId64 " has another SHA-256",
            number + 1);
    memcpy(ids + a->prompt_count, a->rows.tokens, (size_t)a->rows.count * sizeof *ids);
    for (int64_t i = 0; i < a->prompt_count + a->rows.count; i++)
        if (ids[i] < 0 || ids[i] >= model_config(r->m)->words)
            end(r->opts, DIFFERS, "answer %" PRId64 ": the model has no token %ld", number + 1, (long)ids[i]);
}

/* Rows of one answer that are there; each thread draws with a sampler of its own. */
typedef struct drawing {
    const receipt_answer *answer;
    sampler *samplers;
    int threads;
    const float *logits;
    const int32_t *ids;
    int64_t first, rows; /* of the answer */
    int32_t drawn[LOGIT_ROWS];
    sha256_digest digests[LOGIT_ROWS];
    bool failed[LOGIT_ROWS];
} drawing;

/* Tokens before a row are the receipt's, and each took one random number: no row waits for another. */
static void draw_share(void *arg, int64_t thread) {
    drawing *d = arg;
    sampler *s = &d->samplers[thread];
    for (int64_t i = thread; i < d->rows; i += d->threads) {
        const int64_t row = d->first + i;
        const float *logits = d->logits + i * s->words;
        uint64_t state = splitmix64_after(d->answer->seed, row);
        d->drawn[i] = sample(s, logits, d->ids, d->answer->prompt_count + row, &state);
        d->failed[i] = receipt_row_digest(logits, s->words, &d->digests[i]) != 0;
    }
}

static void check_rows(run *r, drawing *d, receipt_rows *found, int64_t number) {
    const receipt_answer *a = d->answer;
    if (fovea_parallel(r->ctx, d->threads, draw_share, d) != FOVEA_OK)
        die(fovea_error_detail());
    for (int64_t i = 0; i < d->rows; i++) {
        const int64_t row = d->first + i;
        if (d->failed[i] || receipt_rows_add(found, &d->digests[i], d->drawn[i]) != 0)
            die("out of memory");
        if (found->hashes[row] != a->rows.hashes[row])
            end(r->opts, DIFFERS,
                "answer %" PRId64 ", row %" PRId64 ": logits are others (%016" PRIx64 ", not %016" PRIx64 ")",
                number + 1, row, found->hashes[row], a->rows.hashes[row]);
        if (d->drawn[i] != a->rows.tokens[row])
            end(r->opts, DIFFERS, "answer %" PRId64 ", row %" PRId64 ": sampling draws token %ld, not %ld", number + 1,
                row, (long)d->drawn[i], (long)a->rows.tokens[row]);
    }
}

static void check_blocks(const run *r, const receipt_answer *a, receipt_rows *found, int64_t number) {
    if (receipt_rows_end(found) != 0)
        die("out of memory");
    for (int64_t i = 0; i < found->blocks; i++)
        if (!sha256_equal(&found->block[i], &a->rows.block[i]))
            end(r->opts, DIFFERS, "answer %" PRId64 ": rows from %" PRId64 " on have another SHA-256", number + 1,
                i * RECEIPT_EVERY);
    if (!sha256_equal(&found->all, &a->rows.all))
        end(r->opts, DIFFERS, "answer %" PRId64 ": its rows have another SHA-256", number + 1);
}

static void check_answer(run *r, const receipt_answer *a, int64_t number, sampler *samplers, int threads) {
    const int64_t first = a->prompt_count - 1, all = first + a->rows.count;
    int32_t *ids = allocate((size_t)r->room + 1, sizeof *ids); /* of the longest answer: run_prompt() may fill it */
    receipt_rows found = {0};
    drawing d = {.answer = a, .samplers = samplers, .threads = threads, .logits = r->logits, .ids = ids};
    read_prompt(r, a, number, ids);
    session_clear(r->s, 0);
    for (int64_t at = 0; a->rows.count > 0 && at < all;) {
        const int64_t count = all - at < SESSION_CHUNK ? all - at : SESSION_CHUNK;
        if (session_run(r->s, ids + at, count, to(r)) != 0)
            die(r->complaint);
        for (int64_t row = at > first ? at : first; row < at + count;) {
            const int64_t left = at + count - row, rows = left < LOGIT_ROWS ? left : LOGIT_ROWS;
            if (session_logits(r->s, row - at, rows, r->logits, to(r)) != 0)
                die(r->complaint);
            d.first = row - first;
            d.rows = rows;
            check_rows(r, &d, &found, number);
            row += rows;
        }
        at += count;
    }
    check_blocks(r, a, &found, number);
    receipt_rows_free(&found);
    free(ids);
}

void verify(run *r, const char *path, const receipt *stated) {
    const options *o = r->opts;
    const sample_rules rules = {o->penalty, o->temperature, o->top_k, o->top_p, o->min_p};
    const double begin = stopwatch(CLOCK_MONOTONIC);
    int64_t tokens = 0;
    const int threads = r->info.threads < LOGIT_ROWS ? r->info.threads : LOGIT_ROWS;
    sampler *samplers = allocate((size_t)threads, sizeof *samplers);
    check_model(r, &stated->head.model);
    run_load(r, path);
    const double loaded = stopwatch(CLOCK_MONOTONIC);
    for (int i = 0; i < threads; i++)
        if (sampler_begin(&samplers[i], &rules, model_config(r->m)->words) != 0)
            die("out of memory");
    char words[RECEIPT_SETTINGS][RECEIPT_WORD];
    settings_words(o, model_quantized(r->m), words);
    if (strcmp(words[RECEIPT_ARITHMETIC], stated->settings[RECEIPT_ARITHMETIC]) != 0)
        end(o, CANNOT_TELL, "products by \"%s\" are none of this model", stated->settings[RECEIPT_ARITHMETIC]);
    for (int64_t i = 0; i < stated->count; i++) {
        check_answer(r, &stated->answers[i], i, samplers, threads);
        tokens += stated->answers[i].rows.count;
    }
    if (stated->head.changed)
        end(o, DIFFERS, "its own SHA-256 is another: a field was changed after it was written");
    for (int i = 0; i < threads; i++)
        sampler_end(&samplers[i]);
    free(samplers);
    const double now = stopwatch(CLOCK_MONOTONIC);
    printf("verified %" PRId64 " tokens in %.2f s (made in %.2f s); loading %.2f s\n", tokens, now - loaded,
           stated->head.seconds, loaded - begin);
}
