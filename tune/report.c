/* fovea-tune report: one HTML page without anything from elsewhere: the gain of each row as bars, heat maps of time
 * over two sizes with the chosen point, and a roofline with what was measured now (tune.h). Colours are variables of
 * its style, for light and dark. */
#include "tune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, MOST_POINTS = 40 };

typedef struct point {
    const tune_class *c;
    double seconds, flops, bytes;
} point;

typedef struct page {
    FILE *file;
    const fovea_context *ctx;
    const tune_options *options;
    fovea_tuning *tuning; /* NULL: none */
    int own;
} page;

static void head(const page *p, const char *path) {
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<title>Fovea tuning</title>\n<style>\n"
        ":root{--ink:#1c2330;--paper:#fff;--faint:#677084;--line:#d5dae3;--attention:#2f6fd0;--linear:#c2571a}\n"
        "@media(prefers-color-scheme:dark){:root{--ink:#e2e6ee;--paper:#14171d;--faint:#98a2b5;--line:#353c49;"
        "--attention:#6ea3f5;--linear:#f09455}}\n"
        "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:var(--ink);"
        "background:var(--paper)}\n"
        "h1{font-size:1.7em;margin-bottom:0}h2{font-size:1.2em;margin:2em 0 .2em}p{margin:.3em 0 .8em}\n"
        ".faint{color:var(--faint)}svg{display:block;width:100%;height:auto}\n"
        "text{font:12px system-ui,sans-serif;fill:var(--ink)}text.faint{fill:var(--faint)}"
        ".end{text-anchor:end}.middle{text-anchor:middle}\n"
        ".grid{stroke:var(--line);stroke-width:1}.ink{stroke:var(--ink);stroke-width:2;fill:none}\n"
        ".attention{fill:var(--attention)}.linear{fill:var(--linear)}\n"
        ".cell text{fill:#10141c}.chosen{fill:none;stroke:var(--ink);stroke-width:3}\n"
        ".dot text{font-size:10px;font-weight:600;fill:var(--paper)}\n"
        "table{border-collapse:collapse;font-size:13px;width:100%}td,th{padding:2px 8px;text-align:right;"
        "border-bottom:1px solid var(--line)}th{font-weight:600;color:var(--faint)}\n"
        "td:nth-child(2),th:nth-child(2){text-align:left}\n</style></head><body>\n",
        p->file);
    fprintf(p->file,
            "<h1>Fovea on this machine</h1>\n<p>%s, tier %s, %d thread%s.<br><span class=\"faint\">Tuning file: "
            "%s.</span></p>\n",
            p->ctx->cpu.name, fovea_isa_name((fovea_isa)p->ctx->isa), p->ctx->threads, p->ctx->threads == 1 ? "" : "s",
            path[0] ? path : "none, so these are the defaults");
}

static const char *style_of(fv_tuning_op operation) { return tune_is_linear(operation) ? "linear" : "attention"; }

static bool used_here(const page *p, const fv_tuning_row *row) {
    return row->known && row->section == p->own && row->isa == p->ctx->isa && row->threads == p->ctx->threads;
}

/* ---------------------------------------------------------------------------------------------------------- bars -- */

/* A round step of an axis that has about so many of them. */
static double step_of(double whole, int steps) {
    static const double rounds[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};
    int i = 0;
    while (i < 8 && whole / rounds[i] > steps)
        i++;
    return rounds[i];
}

