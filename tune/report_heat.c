/* Heat maps of fovea-tune report: an operation's time over its two sizes, measured now (report.h). */
#include "report.h"

#include "machine.h"
#include "measure.h"
#include "palette.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6 };

/* The two sizes of an operation's map: down and across. */
typedef struct axes {
    int down, across; /* knobs */
    const char *down_name, *across_name;
} axes;

static axes axes_of(const tune_shape *shape) {
    if (shape->linear)
        return (axes){FV_LINEAR_KNOB_chunk, FV_LINEAR_KNOB_k_block, "rows at once", "channels of a block"};
    return (axes){FV_ATTENTION_KNOB_tile_rows, FV_ATTENTION_KNOB_block_rows, "rows of a tile", "rows of a block"};
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
        p->own < 0 ? NULL : fv_tuning_find(p->tuning, p->own, op, p->ctx->target.isa, p->ctx->threads.count, key);
    tune_choice wanted = {0};
    if (row)
        memcpy(wanted.knob, row->knob, sizeof wanted.knob);
    tune_plan *plan = tune_problem_plan(&problem, &wanted);
    tune_candidate *all = calloc(SIDE * SIDE, sizeof *all), *list[SIDE * SIDE];
    bool ok = tune_measurement_begin(&m, &problem) && plan && all;
    if (ok) {
        h->chosen = plan->made;
        const int64_t most_across = shape->linear ? shape->in : fv_min(plan->attention->partition_rows, 4096);
        h->downs = sizes_around(plan->made.knob[a.down].number, shape->linear ? shape->rows : 4096, h->down);
        h->acrosses = sizes_around(plan->made.knob[a.across].number, most_across, h->across);
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

void report_heat_map(const page *p, const tune_class *c, double until) {
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
    fprintf(p->file, "<h2>Time over %s and %s: %s</h2>\n", a.down_name, a.across_name,
            tune_shape_name(&c->search, name, sizeof name));
    if (most <= 0) {
        fputs("<p>Not measured: the machine was too busy.</p>\n", p->file);
        return;
    }
    const double range = fmax(log(most / least), 0.05); /* differences that are noise look alike */
    const fv_tuning_value *kernel = h.chosen.knob;
    fprintf(
        p->file,
        "<p>With %s%s%s, measured now, as time / time of the default. Lighter is faster. The frame marks the plan's "
        "choice.</p>\n<svg viewBox=\"0 0 960 %d\" role=\"img\">\n",
        kernel[0].kernel->name, kernel[1].kernel ? " and " : "", kernel[1].kernel ? kernel[1].kernel->name : "",
        HIGH * h.downs + 64);
    for (int i = 0; i < h.downs * h.acrosses; i++) {
        const int x = LEFT + WIDE * (i % h.acrosses), y = TOP + HIGH * (i / h.acrosses);
        if (h.time[i] <= 0) {
            fprintf(p->file, "<text class=\"faint middle\" x=\"%d\" y=\"%d\">not measured</text>\n", x + WIDE / 2,
                    y + HIGH / 2 + 4);
            continue;
        }
        const double shade = fmin(log(h.time[i] / least) / range, 1);
        const palette_colour colour = palette_ramp(1 - shade);
        fprintf(p->file,
                "<g class=\"cell%s\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" "
                "fill=\"#%02x%02x%02x\"/><text class=\"middle\" x=\"%d\" y=\"%d\">%.3f</text></g>\n",
                palette_is_dark(colour) ? " deep" : "", x + 2, y + 2, WIDE - 4, HIGH - 4, (unsigned)colour.red,
                (unsigned)colour.green, (unsigned)colour.blue, x + WIDE / 2, y + HIGH / 2 + 4, h.time[i]);
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
