/* sentences.h. Sentences are sorted by length, as attention takes those of one length together, and cut into batches of
 * at most BATCH_ROWS tokens: a batch is one matrix of all its tokens, large enough for the kernels to run at their
 * best. */
#include "sentences.h"

#include "stopwatch.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 1024 };

typedef struct sentence {
    int64_t index, count; /* its place in the caller's list, its tokens */
    const int32_t *ids;
} sentence;

/* All that is allocated. */
typedef struct work {
    sentence *sentences;
    int32_t *ids;       /* of all sentences */
    int32_t *batch_ids; /* [batch][tokens] */
    int64_t *lens;
    float *vectors; /* [batch][width] */
} work;

static int by_length(const void *a, const void *b) {
    const sentence *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Tokens of a batch: a sentence may be longer than the others together. */
static int64_t batch_most(const encoder *e) {
    const int64_t most = encoder_sizes(e).most_tokens;
    return most > BATCH_ROWS ? most : BATCH_ROWS;
}

/* How many of the sentences, the shortest first, make the next batch. */
static int64_t batch_size(const sentence *s, int64_t left) {
    int64_t size = 1;
    while (size < left && (size + 1) * s[size].count <= BATCH_ROWS)
        size++;
    return size;
}

static int encode_batch(const encoder *e, const work *w, const sentence *s, int64_t size, float *out,
                        sentences_report *report, complaint to) {
    const int64_t width = encoder_sizes(e).width, tokens = s[size - 1].count;
    encoder_plan *plan;
    if (encoder_plan_create(e, size, tokens, &plan, to) != 0)
        return -1;
    for (int64_t i = 0; i < size; i++) {
        w->lens[i] = s[i].count;
        memcpy(w->batch_ids + i * tokens, s[i].ids, (size_t)s[i].count * sizeof *s[i].ids);
    }
    const int status = encoder_run(plan, w->batch_ids, w->lens, w->vectors, report->parts, NULL, to);
    encoder_plan_free(plan);
    for (int64_t i = 0; status == 0 && i < size; i++)
        memcpy(out + s[i].index * width, w->vectors + i * width, (size_t)width * sizeof *out);
    return status;
}

static int read_sentences(const encoder *e, const tk_tokenizer *t, const char *const *texts, int64_t count,
                          const work *w, sentences_report *report, complaint to) {
    const double begin = stopwatch(CLOCK_MONOTONIC);
    const int64_t most = encoder_sizes(e).most_tokens;
    for (int64_t i = 0; i < count; i++) {
        int32_t *ids = w->ids + i * most;
        const int64_t tokens = tk_encode_cut(t, texts[i], (int64_t)strlen(texts[i]), ids, most);
        if (tokens < 0)
            return complain(to, "sentences", "out of memory");
        if (tokens == 0)
            return complain(to, "sentences", "text %lld has no tokens, of which this model makes vectors",
                            (long long)i);
        w->sentences[i] = (sentence){i, tokens, ids};
        report->tokens += tokens;
        if (report->each != NULL)
            report->each(report->arg, i, ids, tokens);
    }
    qsort(w->sentences, (size_t)count, sizeof *w->sentences, by_length);
    report->reading += stopwatch(CLOCK_MONOTONIC) - begin;
    return 0;
}

int sentences_encode(const encoder *e, const tk_tokenizer *t, const char *const *texts, int64_t count, float *out,
                     sentences_report *report, complaint to) {
    const encoder_shape shape = encoder_sizes(e);
    sentences_report unwanted = {0};
    if (shape.most_tokens < 2)
        return complain(to, "sentences", "the model takes %lld tokens: too few", (long long)shape.most_tokens);
    if (report == NULL)
        report = &unwanted;
    work w = {
        .sentences = calloc((size_t)count + 1, sizeof *w.sentences),
        .ids = malloc(((size_t)count * (size_t)shape.most_tokens + 1) * sizeof *w.ids),
        .batch_ids = malloc((size_t)batch_most(e) * sizeof *w.batch_ids),
        .lens = malloc(BATCH_ROWS * sizeof *w.lens),
        .vectors = malloc((size_t)BATCH_ROWS * (size_t)shape.width * sizeof *w.vectors),
    };
    int status = 0;
    if (w.sentences == NULL || w.ids == NULL || w.batch_ids == NULL || w.lens == NULL || w.vectors == NULL) {
        status = complain(to, "sentences", "out of memory");
    } else {
        status = read_sentences(e, t, texts, count, &w, report, to);
        for (int64_t done = 0, size; status == 0 && done < count; done += size) {
            size = batch_size(w.sentences + done, count - done);
            status = encode_batch(e, &w, w.sentences + done, size, out, report, to);
        }
    }
    free(w.sentences);
    free(w.ids);
    free(w.batch_ids);
    free(w.lens);
    free(w.vectors);
    return status;
}
