/* fovea-tune report: one HTML page without anything from elsewhere: the gain of each row that is used here, and what
 * it decides. Colours are variables of its style, for light and dark. */
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
        "h1{font-size:1.7em;margin-bottom:0}p{margin:.3em 0 .8em}.faint{color:var(--faint)}\n"
        ".attention,.linear{height:14px;border-radius:2px;background:var(--attention)}"
        ".linear{background:var(--linear)}\n"
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

static void table(const page *p) {
    const double wide = 160; /* pixels of the longest bar */
    double most = 0.02;
    int at = 0;
    for (const fv_tuning_row *row; (row = next_row(p, &at));)
        most = fmax(most, (double)row->evidence.gain / 1000 - 1);
    fputs("<p>How much faster than the default each choice was proved to be, with the 95% interval, and what it "
          "decides.</p>\n<table><tr><th>class</th><th colspan=\"2\">gain</th><th>choice</th><th>default</th></tr>\n",
          p->file);
    at = 0;
    for (const fv_tuning_row *row; (row = next_row(p, &at));) {
        const fv_tuning_evidence *e = &row->evidence;
        const tune_class c = tune_class_of_row(row, row->isa);
        char choice[300], instead[300];
        tune_choice_text(row->operation, row->knob, row->knob, choice, sizeof choice);
        tune_default_text(p->ctx, row, instead, sizeof instead);
        fprintf(p->file,
                "<tr><td>%s</td><td><div class=\"%s\" style=\"width:%.0fpx\"></div></td><td>%.1f%% (%.1f to %.1f)</td>"
                "<td>%s</td><td>%s</td></tr>\n",
                c.name, tune_is_linear(c.operation) ? "linear" : "attention",
                wide * fmax((double)e->gain / 1000 - 1, 0) / most, (double)e->gain / 10 - 100,
                (double)e->low / 10 - 100, (double)e->high / 10 - 100, choice, instead);
    }
    fputs("</table>\n", p->file);
}

static bool write_page(page *p, const char *tuning, const char *output, char error[FV_FILE_ERROR]) {
    char *text = NULL;
    size_t length = 0;
    int at = 0;
    snprintf(error, FV_FILE_ERROR, "no memory for the page");
    p->file = open_memstream(&text, &length);
    if (!p->file)
        return false;
    head(p, tuning);
    if (next_row(p, &at))
        table(p);
    else
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
