/* Which kernel suits a product of floats (dispatch.h), by a model of a core. */
#include "dispatch/dispatch.h"

#include "core/core.h"

/* Half cycles that a product takes for one step of k, divided by the rows that it serves, by a model of a core that
 * starts two FMA and two loads a cycle and has the result of an FMA after four: the columns come in strips of nr, and a
 * strip of a tile takes its FMA, its loads or the latency of the FMA, whichever is most. A load that hides behind FMA
 * still counts a little, one of b more, as b comes from farther than a: so of two tiles that are equal else, the one
 * that loads less is taken. */
double fv_multiply_cost(const fv_kernel *multiply, int64_t rows, int64_t columns) {
    const double a_load = 0.02, b_load = 0.05;
    const int64_t lanes = fv_isa_lanes(multiply->isa), height = fv_min(multiply->mr, rows);
    double cost = 0.0;
    for (int64_t left = fv_ceil_div(columns, lanes); left > 0; left -= multiply->nr / lanes) {
        const int64_t vectors = fv_min(left, multiply->nr / lanes);
        cost += (double)fv_max(fv_max(height * vectors, height + vectors), 8);
        cost += a_load * (double)height + b_load * (double)vectors;
    }
    return cost / (double)height;
}

/* The cheapest product of a tile at least that high and wide; NULL if there is none. */
static const fv_kernel *cheapest(fv_target target, int64_t rows, int64_t columns, int64_t height, int64_t width) {
    const double tie = 1e-9; /* sums of the same terms may differ in their last bits */
    const fv_kernel *first = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, target), *best = NULL;
    for (int i = 0; first && i < fv_kernel_count; i++) {
        const fv_kernel *multiply = &fv_kernels[i];
        if (!fv_kernel_alike(multiply, first) || multiply->mr < height || multiply->nr < width)
            continue;
        const double less =
            best ? fv_multiply_cost(best, rows, columns) - fv_multiply_cost(multiply, rows, columns) : 1.0;
        if (less > tie || (less > -tie && multiply->nr < best->nr))
            best = multiply;
    }
    return best;
}

const fv_kernel *fv_multiply_for(fv_target target, int64_t rows, int64_t columns) {
    return cheapest(target, rows, columns, 0, 0);
}

const fv_kernel *fv_multiply_for_tile(fv_target target, int64_t rows, int64_t columns) {
    const fv_kernel *multiply = cheapest(target, rows, columns, rows, 0);
    return multiply ? multiply : fv_multiply_for(target, rows, columns);
}

const fv_kernel *fv_multiply_for_stream(fv_target target, int64_t rows, int64_t columns) {
    enum { LINE = 16 }; /* floats: strips of a single one come slower, as they jump from line to line */
    const fv_kernel *multiply = cheapest(target, rows, columns, rows, LINE + 1);
    return multiply ? multiply : fv_multiply_for_tile(target, rows, columns);
}
