/* fovea-tune report: one HTML page without anything from elsewhere: the gain of each row as bars, a heat map of time over
 * tile and block rows with the chosen point, and a roofline with what was measured now (tune.h). */
#include "tune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, MOST_POINTS = 32 };

typedef struct point {
    char name[160];
    double intensity, rate;
} point;

typedef struct page {
    FILE *file;
    const fovea_context *ctx;
    const tune_options *options;
    fovea_tuning *tuning; /* NULL: none */
    int own;
} page;

static void head(const page *p, const char *path) {
    fprintf(p->file,
            "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Fovea tuning</title>\n<style>\n"
            "body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 "
            "1em;color:#222;background:#fff}\n"
            "svg{width:100%%;height:auto}text{font:12px system-ui,sans-serif;fill:currentColor}\n"
            "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}\n</style>\n"
            "<h1>Fovea on this machine</h1>\n<p>%s, tier %s, %d thread%s. File: %s.</p>\n",
            p->ctx->cpu.name, fovea_isa_name((fovea_isa)p->ctx->isa), p->ctx->threads, p->ctx->threads == 1 ? "" : "s",
            path[0] ? path : "none, so these are the defaults");
}

static bool used_here(const page *p, const fv_tuning_row *row) {
    return row->known && row->section == p->own && row->isa == p->ctx->isa && row->threads == p->ctx->threads;
}

static void bars(const page *p) {
    int n = 0;
    fputs("<h2>Gain of each choice</h2>\n<p>Time of the default / time of the choice, as it was proved; the line is "
          "the 95 % "
          "interval.</p>\n",
          p->file);
    for (int i = 0; p->tuning && i < p->tuning->rows; i++)
        n += used_here(p, &p->tuning->row[i]);
    if (n == 0) {
        fputs("<p>No row of the file is for this CPU, build, tier and number of threads: the defaults serve.</p>\n",
              p->file);
        return;
    }
    fprintf(p->file, "<svg viewBox=\"0 0 900 %d\">\n", 26 * n + 10);
    for (int i = 0, y = 8; i < p->tuning->rows; i++) {
        const fv_tuning_row *row = &p->tuning->row[i];
        if (!used_here(p, row))
            continue;
        const tune_class c = tune_class_of_row(row, row->isa);
        const double scale = 1200; /* pixels for a gain of 1: 40 % fill the page */
        const double gain = (double)row->evidence.gain / 1000 - 1, low = (double)row->evidence.low / 1000 - 1;
        const double high = fmin((double)row->evidence.high / 1000 - 1, 0.4);
        fprintf(
            p->file,
            "<text x=\"0\" y=\"%d\">%s</text><rect x=\"330\" y=\"%d\" width=\"%.0f\" height=\"16\" fill=\"#3a7bd5\"/>"
            "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%d\" y2=\"%d\" stroke=\"currentColor\" stroke-width=\"2\"/>"
            "<text x=\"%.0f\" y=\"%d\">%.1f %%</text>\n",
            y + 13, c.name, y, scale * fmin(gain, 0.4), 330 + scale * low, 330 + scale * high, y + 8, y + 8,
            338 + scale * fmax(high, fmin(gain, 0.4)), y + 13, 100 * gain);
        y += 26;
    }
    fputs("</svg>\n", p->file);
}

