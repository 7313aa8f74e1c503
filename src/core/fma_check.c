/* The start-up check of fma() and fmaf() (fma.h). */
#include "core/fma.h"

#include "core/float_mode.h"

#include <math.h>

/* Ties but for a last bit, which is lost where product or sum are rounded to double, or to the 64 bits of the x87 unit;
 * and a product whose last bit alone is left. Whatever the caller's rounding is. The variables: compilers compute what
 * is constant themselves. */
bool fv_fma_rounds_once(void) {
    volatile float f = 0x1.000002p0f;
    volatile double d = 0x1.0000000000001p0;
    const fv_float_mode callers = fv_float_plain();
    const bool once = fmaf(f * 0x1p-24f, 0x1.fffffcp-1f, f) == f && fmaf(f * -0x1p-24f, 0x1.fffffcp-1f, -f) == -f &&
                      fmaf(f, f, -0x1.000004p0f) == 0x1p-46f && fma(d * 0x1p-53, 0x1.ffffffffffffep-1, d) == d;
    fv_float_mode_set(&callers);
    return once;
}
