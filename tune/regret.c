/* fovea-tune-regret: what tuning and the defaults are worth. Tunes in memory, then sweeps every candidate on shapes
 * that were not in the search, and prints for each: time of the tuned plan / of the default, and of both / of the best;
 * where the best is 2 % faster than the default, what it has otherwise.
 *
 * It takes about --budget (twice with --again) and --sweep. --handicap: a column tells the time of the handicapped
 * default / of the real one; what must be won back is that of the shapes known to lose 2 %.
 *
 * The best of all candidates is found by halving, as in a search but over all. Those that are left, the tuned plan
 * and the default are then measured in the same blocks, until what is asked is known to half a percent or the shape's
 * share of the time is over. Every second block says which is the best, the others what it is worth: else the best of
 * many would be the luckiest. A limit is missed only if it is missed by more than the 95 % interval; if noise hides
 * whether it holds, that is said.
 */
#include "regret.h"
#include "candidates.h"
#include "machine.h"

#include "plural.h"
#include "search.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile sig_atomic_t tune_stopped;

enum { FINALISTS = 5, LEAST_BLOCKS = 12 };

/* Contexts, and the plans they make: the default (handicapped, if so asked), tuned, tuned again, the default for
 * whole caches. */
enum { DEFAULT, TUNED, AGAIN, WHOLE, NAMED };

static void watch(void *arg, const char *what, double ratio) { (void)arg, (void)what, (void)ratio; }

static fovea_context *make_context(const tune_options *options, int handicap) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        exit(TUNE_FAILED);
    /* Rounded up, so that so many times as much is no less than all. */
    ctx->cpu.l1d = fv_ceil_div(ctx->cpu.l1d, handicap);
    ctx->cpu.l2 = fv_ceil_div(ctx->cpu.l2, handicap);
    return ctx;
}

static void report(void *arg, int index, const tune_result *result, double seconds) {
    (void)arg, (void)index, (void)result, (void)seconds;
}

/* Tunes, as fovea-tune does, and lets the context use it. */
static void tune_into(fovea_context *ctx, const tune_options *options, const tune_class *classes, int count) {
    char error[FV_FILE_ERROR];
    fv_tuning_section own;
    fv_tuning_section_of(&ctx->cpu, &own);
    fovea_context *plain = make_context(options, 1);
    plain->cpu = ctx->cpu;
    tune_result *results = calloc((size_t)count, sizeof *results);
    if (!results || fv_tuning_create(&ctx->tuning.tuning, error) != FOVEA_OK)
        exit(TUNE_FAILED);
    ctx->tuning.section = fv_tuning_section_make(ctx->tuning.tuning, &own);
    const double begin = tune_now();
    int rows = 0, noisy = 0;
    tune_scale scale;
    tune_find_scale(plain, classes, count, options->effort, options->budget, watch, NULL, &scale);
    plain->tuning.cache_scale = ctx->tuning.cache_scale = scale.percent;
    printf("# cache_scale %lld: %s, %.3f (%.3f to %.3f), %.3f seen, %.1f s\n", (long long)scale.percent,
           scale.known ? "known" : "not known", scale.gain.median, scale.gain.low, scale.gain.high, scale.seen,
           tune_now() - begin);
    tune_search_all(plain, classes, count, options->effort, options->budget - (tune_now() - begin), watch, report, NULL,
                    results);
    tune_keep_sizes(plain, &scale, classes, count, results);
    tune_scale_free(&scale);
    for (int i = 0; i < count; i++) {
        const tune_result *r = &results[i];
        noisy += r->verdict == VERDICT_noisy;
        if (r->verdict == VERDICT_tuned) {
            const fv_tuning_row row = tune_row(ctx, &classes[i], r);
            char text[FV_TUNING_LINE];
            fv_tuning_put(ctx->tuning.tuning, &own, &row, error);
            fv_tuning_print_row(&row, text);
            printf("# %s\n", text);
            rows++;
        } else
            printf("# %s: %s (%.3f seen, %.0f %% of the bound)\n", classes[i].name, tune_verdicts[r->verdict], r->seen,
                   100 * r->share);
    }
    printf("# tuned in %.0f s: %d of %d class%s with another choice than the default, %d too noisy\n",
           tune_now() - begin, rows, count, plural_es(count), noisy);
    fflush(stdout);
    free(results);
    fovea_context_destroy(plain);
}