static void bars(const page *p) {
    enum { LEFT = 340, RIGHT = 880, ROW = 26, TOP = 8 };
    int n = 0;
    double most = 0.02;
    fputs("<h2>Gain of each choice</h2>\n<p>How much faster than the default, as it was proved; the thin line is the "
          "95 % "
          "interval.</p>\n",
          p->file);
    for (int i = 0; p->tuning && i < p->tuning->rows; i++)
        if (used_here(p, &p->tuning->row[i])) {
            n++;
            most = fmax(most, (double)p->tuning->row[i].evidence.gain / 1000 - 1);
        }
    if (n == 0) {
        fputs("<p>No row of the file is for this CPU, build, tier and number of threads: the defaults serve.</p>\n",
              p->file);
        return;
    }
    const double step = step_of(most * 1.2, 6), end = step * ceil(most * 1.1 / step), scale = (RIGHT - LEFT) / end;
    const int bottom = TOP + ROW * n;
    fprintf(p->file, "<svg viewBox=\"0 0 960 %d\" role=\"img\">\n", bottom + 28);
    for (int i = 0; (double)i * step <= end * 1.001; i++)
        fprintf(
            p->file,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"faint middle\" x=\"%.1f\" "
            "y=\"%d\">%.0f %%</text>\n",
            LEFT + scale * i * step, LEFT + scale * i * step, TOP, bottom, LEFT + scale * i * step, bottom + 18,
            100 * i * step);
    for (int i = 0, y = TOP; i < p->tuning->rows; i++) {
        const fv_tuning_row *row = &p->tuning->row[i];
        if (!used_here(p, row))
            continue;
        const tune_class c = tune_class_of_row(row, row->isa);
        const double gain = (double)row->evidence.gain / 1000 - 1;
        const double low = fmax((double)row->evidence.low / 1000 - 1, 0),
                     high = fmin((double)row->evidence.high / 1000 - 1, end);
        fprintf(p->file,
                "<text class=\"end\" x=\"%d\" y=\"%d\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" "
                "height=\"16\" rx=\"2\"><title>%s</title></rect><path class=\"ink\" d=\"M%.1f %dH%.1fM%.1f %dv8M%.1f "
                "%dv8\"/><text x=\"%.1f\" y=\"%d\">%.1f %%</text>\n",
                LEFT - 10, y + 17, c.name, style_of(c.operation), LEFT, y + 5, scale * fmin(gain, end), row->text,
                LEFT + scale * low, y + 13, LEFT + scale * high, LEFT + scale * low, y + 9, LEFT + scale * high, y + 9,
                LEFT + scale * fmax(high, fmin(gain, end)) + 8, y + 17, 100 * gain);
        y += ROW;
    }
    fputs("</svg>\n", p->file);
}

/* ----------------------------------------------------------------------------------------------------- heat maps -- */

/* The two sizes of an operation's map: down and across. */
typedef struct axes {
    int down, across; /* knobs */
    const char *down_name, *across_name;
} axes;

static axes axes_of(const tune_shape *shape) {
    if (shape->linear)
        return (axes){FV_KNOB_chunk, FV_KNOB_k_block, "rows at once", "channels of a block"};
    return (axes){FV_KNOB_tile_rows, FV_KNOB_block_rows, "rows of a tile", "rows of a block"};
}

/* A map: sizes in ascending order, each once, times of the default = 1. */
typedef struct heat {
    int64_t down[SIDE], across[SIDE];
    int downs, acrosses;
    double time[SIDE * SIDE]; /* 0: there was no quiet moment to measure it */
    tune_choice chosen;
} heat;

static int sizes_around(int64_t size, int64_t most, int64_t sizes[SIDE]) {
    static const double factors[SIDE] = {0.25, 0.5, 1, 1.5, 2, 4};
    int n = 0;
    for (int i = 0; i < SIDE; i++) {
        const double wanted = fmin(fmax((double)size * factors[i], 1), (double)most);
        if (n == 0 || (int64_t)wanted > sizes[n - 1])
            sizes[n++] = (int64_t)wanted;
    }
    return n;
}

/* Sizes around those that the context's file, or the default, chooses, with its kernels. */
static bool measure_heat(const page *p, const tune_shape *shape, double until, heat *h) {
    tune_problem problem;
    tune_measurement m;
    char error[256];
    const axes a = axes_of(shape);
    if (!tune_problem_make(p->ctx, shape, &problem, error))
        return false;
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = tune_shape_keys(shape, key);
    const fv_tuning_row *row =
        p->own < 0 ? NULL : fv_tuning_find(p->tuning, p->own, op, p->ctx->isa, p->ctx->threads, key);
    tune_choice wanted = {0};
    if (row)
        memcpy(wanted.knob, row->knob, sizeof wanted.knob);
    tune_plan *plan = tune_problem_plan(&problem, &wanted);
    tune_candidate *all = calloc(SIDE * SIDE, sizeof *all), *list[SIDE * SIDE];
    bool ok = tune_measurement_begin(&m, &problem) && plan && all;
    if (ok) {
        h->chosen = plan->made;
        h->downs = sizes_around(plan->made.knob[a.down].number, shape->linear ? shape->rows : 4096, h->down);
        h->acrosses = sizes_around(plan->made.knob[a.across].number, shape->linear ? shape->in : 4096, h->across);
        const int n = h->downs * h->acrosses;
        for (int i = 0; i < n && ok; i++) {
            tune_choice choice = plan->made;
            choice.knob[a.down].number = h->down[i / h->acrosses];
            choice.knob[a.across].number = h->across[i % h->acrosses];
            ok = tune_candidate_make(&m, &choice, &all[i]);
            list[i] = &all[i];
        }
        if (ok)
            tune_measure(&m, list, n, 9, until);
        for (int i = 0; i < n; i++) {
            h->time[i] = all[i].blocks ? exp(tune_statistic(all[i].ratio, all[i].blocks).median) : 0;
            tune_candidate_free(&all[i]);
        }
    }
    free(all);
    tune_plan_free(plan);
    tune_measurement_end(&m);
    tune_problem_free(&problem);
    return ok;
}

