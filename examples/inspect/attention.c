/* fovea-inspect attention: what each head of the encoder all-MiniLM-L6-v2 looks at in a sentence: a heat map of tokens
 * by tokens for each head, rows the tokens that look, columns those looked at. */
#include "inspect.h"

#include "encoder.h"
#include "heat.h"
#include "wordpiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADS = 12,
    MOST_TOKENS = 64, /* more cannot be read in a picture */
    SENTENCE_MOST = 4096,
    PATH_MOST = 4096,
    CELL = 11,
    LABELS = 66, /* room for tokens beside and above a map */
    TOP = 84,
    ACROSS = 4 /* maps side by side, of one layer */
};

static const char default_model[] = "build/models/all-MiniLM-L6-v2", default_output[] = "attention.svg";

/* A sentence and its weights, [layers][heads][tokens][tokens]. */
typedef struct picture {
    char sentence[SENTENCE_MOST];
    const wordpiece *pieces;
    int32_t ids[MOST_TOKENS + 1];
    int64_t tokens, layers;
    float *weights;
} picture;

/* ------------------------------------------------------------------------------------------------------- drawing -- */

/* One head's weights. The square root, so that small ones are seen. */
typedef struct map {
    const float *weights;
    int64_t tokens;
} map;

static int level(const void *of, int64_t row, int64_t column) {
    const map *m = of;
    return heat_level(sqrt((double)m->weights[row * m->tokens + column]));
}

static void draw_map(const picture *p, FILE *to, double x, double y, int64_t layer, int64_t head) {
    const map m = {p->weights + (layer * HEADS + head) * p->tokens * p->tokens, p->tokens};
    const double size = (double)(CELL * p->tokens);
    char text[64];
    snprintf(text, sizeof text, "layer %lld, head %lld", (long long)layer, (long long)head);
    heat_text(to, x, y + size + 15.0, "small", HEAT_START, false, 0, text);
    fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"p0\"/>\n", x, y, size, size);
    heat_cells(to, x, y, CELL, p->tokens, p->tokens, level, &m);
    for (int64_t t = 0; t < p->tokens; t++) {
        const double at = (double)(CELL * t) + CELL / 2.0 + 3.0;
        heat_text(to, x - 4.0, y + at, "tiny soft", HEAT_END, false, 11, wordpiece_text(p->pieces, p->ids[t]));
        heat_text(to, x + at, y - 4.0, "tiny soft", HEAT_START, true, 11, wordpiece_text(p->pieces, p->ids[t]));
    }
}

static void draw_legend(FILE *to, double x, double y) {
    static const double marks[] = {0.0, 0.04, 0.25, 0.5, 1.0};
    enum { WIDTH = 220 };
    heat_scale(to, x, y, WIDTH, 0, HEAT_LEVELS);
    for (int i = 0; i < 5; i++) {
        char text[16];
        snprintf(text, sizeof text, "%g", marks[i]);
        heat_text(to, x + WIDTH * sqrt(marks[i]), y + 19.0, "small", HEAT_MIDDLE, false, 0, text);
    }
}

/* All heads of the layers from first to last. */
static void draw(const picture *p, FILE *to, int64_t first, int64_t last) {
    const int64_t across = first == last ? ACROSS : HEADS, maps = (last - first + 1) * HEADS;
    const double step = (double)(LABELS + CELL * p->tokens), down = step + 22.0;
    heat_begin(to, fmax(16.0 + step * (double)across + 16.0, 560.0),
               TOP + down * ((double)maps / (double)across) + 12.0,
               "Heat maps of attention weights, a map for each head, tokens on both axes");
    char text[SENTENCE_MOST + 32];
    snprintf(text, sizeof text, "Attention of \"%s\"", p->sentence);
    heat_text(to, 16.0, 28.0, "title", HEAT_START, false, 60 + (int)(step * (double)across / 12.0), text);
    heat_text(to, 16.0, 46.0, "soft", HEAT_START, false, 0,
              "all-MiniLM-L6-v2. Down: the token that looks; across: what it looks at. A row's weights sum to 1.");
    draw_legend(to, 22.0, 56.0);
    for (int64_t i = 0; i < maps; i++)
        draw_map(p, to, 16.0 + LABELS - 10.0 + step * (double)(i % across),
                 TOP + LABELS - 10.0 + down * (double)(i / across), first + i / HEADS, i % HEADS);
    heat_end(to);
}

