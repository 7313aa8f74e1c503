/* The roofline of fovea-tune report: what its classes reach by default, and what the machine allows, both measured now
 * (report.h). */
#include "report.h"

#include "machine.h"
#include "measure.h"

#include <math.h>

enum { MOST_POINTS = 40 };

typedef struct point {
    const tune_class *c;
    double seconds, flops, bytes;
} point;

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

static void put_measured(const page *p, double rate, const char *format) {
    if (rate > 0)
        fprintf(p->file, format, rate * 1e-9);
    else
        fputs("not measured", p->file);
}

/* The line of what the machine allows, and the points below it. */
static void roofline(const page *p, double peak, double bandwidth, const point *points, int n) {
    const plane a = {log10(2 * peak), log10(2 * peak) - 2.4};
    const double ridge = peak / bandwidth, start = fmax(pow(10, a.bottom) / bandwidth, 0.1);
    fprintf(p->file, "<svg viewBox=\"0 0 960 %d\" role=\"img\">\n", TOP + HEIGHT + 48);
    roofline_grid(p, &a);
    fprintf(p->file, "<polyline class=\"ink\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n", across(start),
            down(&a, start * bandwidth), across(ridge), down(&a, peak), across(1000), down(&a, peak));
    for (int i = 0; i < n; i++) {
        const double x = across(points[i].flops / points[i].bytes), y = down(&a, points[i].flops / points[i].seconds);
        fprintf(
            p->file,
            "<g class=\"dot\"><circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\" stroke=\"var(--paper)\"><title>%s"
            "</title></circle><text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%d</text></g>\n",
            report_style(points[i].c->operation), x, y, points[i].c->name, x, y + 3.5, i + 1);
    }
    fputs("</svg>\n", p->file);
}

/* A share of a bound that was not measured is none. */
static void put_share(const page *p, double rate, double bound) {
    if (bound > 0)
        fprintf(p->file, "<td>%.0f%%</td>", 100 * rate / bound);
    else
        fputs("<td>-</td>", p->file);
}

void report_roofline(const page *p, const tune_class *classes, int count, double until) {
    const double bandwidth = tune_bandwidth(p->ctx), peak = tune_peak(p->ctx); /* 0: every run was interrupted */
    static point points[MOST_POINTS];
    const int n = roofline_points(p, classes, count, until, points);
    fputs("<h2>How close the limits are</h2>\n<p>Fused multiply-adds: ", p->file);
    put_measured(p, peak, "%.0f GF/s");
    fputs("; reading from memory: ", p->file);
    put_measured(p, bandwidth, "%.1f GB/s");
    if (peak > 0 && bandwidth > 0) {
        fputs(" (measured now). The line is what these allow. Points are the defaults of <span "
              "style=\"color:var(--attention)\">attentions</span> and <span style=\"color:var(--linear)\">linear "
              "maps</span>, numbered as in the table. With operands in cache, points may lie above the slope.</p>\n",
              p->file);
        roofline(p, peak, bandwidth, points, n);
    } else
        fputs(". Repeat the report when the machine is quieter.</p>\n", p->file);
    if (n == 0) {
        fputs("<p>No class was measured: the machine was too busy.</p>\n", p->file);
        return;
    }
    fputs("<table><tr><th></th><th>class</th><th>time</th><th>GF/s</th><th>of the peak</th><th>GB/s</th><th>of the "
          "bandwidth</th></tr>\n",
          p->file);
    for (int i = 0; i < n; i++) {
        const double flops = points[i].flops / points[i].seconds, bytes = points[i].bytes / points[i].seconds;
        fprintf(p->file, "<tr><td>%d</td><td>%s</td><td>%.3f ms</td><td>%.1f</td>", i + 1, points[i].c->name,
                1e3 * points[i].seconds, flops * 1e-9);
        put_share(p, flops, peak);
        fprintf(p->file, "<td>%.1f</td>", bytes * 1e-9);
        put_share(p, bytes, bandwidth);
        fputs("</tr>\n", p->file);
    }
    fputs("</table>\n", p->file);
}
