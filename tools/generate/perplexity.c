/* --perplexity: e to the mean of -log of the probability that the model gives each token of a text (run.h). */
#include "run.h"

#include "sample.h"
#include "text_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -log of the probability of a token. */
static double surprise(const float *logits, int64_t words, int32_t id) {
    const double most = (double)logits[sample_greedy(logits, words)];
    double sum = 0.0;
    for (int64_t i = 0; i < words; i++)
        sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[id];
}

/* The tokens of the text; if the model wants a token before each text, it begins each window. */
static void read_windows(run *r) {
    int64_t bytes;
    char *file = text_file_read(r->opts->perplexity, TEXT_MOST, &bytes, to(r));
    if (file == NULL)
        die(r->complaint);
    char *text = sound_text(file, (size_t)bytes, r->opts->perplexity);
    const int64_t most = (int64_t)strlen(text) + 1;
    const int32_t first = text_first(r->t);
    int32_t *ids = allocate((size_t)most, sizeof *ids);
    const int64_t count = text_tokens(r->t, text, strlen(text), ids, most);
    r->ids = allocate(2 * (size_t)most + 1, sizeof *r->ids);
    for (int64_t i = 0; i < count; i++) {
        if (first >= 0 && r->prompt % r->room == 0)
            r->ids[r->prompt++] = first;
        r->ids[r->prompt++] = ids[i];
    }
    free(ids);
    free(text);
    free(file);
}

/* The text in windows of --context tokens, each from its beginning; every token but the first of a window is
 * predicted. choices, unless NULL: the most probable token of each. */
static double measure(run *r, int64_t *tokens, int32_t *choices) {
    const int64_t words = model_config(r->m)->words;
    int64_t counted = 0;
    double sum = 0.0;
    for (int64_t done = 0, count; done < r->prompt; done += count) {
        const int64_t in_window = done % r->room, left = r->prompt - done;
        count = r->room - in_window < left ? r->room - in_window : left;
        count = count < SESSION_CHUNK ? count : SESSION_CHUNK;
        if (in_window == 0)
            session_clear(r->s, 0);
        if (session_run(r->s, r->ids + done, count, to(r)) != 0)
            die(r->complaint);
        for (int64_t i = 0, rows; i < count; i += rows) {
            rows = count - i < LOGIT_ROWS ? count - i : LOGIT_ROWS;
            if (session_logits(r->s, i, rows, r->logits, to(r)) != 0)
                die(r->complaint);
            r->hash = hash_logits(r->hash, r->logits, rows * words);
            for (int64_t j = 0; j < rows; j++) {
                const int64_t next = done + i + j + 1;
                if (next < r->prompt && next % r->room != 0) {
                    sum += surprise(r->logits + j * words, words, r->ids[next]);
                    if (choices != NULL)
                        choices[counted] = (int32_t)sample_greedy(r->logits + j * words, words);
                    counted++;
                }
            }
        }
    }
    if (counted == 0)
        die("there is no token to predict: the text, or --context, has fewer than two");
    *tokens = counted;
    return exp(sum / (double)counted);
}

/* One row of the table. choices: of the first row, which it fills if it is that. */
static void print_row(run *r, const char *path, const options *opts, bool first, int32_t *choices) {
    int64_t tokens, same = 0;
    r->opts = opts;
    run_load(r, path);
    int32_t *own = first ? choices : allocate((size_t)r->prompt, sizeof *own);
    const double value = measure(r, &tokens, own);
    for (int64_t i = 0; i < tokens; i++)
        same += own[i] == choices[i];
    printf("| %s | %.1f | %s | %s | %.4f | %" PRId64 " of %" PRId64 " |\n", options_weights_name(opts, r->m),
           (double)model_token_bytes(r->m) * 1e-6, options_dtype_name(opts->cache), options_dtype_name(opts->values),
           value, same, tokens);
    fflush(stdout);
    run_unload(r);
    if (!first)
        free(own);
}

static void print_table(run *r, const char *path) {
    enum { F32, BF16, F16, INT8, INT4 };
    static const struct {
        int weights, arithmetic;
    } kinds[] = {{0, 1}, {0, -1}, {0, 2}, {1, -1}, {2, -1}}; /* as stored: exact, q16, q8; f32, bf16 */
    static const int caches[][2] = {{F32, F32}, {BF16, BF16}, {BF16, INT8}, {INT8, INT8}, {INT8, INT4}, {INT4, INT4}};
    const options *given = r->opts;
    const bool quantized = model_quantized(r->m);
    int32_t *choices = allocate((size_t)r->prompt, sizeof *choices);
    bool first = true;
    run_unload(r);
    printf("Products and attention in %s. MB: weights that a token reads. Same choice: most probable tokens that are "
           "those of the first "
           "row.\n\n"
           "| weights | MB | keys | values | perplexity | same choice |\n|---|---|---|---|---|---|\n",
           options_dtype_name(given->dtype));
    for (size_t i = quantized ? 0 : 3; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t k = 0; k < sizeof caches / sizeof caches[0]; k++) {
            options opts = *given;
            opts.weights = kinds[i].weights;
            opts.arithmetic = kinds[i].arithmetic;
            opts.cache = caches[k][0];
            opts.values = caches[k][1];
            print_row(r, path, &opts, first, choices);
            first = false;
        }
    free(choices);
    r->opts = given;
}

void perplexity(run *r, const char *path) {
    int64_t tokens;
    read_windows(r);
    if (r->opts->formats) {
        print_table(r, path);
        return;
    }
    const double value = measure(r, &tokens, NULL);
    printf("perplexity %.6f of %" PRId64 " tokens, %s, weights %s, keys %s, values %s, logits hash %016" PRIx64 "\n",
           value, tokens, options_dtype_name(r->opts->dtype), options_weights_name(r->opts, r->m),
           options_dtype_name(r->opts->cache), options_dtype_name(r->opts->values), r->hash);
}