/* Times of SIDE x SIDE sizes, with the kernels that a plan takes; *at: the sizes. */
static bool map_times(const page *p, const fovea_attention_desc *desc, double until, int64_t *tiles, int64_t *blocks,
                      double times[SIDE][SIDE], fv_attention_choice *chosen) {
    static const double factors[SIDE] = {0.25, 0.5, 1, 1.5, 2, 4};
    tune_problem problem;
    tune_measurement m;
    char error[256];
    if (!tune_problem_make(p->ctx, desc, &problem, error))
        return false;
    bool ok = tune_measurement_begin(&m, &problem);
    tune_candidate *all = calloc(SIDE * SIDE, sizeof *all), *list[SIDE * SIDE];
    ok = ok && all;
    if (ok) {
        const fv_attention_choice base = m.base.plan->choice;
        *chosen = base;
        int64_t key[FV_TUNING_KEYS];
        const fv_tuning_op op = fv_tuning_of_attention(desc, key);
        const fv_tuning_row *row =
            p->own < 0 ? NULL : fv_tuning_find(p->tuning, p->own, op, p->ctx->isa, p->ctx->threads, key);
        fv_attention_choice wanted = row ? fv_tuning_choice(row->knob) : (fv_attention_choice){0};
        fovea_attention_plan *plan = tune_problem_plan(&problem, &wanted);
        if (plan)
            *chosen = plan->choice;
        fovea_attention_plan_destroy(plan);
        for (int i = 0; i < SIDE * SIDE && ok; i++) {
            fv_attention_choice choice = *chosen;
            tiles[i / SIDE] = choice.tile_rows = (int64_t)fmax(1, (double)chosen->tile_rows * factors[i / SIDE]);
            blocks[i % SIDE] = choice.block_rows = (int64_t)fmax(1, (double)chosen->block_rows * factors[i % SIDE]);
            ok = tune_candidate_make(&m, &choice, &all[i]);
            list[i] = &all[i];
        }
        if (ok)
            tune_measure(&m, list, SIDE * SIDE, 9, until);
        for (int i = 0; i < SIDE * SIDE; i++) {
            times[i / SIDE][i % SIDE] = exp(tune_statistic(all[i].ratio, all[i].blocks).median);
            tune_candidate_free(&all[i]);
        }
    }
    free(all);
    tune_measurement_end(&m);
    tune_problem_free(&problem);
    return ok;
}

static void heat_map(const page *p, const tune_class *c, double until) {
    int64_t tiles[SIDE], blocks[SIDE];
    double times[SIDE][SIDE], least = INFINITY, most = 0;
    fv_attention_choice chosen;
    char name[96];
    if (!map_times(p, &c->search, until, tiles, blocks, times, &chosen))
        return;
    for (int i = 0; i < SIDE * SIDE; i++) {
        least = fmin(least, times[i / SIDE][i % SIDE]);
        most = fmax(most, times[i / SIDE][i % SIDE]);
    }
    fprintf(p->file,
            "<h2>Time over tile and block rows</h2>\n<p>%s, %s and %s, measured now; time / time of the default. The "
            "frame is "
            "what plans take.</p>\n<svg viewBox=\"0 0 700 %d\">\n",
            tune_shape_name(&c->search, name, sizeof name), chosen.score->name, chosen.value->name, 40 * SIDE + 60);
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int row = i / SIDE, column = i % SIDE, x = 110 + 90 * column, y = 10 + 40 * row;
        const double shade = most > least ? (times[row][column] - least) / (most - least) : 0;
        const bool here = tiles[row] == chosen.tile_rows && blocks[column] == chosen.block_rows;
        fprintf(
            p->file,
            "<rect x=\"%d\" y=\"%d\" width=\"86\" height=\"36\" fill=\"hsl(%.0f 60%% 55%%)\" stroke=\"currentColor\" "
            "stroke-width=\"%d\"/><text x=\"%d\" y=\"%d\">%.3f</text>\n",
            x, y, 130 - 130 * shade, here ? 4 : 0, x + 26, y + 23, times[row][column]);
    }
    for (int i = 0; i < SIDE; i++)
        fprintf(p->file,
                "<text x=\"0\" y=\"%d\">tile %" PRId64 "</text><text x=\"%d\" y=\"%d\">block %" PRId64 "</text>\n",
                33 + 40 * i, tiles[i], 112 + 90 * i, 40 * SIDE + 28, blocks[i]);
    fputs("</svg>\n", p->file);
}

static int roofline_points(const page *p, const tune_class *classes, int count, double until, point *points) {
    int n = 0;
    for (int i = 0; i < count && n < MOST_POINTS; i++) {
        tune_problem problem;
        tune_measurement m;
        char error[256];
        if (tune_stopped || !tune_problem_make(p->ctx, &classes[i].search, &problem, error))
            continue;
        if (tune_measurement_begin(&m, &problem)) {
            tune_measure(&m, NULL, 0, 5, fmin(until, tune_now() + 1));
            if (m.base.blocks > 0) {
                points[n].rate = tune_flops(&problem.desc) / m.base.seconds;
                points[n].intensity = tune_flops(&problem.desc) / tune_bytes(&problem.desc);
                snprintf(points[n++].name, sizeof points[0].name, "%s", classes[i].name);
            }
        }
        tune_measurement_end(&m);
        tune_problem_free(&problem);
    }
    return n;
}

