/* fovea-inspect similarity: the figures of each head of a model (figures.h), and those of random heads of the same
 * shape. One layer is in memory at a time; its heads are shared out among threads. */
#include "similarity.h"

#include "progress.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SAMPLES = 32 };

/* Heads that are computed at once: of the layer that was read, or random ones. */
typedef struct job {
    const model *file; /* NULL: random heads */
    int64_t first, heads;
    double (*figure)[FIGURES]; /* of the first head on */
    figures_space **spaces;    /* one for each thread */
    atomic_llong next;
    atomic_bool failed;
} job;

static void work(job *j, figures_space *space) {
    for (int64_t head; (head = atomic_fetch_add(&j->next, 1)) < j->heads;) {
        if (j->file != NULL)
            model_head(j->file, j->first + head, figures_columns(space));
        const int status =
            j->file != NULL ? figures_compute(space, j->figure[head]) : figures_random(space, head, j->figure[head]);
        if (status != 0)
            j->failed = true;
    }
}

/* Heads of one shape from the first on, by all threads. */
static int compute(const model *file, int64_t first, int64_t heads, int64_t d_model, int64_t d_k, int threads,
                   double (*figure)[FIGURES], complaint to) {
    job j = {.file = file, .first = first, .heads = heads, .figure = figure};
    int count = heads < threads ? (int)heads : threads, made = 0;
    j.spaces = calloc((size_t)count, sizeof *j.spaces);
    while (j.spaces != NULL && made < count && figures_space_create(d_model, d_k, &j.spaces[made]) == 0)
        made++;
    if (made > 0) { /* fewer, where memory has no room for more */
#pragma omp parallel for num_threads(made) schedule(static, 1)
        for (int i = 0; i < made; i++)
            work(&j, j.spaces[i]);
    }
    for (int i = 0; i < made; i++)
        figures_space_free(j.spaces[i]);
    free(j.spaces);
    if (made == 0)
        return complain(to, "similarity", "out of memory");
    return j.failed ? complain(to, "similarity", "LAPACK did not converge on the singular values") : 0;
}

/* -------------------------------------------------------------------------------------------------------- random -- */

static int find_shape(const similarity *s, const model_layer *l) {
    int i = 0;
    while (i < s->shapes && (s->random[i].d_model != l->d_model || s->random[i].d_k != l->d_k))
        i++;
    return i;
}

