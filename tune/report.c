/* fovea-tune report: one HTML page without anything from elsewhere: the gain of each row that is used here as a bar, and
 * what it decides. Colours are variables of its style, for light and dark. */
#include "classes.h"
#include "commands.h"
#include "machine.h"
#include "output.h"
#include "palette.h"
#include "plural.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page while it is written. */
typedef struct page {
    FILE *file;
    const fovea_context *ctx;
    const fovea_tuning *tuning; /* NULL: none */
    int own;                    /* its section of this CPU and build; -1: none */
} page;

/* Names of files and CPUs come from elsewhere. */
static void put_text(const page *p, const char *text) {
    for (; *text; text++)
        if (strchr("<>&\"", *text))
            fprintf(p->file, "&#%d;", *text);
        else
            fputc(*text, p->file);
}

static void head(const page *p, const char *tuning) {
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<title>Fovea tuning</title>\n<style>\n"
        ":root{--ink:#1c2330;--paper:#fff;--faint:#677084;--line:#d5dae3;"
        "--attention:" PALETTE_FIRST_LIGHT ";--linear:" PALETTE_SECOND_LIGHT "}\n"
        "@media(prefers-color-scheme:dark){:root{--ink:#e2e6ee;--paper:#14171d;--faint:#98a2b5;--line:#353c49;"
        "--attention:" PALETTE_FIRST_DARK ";--linear:" PALETTE_SECOND_DARK "}}\n"
        "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:var(--ink);"
        "background:var(--paper)}\n"
        "h1{font-size:1.7em;margin-bottom:0}h2{font-size:1.2em;margin:2em 0 .2em}p{margin:.3em 0 .8em}\n"
        ".faint{color:var(--faint)}svg{display:block;width:100%;height:auto}\n"
        "text{font:12px system-ui,sans-serif;fill:var(--ink)}text.faint{fill:var(--faint)}"
        ".end{text-anchor:end}.middle{text-anchor:middle}\n"
        ".grid{stroke:var(--line);stroke-width:1}.ink{stroke:var(--ink);stroke-width:2;fill:none}\n"
        ".attention{fill:var(--attention)}.linear{fill:var(--linear)}\n"
        "table{border-collapse:collapse;font-size:13px;width:100%}td,th{padding:2px 8px;text-align:left;"
        "border-bottom:1px solid var(--line)}th{font-weight:600;color:var(--faint)}\n</style></head><body>\n"
        "<h1>Fovea on this machine</h1>\n<p>",
        p->file);
    put_text(p, p->ctx->cpu.name);
    fv_tuning_section own;
    fv_tuning_section_of(&p->ctx->cpu, &own);
    fprintf(p->file, ", tier %s, %d thread%s; Fovea %s (%s).<br><span class=\"faint\">Tuning file: ",
            fovea_isa_name((fovea_isa)p->ctx->target.isa), p->ctx->threads.count, plural(p->ctx->threads.count),
            own.release, strstr(own.text, "kernels="));
    put_text(p, tuning);
    fputs(".</span></p>\n", p->file);
}

/* The next row that is used here, from *at on; NULL: there is none. */
static const fv_tuning_row *next_row(const page *p, int *at) {
    while (p->tuning && *at < p->tuning->rows) {
        const fv_tuning_row *row = &p->tuning->row[(*at)++];
        if (tune_row_fits(p->ctx, row, p->own))
            return row;
    }
    return NULL;
}

/* A round step of an axis that has about so many of them. */
static double step_of(double whole, int steps) {
    static const double rounds[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};
    int i = 0;
    while (i < 8 && whole / rounds[i] > steps)
        i++;
    return rounds[i];
}

