/* fovea-search: finds the sentences of a text that come nearest to a question, by all-MiniLM-L6-v2.
 *
 *     fovea-search [--model FOLDER] [--text FILE] [--threads N] [--top N] [QUESTION...]
 *
 * Reads model.safetensors and vocab.txt of the folder and the lines of the text, encodes every line and the question
 * into vectors of length 1, and prints the lines whose vectors have the largest dot products with the question's; then
 * how fast the text was encoded, and where the time went. Ends with 0; with 1 and a sentence if something cannot be
 * read; with 2 if the command line is wrong; with 77 if there is no model. */
#include "rows.h"
#include "sentences.h"

#include "../stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADS = 12,
    TEXT_MOST = 1 << 26, /* bytes */
    PATH_MOST = 4096,
    COMPLAINT_MOST = 1024,
    NO_MODEL = 77
};

static const char default_question[] = "How tall is the insect?";

typedef struct options {
    const char *model, *text;
    long threads, top;
    char *question; /* owned */
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

static const char usage[] =
    "usage: fovea-search [--model FOLDER] [--text FILE] [--threads N] [--top N] [QUESTION...]\n"
    "Prints the lines of a text that come nearest to a question, by the sentence encoder all-MiniLM-L6-v2.\n"
    "  --model FOLDER  with model.safetensors and vocab.txt, as examples/minilm/fetch.py puts them there\n"
    "                  (default: " FOVEA_MINILM_MODEL ")\n"
    "  --text FILE     UTF-8, a sentence or short passage per line (default: two chapters of Alice in Wonderland)\n"
    "  --threads N     default: all CPUs this process may use\n"
    "  --top N         how many lines to print (default: 5)\n";

static void usage_error(const char *what, const char *argument) {
    fprintf(stderr, "fovea-search: %s %s\n%s", what, argument, usage);
    exit(2);
}

static long number(const char *name, const char *text) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != 0 || value < 1 || value > 4096) {
        fprintf(stderr, "fovea-search: %s takes a number from 1 to 4096, not %s\n%s", name, text, usage);
        exit(2);
    }
    return value;
}

/* The words from argv[first] on, with spaces between. */
static char *join(int argc, char **argv, int first) {
    size_t size = sizeof default_question;
    for (int i = first; i < argc; i++)
        size += strlen(argv[i]) + 1;
    char *all = allocate(size, 1);
    for (int i = first; i < argc; i++) {
        strcat(all, argv[i]);
        if (i + 1 < argc)
            strcat(all, " ");
    }
    if (all[0] == 0)
        strcpy(all, default_question);
    return all;
}

static options parse_options(int argc, char **argv) {
    options opts = {.model = FOVEA_MINILM_MODEL, .text = FOVEA_MINILM_TEXT, .threads = 0, .top = 5};
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--") == 0) { /* what follows is the question, whatever it begins with */
            i++;
            break;
        }
        if (strcmp(name, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (strcmp(name, "--model") != 0 && strcmp(name, "--text") != 0 && strcmp(name, "--threads") != 0 &&
            strcmp(name, "--top") != 0)
            usage_error("unknown argument", name);
        if (++i == argc)
            usage_error("a value is missing after", name);
        if (strcmp(name, "--model") == 0)
            opts.model = argv[i];
        else if (strcmp(name, "--text") == 0)
            opts.text = argv[i];
        else
            *(strcmp(name, "--top") == 0 ? &opts.top : &opts.threads) = number(name, argv[i]);
    }
    opts.question = join(argc, argv, i);
    return opts;
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

static void name_file(char *path, const char *folder, const char *file) {
    if (snprintf(path, PATH_MOST, "%s/%s", folder, file) >= PATH_MOST)
        die("the model's folder has too long a name");
}

static void load_model(const fovea_context *context, const char *folder, encoder **e, wordpiece **pieces) {
    char path[PATH_MOST], text[COMPLAINT_MOST];
    const complaint to = {text, sizeof text};
    name_file(path, folder, "model.safetensors");
    if (access(path, F_OK) != 0) {
        fprintf(stderr, "fovea-search: there is no %s; examples/minilm/fetch.py gets it\n", path);
        exit(NO_MODEL);
    }
    if (encoder_load(context, path, HEADS, e, to) != 0)
        die(text);
    name_file(path, folder, "vocab.txt");
    if (wordpiece_load(path, pieces, to) != 0)
        die(text);
}

static fovea_context *make_context(long threads, fovea_info *info) {
    fovea_context_options opts;
    fovea_context_options_init(&opts);
    opts.threads = (int)threads;
    fovea_context *context;
    fovea_info_init(info);
    if (fovea_context_create(&opts, &context) != FOVEA_OK || fovea_context_info(context, info) != FOVEA_OK)
        die(fovea_error_detail());
    return context;
}

/* ----------------------------------------------------------------------------------------------------- answering -- */

static void print_nearest(const lines *text, const float *vectors, const float *question, int64_t width, int64_t top) {
    float *scores = allocate((size_t)text->count, sizeof *scores);
    for (int64_t i = 0; i < text->count; i++)
        scores[i] = rows_dot(vectors + i * width, question, width);
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

static void print_times(const sentences_report *r) {
    static const char *const names[ENCODER_PARTS] = {
        [ENCODER_EMBEDDINGS] = "embeddings",     [ENCODER_ATTENTION] = "multi-head attention",
        [ENCODER_FEED_FORWARD] = "feed-forward", [ENCODER_NORM] = "layer norm",
        [ENCODER_POOLING] = "pooling",
    };
    double all = r->reading;
    for (int i = 0; i < ENCODER_PARTS; i++)
        all += r->parts[i];
    printf("%lld tokens in %.3f s: %.0f tokens per second; of the time\n  %5.1f%%  word pieces\n", (long long)r->tokens,
           all, (double)r->tokens / all, 100.0 * r->reading / all);
    for (int i = 0; i < ENCODER_PARTS; i++)
        printf("  %5.1f%%  %s\n", 100.0 * r->parts[i] / all, names[i]);
}

int main(int argc, char **argv) {
    options opts = parse_options(argc, argv);
    char text[COMPLAINT_MOST];
    const complaint to = {text, sizeof text};
    fovea_info info;
    fovea_context *context = make_context(opts.threads, &info);
    encoder *e;
    wordpiece *pieces;
    load_model(context, opts.model, &e, &pieces);
    lines l = read_lines(opts.text);
    const int64_t width = encoder_sizes(e).width;
    float *vectors = allocate((size_t)(l.count * width), sizeof *vectors);
    float *question = allocate((size_t)width, sizeof *question);

    /* The question first: it also wakes the threads. */
    sentences_report report = {0};
    const char *const asked = opts.question;
    if (sentences_encode(e, pieces, &asked, 1, question, NULL, to) != 0 ||
        sentences_encode(e, pieces, l.line, l.count, vectors, &report, to) != 0)
        die(text);
    printf("all-MiniLM-L6-v2, %s, %d %s. %s\n", fovea_isa_name(info.isa), info.threads,
           info.threads == 1 ? "thread" : "threads", asked);
    print_nearest(&l, vectors, question, width, opts.top);
    print_times(&report);

    free(vectors);
    free(question);
    free(l.bytes);
    free(l.line);
    free(opts.question);
    wordpiece_free(pieces);
    encoder_free(e);
    fovea_context_destroy(context);
    return 0;
}
