/* Searches the coefficients of v_exp.h: neighbours of the minimax ones whose roundings work out well.
 *
 *     cc -O3 -march=native -ffp-contract=off -fno-math-errno v_exp_search.c -lm -o search && ./search [SEED]
 *
 * Needs a CPU with FMA; prints a line for each improvement, and ends when a walk over all floats finds no error over
 * the goal: a quarter of an hour on one core. Random steps of one to three coefficients are kept if the largest error
 * over some points becomes smaller; then all floats are walked, and the worst of them become points, too. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COEFFICIENTS = 6, RANDOM_POINTS = 1 << 19, MOST_POINTS = 1 << 21, STEPS = 30000, BLOCK = 1024 };
static const double GOAL = 0.995, WORTH_KEEPING = 0.975;
static const uint32_t FIRST = 0xbd000000u /* -1/32: smaller ones are no trouble */,
                      LAST = 0xc2aeac4fu /* least normal */;

static float point[MOST_POINTS];
static double exact[MOST_POINTS];
static int points;

/* v_exp, for x down to the least that has a normal result. The last coefficient is what LN2 is off by. */
static void evaluate(const float *c, int n, const float *x, float *y) {
    for (int i = 0; i < n; i++) {
        const float t = fmaf(x[i], 0x1.715476p0f, 0x1.8000fep23f), k = t - 0x1.8000fep23f;
        const float r = fmaf(k, c[5], fmaf(k, -0x1.62e430p-1f, x[i]));
        float q = fmaf(c[0], r, c[1]);
        q = fmaf(q, r, c[2]);
        q = fmaf(q, r, c[3]);
        q = fmaf(q, r, c[4]);
        const float e = fmaf(r * r, q, r);
        uint32_t bits;
        float scale;
        memcpy(&bits, &t, sizeof bits);
        bits <<= 23;
        memcpy(&scale, &bits, sizeof scale);
        y[i] = fmaf(e, scale, scale);
    }
}

/* In ulp of the exact result. */
static double error_of(float y, double x) { return fabs((double)y - x) * exp2(23 - ilogb(x)); }

/* The largest error over the points, or the first that is larger than stop. */
static double worst_of(const float *c, double stop) {
    double worst = 0;
    for (int i = 0; i < points && worst <= stop; i += BLOCK) {
        float y[BLOCK];
        const int n = points - i < BLOCK ? points - i : BLOCK;
        evaluate(c, n, point + i, y);
        for (int j = 0; j < n; j++)
            worst = fmax(worst, error_of(y[j], exact[i + j]));
    }
    return worst;
}

static void add(float x) {
    if (points == MOST_POINTS)
        return;
    const int at = rand() % (points + 1); /* anywhere, so that bad coefficients are found out early */
    point[points] = point[at];
    exact[points] = exact[at];
    point[at] = x;
    exact[at] = exp((double)x);
    points++;
}

/* All floats: returns the largest error, and adds what is worth it to the points. */
static double walk(const float *c) {
    double worst = 0;
    for (uint32_t first = FIRST; first <= LAST; first += BLOCK) {
        float x[BLOCK], y[BLOCK];
        for (uint32_t i = 0; i < BLOCK; i++) {
            const uint32_t bits = first + i < LAST ? first + i : LAST;
            memcpy(&x[i], &bits, sizeof x[i]);
        }
        evaluate(c, BLOCK, x, y);
        for (int i = 0; i < BLOCK; i++) {
            const double error = error_of(y[i], exp((double)x[i]));
            worst = fmax(worst, error);
            if (error > WORTH_KEEPING)
                add(x[i]);
        }
    }
    return worst;
}

int main(int argc, char **argv) {
    float best[COEFFICIENTS] = {0x1.7a99cep-10f, 0x1.1274a0p-7f, 0x1.554610p-5f,
                                0x1.555432p-3f,  0x1.000006p-1f, 0x1.05c610p-29f}; /* v_exp.py */
    const int reach[COEFFICIENTS] = {20000, 4000, 400, 60, 4, 60000};              /* of a step, in ulps */
    srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    for (int i = 0; i < RANDOM_POINTS;
         i++) { /* half of them where r is most negative and a result has fewest bits to spare */
        const double unit = rand() / (double)RAND_MAX;
        const float x =
            (float)(-(rand() % 126) * 0.6931471805599453 - (i % 2 ? 0.28 + 0.0665 * unit : 0.693 * unit - 0.3465));
        add(x > 0 ? -x : x);
    }
    for (double worst = 9; worst > GOAL;) {
        double least = worst_of(best, 9);
        for (int step = 0; step < STEPS; step++) {
            float c[COEFFICIENTS];
            memcpy(c, best, sizeof c);
            for (int n = 1 + rand() % 3; n > 0; n--) {
                const int which = rand() % COEFFICIENTS, most = 1 + reach[which] / (1 + rand() % 30);
                int32_t bits;
                memcpy(&bits, &c[which], sizeof bits);
                bits += rand() % (2 * most + 1) - most;
                memcpy(&c[which], &bits, sizeof bits);
            }
            const double error = worst_of(c, least);
            if (error < least) {
                least = error;
                memcpy(best, c, sizeof best);
            }
        }
        worst = walk(best);
        printf("%.4f ulp over all floats, %.4f over %d points:", worst, least, points);
        for (int i = 0; i < COEFFICIENTS; i++)
            printf(" %a", (double)best[i]);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