static void heat_map(const page *p, const tune_class *c, double until) {
    enum { LEFT = 170, TOP = 8, WIDE = 118, HIGH = 38 };
    heat h;
    double least = INFINITY, most = 0;
    char name[96];
    const axes a = axes_of(&c->search);
    if (!measure_heat(p, &c->search, until, &h))
        return;
    for (int i = 0; i < h.downs * h.acrosses; i++) {
        least = h.time[i] > 0 ? fmin(least, h.time[i]) : least;
        most = fmax(most, h.time[i]);
    }
    const double range = fmax(log(most / least), 0.05); /* differences that are noise look alike */
    const fv_tuning_value *kernel = h.chosen.knob;
    fprintf(p->file,
            "<h2>Time over %s and %s: %s</h2>\n<p>With %s%s%s, measured now; time / time of the default, greener "
            "is faster. The frame is what a plan takes.</p>\n<svg viewBox=\"0 0 960 %d\" role=\"img\">\n",
            a.down_name, a.across_name, tune_shape_name(&c->search, name, sizeof name), kernel[0].kernel->name,
            kernel[1].kernel ? " and " : "", kernel[1].kernel ? kernel[1].kernel->name : "", HIGH * h.downs + 64);
    for (int i = 0; i < h.downs * h.acrosses; i++) {
        const int x = LEFT + WIDE * (i % h.acrosses), y = TOP + HIGH * (i / h.acrosses);
        if (h.time[i] <= 0) {
            fprintf(p->file, "<text class=\"faint middle\" x=\"%d\" y=\"%d\">too noisy</text>\n", x + WIDE / 2,
                    y + HIGH / 2 + 4);
            continue;
        }
        const double shade = fmin(log(h.time[i] / least) / range, 1);
        fprintf(p->file,
                "<g class=\"cell\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"hsl(%.0f 62%% "
                "70%%)\"/><text class=\"middle\" x=\"%d\" y=\"%d\">%.3f</text></g>\n",
                x + 2, y + 2, WIDE - 4, HIGH - 4, 140 - 135 * shade, x + WIDE / 2, y + HIGH / 2 + 4, h.time[i]);
    }
    for (int i = 0; i < h.downs * h.acrosses; i++) /* over all cells */
        if (h.down[i / h.acrosses] == h.chosen.knob[a.down].number &&
            h.across[i % h.acrosses] == h.chosen.knob[a.across].number)
            fprintf(p->file, "<rect class=\"chosen\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n",
                    LEFT + WIDE * (i % h.acrosses) + 2, TOP + HIGH * (i / h.acrosses) + 2, WIDE - 4, HIGH - 4);
    const int bottom = TOP + HIGH * h.downs;
    for (int i = 0; i < h.downs; i++)
        fprintf(p->file, "<text class=\"end\" x=\"%d\" y=\"%d\">%" PRId64 "</text>\n", LEFT - 8,
                TOP + HIGH * i + HIGH / 2 + 4, h.down[i]);
    for (int i = 0; i < h.acrosses; i++)
        fprintf(p->file, "<text class=\"middle\" x=\"%d\" y=\"%d\">%" PRId64 "</text>\n", LEFT + WIDE * i + WIDE / 2,
                bottom + 18, h.across[i]);
    fprintf(p->file,
            "<text class=\"faint\" x=\"0\" y=\"%d\">%s</text><text class=\"faint middle\" x=\"%d\" y=\"%d\">%s</text>\n"
            "</svg>\n",
            TOP + HIGH * h.downs / 2 + 4, a.down_name, LEFT + WIDE * h.acrosses / 2, bottom + 40, a.across_name);
}

/* ------------------------------------------------------------------------------------------------------ roofline -- */

static int roofline_points(const page *p, const tune_class *classes, int count, double until, point *points) {
    int n = 0;
    for (int i = 0; i < count && n < MOST_POINTS; i++) {
        tune_problem problem;
        tune_measurement m;
        char error[256];
        if (tune_stopped || !tune_problem_make(p->ctx, &classes[i].search, &problem, error))
            continue;
        if (tune_measurement_begin(&m, &problem)) {
            tune_measure(&m, NULL, 0, 5, tune_now() + (until - tune_now()) / (count - i));
            if (m.base.blocks > 0)
                points[n++] =
                    (point){&classes[i], m.base.seconds, tune_flops(&problem.shape), tune_bytes(&problem.shape)};
        }
        tune_measurement_end(&m);
        tune_problem_free(&problem);
    }
    return n;
}

enum { LEFT = 76, TOP = 12, WIDTH = 860, HEIGHT = 320 };

/* Logarithmic axes: operations for each byte from 0.1 to 1000, and more than two decades of rate up to twice the
 * peak. */
typedef struct plane {
    double top, bottom; /* logarithms of rates */
} plane;

static double across(double intensity) { return LEFT + WIDTH * (log10(fmin(intensity, 1000)) + 1) / 4; }
static double down(const plane *a, double rate) { return TOP + HEIGHT * (a->top - log10(rate)) / (a->top - a->bottom); }

static void roofline_grid(const page *p, const plane *a) {
    for (double x = 0.1; x < 1001; x *= 10)
        fprintf(p->file,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"faint middle\" "
                "x=\"%.1f\" y=\"%d\">%g</text>\n",
                across(x), across(x), TOP, TOP + HEIGHT, across(x), TOP + HEIGHT + 18, x);
    for (double y = pow(10, ceil(a->bottom)); log10(y) < a->top; y *= 10)
        fprintf(p->file,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"faint end\" x=\"%d\" "
                "y=\"%.1f\">%g GF/s</text>\n",
                LEFT, LEFT + WIDTH, down(a, y), down(a, y), LEFT - 8, down(a, y) + 4, y * 1e-9);
    fprintf(p->file, "<text class=\"faint middle\" x=\"%d\" y=\"%d\">operations for each byte</text>\n",
            LEFT + WIDTH / 2, TOP + HEIGHT + 38);
}

static void roofline(const page *p, const tune_class *classes, int count, double until) {
    const double bandwidth = tune_bandwidth(p->ctx), peak = tune_peak(p->ctx);
    const plane a = {log10(2 * peak), log10(2 * peak) - 2.4};
    static point points[MOST_POINTS];
    const int n = roofline_points(p, classes, count, until, points);
    const double ridge = peak / bandwidth, start = fmax(pow(10, a.bottom) / bandwidth, 0.1);
    fprintf(p->file,
            "<h2>How far the bound is</h2>\n<p>Measured now: %.0f GF/s of fused multiply-adds, %.1f GB/s from memory. "
            "The line is what these allow, points are the defaults, <span style=\"color:var(--attention)\">attentions"
            "</span> and <span style=\"color:var(--linear)\">linear maps</span>, numbered as in the table. Operands "
            "that are in cache may lie beyond the slope.</p>\n<svg viewBox=\"0 0 960 %d\" role=\"img\">\n",
            peak * 1e-9, bandwidth * 1e-9, TOP + HEIGHT + 48);
    roofline_grid(p, &a);
    fprintf(p->file, "<polyline class=\"ink\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n", across(start),
            down(&a, start * bandwidth), across(ridge), down(&a, peak), across(1000), down(&a, peak));
    for (int i = 0; i < n; i++) {
        const double x = across(points[i].flops / points[i].bytes), y = down(&a, points[i].flops / points[i].seconds);
        fprintf(
            p->file,
            "<g class=\"dot\"><circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\" stroke=\"var(--paper)\"><title>%s"
            "</title></circle><text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%d</text></g>\n",
            style_of(points[i].c->operation), x, y, points[i].c->name, x, y + 3.5, i + 1);
    }
    fputs("</svg>\n<table><tr><th></th><th>class</th><th>time</th><th>GF/s</th><th>of the peak</th><th>GB/s</th><th>of "
          "the bandwidth</th></tr>\n",
          p->file);
    for (int i = 0; i < n; i++) {
        const double flops = points[i].flops / points[i].seconds, bytes = points[i].bytes / points[i].seconds;
        fprintf(p->file,
                "<tr><td>%d</td><td>%s</td><td>%.3f ms</td><td>%.1f</td><td>%.0f %%</td><td>%.1f</td><td>%.0f "
                "%%</td></tr>\n",
                i + 1, points[i].c->name, 1e3 * points[i].seconds, flops * 1e-9, 100 * flops / peak, bytes * 1e-9,
                100 * bytes / bandwidth);
    }
    fputs("</table>\n", p->file);
}

/* The first class of each kind. */
static const tune_class *first_of(const tune_class *classes, int count, bool linear) {
    for (int i = 0; i < count; i++)
        if (classes[i].search.linear == linear)
            return &classes[i];
    return NULL;
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
        const tune_class *const maps[] = {first_of(classes, count, false), first_of(classes, count, true)};
        head(&p, use.tuning ? use.path : "");
        bars(&p);
        roofline(&p, classes, count, begin + options->budget / 3);
        for (int i = 0; i < 2; i++)
            if (maps[i])
                heat_map(&p, maps[i], begin + options->budget * (2 + i) / 3);
        fputs("</body></html>\n", p.file);
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
