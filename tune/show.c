/* fovea-tune show, check: what is in a tuning file, and whether it is used and right here. */
#include "commands.h"
#include "dispatch/dispatch.h"
#include "machine.h"
#include "output.h"
#include "plural.h"
#include "trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The file that was named, or the one that contexts find, the shipped one last; NULL and a sentence if there is none to
 * be read. */
static fovea_tuning *load(const tune_options *options, const char **path) {
    static fv_tuning_use use; /* of which *path is a part */
    fovea_tuning *tuning = NULL;
    if (options->file_count > 0) {
        *path = options->files[0];
        if (fovea_tuning_load(*path, &tuning) != FOVEA_OK)
            fprintf(stderr, "fovea-tune: %s\n", fovea_error_detail());
        return tuning;
    }
    const fv_cpu cpu = {0};
    if (fv_tuning_use_file(NULL, &cpu, FV_ISA_scalar, 1, &use) == FOVEA_OK && !use.tuning && !use.shipped)
        fprintf(stderr, "fovea-tune: %s\n", use.text);
    *path = use.tuning ? use.path : use.shipped_path;
    return use.tuning ? use.tuning : use.shipped;
}

/* Where a row is used, or why it is not. */
static void usage(const fovea_context *ctx, int own, const fv_tuning_row *row, const fovea_tuning *tuning, bool named,
                  char *text, size_t size) {
    fv_tuning_section section;
    fv_tuning_section_of(&ctx->cpu, &section);
    const char *release = tuning->section[row->section].release;
    char why[FV_FILE_ERROR];
    if (row->section == own && fv_tuning_dropped(tuning, row, ctx->cpu.target, why))
        snprintf(text, size, "dropped: %.200s", why);
    else if (!row->known && row->section == own)
        snprintf(text, size, "read by its adapter, not by the library");
    else if (!row->known)
        snprintf(text, size, "not here: made for another build (%s%s)", release[0] ? "Fovea " : "an unknown release",
                 release);
    else if (row->section != own) {
        const fovea_tuning one = {.sections = 1, .section = {tuning->section[row->section]}};
        fv_tuning_why_foreign(&one, &section, text, size);
    } else if (row->isa != ctx->target.isa)
        snprintf(text, size, "only by contexts of tier %s (FOVEA_ISA, options); here it is %s", fv_isa_word(row->isa),
                 fv_isa_word(ctx->target.isa));
    else if (!fv_tuning_serves(row, ctx->target.isa, ctx->threads.count))
        snprintf(text, size, "only by contexts of %" PRId64 " thread%s; here it is %d", row->threads,
                 plural(row->threads), ctx->threads.count);
    else
        snprintf(text, size, named ? "used by contexts that load this file" : "used");
}

void tune_default_text(const fovea_context *ctx, const fv_tuning_row *row, char *text, size_t size) {
    const tune_class c = tune_class_of_row(row, ctx->target.isa);
    tune_choice choice, effect;
    text[0] = '\0';
    if (tune_choice_of(ctx, &c.search, NULL, &choice, &effect))
        tune_choice_text(row->operation, row->knob, choice.knob, text, size);
}

bool tune_row_fits(const fovea_context *ctx, const fv_tuning_row *row, int own) {
    return row->known && row->section == own && fv_tuning_serves(row, ctx->target.isa, ctx->threads.count);
}

/* A context, and the file's part about its machine: *index, -1 if it has none. */
static fovea_context *context_by(const tune_options *options, const fovea_tuning *tuning, fv_tuning_section *own,
                                 int *index) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        return NULL;
    fv_tuning_section_of(&ctx->cpu, own);
    fv_tuning_part part[2];
    fv_tuning_parts(tuning, &ctx->cpu, part);
    *index = part[part[0].section < 0].section;
    return ctx;
}

