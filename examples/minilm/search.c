/* fovea-search: finds the sentences of a text that come nearest to a question, by all-MiniLM-L6-v2.
 *
 * Reads the model (model_place.h), its vocab.txt, and the lines of the text, encodes every line and the question
 * into vectors of length 1, and prints the lines whose vectors have the largest dot products with the question's; then
 * how fast the text was encoded. --verbose: where the time went. --beside: the same vectors in another element type. */
#include "cli.h"
#include "model_place.h"
#include "plural.h"
#include "sentences.h"

#include "../stopwatch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 12,
    TEXT_MOST = 1 << 26, /* bytes */
    COMPLAINT_MOST = 1024,
    WORDS_MOST = 256,
    NO_MODEL = 77
};

static const char default_question[] = "How tall is the insect?";

typedef struct options {
    const char *model, *text;
    int threads, top, beside; /* beside: a fovea_dtype, or 0 */
    bool verbose;
    const char *words[WORDS_MOST]; /* of the question */
    int word_count;
} options;

/* A file's lines; empty ones are left out. */
typedef struct lines {
    char *bytes;
    const char **line;
    int64_t count;
} lines;

/* ----------------------------------------------------------------------------------------------- errors, options -- */

static void die(const char *what) {
    fprintf(stderr, "fovea-search: %s\n", what);
    exit(1);
}

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

static int read_options(int argc, char **argv, options *opts) {
    static const cli_option table[] = {
        {"--model", "FOLDER", "@directory build/models/all-MiniLM-L6-v2", cli_read_text, 0, 0, offsetof(options, model),
         1, "folder with model.safetensors and vocab.txt of all-MiniLM-L6-v2 (" MODEL_PLACE_HELP ")"},
        {"--text", "FILE", "@file " FOVEA_MINILM_TEXT, cli_read_text, 0, 0, offsetof(options, text), 1,
         "text to search: UTF-8, one sentence or short passage per line (default: two chapters of Alice in "
         "Wonderland)"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, offsetof(options, threads), 1,
         "number of threads (default: all CPUs this process may use)"},
        {"--top", "N", "5", cli_read_int, 1, 4096, offsetof(options, top), 1, "number of lines to print (default: 5)"},
        {"--beside", "TYPE", "bf16 f16", cli_read_choice, FOVEA_DTYPE_BF16, 0, offsetof(options, beside), 1,
         "also encode the text in this element type, and print its time and how near its vectors are to float32's"},
        {"--verbose", NULL, NULL, NULL, 0, 0, offsetof(options, verbose), 1, "also print where the time went"},
    };
    static const cli_command command = {
        "",
        1,
        0,
        WORDS_MOST,
        "[QUESTION...]",
        "",
        "print the lines of a text that are closest to a question, by the sentence encoder all-MiniLM-L6-v2"};
    const cli program = {.program = "fovea-search",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage; 77 there is no model",
                         .environment = "FOVEA_MODEL=FOLDER names the model if --model is not given",
                         .examples = "fovea-search --top 3 \"How tall is the insect?\"",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    *opts = (options){.text = FOVEA_MINILM_TEXT, .top = 5};
    return cli_read(&program, argc, argv, opts, &only, opts->words, &opts->word_count);
}

/* ------------------------------------------------------------------------------------------------------- reading -- */

static lines read_lines(const char *path) {
    lines l = {.bytes = allocate(TEXT_MOST, 1)};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "fovea-search: %s cannot be opened\n", path);
        exit(1);
    }
    const size_t bytes = fread(l.bytes, 1, TEXT_MOST, file);
    const int whole = !ferror(file) && fgetc(file) == EOF;
    fclose(file);
    if (!whole || memchr(l.bytes, 0, bytes) != NULL) {
        fprintf(stderr, "fovea-search: %s cannot be read, is too large, or is no text\n", path);
        exit(1);
    }
    int64_t most = 1;
    for (size_t i = 0; i < bytes; i++)
        most += l.bytes[i] == '\n';
    l.line = allocate((size_t)most, sizeof *l.line);
    for (char *line = strtok(l.bytes, "\r\n"); line != NULL; line = strtok(NULL, "\r\n"))
        l.line[l.count++] = line;
    if (l.count == 0)
        die("the text has no lines");
    return l;
}

static encoder *load_encoder(const fovea_context *context, const model_place *place, fovea_dtype dtype) {
    char text[COMPLAINT_MOST];
    encoder *e;
    if (encoder_load(context, place->file, HEADS, dtype, &e, (complaint){text, sizeof text}) != 0)
        die(text);
    return e;
}

static wordpiece *find_model(const char *given, model_place *place) {
    char text[COMPLAINT_MOST], words[MODEL_PLACE_MOST + 16];
    const complaint to = {text, sizeof text};
    wordpiece *pieces;
    if (model_place_find(given, place, to) != 0) {
        fprintf(stderr, "fovea-search: %s\n", text);
        exit(NO_MODEL);
    }
    snprintf(words, sizeof words, "%s/vocab.txt", place->folder);
    if (wordpiece_load(words, &pieces, to) != 0)
        die(text);
    return pieces;
}

