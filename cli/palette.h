/* Colours of what programs draw: of fovea-inspect's pictures and of fovea-tune's report. Readers with any of the common
 * forms of colour blindness tell them apart, and so does a print in greys. */
#ifndef CLI_PALETTE_H
#define CLI_PALETTE_H

#include <stdbool.h>

/* Two things apart, on light and on dark pages: blue and vermilion, sky blue and orange of Okabe and Ito (2008). */
#define PALETTE_FIRST_LIGHT "#0072b2"
#define PALETTE_SECOND_LIGHT "#d55e00"
#define PALETTE_FIRST_DARK "#56b4e9"
#define PALETTE_SECOND_DARK "#e69f00"

typedef struct palette_colour {
    unsigned char red, green, blue;
} palette_colour;

/* A quantity from 0 (dark violet) to 1 (yellow): viridis of Smith and van der Walt (2015), whose lightness rises
 * evenly. What is beyond is as the end. */
palette_colour palette_ramp(double at);

/* Is light text read better on it? */
bool palette_is_dark(palette_colour colour);

#endif