/* ----------------------------------------------------------------------------------------------------- computing -- */

static int join_words(const inspect_options *options, picture *p, complaint to) {
    size_t length = 0;
    for (int i = 0; i < options->word_count; i++) {
        const size_t more = strlen(options->words[i]) + 1;
        if (length + more >= sizeof p->sentence)
            return complain(to, "sentence", "is longer than %d bytes", SENTENCE_MOST - 1);
        length += (size_t)snprintf(p->sentence + length, more + 1, "%s%s", i > 0 ? " " : "", options->words[i]);
    }
    return 0;
}

static int read_sentence(picture *p, complaint to) {
    p->tokens = wordpiece_tokens(p->pieces, p->sentence, strlen(p->sentence), p->ids, MOST_TOKENS + 1);
    if (p->tokens > MOST_TOKENS)
        return complain(to, "sentence", "has more than %d tokens: no map of so many can be read", MOST_TOKENS);
    return 0;
}

static int compute(const encoder *e, picture *p, complaint to) {
    const encoder_shape shape = encoder_sizes(e);
    encoder_plan *plan;
    p->layers = shape.layers;
    p->weights = calloc((size_t)(shape.layers * HEADS * p->tokens * p->tokens), sizeof(float));
    float *vector = malloc((size_t)shape.width * sizeof(float));
    int status = p->weights != NULL && vector != NULL ? encoder_plan_create(e, 1, p->tokens, &plan, to)
                                                      : complain(to, "attention", "out of memory");
    if (status == 0) {
        status = encoder_run(plan, p->ids, &p->tokens, vector, NULL, p->weights, to);
        encoder_plan_free(plan);
    }
    free(vector);
    return status;
}

static int load(const inspect_options *options, const fovea_context *context, encoder **e, wordpiece **pieces,
                complaint to) {
    char model[PATH_MOST], words[PATH_MOST];
    const char *folder = options->model != NULL ? options->model : default_model;
    if (snprintf(model, sizeof model, "%s/model.safetensors", folder) >= PATH_MOST ||
        snprintf(words, sizeof words, "%s/vocab.txt", folder) >= PATH_MOST)
        return complain(to, "attention", "--model has too long a name");
    if (access(model, F_OK) != 0)
        return complain(to, model, "is not there; python3 examples/minilm/fetch.py FOLDER gets it, --model says where");
    return encoder_load(context, model, HEADS, e, to) == 0 ? wordpiece_load(words, pieces, to) : -1;
}

static int write_picture(const picture *p, const inspect_options *options, complaint to) {
    const char *path = options->output != NULL ? options->output : default_output;
    const int64_t last = p->layers - 1, layer = options->layer;
    if (layer > last)
        return complain(to, "attention", "there is no layer %lld: they are 0 to %lld", (long long)layer,
                        (long long)last);
    output out;
    if (output_begin(&out, path, to) != 0)
        return -1;
    draw(p, out.to, layer >= 0 ? layer : 0, layer >= 0 ? layer : last);
    if (output_end(&out, to) != 0)
        return -1;
    if (strcmp(path, "-") != 0)
        printf("%s: attention of %lld tokens, %lld heads\n", path, (long long)p->tokens,
               (long long)(HEADS * (layer >= 0 ? 1 : p->layers)));
    return 0;
}

int inspect_attention(const inspect_options *options) {
    char text[INSPECT_COMPLAINT];
    const complaint to = {text, sizeof text};
    picture p = {0};
    encoder *e = NULL;
    wordpiece *pieces = NULL;
    int threads, status = join_words(options, &p, to);
    if (status == 0)
        status = output_check(options->output != NULL ? options->output : default_output, to);
    fovea_context *context = status == 0 ? inspect_context(options, &threads, to) : NULL;
    status = context != NULL ? load(options, context, &e, &pieces, to) : -1;
    p.pieces = pieces;
    if (status == 0)
        status = read_sentence(&p, to);
    if (status == 0)
        status = compute(e, &p, to);
    if (status == 0)
        status = write_picture(&p, options, to);
    free(p.weights);
    wordpiece_free(pieces);
    encoder_free(e);
    fovea_context_destroy(context);
    return status == 0 ? INSPECT_GOOD : inspect_failed(to);
}