/* -------------------------------------------------------------------------------------------------------- sweep -- */

/* The fastest of all candidates, by halving. */
static int finalists(tune_measurement *m, tune_candidate **left, int n, double until) {
    for (int blocks = 1; n > FINALISTS && blocks <= 16; blocks *= 2) {
        while (!tune_measure(m, left, n, blocks, until) && tune_now() < until)
            ;
        n = tune_sort(left, n); /* those that the time was enough for */
        if (n <= FINALISTS)
            break;
        n = n / 3 > FINALISTS ? n / 3 : FINALISTS;
    }
    return n < FINALISTS ? n : FINALISTS;
}

/* Of the blocks of one parity: a times its weight and b times its own, block by block. */
static tune_interval combine(const tune_candidate *a, double of_a, const tune_candidate *b, double of_b, int first,
                             int step) {
    double values[TUNE_BLOCKS];
    int n = 0;
    const int count = a->blocks < b->blocks ? a->blocks : b->blocks;
    for (int i = first; i < count; i += step)
        values[n++] = of_a * a->ratio[i] + of_b * b->ratio[i];
    return tune_statistic(values, n);
}

static double width(tune_interval t) { return t.high - t.low; }

/* The knobs that a choice has otherwise than the default, as "tile_rows 144 (24)". */
static void differences(const tune_shape *shape, const tune_choice *choice, const tune_choice *usual, char *text,
                        size_t size) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_operation *operation = fv_tuning_operations[tune_shape_keys(shape, key)];
    size_t n = 0;
    snprintf(text, size, "other panels, or other fetching");
    for (int i = 0; i < operation->knobs && n < size; i++) {
        const fv_tuning_value *a = &choice->knob[i], *b = &usual->knob[i];
        const char *comma = n ? ", " : "";
        if (a->kernel != b->kernel)
            n += (size_t)snprintf(text + n, size - n, "%s%s %s (%s)", comma, operation->knob[i].name, a->kernel->name,
                                  b->kernel->name);
        else if (a->number != b->number)
            n += (size_t)snprintf(text + n, size - n, "%s%s %" PRId64 " (%" PRId64 ")", comma, operation->knob[i].name,
                                  a->number, b->number);
    }
}

/* What is known of a shape after so many blocks; plan NULL: not asked. A plan that is the default's is as fast as it,
 * whatever the machine did. */
static void conclude(const tune_shape *shape, tune_candidate *const *left, int n, tune_candidate *const plan[NAMED],
                     const tune_plan *base, regret_row *row) {
    tune_interval *const own[NAMED] = {NULL, &row->tuned, NULL, &row->whole};
    static tune_candidate zero; /* as fast as the default in every block */
    const tune_candidate *named[NAMED] = {NULL}, *best = &zero;
    zero.blocks = TUNE_BLOCKS;
    for (int i = TUNED; i < NAMED; i++) {
        const bool same = !plan[i] || tune_same_plan(plan[i]->plan, base);
        named[i] = same ? &zero : plan[i];
        if (own[i])
            *own[i] = combine(named[i], 1, &zero, 0, 0, 1);
    }
    double least = 0;
    for (int i = 0; i < n; i++) {
        const double ratio = combine(left[i], 1, &zero, 0, 0, 2).median;
        if (ratio < least && !tune_same_plan(left[i]->plan, base)) {
            least = ratio;
            best = left[i];
        }
    }
    differences(shape, best == &zero ? &base->made : &best->plan->made, &base->made, row->fastest, sizeof row->fastest);
    row->best = combine(best, 1, &zero, 0, 1, 2);
    row->regret = combine(named[TUNED], 1, best, -1, 1, 2);
    row->twice = combine(named[AGAIN], 1, named[TUNED], -1, 0, 1);
    row->left = combine(named[TUNED], -1, named[WHOLE], 0.9, 0, 1);
    row->blocks = left[0]->blocks;
}