static int compute_random(similarity *s, random_heads *r, int threads, complaint to) {
    r->figure = malloc((size_t)s->samples * sizeof *r->figure);
    if (r->figure == NULL)
        return complain(to, s->path, "out of memory");
    if (compute(NULL, 0, s->samples, r->d_model, r->d_k, threads, r->figure, to) != 0)
        return -1;
    const double n = (double)s->samples;
    for (int f = 0; f < FIGURES; f++) {
        double square = 0.0;
        r->mean[f] = 0.0;
        for (int64_t i = 0; i < s->samples; i++)
            r->mean[f] += r->figure[i][f] / n;
        for (int64_t i = 0; i < s->samples; i++)
            square += (r->figure[i][f] - r->mean[f]) * (r->figure[i][f] - r->mean[f]);
        r->deviation[f] = sqrt(square / (n - 1.0));
    }
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- model -- */

/* The common part of the names of stacks, and whether it is all of them. */
static void find_common(similarity *s, const model_layer *l) {
    const model_layer *first = &s->layer[0];
    const bool same = l->stack_length == first->stack_length && l->cross == first->cross &&
                      memcmp(l->stack, first->stack, (size_t)l->stack_length) == 0;
    if (l == first) {
        s->one_stack = true;
        s->common = l->stack_length;
    }
    s->one_stack = s->one_stack && same && (l == first || l->number != l[-1].number);
    int common = 0, most = l->stack_length < s->common ? l->stack_length : s->common;
    while (common < most && l->stack[common] == first->stack[common])
        common++;
    if (common < s->common)
        while (common > 0 && l->stack[common - 1] != '.')
            common--;
    s->common = common;
}

/* Sizes of everything, from the headers of files. */
static int describe(similarity *s, complaint to) {
    s->layers = model_layers(s->file);
    const size_t layers = (size_t)s->layers;
    s->layer = calloc(layers, sizeof *s->layer);
    s->first = calloc(layers, sizeof *s->first);
    s->shape = calloc(layers, sizeof *s->shape);
    s->random = calloc(layers, sizeof *s->random);
    if (s->layer == NULL || s->first == NULL || s->shape == NULL || s->random == NULL)
        return complain(to, s->path, "out of memory");
    for (int64_t i = 0; i < s->layers; i++) {
        model_layer *l = &s->layer[i];
        if (model_describe(s->file, i, l, to) != 0)
            return -1;
        s->first[i] = s->heads;
        s->heads += l->heads; /* at most 2^24 / 10 layers of 2^16 heads */
        s->shape[i] = find_shape(s, l);
        if (s->shape[i] == s->shapes)
            s->random[s->shapes++] = (random_heads){.d_model = l->d_model, .d_k = l->d_k};
        find_common(s, l);
    }
    s->figure = malloc((size_t)s->heads * sizeof *s->figure);
    s->sorted = malloc((size_t)s->heads * sizeof *s->sorted);
    return s->figure != NULL && s->sorted != NULL ? 0 : complain(to, s->path, "out of memory");
}

/* Is a layer, or a head of it, asked for? */
static bool has_chosen(const similarity *s, const model_layer *l) {
    return s->chosen.layer < 0 || (l->number == s->chosen.layer && l->heads > s->chosen.head);
}

static int check_chosen(const similarity *s, complaint to) {
    for (int64_t i = 0; i < s->layers; i++)
        if (has_chosen(s, &s->layer[i]))
            return 0;
    const model_layer *first = &s->layer[0], *last = &s->layer[s->layers - 1];
    return complain(to, s->path,
                    "has no head %lld.%lld: layers are %lld to %lld, the first of %lld heads, counted from 0",
                    (long long)s->chosen.layer, (long long)s->chosen.head, (long long)first->number,
                    (long long)last->number, (long long)first->heads);
}

/* All heads, or the chosen one alone: figures of others are NaN. */
static int compute_all(similarity *s, int threads, complaint to) {
    const bool one = s->chosen.layer >= 0;
    progress p;
    int status = 0;
    int64_t done = 0;
    for (int64_t h = 0; h < s->heads; h++)
        for (int f = 0; f < FIGURES; f++)
            s->figure[h][f] = NAN;
    progress_begin(&p, "heads", (one ? 1 : s->heads) + s->shapes * s->samples);
    for (int i = 0; status == 0 && i < s->shapes; i++) {
        status = compute_random(s, &s->random[i], threads, to);
        progress_show(&p, done += s->samples);
    }
    for (int64_t i = 0; status == 0 && i < s->layers; i++) {
        const model_layer *l = &s->layer[i];
        if (!has_chosen(s, l))
            continue;
        const int64_t first = one ? s->chosen.head : 0, heads = one ? 1 : l->heads;
        status = model_read(s->file, i, to);
        if (status == 0)
            status = compute(s->file, first, heads, l->d_model, l->d_k, threads, s->figure + s->first[i] + first, to);
        progress_show(&p, done += heads);
    }
    progress_end(&p);
    return status;
}

/* -------------------------------------------------------------------------------------------------------- output -- */

static void write_table(const similarity *s) {
    if (s->chosen.layer >= 0)
        similarity_one(s, stdout);
    else if (s->rank >= 0)
        similarity_ranking(s, stdout);
    else
        similarity_table(s, stdout);
}

static void free_all(similarity *s) {
    for (int i = 0; i < s->shapes; i++)
        free(s->random[i].figure);
    free(s->random);
    free(s->layer);
    free(s->first);
    free(s->shape);
    free(s->figure);
    free(s->sorted);
    model_close(s->file);
}

int inspect_similarity(const inspect_options *options) {
    char text[INSPECT_COMPLAINT];
    const complaint to = {text, sizeof text};
    const output outputs[] = {{options->csv, "stack,", similarity_csv},
                              {options->json, "{\"model\":", similarity_json},
                              {options->svg, "<svg ", similarity_svg}};
    similarity s = {.path = options->words[0],
                    .samples = options->samples ? options->samples : DEFAULT_SAMPLES,
                    .rank = options->rank,
                    .top = options->top,
                    .chosen = options->head};
    int threads;
    bool standard = false;
    fovea_context *context = inspect_context(options, &threads, to); /* how many threads this process may use */
    int status = context != NULL ? outputs_check(outputs, 3, &standard, to) : -1;
    fovea_context_destroy(context);
    if (status == 0 && options->svg != NULL && s.chosen.layer >= 0)
        status = complain(to, "similarity", "--svg draws all heads, so it cannot be combined with --head");
    if (status == 0)
        status = model_open(options->words, options->word_count, options->heads, options->kv_heads, &s.file, to);
    if (status == 0)
        status = describe(&s, to);
    if (status == 0)
        status = check_chosen(&s, to);
    if (status == 0)
        status = compute_all(&s, threads, to);
    if (status == 0 && standard)
        similarity_notes(&s, stderr, "fovea-inspect: ");
    else if (status == 0)
        write_table(&s);
    if (status == 0)
        status = outputs_write(outputs, 3, &s, to);
    free_all(&s);
    return status == 0 ? INSPECT_GOOD : inspect_failed(to);
}
