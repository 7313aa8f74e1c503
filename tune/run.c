/* fovea-tune run: the classes one after another, each with its share of what is left of the budget; then one change
 * of the file. */
#include "commands.h"
#include "machine.h"
#include "output.h"
#include "plural.h"
#include "run_text.h"
#include "search.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Progress that the watcher of a search shows. */
typedef struct progress {
    const tune_options *options;
    const tune_class *classes, *c;
    double *seconds; /* of each class, all searches together */
    int number, count;
    double begin;
    bool terminal;
} progress;

static void clear_line(const progress *p) {
    if (p->terminal)
        fputs("\r\033[K", stderr);
}

/* Columns of the terminal. */
static int columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Is there a terminal that can take a line back? */
static bool has_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static void show(void *arg, const char *what, double ratio) {
    enum { WIDTH = 16 };
    progress *p = arg;
    if (!p->terminal)
        return;
    const double spent = tune_now() - p->begin, left = fmax(p->options->budget - spent, 0);
    const int full = (int)fmin(WIDTH * spent / p->options->budget, WIDTH);
    char bar[WIDTH + 1];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)full);
    bar[WIDTH] = '\0';
    char line[320];
    snprintf(line, sizeof line, "[%s] %d/%d, %.0f s left, best %+.1f %%: %s of %s", bar, p->number, p->count, left,
             100 * (exp(-ratio) - 1), what, p->c->name);
    clear_line(p);
    fprintf(stderr, "%.*s", columns() - 1, line); /* what is wider would stay behind when the line is cleared */
    fflush(stderr);
}

static json_t *json_of(const tune_class *c, const tune_result *r, const fv_tuning_row *row) {
    json_t *o = json_pack("{s:s, s:s, s:i, s:f}", "class", c->name, "verdict", tune_verdicts[r->verdict], "candidates",
                          r->candidates, "default_seconds", r->seconds);
    if (r->verdict == VERDICT_tuned) {
        json_object_set_new(o, "gain", json_real(r->gain.median));
        json_object_set_new(o, "gain_low", json_real(r->gain.low));
        json_object_set_new(o, "gain_high", json_real(r->gain.high));
        char text[FV_TUNING_LINE];
        tune_choice_text(c->operation, row->knob, row->knob, text, sizeof text);
        json_object_set_new(o, "choice", json_string(text));
        fv_tuning_print_row(row, text);
        json_object_set_new(o, "row", json_string(text));
    }
    return o;
}

/* The tuning in a file; a new one where there is none, or one of a version that only older builds read. */
static fovea_status read_or_make(const char *path, fovea_tuning **tuning, char error[FV_FILE_ERROR]) {
    bool absent = tune_is_standard_output(path);
    fovea_status status = absent ? FOVEA_OK : fv_tuning_read(path, tuning, &absent, error);
    return absent || status == FOVEA_ERROR_INCOMPATIBLE ? fv_tuning_create(tuning, error) : status;
}

/* Into the file as it is now, which another tuner may have changed meanwhile: what was decided in this run replaces
 * what was there for the same shapes. */
static fovea_status store(const char *path, const fovea_context *ctx, const tune_class *classes,
                          const tune_result *results, int count, char error[FV_FILE_ERROR]) {
    int lock = -1;
    fovea_tuning *tuning = NULL;
    fovea_status status =
        tune_is_standard_output(path) ? FOVEA_OK : fv_file_lock(path, 10, &lock, error); /* a whole run is at stake */
    if (status != FOVEA_OK)
        return status;
    status = read_or_make(path, &tuning, error);
    fv_tuning_section own;
    fv_tuning_section_of(&ctx->cpu, &own);
    for (int i = 0; i < count && status == FOVEA_OK; i++) {
        const tune_verdict verdict = results[i].verdict;
        const fv_tuning_row row = tune_row(ctx, &classes[i], &results[i]);
        const int section = fv_tuning_section_make(tuning, &own);
        if (verdict == VERDICT_tuned)
            status = fv_tuning_put(tuning, &own, &row, error);
        else if ((verdict == VERDICT_default || verdict == VERDICT_unconfirmed) && section >= 0)
            fv_tuning_remove(tuning, section, &row);
    }
    if (status == FOVEA_OK)
        status = tune_output_tuning(path, tuning, error);
    if (lock >= 0)
        fv_file_unlock(lock);
    fovea_tuning_destroy(tuning);
    return status;
}