static bool sweep(fovea_context *const contexts[NAMED], const tune_shape *shape, double until, regret_row *row) {
    const double enough = 0.01; /* the width of an interval: half a percent to each side */
    tune_problem problem;
    tune_measurement m;
    char error[256];
    tune_choice *choices;
    const int count = tune_all_candidates(contexts[DEFAULT], shape, &choices);
    if (!tune_problem_make(contexts[DEFAULT], shape, &problem, error)) {
        printf("# %s\n", error);
        free(choices);
        return false;
    }
    tune_candidate *all = calloc((size_t)count + NAMED, sizeof *all),
                   **left = calloc((size_t)count + NAMED, sizeof(*left));
    bool ok = tune_measurement_begin(&m, &problem) && all && left;
    for (int i = 0; i < count && ok; i++) {
        ok = tune_candidate_make(&m, &choices[i], &all[i]);
        left[i] = &all[i];
    }
    if (ok) {
        int n = finalists(&m, left, count, tune_now() + 0.5 * (until - tune_now()));
        tune_candidate *named[NAMED] = {NULL};
        for (int i = TUNED; i < NAMED && ok; i++) {
            tune_choice choice;
            if (!contexts[i])
                continue;
            named[i] = left[n++] = &all[count + i];
            ok = tune_choice_of(contexts[i], shape, &choice);
            /* Without the handicap, seen from the context with it, caches are larger. */
            choice.cache_scale *= fv_ceil_div(contexts[i]->cpu.l2, contexts[DEFAULT]->cpu.l2);
            ok = ok && tune_candidate_make(&m, &choice, named[i]);
        }
        for (int i = 0; i < n; i++)
            left[i]->blocks = 0;
        row->candidates = count;
        row->blocks = 0;
        while (ok && tune_now() < until && row->blocks < TUNE_BLOCKS - LEAST_BLOCKS &&
               (row->blocks < LEAST_BLOCKS || width(row->tuned) > enough || width(row->regret) > enough ||
                width(row->whole) > enough)) {
            tune_measure(&m, left, n, LEAST_BLOCKS, until);
            conclude(shape, left, n, named, m.base.plan, row);
        }
        ok = ok && row->blocks >= LEAST_BLOCKS;
        for (int i = 0; i < count + NAMED; i++)
            tune_candidate_free(&all[i]);
    }
    tune_measurement_end(&m);
    tune_problem_free(&problem);
    free(all);
    free(left);
    free(choices);
    return ok;
}

/* --------------------------------------------------------------------------------------------------------- main -- */

/* Shapes over the classes in turn, at places of their boxes that neither search nor proof used; those that were too
 * noisy again at the end, if there is time. Returns how many were measured. */
static int sweep_all(fovea_context *const contexts[NAMED], const tune_class *classes, int count,
                     const regret_options *own, regret_row *rows) {
    const fovea_context *ctx = contexts[DEFAULT];
    const double begin = tune_now(), worth_naming = 1.02;
    bool done[MOST_SHAPES] = {false};
    int n = 0;
    printf("\n%-32s %8s %16s %8s %8s %8s\n", "shape", "tuned/d", "95 %", "d/best", "tuned/b",
           own->handicap > 1 ? "d/whole" : "");
    for (int at = 0; at < 2 * own->shapes; at++) {
        char name[96];
        const int i = at % own->shapes;
        const double where = fmod(0.27 + 0.618034 * (double)(i / count), 1);
        tune_shape shape;
        const double now = tune_now(), left = own->sweep - (now - begin);
        const int open = at < own->shapes ? own->shapes - i : own->shapes - n;
        if (done[i] || left <= 0 ||
            !tune_class_unseen(&classes[i % count], where, ctx->threads.count, ctx->target.isa, &shape))
            continue;
        done[i] = sweep(contexts, &shape, now + left / open, &rows[n]);
        tune_shape_name(&shape, name, sizeof name);
        if (!done[i]) {
            printf("%-32s too noisy or too large for its share of the time\n", name);
            continue;
        }
        const regret_row *r = &rows[n++];
        printf("%-32s %8.3f (%.3f to %.3f) %8.3f %8.3f", name, exp(r->tuned.median), exp(r->tuned.low),
               exp(r->tuned.high), exp(-r->best.median), exp(r->regret.median));
        if (own->handicap > 1)
            printf(" %8.3f", exp(-r->whole.median));
        printf("  %d candidate%s, %d block%s%s%s\n", r->candidates, plural(r->candidates), r->blocks, plural(r->blocks),
               r->best.median < -log(worth_naming) ? "; best: " : "",
               r->best.median < -log(worth_naming) ? r->fastest : "");
        fflush(stdout);
    }
    printf("# swept in %.0f s, %d of %d shape%s measured\n", tune_now() - begin, n, own->shapes, plural(own->shapes));
    return n;
}