int tune_show(const tune_options *options) {
    const char *path;
    fovea_tuning *tuning = load(options, &path);
    fv_tuning_section own;
    int index;
    fovea_context *ctx = tuning ? context_by(options, tuning, &own, &index) : NULL;
    if (!ctx) {
        fovea_tuning_destroy(tuning);
        return TUNE_FAILED;
    }
    json_t *list = json_array();
    if (!options->json)
        printf("%s: %d row%s for %d CPU%s and build%s\nthis is Fovea %s, %s\n", path, tuning->rows,
               plural(tuning->rows), tuning->sections, plural(tuning->sections), plural(tuning->sections), own.release,
               own.text);
    int own_rows = 0;
    for (int i = 0; i < tuning->rows; i++)
        own_rows += tuning->row[i].section == index;
    if (!options->json && index >= 0 && own_rows == 0)
        puts("For this CPU and build the defaults are best: there are no rows.");
    for (int i = 0; i < tuning->rows; i++) {
        const fv_tuning_row *row = &tuning->row[i];
        char used[300], choice[300] = "", instead[300] = "", text[FV_TUNING_LINE];
        fv_tuning_print_row(row, text);
        usage(ctx, index, row, tuning, options->file_count > 0, used, sizeof used);
        if (row->known)
            tune_choice_text(row->operation, row->knob, row->knob, choice, sizeof choice);
        if (tune_row_fits(ctx, row, index))
            tune_default_text(ctx, row, instead, sizeof instead);
        if (options->json)
            json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:f, s:s, s:s, s:s}", "line", row->line, "cpu",
                                                  tuning->section[row->section].text, "release",
                                                  tuning->section[row->section].release, "row", text, "gain",
                                                  (double)row->evidence.gain / 1000, "choice", choice, "default",
                                                  instead, "use", used));
        else if (!row->known)
            printf("line %-4d %s\n          %s\n", row->line, text, used);
        else {
            const tune_class c = tune_class_of_row(row, row->isa);
            char threads[24] = "any number of";
            if (row->threads)
                snprintf(threads, sizeof threads, "%" PRId64, row->threads);
            printf("line %-4d %s, %s, %s thread%s: %.3f times as fast as the default (%.3f to %.3f)\n          %s\n",
                   row->line, c.name, fv_isa_word(row->isa), threads, plural(row->threads),
                   (double)row->evidence.gain / 1000, (double)row->evidence.low / 1000,
                   (double)row->evidence.high / 1000, choice);
            if (instead[0])
                printf("          instead of %s\n", instead);
            printf("          %s\n", used);
        }
    }
    tune_output_json(options->json, list);
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
    return TUNE_GOOD;
}

/* --------------------------------------------------------------------------------------------------------- check -- */

typedef enum finding { FINDING_good, FINDING_drift, FINDING_noisy, FINDING_skipped } finding;

/* Adds what a row's choice takes on a shape against the default. */
static finding check_shape(const fovea_context *ctx, const tune_shape *shape, const tune_choice *choice, int blocks,
                           double until, tune_together *together) {
    tune_problem problem;
    tune_measurement m;
    tune_candidate candidate, *list[] = {&candidate};
    char error[256];
    if (!tune_problem_make(ctx, shape, &problem, error))
        return FINDING_skipped;
    finding found = FINDING_noisy;
    if (tune_measurement_begin(&m, &problem) && tune_candidate_make(&m, choice, &candidate)) {
        const bool same = tune_is_default(&m, &candidate);
        if (!same)
            tune_measure(&m, list, 1, blocks, until);
        if (same || candidate.blocks >= TUNE_LEAST) { /* fewer blocks say nothing */
            tune_together_add(together, &m, &candidate);
            found = FINDING_good;
        }
        tune_candidate_free(&candidate);
    }
    tune_measurement_end(&m);
    tune_problem_free(&problem);
    return found;
}

/* Measures a row's choice against the default again, on shapes such as those of its proof. */
static finding check_row(const fovea_context *ctx, const fv_tuning_row *row, int blocks, double until,
                         tune_interval *gain) {
    enum { LOOKS = 3 };
    const tune_class c = tune_class_of_row(row, ctx->target.isa);
    tune_choice choice = {0};
    memcpy(choice.knob, row->knob, sizeof choice.knob);
    tune_shape shapes[TUNE_PROOFS] = {c.search};
    const int proofs = tune_class_proofs(&c, ctx->threads.count, ctx->target.isa, shapes),
              count = proofs > 0 ? proofs : 1;
    tune_together together = {0};
    finding found = FINDING_noisy;
    for (int look = 0; look < LOOKS && found == FINDING_noisy && tune_now() < until; look++) {
        for (int i = 0; i < count; i++) {
            const double share = tune_now() + (until - tune_now()) / (count - i);
            const finding one = check_shape(ctx, &shapes[i], &choice, blocks, share, &together);
            if (one != FINDING_good)
                return one;
        }
        double error;
        const tune_interval t = tune_together_ratio(&together, &error);
        *gain = (tune_interval){exp(-t.median), exp(-t.high), exp(-t.low)};
        const double half = 1 + ((double)row->evidence.gain / 1000 - 1) / 2; /* of what it gained when it was made */
        found = gain->low > 1 ? FINDING_good : gain->high < fmin(half, 1.01) ? FINDING_drift : FINDING_noisy;
    }
    return found;
}