/* Where nothing is stored, standard output gets a sound file without rows: the shell has made a file already, and one
 * of no bytes is damaged. */
static fovea_status put_no_rows(const char *path, char error[FV_FILE_ERROR]) {
    fovea_tuning *none = NULL;
    fovea_status status = fv_tuning_create(&none, error);
    if (status == FOVEA_OK)
        status = tune_output_tuning(path, none, error);
    fovea_tuning_destroy(none);
    return status;
}

static void dry_run_json(const tune_options *options, const tune_class *classes, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        char name[96];
        tune_shape_name(&classes[i].search, name, sizeof name);
        json_array_append_new(list, json_pack("{s:s, s:s}", "class", classes[i].name, "search", name));
    }
    tune_output_json(true, json_pack("{s:f, s:o}", "seconds", options->budget, "classes", list));
}

static int dry_run(const tune_options *options, const tune_class *classes, int count) {
    const double budget = options->budget;
    if (options->json)
        dry_run_json(options, classes, count);
    if (options->json || options->quiet)
        return TUNE_GOOD;
    printf("%d class%s of shapes, %.1f s for each on average:\n", count, plural_es(count),
           budget / (count ? count : 1));
    for (int i = 0; i < count; i++) {
        char name[96];
        printf("%-62s  search on %s\n", classes[i].name, tune_shape_name(&classes[i].search, name, sizeof name));
    }
    return TUNE_GOOD;
}

/* Before each search, and after the last of a class: its line waits for the end. */
static void report(void *arg, int index, const tune_result *result, double seconds) {
    progress *p = arg;
    p->number += !result && p->number < p->count; /* later rounds begin none anew */
    p->c = &p->classes[index];
    p->seconds[index] = seconds;
}

/* The last words, and the exit status. */
static int conclude(const tune_options *options, const fovea_context *ctx, const tune_class *classes, int count,
                    const tune_result *results, const char *path) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const fv_tuning_row row = tune_row(ctx, &classes[i], &results[i]);
        json_array_append_new(list, json_of(&classes[i], &results[i], &row));
    }
    const tune_outcome outcome = tune_outcome_of(results, count);
    char error[FV_FILE_ERROR] = "";
    bool failed = outcome.store && store(path, ctx, classes, results, count, error) != FOVEA_OK;
    if (!outcome.store && outcome.status != TUNE_FAILED && tune_is_standard_output(path))
        failed = put_no_rows(path, error) != FOVEA_OK;
    tune_output_json(options->json, json_pack("{s:s, s:s, s:i, s:s, s:b, s:o}", "cpu", ctx->cpu.name, "isa",
                                              fovea_isa_name((fovea_isa)ctx->target.isa), "threads", ctx->threads.count,
                                              "file", path, "stored", outcome.store && !failed, "classes", list));
    if (!options->json && !options->quiet && !failed)
        run_text_outcome(&outcome, count, path);
    if (failed)
        fprintf(stderr, "fovea-tune: %s\n", error);
    return failed ? TUNE_FAILED : outcome.status;
}