static int read_options(int argc, char **argv, regret_options *o) {
#define AT(field) offsetof(regret_options, field)
    static const cli_option own[] = {
        {"--sweep", "TIME", "10m", tune_read_seconds, 0, 0, AT(sweep), TUNE_REGRET,
         "how long to measure all candidates (default: 10m)"},
        {"--count", "N", "40", cli_read_int, 1, MOST_SHAPES, AT(shapes), TUNE_REGRET, "number of shapes (default: 40)"},
        {"--handicap", "N", "2", cli_read_int, 1, 64, AT(handicap), TUNE_REGRET,
         "choose defaults for caches of 1/N of their size; tuning must win back 90 % of the loss"},
        {"--again", NULL, NULL, NULL, 0, 0, AT(again), TUNE_REGRET,
         "tune twice: no shape may differ in speed by more than 2 %"},
    };
#undef AT
    static const cli_command command = {"",
                                        TUNE_REGRET,
                                        0,
                                        0,
                                        "",
                                        "--budget 60s --sweep 10m",
                                        "tune in memory, then sweep every candidate on shapes that were not in the "
                                        "search: what tuning and the defaults "
                                        "are worth"};
    const cli program = {.program = "fovea-tune-regret",
                         .exit_statuses = "0 the limits hold; 1 one does not; 2 wrong usage; 3 too noisy to tell, or "
                                          "more than a tenth of the shapes could not be measured; 4 something failed",
                         .commands = &command,
                         .command_count = 1};
    *o = (regret_options){.sweep = 600, .handicap = 1, .shapes = 40};
    return tune_options_read_with(&program, own, sizeof own / sizeof own[0], argc, argv, &o->tune);
}

int main(int argc, char **argv) {
    regret_options own;
    int status = read_options(argc, argv, &own);
    if (status >= 0)
        return status;
    const tune_options *options = &own.tune;
    fovea_context *contexts[NAMED] = {make_context(options, own.handicap), make_context(options, own.handicap),
                                      own.again ? make_context(options, own.handicap) : NULL,
                                      own.handicap > 1 ? make_context(options, 1) : NULL};
    const fovea_context *ctx = contexts[DEFAULT];
    tune_class *classes;
    const int count = tune_classes(options, ctx->threads.count, ctx->target.isa, &classes);
    if (count <= 0)
        return TUNE_USAGE;
    const tune_steadiness steady = tune_measure_steadiness(ctx);
    tune_machine_print(ctx, &steady);
    tune_into(contexts[TUNED], options, classes, count);
    if (own.again)
        tune_into(contexts[AGAIN], options, classes, count);
    static regret_row rows[MOST_SHAPES];
    const int n = sweep_all(contexts, classes, count, &own, rows);
    status = n > 0 ? regret_summarise(rows, n, &own) : TUNE_NOISY;
    free(classes);
    for (int i = 0; i < NAMED; i++)
        fovea_context_destroy(contexts[i]);
    tune_problem_end();
    return status;
}
