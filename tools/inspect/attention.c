/* fovea-inspect attention: what each head of a model looks at in a sentence: a picture (attention_svg.c), numbers as
 * CSV and JSON, and a table of summaries (attention_text.c). */
#include "attention.h"

#include "encoder.h"
#include "model_place.h"
#include "plural.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- computing -- */

/* The state of a run. */
typedef struct session {
    char *sentence;
    int32_t *ids;
    fovea_context *context;
    char model[PATH_MOST];
    encoder *e;
    tk_tokenizer *tokens;
    attention a;
} session;

static int out_of_memory(complaint to) { return complain(to, "attention", "out of memory"); }

static int join_words(const inspect_options *options, session *s, complaint to) {
    static const char before[] = "Attention of \"";
    size_t length = 0;
    for (int i = 0; i < options->word_count; i++)
        length += strlen(options->words[i]) + 1;
    s->sentence = malloc(length + 1);
    s->a.title = malloc(length + sizeof before + 2);
    if (s->sentence == NULL || s->a.title == NULL)
        return out_of_memory(to);
    char *at = s->sentence;
    for (int i = 0; i < options->word_count; i++)
        at += sprintf(at, "%s%s", i > 0 ? " " : "", options->words[i]);
    sprintf(s->a.title, "%s%s\"", before, s->sentence);
    s->a.sentence = s->sentence;
    return 0;
}

static int load(const inspect_options *options, session *s, complaint to) {
    model_place place;
    encoder_config config;
    if (model_place_find(options->model, &place, to) != 0 || encoder_config_read(place.folder, &config, to) != 0)
        return -1;
    config.heads = options->heads > 0 ? options->heads : config.heads;
    if (config.heads == 0)
        return complain(to, place.folder, "no config.json there gives the number of heads; pass --heads N");
    s->a.model = model_place_name(&place, s->model);
    s->a.causal = config.causal;
    return folder_tokenizer(place.folder, config.frame, &s->tokens, to) == 0
               ? encoder_load_as(s->context, place.file, &config, &s->e, to)
               : -1;
}

/* The layers and heads asked for. */
static int choose(const inspect_options *options, session *s, complaint to) {
    attention *a = &s->a;
    const encoder_shape shape = encoder_sizes(s->e);
    const int64_t layer = options->head.layer >= 0 ? options->head.layer : options->layer, head = options->head.head;
    a->layers = shape.layers;
    a->heads = shape.heads;
    if (layer >= a->layers)
        return complain(to, "attention", "there is no layer %lld; layers are 0 to %lld", (long long)layer,
                        (long long)a->layers - 1);
    if (head >= a->heads)
        return complain(to, "attention", "there is no head %lld; heads are 0 to %lld", (long long)head,
                        (long long)a->heads - 1);
    a->first_layer = layer >= 0 ? layer : 0;
    a->last_layer = layer >= 0 ? layer : a->layers - 1;
    a->first_head = head >= 0 ? head : 0;
    a->last_head = head >= 0 ? head : a->heads - 1;
    return 0;
}

static int read_sentence(session *s, complaint to) {
    attention *a = &s->a;
    const int64_t most = encoder_sizes(s->e).most_tokens;
    s->ids = malloc(((size_t)most + 1) * sizeof *s->ids);
    a->token = calloc((size_t)most + 1, sizeof *a->token);
    if (s->ids == NULL || a->token == NULL)
        return out_of_memory(to);
    a->tokens = tk_encode_cut(s->tokens, s->sentence, (int64_t)strlen(s->sentence), s->ids, most + 1);
    if (a->tokens < 0)
        return out_of_memory(to);
    if (a->tokens == 0)
        return complain(to, "sentence", "has no tokens");
    if (a->tokens > most)
        return complain(to, "sentence", "has more tokens than the model takes: %lld at most", (long long)most);
    for (int64_t t = 0; t < a->tokens; t++) {
        const char *text = tk_spelling(s->tokens, s->ids[t]);
        a->token[t].text = text != NULL ? text : "?";
        a->token[t].role = s->ids[t] == tk_before(s->tokens)   ? ATTENTION_CLS
                           : s->ids[t] == tk_behind(s->tokens) ? ATTENTION_SEP
                                                               : ATTENTION_WORD;
    }
    return 0;
}

