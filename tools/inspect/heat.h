/* Heat maps as SVG, light or dark as the reader's page is. A picture is begun, filled with texts, maps and scales,
 * ended. */
#ifndef INSPECT_HEAT_H
#define INSPECT_HEAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The value of a cell: a level from 0 to HEAT_LEVELS, coloured from dark violet to yellow (palette.h), or one of
 * these. */
enum {
    HEAT_LEVELS = 20,
    HEAT_NONE = 1000,  /* there is no value: grey */
    HEAT_ABSENT = 1001 /* there is no cell */
};

/* value of 0 to 1 as a level; what is beyond is as the end; NaN: HEAT_NONE. */
int heat_level(double value);

/* label: what a reader who cannot see it is told. */
void heat_begin(FILE *to, double width, double height, const char *label);
void heat_end(FILE *to);

typedef enum heat_anchor { HEAT_START, HEAT_MIDDLE, HEAT_END } heat_anchor;

/* Text at its baseline; style: "title", "panel", "small", "small soft", "tiny", ""; turned: upwards, read from below.
 * What is no UTF-8 becomes '?'; of more than most characters (0: any number) the rest is left out. */
void heat_text(FILE *to, double x, double y, const char *style, heat_anchor anchor, bool turned, int most,
               const char *text);

/* Rows x columns square cells. level tells what each shows. */
void heat_cells(FILE *to, double x, double y, double cell, int64_t rows, int64_t columns,
                int (*level)(const void *of, int64_t row, int64_t column), const void *of);

/* A bar with the colours of the levels from first to last. */
void heat_scale(FILE *to, double x, double y, double width, int first, int last);

/* That of all levels, and above it how many cells have each level: the highest bar is that high. */
void heat_histogram(FILE *to, double x, double y, double width, double height, const int64_t count[HEAT_LEVELS + 1]);

/* A mark that is seen on every colour. */
typedef enum heat_shape { HEAT_RING, HEAT_DIAMOND } heat_shape;
void heat_mark(FILE *to, heat_shape shape, double x, double y, double size);

#endif