/* Logarithmic axes: 0.1 to 10,000 operations a byte, and four decades of rate up to twice the peak. */
static void roofline(const page *p, const tune_class *classes, int count, double until) {
    enum { LEFT = 70, TOP = 20, WIDTH = 560, HEIGHT = 300 };
    const double bandwidth = tune_bandwidth(p->ctx), peak = tune_peak(p->ctx), top = log10(2 * peak), bottom = top - 4;
    static point points[MOST_POINTS];
    const int n = roofline_points(p, classes, count, until, points);
    fprintf(p->file,
            "<h2>How far the bound is</h2>\n<p>Measured now: %.0f GF/s of fused multiply-adds, %.1f GB/s from memory. "
            "Points "
            "are the defaults.</p>\n<svg viewBox=\"0 0 900 %d\">\n",
            peak * 1e-9, bandwidth * 1e-9, HEIGHT + 60);
    const double ridge = log10(peak / bandwidth);
#define X(log_intensity) (LEFT + WIDTH * ((log_intensity) + 1) / 5)
#define Y(log_rate) (TOP + HEIGHT * (top - (log_rate)) / (top - bottom))
    fprintf(p->file,
            "<polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" points=\"%.0f,%.0f %.0f,%.0f "
            "%.0f,%.0f\"/>\n",
            X(-1.0), Y(log10(bandwidth) - 1), X(ridge), Y(log10(peak)), X(4.0), Y(log10(peak)));
    for (int i = 0; i < n; i++)
        fprintf(p->file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"hsl(%d 65%% 50%%)\"><title>%s</title></circle>"
                "<circle cx=\"650\" cy=\"%d\" r=\"4\" fill=\"hsl(%d 65%% 50%%)\"/><text x=\"660\" y=\"%d\">%.1f GF/s, "
                "%s</text>\n",
                X(log10(points[i].intensity)), Y(log10(points[i].rate)), i * 360 / n, points[i].name, TOP + 18 * i,
                i * 360 / n, TOP + 4 + 18 * i, points[i].rate * 1e-9, points[i].name);
    fprintf(p->file, "<text x=\"%d\" y=\"%d\">operations for each byte, 0.1 to 10,000</text>\n", LEFT + 150,
            HEIGHT + 50);
#undef X
#undef Y
    fputs("</svg>\n", p->file);
}

int tune_report(const tune_options *options) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        return TUNE_FAILED;
    fv_tuning_use use;
    if (fv_tuning_use_file(options->file_count ? options->files[0] : NULL, &ctx->cpu, ctx->isa, ctx->threads, &use) !=
            FOVEA_OK ||
        (options->file_count && use.status != FOVEA_OK && use.status != FOVEA_ERROR_FOREIGN)) {
        fprintf(stderr, "fovea-tune: %s\n", use.text);
        fovea_context_destroy(ctx);
        return TUNE_FAILED;
    }
    const char *output = options->output ? options->output : "tune.html";
    tune_class *classes;
    const int count = tune_classes(options, ctx->threads, ctx->isa, &classes);
    page p = {.ctx = ctx, .options = options, .tuning = use.tuning, .own = use.section};
    p.file = count > 0 ? fopen(output, "we") : NULL;
    int status = count > 0 ? TUNE_FAILED : TUNE_USAGE;
    if (p.file) {
        const double begin = tune_now();
        head(&p, use.tuning ? use.path : "");
        bars(&p);
        roofline(&p, classes, count, begin + options->budget / 2);
        heat_map(&p, &classes[0], begin + options->budget);
        fputs("</html>\n", p.file);
        status = fclose(p.file) == 0 ? TUNE_GOOD : TUNE_FAILED;
    }
    if (status == TUNE_FAILED)
        perror(output);
    else if (status == TUNE_GOOD)
        printf("%s\n", output);
    free(classes);
    fovea_tuning_destroy(use.tuning);
    fovea_context_destroy(ctx);
    return status;
}