static void bars(const page *p, int rows) {
    enum { WIDE = 540, ROW = 26, TOP = 8, FIGURE = 80, CHARACTER = 8 }; /* FIGURE: behind the longest bar */
    const int bottom = TOP + ROW * rows;
    int left = 340, at = 0;
    double most = 0.02;
    for (const fv_tuning_row *row; (row = next_row(p, &at));) {
        const tune_class c = tune_class_of_row(row, row->isa);
        left = (int)fv_max(left, CHARACTER * (int64_t)strlen(c.name) + 10);
        most = fmax(most, (double)row->evidence.gain / 1000 - 1);
    }
    fputs("<h2>Gain of each choice</h2>\n<p>How much faster than the default, as it was proved; the thin line is the "
          "95% interval.</p>\n",
          p->file);
    const double step = step_of(most * 1.2, 6), end = step * ceil(most * 1.1 / step), scale = WIDE / end;
    fprintf(p->file, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", left + WIDE + FIGURE, bottom + 28);
    for (int i = 0; (double)i * step <= end * 1.001; i++) {
        const double x = left + scale * i * step;
        fprintf(p->file,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"faint middle\" "
                "x=\"%.1f\" y=\"%d\">%.0f%%</text>\n",
                x, x, TOP, bottom, x, bottom + 18, 100 * i * step);
    }
    at = 0;
    int y = TOP;
    for (const fv_tuning_row *row; (row = next_row(p, &at)); y += ROW) {
        const tune_class c = tune_class_of_row(row, row->isa);
        const double gain = (double)row->evidence.gain / 1000 - 1;
        const double low = fmax((double)row->evidence.low / 1000 - 1, 0),
                     high = fmin((double)row->evidence.high / 1000 - 1, end);
        fprintf(p->file,
                "<text class=\"end\" x=\"%d\" y=\"%d\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" "
                "height=\"16\" rx=\"2\"/><path class=\"ink\" d=\"M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8\"/><text "
                "x=\"%.1f\" y=\"%d\">%.1f%%</text>\n",
                left - 10, y + 17, c.name, tune_is_linear(c.operation) ? "linear" : "attention", left, y + 5,
                scale * fmin(gain, end), left + scale * low, y + 13, left + scale * high, left + scale * low, y + 9,
                left + scale * high, y + 9, left + scale * fmax(high, fmin(gain, end)) + 8, y + 17, 100 * gain);
    }
    fputs("</svg>\n", p->file);
}

static void table(const page *p) {
    fputs("<h2>What they decide</h2>\n<table><tr><th>class</th><th>choice</th><th>default</th></tr>\n", p->file);
    int at = 0;
    for (const fv_tuning_row *row; (row = next_row(p, &at));) {
        const tune_class c = tune_class_of_row(row, row->isa);
        char choice[300], instead[300];
        tune_choice_text(row->operation, row->knob, row->knob, choice, sizeof choice);
        tune_default_text(p->ctx, row, instead, sizeof instead);
        fprintf(p->file, "<tr><td>%s</td><td>%s</td><td>%s</td></tr>\n", c.name, choice, instead);
    }
    fputs("</table>\n", p->file);
}

static bool write_page(page *p, const char *tuning, const char *output, char error[FV_FILE_ERROR]) {
    char *text = NULL;
    size_t length = 0;
    int rows = 0;
    snprintf(error, FV_FILE_ERROR, "no memory for the page");
    p->file = open_memstream(&text, &length);
    if (!p->file)
        return false;
    head(p, tuning);
    for (int at = 0; next_row(p, &at);)
        rows++;
    if (rows > 0) {
        bars(p, rows);
        table(p);
    } else
        fputs("<p>No row of the tuning file is for this CPU, build, tier and number of threads: programs use the "
              "defaults.</p>\n",
              p->file);
    fputs("</body></html>\n", p->file);
    const bool good = fclose(p->file) == 0 && tune_output_write(output, text, length, error) == FOVEA_OK;
    free(text);
    return good;
}

int tune_report(const tune_options *options) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        return TUNE_FAILED;
    fv_tuning_use use;
    if (fv_tuning_use_file(options->file_count ? options->files[0] : NULL, &ctx->cpu, ctx->target.isa,
                           ctx->threads.count, &use) != FOVEA_OK ||
        (options->file_count && use.status != FOVEA_OK && use.status != FOVEA_ERROR_INCOMPATIBLE)) {
        fprintf(stderr, "fovea-tune: %s\n", use.text);
        fovea_context_destroy(ctx);
        return TUNE_FAILED;
    }
    ctx->tuning.cache_scale = use.cache_scale;
    const char *output = options->output ? options->output : "tune.html";
    char error[FV_FILE_ERROR];
    page p = {.ctx = ctx, .tuning = use.tuning, .own = use.part[0].section};
    const bool good = write_page(&p, use.text, output, error);
    if (!good)
        fprintf(stderr, "fovea-tune: %s\n", error);
    else if (!tune_is_standard_output(output))
        printf("%s\n", output);
    fovea_tuning_destroy(use.tuning);
    fovea_context_destroy(ctx);
    return good ? TUNE_GOOD : TUNE_FAILED;
}
