/* Attention weights as numbers (attention.h). */
#include "attention.h"

#include "plural.h"
#include "records.h"

#include <math.h>

static const char *const figure_names[ATTENTION_FIGURES] = {"entropy", "largest", "cls",      "sep",
                                                            "first",   "self",    "previous", "next"};

/* ----------------------------------------------------------------------------------------------------- summaries -- */

int64_t attention_most(const attention *a, int64_t layer, int64_t head) {
    const float *received = a->received + attention_place(a, layer, head);
    int64_t most = 0;
    for (int64_t key = 1; key < a->tokens; key++)
        most = received[key] > received[most] ? key : most;
    return most;
}

/* Adds the weights of one token that looks, at a place of all heads; counted[] are the rows that have such a token to
 * look at. */
static void add_row(const attention *a, const float *row, int64_t place, int64_t query, double sums[ATTENTION_FIGURES],
                    int64_t counted[ATTENTION_FIGURES]) {
    const int64_t visible = a->causal ? query + 1 : a->tokens;
    double on[3] = {0.0, 0.0, 0.0};
    int64_t there[3] = {0, 0, 0};
    for (int64_t key = 0; key < visible; key++)
        on[a->token[key].role] += (double)row[key];
    for (int64_t key = 0; key < a->tokens; key++)
        there[a->token[key].role]++;
    const struct {
        attention_figure figure;
        bool counts;
        double value;
    } figures[] = {
        {ATTENTION_ENTROPY, true, (double)a->entropy[place] / log(2.0)},
        {ATTENTION_LARGEST, true, (double)a->largest[place]},
        {ATTENTION_MASS_CLS, there[ATTENTION_CLS] > 0, on[ATTENTION_CLS]},
        {ATTENTION_MASS_SEP, there[ATTENTION_SEP] > 0, on[ATTENTION_SEP]},
        {ATTENTION_MASS_FIRST, true, (double)row[0]},
        {ATTENTION_MASS_SELF, true, (double)row[query]},
        {ATTENTION_MASS_PREVIOUS, query > 0, query > 0 ? (double)row[query - 1] : 0.0},
        {ATTENTION_MASS_NEXT, query + 1 < visible, query + 1 < visible ? (double)row[query + 1] : 0.0},
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        if (figures[i].counts) {
            sums[figures[i].figure] += figures[i].value;
            counted[figures[i].figure]++;
        }
}

void attention_summarize(const attention *a, int64_t layer, int64_t head, double figures[ATTENTION_FIGURES]) {
    const float *weights = attention_weights(a, layer, head);
    int64_t counted[ATTENTION_FIGURES] = {0};
    for (int i = 0; i < ATTENTION_FIGURES; i++)
        figures[i] = 0.0;
    for (int64_t query = 0; query < a->tokens; query++)
        add_row(a, weights + query * a->tokens, attention_place(a, layer, head) + query, query, figures, counted);
    for (int i = 0; i < ATTENTION_FIGURES; i++)
        figures[i] = counted[i] > 0 ? figures[i] / (double)counted[i] : (double)NAN;
}

void attention_write_table(const attention *a, FILE *to) {
    fprintf(to,
            "%lld token%s, %lld head%s. Means over the tokens that look: entropy in bits (%.2f at most), the largest "
            "weight, weight on\n[CLS], [SEP], the first token, the token itself, the one before and the one after (-: "
            "there is none to look at). most: the\nnumber of the token that gets most, from 0\n\n",
            (long long)a->tokens, plural(a->tokens), (long long)attention_chosen(a), plural(attention_chosen(a)),
            log2((double)a->tokens));
    fputs("layer.head", to);
    for (int i = 0; i < ATTENTION_FIGURES; i++)
        fprintf(to, "%10s", figure_names[i]);
    fprintf(to, "%10s\n", "most");
    for (int64_t layer = a->first_layer; layer <= a->last_layer; layer++)
        for (int64_t head = a->first_head; head <= a->last_head; head++) {
            double figures[ATTENTION_FIGURES];
            attention_summarize(a, layer, head, figures);
            fprintf(to, "%5lld.%-4lld", (long long)layer, (long long)head);
            for (int i = 0; i < ATTENTION_FIGURES; i++)
                if (isnan(figures[i]))
                    fprintf(to, "%10s", "-");
                else
                    fprintf(to, "%10.3f", figures[i]);
            fprintf(to, "%10lld\n", (long long)attention_most(a, layer, head));
        }
}

/* ------------------------------------------------------------------------------------------------------- weights -- */

/* A column for each token that is looked at: "2 insect". A line for each weight would repeat the sentence too often. */
static void write_csv_head_line(const attention *a, FILE *to) {
    fputs("sentence,layer,head,query,token", to);
    for (int64_t key = 0; key < a->tokens; key++) {
        char name[256];
        snprintf(name, sizeof name, "%lld %.200s", (long long)key, a->token[key].text);
        fputc(',', to);
        record_csv_text(to, name);
    }
    fputc('\n', to);
}

int attention_write_csv(const void *of, FILE *to) {
    const attention *a = of;
    write_csv_head_line(a, to);
    for (int64_t layer = a->first_layer; layer <= a->last_layer; layer++)
        for (int64_t head = a->first_head; head <= a->last_head; head++) {
            const float *weight = attention_weights(a, layer, head);
            for (int64_t query = 0; query < a->tokens; query++) {
                record_csv_text(to, a->sentence);
                fprintf(to, ",%lld,%lld,%lld,", (long long)layer, (long long)head, (long long)query);
                record_csv_text(to, a->token[query].text);
                for (int64_t key = 0; key < a->tokens; key++, weight++)
                    fprintf(to, isnan(*weight) ? ",nan" : ",%.9g", (double)*weight);
                fputc('\n', to);
            }
        }
    return 0;
}

static json_t *numbers_of(const float *numbers, int64_t count) {
    json_t *array = json_array();
    for (int64_t i = 0; i < count; i++)
        array = record_append(array, record_number((double)numbers[i]));
    return array;
}

static json_t *head_of(const attention *a, int64_t layer, int64_t head) {
    const int64_t place = attention_place(a, layer, head);
    double figures[ATTENTION_FIGURES];
    json_t *summary = json_object(), *top = json_array(), *weights = json_array();
    attention_summarize(a, layer, head, figures);
    for (int i = 0; i < ATTENTION_FIGURES; i++)
        summary = record_add(summary, figure_names[i], record_number(figures[i]));
    for (int64_t query = 0; query < a->tokens; query++) {
        const int64_t *keys = a->top + (place + query) * ENCODER_TOP;
        json_t *most = json_array();
        for (int64_t i = 0; i < ENCODER_TOP && keys[i] >= 0; i++)
            most = record_append(most, json_integer(keys[i]));
        top = record_append(top, most);
        weights = record_append(weights, numbers_of(attention_weights(a, layer, head) + query * a->tokens, a->tokens));
    }
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "layer", layer, "head", head, "summary", summary, "received",
                     numbers_of(a->received + place, a->tokens), "top", top, "weights", weights);
}

/* A head at a time: all weights as JSON are many times what they are as floats. */
int attention_write_json(const void *of, FILE *to) {
    const attention *a = of;
    json_t *tokens = json_array();
    for (int64_t t = 0; t < a->tokens; t++)
        tokens = record_append(tokens, record_text(a->token[t].text));
    fputs("{\"model\": ", to);
    int status = record_write(record_text(a->model), to);
    fputs(", \"sentence\": ", to);
    status |= record_write(record_text(a->sentence), to);
    fputs(", \"tokens\": ", to);
    status |= record_write(tokens, to);
    fprintf(to, ", \"causal\": %s, \"heads\": [\n", a->causal ? "true" : "false");
    for (int64_t layer = a->first_layer; status == 0 && layer <= a->last_layer; layer++)
        for (int64_t head = a->first_head; status == 0 && head <= a->last_head; head++) {
            status = record_write(head_of(a, layer, head), to);
            fputs(layer == a->last_layer && head == a->last_head ? "\n" : ",\n", to);
        }
    fputs("]}\n", to);
    return status;
}
