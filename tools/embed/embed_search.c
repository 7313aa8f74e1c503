/* fovea-embed's search (embed.h): encodes every line of a text and the question into vectors of length 1, and prints
 * the lines whose vectors have the largest dot products with the question's; then how fast the text was encoded, and
 * whether lines alone, and on other tiers, have the same bytes. --verbose: where the time went. Last, if asked for,
 * the same vectors in another element type. */
#include "embed.h"
#include "plural.h"
#include "sentences.h"

#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1 << 26 /* bytes */ };

/* A file's lines; empty ones are left out. */
typedef struct lines {
    char *bytes;
    const char **line;
    int64_t count;
} lines;

static lines read_lines(const char *path) {
    lines l = {.bytes = embed_allocate(TEXT_MOST, 1)};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "fovea-embed: %s cannot be opened\n", path);
        exit(1);
    }
    const size_t bytes = fread(l.bytes, 1, TEXT_MOST, file);
    const int whole = !ferror(file) && fgetc(file) == EOF;
    fclose(file);
    if (!whole || memchr(l.bytes, 0, bytes) != NULL) {
        fprintf(stderr, "fovea-embed: %s cannot be read, is too large, or is no text\n", path);
        exit(1);
    }
    int64_t most = 1;
    for (size_t i = 0; i < bytes; i++)
        most += l.bytes[i] == '\n';
    l.line = embed_allocate((size_t)most, sizeof *l.line);
    for (char *line = strtok(l.bytes, "\r\n"); line != NULL; line = strtok(NULL, "\r\n"))
        l.line[l.count++] = line;
    if (l.count == 0)
        embed_die("the text has no lines");
    return l;
}

/* ----------------------------------------------------------------------------------------------------- answering -- */

