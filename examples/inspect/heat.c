/* heat.h. Cells of one level are one path, neighbours in a row one rectangle of it: 10,000 cells are some 100 kB. */
#include "heat.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

/* The colours of an end and of the ground, for light and dark pages. */
static const struct palette {
    int ground[3], high[3], low[3];
} palettes[2] = {{{240, 242, 245}, {8, 64, 145}, {158, 52, 4}}, {{33, 38, 45}, {121, 192, 255}, {255, 171, 92}}};

int heat_level(double value) {
    if (isnan(value))
        return HEAT_NONE;
    return (int)lround(HEAT_LEVELS * fmax(-1.0, fmin(value, 1.0)));
}

static void write_colours(FILE *to, const struct palette *p) {
    for (int level = -HEAT_LEVELS; level <= HEAT_LEVELS; level++) {
        const int *end = level < 0 ? p->low : p->high, part = level < 0 ? -level : level;
        fprintf(to, "%s .%c%d{fill:#", part % 8 == 0 ? "\n " : "", level < 0 ? 'n' : 'p', part);
        for (int c = 0; c < 3; c++)
            fprintf(to, "%02x", (unsigned)(p->ground[c] + (end[c] - p->ground[c]) * part / HEAT_LEVELS));
        fputc('}', to);
    }
    fputc('\n', to);
}

void heat_begin(FILE *to, double width, double height, const char *label) {
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
            "role=\"img\" aria-label=\"%s\">\n<style>\n"
            "  text{font:12px system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;fill:#1f2328}\n"
            "  .title{font-size:16px;font-weight:600} .panel{font-weight:600} .small{font-size:10px} "
            ".tiny{font-size:9px}\n"
            "  .soft{fill:#57606a} .card{fill:#ffffff;stroke:#d0d7de} .none{fill:#9aa0a6} .mark{stroke:#1f2328} "
            "path{shape-rendering:crispEdges}",
            width, height, width, height, label);
    write_colours(to, &palettes[0]);
    fputs("  @media (prefers-color-scheme:dark){\n  text{fill:#e6edf3} .soft{fill:#9198a1} "
          ".card{fill:#0d1117;stroke:#3d444d} .none{fill:#6e7681} .mark{stroke:#e6edf3}",
          to);
    write_colours(to, &palettes[1]);
    fprintf(to, "  }\n</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%.0f\" rx=\"8\" class=\"card\"/>\n",
            width - 1.0, height - 1.0);
}

void heat_end(FILE *to) { fputs("</svg>\n", to); }

/* ---------------------------------------------------------------------------------------------------------- text -- */

static void write_character(FILE *to, utf8proc_int32_t c) {
    utf8proc_uint8_t bytes[4];
    switch (c) {
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '>': fputs("&gt;", to); break;
    default: fwrite(bytes, 1, (size_t)utf8proc_encode_char(c, bytes), to);
    }
}

static void write_text(FILE *to, const char *text, int most) {
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text;
    for (int count = 0; left > 0; count++) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t bytes = utf8proc_iterate(at, left, &c);
        if (most > 0 && count == most) {
            write_character(to, 0x2026); /* ... */
            return;
        }
        /* What XML cannot hold: control characters, and the two that are no characters. */
        write_character(to, bytes < 1 || c < ' ' || c == 0xfffe || c == 0xffff ? '?' : c);
        at += bytes < 1 ? 1 : bytes;
        left -= bytes < 1 ? 1 : bytes;
    }
}

void heat_text(FILE *to, double x, double y, const char *style, heat_anchor anchor, bool turned, int most,
               const char *text) {
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\"%s", x, y, style, anchors[anchor]);
    if (turned)
        fprintf(to, " transform=\"rotate(-90 %.1f %.1f)\"", x, y);
    fputc('>', to);
    write_text(to, text, most);
    fputs("</text>\n", to);
}

/* --------------------------------------------------------------------------------------------------------- cells -- */

static void write_class(FILE *to, int level) {
    if (level == HEAT_NONE)
        fputs("class=\"none\"", to);
    else
        fprintf(to, "class=\"%c%d\"", level < 0 ? 'n' : 'p', level < 0 ? -level : level);
}

void heat_cells(FILE *to, double x, double y, double cell, int64_t rows, int64_t columns,
                int (*level)(const void *of, int64_t row, int64_t column), const void *of) {
    fprintf(to, "<g transform=\"translate(%.1f %.1f) scale(%.1f)\">\n", x, y, cell);
    for (int wanted = -HEAT_LEVELS; wanted <= HEAT_LEVELS + 1; wanted++) {
        const int now = wanted <= HEAT_LEVELS ? wanted : HEAT_NONE;
        bool begun = false;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t column = 0, length; column < columns; column += length) {
                for (length = 0; column + length < columns && level(of, row, column + length) == now; length++)
                    ;
                if (length == 0) {
                    length = 1;
                    continue;
                }
                if (!begun) {
                    fputs("<path ", to);
                    write_class(to, now);
                    fputs(" d=\"", to);
                }
                begun = true;
                fprintf(to, "M%lld %lldh%lldv1h-%lldz", (long long)column, (long long)row, (long long)length,
                        (long long)length);
            }
        if (begun)
            fputs("\"/>\n", to);
    }
    fputs("</g>\n", to);
}

void heat_scale(FILE *to, double x, double y, double width, int first, int last) {
    const double step = width / (last - first + 1);
    for (int level = first; level <= last; level++) {
        fprintf(to, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"8\" ", x + step * (level - first), y, step);
        write_class(to, level);
        fputs(" style=\"shape-rendering:crispEdges\"/>\n", to);
    }
}
