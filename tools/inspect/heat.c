/* heat.h. Cells of one level are one path, neighbours in a row one rectangle of it: 10,000 cells are some 100 kB. */
#include "heat.h"

#include "palette.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

int heat_level(double value) {
    if (isnan(value))
        return HEAT_NONE;
    return (int)lround(HEAT_LEVELS * fmax(0.0, fmin(value, 1.0)));
}

static void write_colours(FILE *to) {
    for (int level = 0; level <= HEAT_LEVELS; level++) {
        const palette_colour c = palette_ramp((double)level / HEAT_LEVELS);
        fprintf(to, "%s .p%d{fill:#%02x%02x%02x}", level % 8 == 0 ? "\n " : "", level, (unsigned)c.red,
                (unsigned)c.green, (unsigned)c.blue);
    }
    fputc('\n', to);
}

void heat_begin(FILE *to, double width, double height, const char *label) {
    fprintf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"img\" aria-label=\"%s\">\n<style>\n"
        "  text{font:12px system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;fill:#1f2328}\n"
        "  .title{font-size:16px;font-weight:600} .panel{font-weight:600} .small{font-size:10px} "
        ".tiny{font-size:9px}\n"
        "  .soft{fill:#57606a} .card{fill:#ffffff;stroke:#d0d7de} .none{fill:#9aa0a6} .mark{stroke:#1f2328;fill:none} "
        ".halo{stroke:#ffffff;stroke-width:4;fill:none} .ring{stroke:#000000;stroke-width:2;fill:none} "
        ".cells path{shape-rendering:crispEdges}",
        width, height, width, height, label);
    write_colours(to);
    fputs("  @media (prefers-color-scheme:dark){\n  text{fill:#e6edf3} .soft{fill:#9198a1} "
          ".card{fill:#0d1117;stroke:#3d444d} .none{fill:#6e7681} .mark{stroke:#e6edf3}\n",
          to);
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
        /* XML cannot hold control characters, and the two that are no characters. */
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
        fprintf(to, "class=\"p%d\"", level);
}

void heat_cells(FILE *to, double x, double y, double cell, int64_t rows, int64_t columns,
                int (*level)(const void *of, int64_t row, int64_t column), const void *of) {
    fprintf(to, "<g class=\"cells\" transform=\"translate(%.1f %.1f) scale(%.1f)\">\n", x, y, cell);
    for (int wanted = 0; wanted <= HEAT_LEVELS + 1; wanted++) {
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

static void write_bar(FILE *to, double x, double y, double width, double height, int level) {
    fprintf(to, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" ", x, y, width, height);
    write_class(to, level);
    fputs(" style=\"shape-rendering:crispEdges\"/>\n", to);
}

void heat_scale(FILE *to, double x, double y, double width, int first, int last) {
    const double step = width / (last - first + 1);
    for (int level = first; level <= last; level++)
        write_bar(to, x + step * (level - first), y, step, 8.0, level);
}

void heat_histogram(FILE *to, double x, double y, double width, double height, const int64_t count[HEAT_LEVELS + 1]) {
    const double step = width / (HEAT_LEVELS + 1);
    int64_t most = 1;
    for (int level = 0; level <= HEAT_LEVELS; level++)
        most = count[level] > most ? count[level] : most;
    for (int level = 0; level <= HEAT_LEVELS; level++)
        if (count[level] > 0) {
            const double bar = fmax(height * (double)count[level] / (double)most, 1.0);
            write_bar(to, x + step * level, y - 2.0 - bar, step - 1.0, bar, level);
        }
    heat_scale(to, x, y, width, 0, HEAT_LEVELS);
}

void heat_mark(FILE *to, heat_shape shape, double x, double y, double size) {
    static const char *const styles[] = {"halo", "ring"};
    for (int i = 0; i < 2; i++)
        if (shape == HEAT_RING)
            fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" class=\"%s\"/>\n", x, y, size, styles[i]);
        else
            fprintf(to, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\" class=\"%s\"/>\n", x, y - size, size,
                    size, -size, size, -size, -size, styles[i]);
}