static int check_section(const tune_options *options, const fovea_context *ctx, const fovea_tuning *tuning, int own,
                         json_t *list) {
    static const char *const words[] = {"still faster", "no longer faster", "too noisy to tell", "cannot be measured"};
    int fitting = 0, others = 0, done = 0, counts[4] = {0};
    char why[FV_FILE_ERROR];
    for (int i = 0; i < tuning->rows; i++) {
        if (tuning->row[i].section == own && fv_tuning_dropped(tuning, &tuning->row[i], ctx->cpu.target, why))
            fprintf(stderr, "fovea-tune: dropped: %s\n", why);
        fitting += tune_row_fits(ctx, &tuning->row[i], own);
        others += tuning->row[i].known && tuning->row[i].section == own && !tune_row_fits(ctx, &tuning->row[i], own);
    }
    if (fitting == 0 && others > 0) {
        fprintf(stderr,
                "fovea-tune: its %d row%s for this CPU and build %s for other tiers or numbers of threads: here it is "
                "tier %s and %d thread%s (fovea-tune show lists them)\n",
                others, plural(others), others == 1 ? "is" : "are", fv_isa_word(ctx->target.isa), ctx->threads.count,
                plural(ctx->threads.count));
        return TUNE_INCOMPATIBLE;
    }
    const int blocks = tune_proof_blocks(options->effort);
    const double begin = tune_now();
    for (int i = 0; i < tuning->rows && !tune_stopped; i++) {
        const fv_tuning_row *row = &tuning->row[i];
        const double left = options->budget - (tune_now() - begin);
        if (!tune_row_fits(ctx, row, own) || left <= 0)
            continue;
        tune_interval gain = {1, 1, 1};
        const finding found = check_row(ctx, row, blocks, tune_now() + left / (fitting - done), &gain);
        done++;
        counts[found]++;
        if (options->json)
            json_array_append_new(list,
                                  json_pack("{s:i, s:s, s:f, s:f}", "line", row->line, "finding", words[found], "gain",
                                            gain.median, "gain_when_made", (double)row->evidence.gain / 1000));
        else if (!options->quiet)
            printf("line %-4d %s: %.3f times as fast as the default (%.3f when it was made)\n", row->line, words[found],
                   gain.median, (double)row->evidence.gain / 1000);
    }
    if (!options->quiet && !options->json && fitting == 0)
        puts("For this CPU and build, the file says that the default is best: there is nothing to measure.");
    else if (!options->quiet && !options->json)
        printf("%d of %d row%s for this tier and number of threads measured: %d still faster, %d no longer, %d too "
               "noisy\n",
               done, fitting, plural(fitting), counts[FINDING_good], counts[FINDING_drift], counts[FINDING_noisy]);
    if (counts[FINDING_drift] > 0)
        return TUNE_DRIFT;
    if (tune_stopped)
        return TUNE_STOPPED;
    return counts[FINDING_good] == done ? TUNE_GOOD : TUNE_NOISY;
}

int tune_check(const tune_options *options) {
    const char *path;
    char why[300];
    fovea_tuning *tuning = load(options, &path);
    if (!tuning)
        return TUNE_INCOMPATIBLE;
    fv_tuning_section section;
    int own;
    fovea_context *ctx = context_by(options, tuning, &section, &own);
    if (!ctx) {
        fovea_tuning_destroy(tuning);
        return TUNE_FAILED;
    }
    json_t *list = json_array();
    int status = TUNE_INCOMPATIBLE;
    if (own < 0) {
        fv_tuning_why_foreign(tuning, &section, why, sizeof why);
        fprintf(stderr, "fovea-tune: %s: %s\n", path, why);
    } else
        status = check_section(options, ctx, tuning, own, list);
    tune_output_json(options->json, json_pack("{s:s, s:i, s:o}", "file", path, "status", status, "rows", list));
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
    return status;
}
