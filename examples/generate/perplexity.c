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
 * predicted. */
void perplexity(run *r) {
    const int64_t words = model_config(r->m)->words;
    int64_t counted = 0;
    read_windows(r);
    double sum = 0.0;
    for (int64_t done = 0, count; done < r->prompt; done += count) {
        const int64_t in_window = done % r->room, left = r->prompt - done;
        count = r->room - in_window < left ? r->room - in_window : left;
        count = count < SESSION_CHUNK ? count : SESSION_CHUNK;
        if (in_window == 0)
            session_clear(r->s);
        if (session_run(r->s, r->ids + done, count, to(r)) != 0)
            die(r->complaint);
        for (int64_t i = 0, rows; i < count; i += rows) {
            rows = count - i < LOGIT_ROWS ? count - i : LOGIT_ROWS;
            if (session_logits(r->s, i, rows, r->logits, to(r)) != 0)
                die(r->complaint);
            hash_logits(r, r->logits, rows * words);
            for (int64_t j = 0; j < rows; j++) {
                const int64_t next = done + i + j + 1;
                if (next < r->prompt && next % r->room != 0) {
                    sum += surprise(r->logits + j * words, words, r->ids[next]);
                    counted++;
                }
            }
        }
    }
    if (counted == 0)
        die("there is no token to predict: the text, or --context, has fewer than two");
    printf("perplexity %.6f of %" PRId64
           " tokens, %s, quantised weights %s, keys %s, values %s, logits hash %016" PRIx64 "\n",
           exp(sum / (double)counted), counted, options_dtype_name(r->opts->dtype), options_weights_name(r->opts),
           options_dtype_name(r->opts->cache), options_dtype_name(r->opts->values), r->hash);
}