static fovea_context *make_context(int threads, fovea_info *info) {
    fovea_context_options opts;
    fovea_context_options_init(&opts);
    opts.threads = threads;
    opts.threads_backend = FOVEA_THREADS_POOL;
    fovea_context *context;
    fovea_info_init(info);
    if (fovea_context_create(&opts, &context) != FOVEA_OK || fovea_context_info(context, info) != FOVEA_OK)
        die(fovea_error_detail());
    return context;
}

/* ----------------------------------------------------------------------------------------------------- answering -- */

static double dot(const float *a, const float *b, int64_t width) {
    double sum = 0.0;
    for (int64_t c = 0; c < width; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

static void print_nearest(const lines *text, const float *vectors, const float *question, int64_t width, int64_t top) {
    float *scores = allocate((size_t)text->count, sizeof *scores);
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

static void print_times(const sentences_report *r, bool verbose) {
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
    printf("of the time\n  %5.1f%%  word pieces\n", 100.0 * r->reading / all);
    for (int i = 0; i < ENCODER_PARTS; i++)
        printf("  %5.1f%%  %s\n", 100.0 * r->parts[i] / all, names[i]);
}

/* ---------------------------------------------------------------------------------------------------- another type -- */

enum { ROUNDS = 5 };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds that the encoder takes for the text. */
static double encode(const encoder *e, const wordpiece *pieces, const lines *l, float *vectors) {
    char text[COMPLAINT_MOST];
    sentences_report r = {0};
    double seconds = 0.0;
    if (sentences_encode(e, pieces, l->line, l->count, vectors, &r, (complaint){text, sizeof text}) != 0)
        die(text);
    for (int i = 0; i < ENCODER_PARTS; i++)
        seconds += r.parts[i];
    return seconds;
}

/* Both types in turn; times are medians. */
static void print_beside(const encoder *e, const encoder *other, const char *type, const wordpiece *pieces,
                         const lines *l, float *vectors) {
    const int64_t width = encoder_sizes(e).width;
    float *others = allocate((size_t)(l->count * width), sizeof *others);
    double seconds[2][ROUNDS], least = 1.0;
    encode(other, pieces, l, others); /* wakes it */
    for (int i = 0; i < ROUNDS; i++) {
        seconds[0][i] = encode(e, pieces, l, vectors);
        seconds[1][i] = encode(other, pieces, l, others);
    }
    for (int i = 0; i < 2; i++)
        qsort(seconds[i], ROUNDS, sizeof seconds[i][0], ascending);
    for (int64_t i = 0; i < l->count; i++) {
        const double cosine = dot(vectors + i * width, others + i * width, width);
        least = cosine < least ? cosine : least;
    }
    const double f32 = seconds[0][ROUNDS / 2], half = seconds[1][ROUNDS / 2];
    printf("in %s: %.3f s, float32 %.3f s: %.2f times as fast; cosine to float32's vectors at least 1 - %.1g\n", type,
           half, f32, f32 / half, 1.0 - least);
    free(others);
}

int main(int argc, char **argv) {
    options opts;
    const int wrong = read_options(argc, argv, &opts);
    if (wrong >= 0)
        return wrong;
    char *const asked = cli_join(opts.words, opts.word_count, default_question);
    if (asked == NULL)
        die("out of memory");
    if (*asked == '\0')
        die("the question is empty");
    char text[COMPLAINT_MOST];
    const complaint to = {text, sizeof text};
    fovea_info info;
    fovea_context *context = make_context(opts.threads, &info);
    model_place place;
    wordpiece *pieces = find_model(opts.model, &place);
    encoder *e = load_encoder(context, &place, FOVEA_DTYPE_F32);
    lines l = read_lines(opts.text);
    const int64_t width = encoder_sizes(e).width;
    float *vectors = allocate((size_t)(l.count * width), sizeof *vectors);
    float *question = allocate((size_t)width, sizeof *question);

    /* The question first: it also wakes the threads. */
    sentences_report report = {0};
    if (sentences_encode(e, pieces, (const char *const *)&asked, 1, question, NULL, to) != 0 ||
        sentences_encode(e, pieces, l.line, l.count, vectors, &report, to) != 0)
        die(text);
    printf("all-MiniLM-L6-v2, %s, %d thread%s: %s\n", fovea_isa_name(info.isa), info.threads, plural(info.threads),
           asked);
    print_nearest(&l, vectors, question, width, opts.top);
    print_times(&report, opts.verbose);
    if (opts.beside != 0) {
        encoder *other = load_encoder(context, &place, (fovea_dtype)opts.beside);
        print_beside(e, other, opts.beside == FOVEA_DTYPE_BF16 ? "bfloat16" : "float16", pieces, &l, vectors);
        encoder_free(other);
    }

    free(vectors);
    free(question);
    free(l.bytes);
    free(l.line);
    free(asked);
    wordpiece_free(pieces);
    encoder_free(e);
    fovea_context_destroy(context);
    return 0;
}