static int compute(session *s, complaint to) {
    attention *a = &s->a;
    encoder_plan *plan;
    encoder_look look = {.first_layer = a->first_layer,
                         .layers = a->last_layer - a->first_layer + 1,
                         .first_head = a->first_head,
                         .heads = a->last_head - a->first_head + 1};
    const size_t rows = (size_t)(look.layers * a->heads * a->tokens);
    look.weights = a->weights = calloc((size_t)(attention_chosen(a) * a->tokens * a->tokens), sizeof(float));
    look.entropy = a->entropy = calloc(rows, sizeof(float));
    look.largest = a->largest = calloc(rows, sizeof(float));
    look.received = a->received = calloc(rows, sizeof(float));
    look.lse = a->lse = calloc(rows, sizeof(float));
    look.top = a->top = calloc(rows, ENCODER_TOP * sizeof(int64_t));
    look.top_weights = a->top_weights = calloc(rows, ENCODER_TOP * sizeof(float));
    float *vector = malloc((size_t)encoder_sizes(s->e).width * sizeof(float));
    int status = look.weights && look.entropy && look.largest && look.received && look.lse && look.top &&
                         look.top_weights && vector
                     ? encoder_plan_create(s->e, 1, a->tokens, &plan, to)
                     : out_of_memory(to);
    if (status == 0) {
        status = encoder_run(plan, s->ids, &a->tokens, vector, NULL, &look, to);
        encoder_plan_free(plan);
    }
    free(vector);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- writing -- */

enum { OUTPUTS = 3 };

/* Says where everything went, if none of it is on standard output. */
static void print_table(const attention *a, const output outputs[OUTPUTS]) {
    for (int i = 0; i < OUTPUTS; i++)
        if (outputs[i].path != NULL)
            printf("%s: attention of %lld token%s, %lld head%s\n", outputs[i].path, (long long)a->tokens,
                   plural(a->tokens), (long long)attention_chosen(a), plural(attention_chosen(a)));
    attention_write_table(a, stdout);
}

static void close_session(session *s) {
    free(s->a.weights);
    free(s->a.entropy);
    free(s->a.largest);
    free(s->a.received);
    free(s->a.lse);
    free(s->a.top);
    free(s->a.top_weights);
    free(s->a.token);
    free(s->a.title);
    free(s->ids);
    free(s->sentence);
    tk_free(s->tokens);
    encoder_free(s->e);
    fovea_context_destroy(s->context);
}

int inspect_attention(const inspect_options *options) {
    char text[INSPECT_COMPLAINT];
    const complaint to = {text, sizeof text};
    session s = {0};
    const bool numbers = options->csv != NULL || options->json != NULL;
    const char *picture = options->output == NULL && !numbers ? "attention.svg" : options->output;
    const output outputs[OUTPUTS] = {{options->csv, "sentence,", attention_write_csv},
                                     {options->json, "{\"model\":", attention_write_json},
                                     {picture, "<svg ", attention_write_svg}};
    bool standard;
    int threads, status = outputs_check(outputs, OUTPUTS, &standard, to);
    if (status == 0 && options->layer >= 0 && options->head.layer >= 0)
        status = complain(to, "attention", "--head already names the layer; leave out --layer");
    if (status == 0)
        status = join_words(options, &s, to);
    if (status == 0 && (s.context = inspect_context(options, &threads, to)) == NULL)
        status = -1;
    if (status == 0)
        status = load(options, &s, to);
    if (status == 0)
        status = choose(options, &s, to);
    if (status == 0)
        status = read_sentence(&s, to);
    if (status == 0)
        status = compute(&s, to);
    if (status == 0)
        status = outputs_write(outputs, OUTPUTS, &s.a, to);
    if (status == 0 && !standard)
        print_table(&s.a, outputs);
    close_session(&s);
    return status == 0 ? INSPECT_GOOD : inspect_failed(to);
}
