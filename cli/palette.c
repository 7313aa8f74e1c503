/* palette.h. */
#include "palette.h"

#include <math.h>

palette_colour palette_ramp(double at) {
    /* Every sixteenth colour of viridis (released to the public domain, CC0); between them lines are 6 of 255 off at
     * most. */
    static const palette_colour viridis[] = {
        {68, 1, 84},    {72, 24, 106},  {71, 45, 123},  {66, 64, 134},  {59, 82, 139},  {51, 99, 141},
        {44, 114, 142}, {38, 129, 142}, {33, 144, 140}, {31, 159, 136}, {40, 174, 128}, {62, 188, 116},
        {93, 201, 99},  {130, 211, 76}, {171, 220, 50}, {213, 226, 26}, {253, 231, 37}};
    enum { LAST = sizeof viridis / sizeof viridis[0] - 1 };
    const double place = LAST * fmin(fmax(at, 0.0), 1.0);
    const int below = place < LAST ? (int)place : LAST - 1;
    const double part = place - below;
    const palette_colour a = viridis[below], b = viridis[below + 1];
    return (palette_colour){(unsigned char)lround(a.red + (b.red - a.red) * part),
                            (unsigned char)lround(a.green + (b.green - a.green) * part),
                            (unsigned char)lround(a.blue + (b.blue - a.blue) * part)};
}

bool palette_is_dark(palette_colour c) { return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue < 128.0; }