bool tune_may_write(const char *path, bool usual) {
    char error[FV_FILE_ERROR];
    int lock;
    fovea_tuning *tuning = NULL;
    if (tune_is_standard_output(path))
        return true;
    if (usual)
        fv_file_make_folders(path);
    bool ok = fv_file_lock(path, 1, &lock, error) == FOVEA_OK;
    if (ok) {
        ok = read_or_make(path, &tuning, error) == FOVEA_OK;
        ok = ok && fv_file_may_replace(path, error);
        fv_file_unlock(lock);
    }
    if (!ok)
        fprintf(stderr, "fovea-tune: %s\nfovea-tune: --output names another file\n", error);
    fovea_tuning_destroy(tuning);
    return ok;
}

/* Is the machine too busy for anything to be told? A neighbour's burst is waited out, for a tenth of the budget. */
static bool is_busy(const fovea_context *ctx, const tune_options *o, tune_steadiness s) {
    const double pause = 0.5, most = 5, until = tune_now() + fmin(o->budget / 10, most);
    const bool quiet = o->quiet || o->json;
    if (tune_is_busy(&s) && !quiet)
        run_text_busy(&s, "Waiting for a quieter moment");
    while (tune_is_busy(&s) && tune_now() < until && !tune_stopped) {
        tune_rest(pause);
        s = tune_measure_steadiness(ctx);
    }
    if (tune_is_busy(&s) && !quiet)
        run_text_busy(&s, "Nothing is measured");
    return tune_is_busy(&s);
}

/* All classes, and then a line for each. */
static void search(const fovea_context *ctx, progress *p, tune_result *results) {
    const tune_options *o = p->options;
    const bool prints = !o->quiet && !o->json;
    p->terminal = prints && has_terminal();
    if (prints)
        printf("%d class%s of shapes, %.0f s\n", p->count, plural_es(p->count), o->budget);
    fflush(stdout);
    const int hopeless = tune_search_all(ctx, p->classes, p->count, o->effort, o->budget, show, report, p, results);
    clear_line(p);
    for (int i = 0; i < p->count && prints; i++)
        run_text_class(&p->classes[i], &results[i], p->seconds[i]);
    if (hopeless > 0 && prints)
        run_text_hopeless(hopeless, tune_now() - p->begin);
}

int tune_run(const tune_options *options) {
    if (options->kind)
        return tune_kind(options);
    const char *path = options->output ? options->output : tune_default_file();
    if (!options->output && tune_is_standard_output(path)) {
        fprintf(stderr,
                "fovea-tune: FOVEA_TUNING_FILE is -, a file's name to programs; --output says where to write\n");
        return TUNE_USAGE;
    }
    if (options->json && tune_is_standard_output(path)) {
        fprintf(stderr, "fovea-tune: --json and --output - cannot both have the standard output\n");
        return TUNE_USAGE;
    }
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        return TUNE_FAILED;
    tune_class *classes;
    const int count = tune_classes(options, ctx->threads.count, ctx->target.isa, &classes);
    int status = count < 0 ? TUNE_USAGE : TUNE_FAILED;
    tune_result *results = calloc((size_t)(count > 0 ? count : 1), sizeof *results);
    double *seconds = calloc((size_t)(count > 0 ? count : 1), sizeof *seconds);
    const tune_steadiness steady = tune_measure_steadiness(ctx);
    if (count >= 0 && !options->quiet && !options->json)
        tune_machine_print(ctx, &steady);
    if (count >= 0 && options->dry_run)
        status = dry_run(options, classes, count);
    else if (count > 0 && results && seconds && tune_may_write(path, !options->output)) {
        progress p = {.options = options,
                      .classes = classes,
                      .c = classes,
                      .seconds = seconds,
                      .count = count,
                      .begin = tune_now()};
        if (is_busy(ctx, options, steady))
            for (int i = 0; i < count; i++)
                results[i] = (tune_result){.verdict = VERDICT_noisy, .seen = 1};
        else
            search(ctx, &p, results);
        status = tune_ggml(options, path, conclude(options, ctx, classes, count, results, path));
    }
    free(seconds);
    free(results);
    free(classes);
    fovea_context_destroy(ctx);
    return status;
}
