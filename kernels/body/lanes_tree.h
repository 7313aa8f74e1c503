/* The virtual lanes of FV_W rows, and the one tree that folds them all: two vectors to one, step by step. */
#ifndef FV_LANES_TREE_H
#define FV_LANES_TREE_H

_Static_assert(FV_W == 1 || FV_W >= 4, "the tree ends with four lanes");

enum { GROUP = FV_LANES / FV_W }; /* vectors that a row's lanes are */

static inline vf lanes_fold(vf a, vf b, const int maximum) { return maximum ? v_max(a, b) : v_add(a, b); }

/* Lanes of a and b, each with the one half further on: 2 half lanes of each become half. */
static inline vf lanes_halve(vf a, vf b, const int half, const int maximum) {
    vf low, high;
    v_unzip(a, b, half, &low, &high);
    return lanes_fold(low, high, maximum);
}

/* Folds the lanes of each of FV_W rows by the tree of kernels.h: one value a row. Vectors halve in number with each
 * level: row 4 q + i has at last lane i of four lanes q, where v_unzip leaves those of vector i. */
static inline __attribute__((always_inline)) vf lanes_tree(const float *lanes, const int maximum) {
    vf x[FV_W];
    for (int r = 0; r < FV_W; r++, lanes += FV_LANES) {
        vf part[GROUP];
        for (int g = 0; g < GROUP; g++)
            part[g] = v_load(lanes + g * FV_W);
        for (int half = GROUP / 2; half > 0; half /= 2)
            for (int g = 0; g < half; g++)
                part[g] = lanes_fold(part[g], part[g + half], maximum);
        x[r] = part[0];
    }
    for (int half = FV_W / 2; half >= 4; half /= 2)
        for (int j = 0; j < half; j++) {
            const int first = j / 4 * 8 + j % 4;
            x[j] = lanes_halve(x[first], x[first + 4], half, maximum);
        }
    for (int half = FV_W < 4 ? 0 : 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            x[j] = lanes_halve(x[2 * j], x[2 * j + 1], half, maximum);
    return x[0];
}

/* The same of the first FV_W of count rows. */
static inline __attribute__((always_inline)) vf lanes_tree_n(const float *lanes, int64_t count, const int maximum) {
    float all[FV_W * FV_LANES];
    if (count < FV_W) {
        for (int64_t r = 0; r < FV_W; r++)
            for (int g = 0; g < FV_LANES; g += FV_W) /* of rows that are not there any number */
                v_store(all + r * FV_LANES + g, v_load(lanes + (r < count ? r : 0) * FV_LANES + g));
        lanes = all;
    }
    return lanes_tree(lanes, maximum);
}

#endif
