/* fovea-tune-regret: what tuning and the defaults are worth. Tunes in memory, then sweeps every candidate on shapes that
 * were not in the search, and prints for each: time of the tuned plan / of the default, and of both / of the best.
 *
 *     fovea-tune-regret [--budget 60s] [--effort ..] [--isa ..] [--threads ..] [--handicap] [--again] [--count 40]
 *
 * --handicap: the defaults are those for caches of half the size, and a column tells the share of the loss that tuning wins
 * back. --again: tunes twice, and compares the two. The best is found by halving, as in a search but over all candidates,
 * and then measured in the same blocks as the others. Exit status: 0 the limits hold, 1 they do not.
 */
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile sig_atomic_t tune_stopped;

enum { MOST_SHAPES = 200, FINALISTS = 5 };

typedef struct regret_row {
    double tuned, again, whole,
        best; /* logarithms of time / time of the default; whole: the default for whole caches */
} regret_row;

static void watch(void *arg, const char *what, double ratio) { (void)arg, (void)what, (void)ratio; }

static fovea_context *make_context(const tune_options *options, bool handicap) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        exit(1);
    if (handicap) {
        ctx->cpu.l1d /= 2;
        ctx->cpu.l2 /= 2;
    }
    return ctx;
}

/* Tunes, and lets the context use it. */
static void tune_into(fovea_context *ctx, const tune_options *options, const tune_class *classes, int count) {
    char error[FV_FILE_ERROR];
    fv_tuning_section own;
    fv_tuning_section_of(&ctx->cpu, &own);
    if (fv_tuning_create(&ctx->tuning.tuning, error) != FOVEA_OK)
        exit(1);
    ctx->tuning.section = fv_tuning_section_index(ctx->tuning.tuning, &own, true);
    const double begin = tune_now();
    int rows = 0;
    for (int i = 0; i < count; i++) {
        tune_result result;
        fovea_context *plain = make_context(options, false);
        plain->cpu = ctx->cpu;
        tune_search(plain, &classes[i], options->effort, (options->budget - (tune_now() - begin)) / (count - i), watch,
                    NULL, &result);
        fovea_context_destroy(plain);
        if (result.verdict != VERDICT_tuned)
            continue;
        const fv_tuning_row row = tune_row(ctx, &classes[i], &result);
        fv_tuning_put(ctx->tuning.tuning, &own, &row, error);
        printf("# %s\n", row.text);
        rows++;
    }
    printf("# tuned in %.0f s: %d of %d classes have another choice than the default\n", tune_now() - begin, rows,
           count);
    fflush(stdout);
}

static fv_attention_choice choice_of(const fovea_context *ctx, const fovea_attention_desc *desc) {
    fovea_attention_plan *plan;
    if (fovea_attention_plan_create(ctx, desc, &plan) != FOVEA_OK)
        exit(1);
    const fv_attention_choice choice = plan->choice;
    fovea_attention_plan_destroy(plan);
    return choice;
}

static bool same_plan(const fovea_attention_plan *a, const fovea_attention_plan *b) {
    const fv_attention_choice *x = &a->choice, *y = &b->choice;
    return x->score == y->score && x->value == y->value && x->block_rows == y->block_rows &&
           x->tile_rows == y->tile_rows && x->split_segments == y->split_segments;
}

static double median(const tune_candidate *c) { return tune_statistic(c->ratio, c->blocks).median; }

static int by_median(const void *a, const void *b) {
    const double x = median(*(tune_candidate *const *)a), y = median(*(tune_candidate *const *)b);
    return (x > y) - (x < y);
}

/* The fastest of all candidates, by halving. */
static int finalists(tune_measurement *m, tune_candidate **left, int n) {
    for (int blocks = 1; n > FINALISTS && blocks <= 16; blocks *= 2) {
        if (!tune_measure(m, left, n, blocks, INFINITY))
            break;
        qsort(left, (size_t)n, sizeof *left, by_median);
        n = n / 3 > FINALISTS ? n / 3 : FINALISTS;
    }
    n = n < FINALISTS ? n : FINALISTS;
    return n;
}

/* contexts: the default, tuned, tuned again, whole caches; those after the first may be NULL. */
static bool sweep(fovea_context *const contexts[4], const fovea_attention_desc *desc, regret_row *result) {
    tune_problem problem;
    tune_measurement m;
    char error[256];
    fv_attention_choice *choices;
    int count = tune_all_candidates(contexts[0], desc, &choices);
    if (!tune_problem_make(contexts[0], desc, &problem, error))
        return false;
    tune_candidate *all = calloc((size_t)count + 4, sizeof *all), **left = calloc((size_t)count + 4, sizeof(*left));
    bool ok = all && left && tune_measurement_begin(&m, &problem);
    for (int i = 0; i < count && ok; i++) {
        ok = tune_candidate_make(&m, &choices[i], &all[i]);
        left[i] = &all[i];
    }
    if (ok) {
        int n = finalists(&m, left, count);
        tune_candidate *named[4] = {NULL};
        for (int i = 1; i < 4; i++)
            if (contexts[i]) {
                const fv_attention_choice choice = choice_of(contexts[i], desc);
                named[i] = left[n++] = &all[count + i];
                ok = ok && tune_candidate_make(&m, &choice, named[i]);
            }
        for (int i = 0; i < n; i++)
            left[i]->blocks = 0;
        ok = ok && tune_measure(&m, left, n, 21, INFINITY); /* a shape that is too noisy here does not count */
        result->best = 0;
        for (int i = 0; i < n; i++)
            result->best = fmin(result->best, median(left[i]));
        double *const ratios[] = {NULL, &result->tuned, &result->again, &result->whole};
        for (int i = 1; i < 4; i++) /* the same plan is as fast as itself, whatever the machine did */
            *ratios[i] = named[i] && !same_plan(named[i]->plan, m.base.plan) ? median(named[i]) : 0;
        for (int i = 0; i < count + 4; i++)
            tune_candidate_free(&all[i]);
    }
    tune_measurement_end(&m);
    tune_problem_free(&problem);
    free(all);
    free(left);
    free(choices);
    return ok;
}