static double dot(const float *a, const float *b, int64_t width) {
    double sum = 0.0;
    for (int64_t c = 0; c < width; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

static void print_nearest(const lines *text, const float *vectors, const float *question, int64_t width, int64_t top) {
    float *scores = embed_allocate((size_t)text->count, sizeof *scores);
    for (int64_t i = 0; i < text->count; i++)
        scores[i] = (float)dot(vectors + i * width, question, width);
    for (int64_t rank = 0; rank < top && rank < text->count; rank++) {
        int64_t best = 0;
        for (int64_t i = 1; i < text->count; i++)
            if (scores[i] > scores[best])
                best = i;
        printf("  %.3f  %s\n", (double)scores[best], text->line[best]);
        scores[best] = -2.0f; /* below every cosine */
    }
    free(scores);
}

static void print_times(const encoder *e, const sentences_report *r, bool verbose) {
    static const char *const names[ENCODER_PARTS] = {
        [ENCODER_EMBEDDINGS] = "embeddings",     [ENCODER_ATTENTION] = "multi-head attention",
        [ENCODER_FEED_FORWARD] = "feed-forward", [ENCODER_NORM] = "layer norm",
        [ENCODER_POOLING] = "pooling",
    };
    double all = r->reading;
    for (int i = 0; i < ENCODER_PARTS; i++)
        all += r->parts[i];
    printf("%lld token%s in %.3f s: %.0f tokens per second\n", (long long)r->tokens, plural(r->tokens), all,
           (double)r->tokens / all);
    if (!verbose)
        return;
    printf("of the time\n  %5.1f%%  tokens\n", 100.0 * r->reading / all);
    for (int i = 0; i < ENCODER_PARTS; i++)
        printf("  %5.1f%%  %s\n", 100.0 * r->parts[i] / all, names[i]);
    printf("weights take %.1f MB\n", (double)encoder_bytes(e) / 1e6);
}

/* ----------------------------------------------------------------------------------------------------- the bytes -- */

/* Has a line alone the bytes that it has among all? */
static bool is_same(const encoder *e, const tk_tokenizer *t, const lines *l, int64_t i, const float *vectors) {
    const int64_t width = encoder_sizes(e).width;
    float *alone = embed_allocate((size_t)width, sizeof *alone);
    char text[EMBED_COMPLAINT];
    if (sentences_encode(e, t, l->line + i, 1, alone, NULL, (complaint){text, sizeof text}) != 0)
        embed_die(text);
    const bool same = memcmp(alone, vectors + i * width, (size_t)width * sizeof *alone) == 0;
    free(alone);
    return same;
}

static void print_alone(const embed_model *m, const lines *l, const float *vectors) {
    enum { MOST = 64 };
    int64_t compared = 0, same = 0;
    for (int64_t i = 0; i < l->count; i += (l->count + MOST - 1) / MOST, compared++)
        same += is_same(m->e, m->t, l, i, vectors);
    printf("%lld of %lld lines that were encoded alone have the bytes that they have among all %lld\n", (long long)same,
           (long long)compared, (long long)l->count);
}

/* So has the shortest on each tier of this CPU, with one thread and with two: portable C takes its time. */
static void print_tiers(const embed_model *m, const lines *l, const float *vectors) {
    int64_t shortest = 0;
    int compared = 0, same = 0, threads = 1;
    for (int64_t i = 1; i < l->count; i++)
        if (strlen(l->line[i]) < strlen(l->line[shortest]))
            shortest = i;
    printf("the shortest on");
    for (int isa = FOVEA_ISA_SCALAR; strcmp(fovea_isa_name((fovea_isa)isa), "unknown") != 0; isa++)
        for (int most = 1; most <= 2; most++) {
            embed_model other = *m;
            if (!embed_context((fovea_isa)isa, most, &other))
                continue;
            if (most == 1)
                printf("%s %s", compared > 0 ? "," : "", fovea_isa_name((fovea_isa)isa));
            threads = other.info.threads;
            other.e = embed_load(&other, m->type, m->weights);
            same += is_same(other.e, m->t, l, shortest, vectors);
            compared++;
            encoder_free(other.e);
            fovea_context_destroy(other.context);
        }
    printf(", with 1 thread and with %d: %d of %d\n", threads, same, compared);
}

/* -------------------------------------------------------------------------------------------------- another type -- */

enum { ROUNDS = 5 };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds that the encoder takes for the text. */
static double encode(const encoder *e, const tk_tokenizer *t, const lines *l, float *vectors) {
    char text[EMBED_COMPLAINT];
    sentences_report r = {0};
    double seconds = 0.0;
    if (sentences_encode(e, t, l->line, l->count, vectors, &r, (complaint){text, sizeof text}) != 0)
        embed_die(text);
    for (int i = 0; i < ENCODER_PARTS; i++)
        seconds += r.parts[i];
    return seconds;
}

/* Both types in turn; times are medians. */
static void print_beside(const encoder *e, const encoder *other, const char *type, const tk_tokenizer *t,
                         const lines *l, float *vectors) {
    const int64_t width = encoder_sizes(e).width;
    float *others = embed_allocate((size_t)(l->count * width), sizeof *others);
    double *cosines = embed_allocate((size_t)l->count, sizeof *cosines);
    double seconds[2][ROUNDS];
    encode(other, t, l, others); /* wakes it */
    for (int i = 0; i < ROUNDS; i++) {
        seconds[0][i] = encode(e, t, l, vectors);
        seconds[1][i] = encode(other, t, l, others);
    }
    for (int i = 0; i < 2; i++)
        qsort(seconds[i], ROUNDS, sizeof seconds[i][0], ascending);
    for (int64_t i = 0; i < l->count; i++)
        cosines[i] = dot(vectors + i * width, others + i * width, width);
    qsort(cosines, (size_t)l->count, sizeof *cosines, ascending);
    const double f32 = seconds[0][ROUNDS / 2], half = seconds[1][ROUNDS / 2];
    printf("in %s: %.3f s, float32 %.3f s: %.2f times as fast; cosine to float32's vectors at least 1 - %.1g, median "
           "1 - %.1g; weights take %.1f MB, float32's %.1f\n",
           type, half, f32, f32 / half, 1.0 - cosines[0], 1.0 - cosines[l->count / 2],
           (double)encoder_bytes(other) / 1e6, (double)encoder_bytes(e) / 1e6);
    free(others);
    free(cosines);
}

void embed_search(const embed_model *m, const char *path, const char *asked, int top, bool verbose, embed_type other) {
    static const char *const names[] = {[EMBED_BF16] = "bfloat16", [EMBED_F16] = "float16", [EMBED_Q8_0] = "q8_0"};

    char text[EMBED_COMPLAINT], name[PATH_MOST];
    const complaint to = {text, sizeof text};
    lines l = read_lines(path);
    const int64_t width = encoder_sizes(m->e).width;
    float *vectors = embed_allocate((size_t)(l.count * width), sizeof *vectors);
    float *question = embed_allocate((size_t)width, sizeof *question);

    /* The question first: it also wakes the threads. */
    sentences_report report = {0};
    if (sentences_encode(m->e, m->t, (const char *const *)&asked, 1, question, NULL, to) != 0 ||
        sentences_encode(m->e, m->t, l.line, l.count, vectors, &report, to) != 0)
        embed_die(text);
    printf("%s, %s, %d thread%s: %s\n", model_place_name(&m->place, name), fovea_isa_name(m->info.isa), m->info.threads,
           plural(m->info.threads), asked);
    print_nearest(&l, vectors, question, width, top);
    print_times(m->e, &report, verbose);
    print_alone(m, &l, vectors);
    print_tiers(m, &l, vectors);
    if (other != EMBED_F32) {
        encoder *e = other == EMBED_Q8_0 ? embed_load(m, EMBED_F32, other) : embed_load(m, other, EMBED_F32);
        print_beside(m->e, e, names[other], m->t, &l, vectors);
        encoder_free(e);
    }
    free(vectors);
    free(question);
    free(l.bytes);
    free(l.line);
}