static double share(const double *values, int n, double limit) {
    int within = 0;
    for (int i = 0; i < n; i++)
        within += values[i] <= limit;
    return 100.0 * within / (n ? n : 1);
}

static int summarise(const regret_row *rows, int n, bool handicap, bool again) {
    double tuned = 0, worst = -INFINITY, twice = 0, loss = 0, won = 0, default_regret[MOST_SHAPES],
           tuned_regret[MOST_SHAPES];
    for (int i = 0; i < n; i++) {
        tuned += rows[i].tuned / n;
        worst = fmax(worst, rows[i].tuned);
        twice += (rows[i].again - rows[i].tuned) / n;
        default_regret[i] = -rows[i].best;
        tuned_regret[i] = rows[i].tuned - rows[i].best;
        loss += fmax(-rows[i].whole, 0);
        won += fmax(-rows[i].whole, 0) > 0 ? -rows[i].tuned : 0;
    }
    const double chosen = share(tuned_regret, n, log(1.03)), defaults = share(default_regret, n, log(1.10));
    printf("\ntuned / default       geometric mean %.3f (at most 1.00), worst %.3f (at most 1.02)\n", exp(tuned),
           exp(worst));
    printf("tuned / best          within 3 %% for %.0f %% of %d shapes (95 %%)\n", chosen, n);
    printf("default / best        within 10 %% for %.0f %% (95 %%)\n", defaults);
    bool good = exp(tuned) <= 1.0005 && exp(worst) <= 1.02 && chosen >= 95;
    if (handicap) {
        printf("won back of the loss  %.0f %% (90 %%; the loss is %.1f %%)\n", loss > 0 ? 100 * won / loss : 100.0,
               100 * (exp(loss / n) - 1));
        good = good && (loss <= 0.02 * n || won >= 0.9 * loss);
    } else
        good = good && defaults >= 95;
    if (again) {
        printf("tuned twice           second / first %.3f (within 2 %%)\n", exp(twice));
        good = good && fabs(twice) <= log(1.02);
    }
    printf("%s\n", good ? "all limits hold" : "NOT all limits hold");
    return good ? 0 : 1;
}

/* Takes a word of this program's own out of the arguments. */
static const char *take_word(int *argc, char **argv, const char *word, bool value) {
    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], word) == 0 && i + value < *argc) {
            const char *found = value ? argv[i + 1] : word;
            memmove(&argv[i], &argv[i + 1 + value], (size_t)(*argc - i - value) * sizeof *argv);
            *argc -= 1 + value;
            return found;
        }
    return NULL;
}

int main(int argc, char **argv) {
    const bool handicap = take_word(&argc, argv, "--handicap", false), again = take_word(&argc, argv, "--again", false);
    const char *wanted = take_word(&argc, argv, "--count", true);
    const int shapes = wanted ? (int)fmin(fmax(atoi(wanted), 1), MOST_SHAPES) : 40;
    tune_options options;
    int status = tune_options_read(argc, argv, &options);
    if (status >= 0)
        return status;
    fovea_context *contexts[4] = {make_context(&options, handicap), make_context(&options, handicap),
                                  again ? make_context(&options, handicap) : NULL,
                                  handicap ? make_context(&options, false) : NULL};
    const fovea_context *ctx = contexts[0];
    tune_class *classes;
    const int count = tune_classes(&options, ctx->threads, ctx->isa, &classes);
    if (count <= 0)
        return TUNE_USAGE;
    tune_machine_print(ctx);
    tune_into(contexts[1], &options, classes, count);
    if (again)
        tune_into(contexts[2], &options, classes, count);
    static regret_row rows[MOST_SHAPES];
    int n = 0;
    printf("\n%-40s %8s %8s %8s\n", "shape", "tuned/d", "default/b", "tuned/b");
    for (int i = 0; i < shapes; i++) {
        /* Over the classes in turn, at places of their boxes that neither search nor proof used. */
        char name[96];
        const double where = fmod(0.27 + 0.618034 * (double)(i / count), 1);
        const fovea_attention_desc desc = tune_class_shape(&classes[i % count], where, ctx->threads, ctx->isa);
        if (!sweep(contexts, &desc, &rows[n]))
            continue;
        printf("%-40s %8.3f %8.3f %8.3f\n", tune_shape_name(&desc, name, sizeof name), exp(rows[n].tuned),
               exp(-rows[n].best), exp(rows[n].tuned - rows[n].best));
        fflush(stdout);
        n++;
    }
    status = summarise(rows, n, handicap, again);
    free(classes);
    for (int i = 0; i < 4; i++)
        fovea_context_destroy(contexts[i]);
    tune_problem_end();
    return status;
}
