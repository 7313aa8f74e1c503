/* test-inspect-figures: the figures of heads with known answers, and of random ones against another way to compute
 * them, from the matrices themselves: W in full, and the singular values and bases of each. */
#include "figures.h"

#include "test.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { Q, K, V, MOST = 16 };

/* A matrix of d_model rows. */
typedef struct matrix {
    int rows, columns;
    double at[MOST][MOST];
} matrix;

static void compute(const matrix m[3], double f[FIGURES]) {
    const int rows = m[Q].rows, n = m[Q].columns;
    figures_space *space;
    for (int i = 0; i < FIGURES; i++)
        f[i] = -1.0;
    if (!test_check(figures_space_create(rows, n, &space) == 0, "no space"))
        return;
    for (int i = 0; i < rows; i++)
        for (int which = 0; which < 3; which++)
            for (int c = 0; c < n; c++)
                figures_columns(space)[(3 * i + which) * n + c] = m[which].at[i][c];
    test_check(figures_compute(space, f) == 0, "LAPACK failed");
    figures_space_free(space);
}

/* Within what squaring and float64 leave: angles near zero come from cosines near one. */
static void expect(const char *what, const double f[FIGURES], int index, double want) {
    const double bound = index >= FIGURE_ANGLE && index < FIGURE_SYMMETRY ? 1e-4 : 1e-9;
    test_check(isnan(want) ? isnan(f[index]) : fabs(f[index] - want) < bound, "%s: figure %d is %.12g, not %.12g", what,
               index, f[index], want);
}

/* ------------------------------------------------------------------------------------------------- known answers -- */

static matrix unit(int rows, int columns, int first, double scale) {
    matrix m = {.rows = rows, .columns = columns};
    for (int c = 0; c < columns; c++)
        m.at[first + c][c] = scale;
    return m;
}

static void test_identical(void) {
    matrix m[3];
    rng r = rng_stream(test_seed(), "identical");
    m[Q] = (matrix){.rows = 9, .columns = 4};
    for (int i = 0; i < 9; i++)
        for (int c = 0; c < 4; c++)
            m[Q].at[i][c] = (double)rng_normal(&r);
    m[K] = m[V] = m[Q];
    double f[FIGURES];
    compute(m, f);
    for (int p = 0; p < 3; p++) {
        expect("identical", f, FIGURE_COSINE + p, 1.0);
        expect("identical", f, FIGURE_ANGLE + p, 0.0);
        expect("identical", f, FIGURE_LEAST_ANGLE + p, 0.0);
        expect("identical", f, FIGURE_GREATEST_ANGLE + p, 0.0);
        test_check(f[FIGURE_DISTANCE + p] < 1e-7, "identical: distance %g", f[FIGURE_DISTANCE + p]);
    }
    expect("identical: B = Q Q^T", f, FIGURE_SYMMETRY, 1.0);
}

static void test_orthogonal(void) {
    const matrix m[3] = {unit(8, 2, 0, 1.0), unit(8, 2, 2, 1.0), unit(8, 2, 4, 7.0)};
    double f[FIGURES];
    compute(m, f);
    for (int p = 0; p < 3; p++) {
        expect("orthogonal", f, FIGURE_COSINE + p, 0.0);
        expect("orthogonal", f, FIGURE_DISTANCE + p, 1.0);
        expect("orthogonal", f, FIGURE_ANGLE + p, 90.0);
        expect("orthogonal", f, FIGURE_LEAST_ANGLE + p, 90.0);
    }
    expect("orthogonal", f, FIGURE_SYMMETRY, 0.5);
    expect("orthogonal", f, FIGURE_RANK, 2.0);
}

/* K is Q turned by 30 degrees in one plane and by 60 in another; V is -3 Q. */
static void test_turned(void) {
    const double turn[] = {30.0, 60.0};
    matrix m[3] = {unit(6, 2, 0, 1.0), {.rows = 6, .columns = 2}, unit(6, 2, 0, -3.0)};
    for (int c = 0; c < 2; c++) {
        m[K].at[c][c] = cos(turn[c] * acos(-1.0) / 180.0);
        m[K].at[c + 2][c] = sin(turn[c] * acos(-1.0) / 180.0);
    }
    double f[FIGURES];
    compute(m, f);
    expect("turned", f, FIGURE_ANGLE, 45.0);
    expect("turned", f, FIGURE_LEAST_ANGLE, 30.0);
    expect("turned", f, FIGURE_GREATEST_ANGLE, 60.0);
    expect("turned", f, FIGURE_COSINE, (sqrt(3.0) / 2.0 + 0.5) / 2.0);
    expect("turned", f, FIGURE_RANK, 2.0);
    expect("negative", f, FIGURE_COSINE + 1, -1.0);
    expect("negative", f, FIGURE_DISTANCE + 1, sqrt(1.6));
    expect("negative", f, FIGURE_ANGLE + 1, 0.0);
    expect("turned and negative", f, FIGURE_ANGLE + 2, 45.0);
}

/* B = e1 e2^T - e2 e1^T; then B with singular values 3 and 1. */
static void test_of_w(void) {
    matrix m[3] = {unit(4, 2, 0, 1.0), {.rows = 4, .columns = 2}, unit(4, 2, 0, 1.0)};
    m[K].at[1][0] = 1.0;
    m[K].at[0][1] = -1.0;
    double f[FIGURES];
    compute(m, f);
    expect("antisymmetric", f, FIGURE_SYMMETRY, 0.0);
    expect("antisymmetric", f, FIGURE_RANK, 2.0);
    m[K] = unit(4, 2, 2, 1.0);
    m[Q].at[0][0] = 3.0;
    compute(m, f);
    expect("3 and 1", f, FIGURE_RANK, exp(-0.75 * log(0.75) - 0.25 * log(0.25)));
}

/* A column that is a sum of others but for the rounding of float32 spans nothing: K has it all. */
static void test_rounded_rank(void) {
    rng r = rng_stream(test_seed(), "rounded rank");
    matrix m[3] = {{.rows = 9, .columns = 3}};
    for (int i = 0; i < 9; i++)
        for (int c = 0; c < 3; c++)
            m[Q].at[i][c] = (double)rng_normal(&r);
    m[K] = m[V] = m[Q];
    for (int i = 0; i < 9; i++)
        m[Q].at[i][2] = (double)(float)(m[Q].at[i][0] + 0.1 * m[Q].at[i][1]);
    double f[FIGURES];
    compute(m, f);
    expect("rank 2 but for rounding", f, FIGURE_GREATEST_ANGLE, 0.0);
}

/* Equal columns span less; zeros span nothing, and what would divide by them has no value. */
static void test_degenerate(void) {
    matrix m[3] = {unit(5, 2, 0, 1.0), unit(5, 2, 0, 1.0), {.rows = 5, .columns = 2}};
    m[Q].at[0][1] = 1.0;
    m[Q].at[1][1] = 0.0;
    double f[FIGURES];
    compute(m, f);
    expect("of rank 1", f, FIGURE_ANGLE, 0.0);
    expect("of rank 1", f, FIGURE_GREATEST_ANGLE, 0.0);
    expect("of rank 1", f, FIGURE_RANK, 1.0);
    for (int p = 1; p < 3; p++) {
        expect("zeros", f, FIGURE_COSINE + p, NAN);
        expect("zeros", f, FIGURE_ANGLE + p, NAN);
        expect("zeros", f, FIGURE_DISTANCE + p, 1.0);
    }
    m[K] = m[V];
    compute(m, f);
    expect("B = 0", f, FIGURE_SYMMETRY, NAN);
    expect("B = 0", f, FIGURE_RANK, NAN);
    m[Q] = m[K];
    compute(m, f);
    expect("all zero", f, FIGURE_DISTANCE, NAN);
}

/* ----------------------------------------------------------------------------------------------------- reference -- */

static double inner(const matrix *a, int i, const matrix *b, int j) {
    double sum = 0.0;
    for (int r = 0; r < a->rows; r++)
        sum += a->at[r][i] * b->at[r][j];
    return sum;
}

/* Singular values, falling, and in base, unless it is NULL, an orthonormal base of the columns. */
static void decompose(matrix m, double *values, matrix *base) {
    double none[MOST * MOST];
    const lapack_int rows = m.rows, columns = m.columns, n = rows < columns ? rows : columns;
    matrix u = {.rows = m.rows, .columns = n};
    test_check(LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', rows, columns, m.at[0], MOST, values, u.at[0], MOST, none, MOST) ==
                   0,
               "LAPACK failed");
    if (base != NULL)
        *base = u;
}

static void test_reference(int rows, int columns) {
    rng r = rng_stream(test_seed(), "reference");
    matrix m[3], w = {.rows = rows, .columns = rows};
    for (int which = 0; which < 3; which++) {
        m[which] = (matrix){.rows = rows, .columns = columns};
        for (int i = 0; i < rows; i++)
            for (int c = 0; c < columns; c++) /* K is made to resemble Q */
                m[which].at[i][c] = (double)rng_normal(&r) + (which == K ? m[Q].at[i][c] : 0.0);
    }
    double f[FIGURES], all = 0.0, symmetric = 0.0, values[MOST], sum = 0.0, entropy = 0.0;
    compute(m, f);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++)
            for (int c = 0; c < columns; c++)
                w.at[i][j] += m[Q].at[i][c] * m[K].at[j][c];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++) {
            all += w.at[i][j] * w.at[i][j];
            symmetric += pow((w.at[i][j] + w.at[j][i]) / 2.0, 2.0);
        }
    expect("symmetry from B", f, FIGURE_SYMMETRY, symmetric / all);
    decompose(w, values, NULL);
    for (int i = 0; i < columns; i++)
        sum += values[i];
    for (int i = 0; i < columns; i++)
        entropy -= values[i] / sum * log(values[i] / sum);
    expect("effective rank from B", f, FIGURE_RANK, exp(entropy));
    for (int p = 0; p < 3; p++) {
        const matrix *a = &m[p == 2 ? K : Q], *b = &m[p == 0 ? K : V];
        double aa = 0.0, bb = 0.0, difference = 0.0, ab = 0.0, mean = 0.0;
        for (int i = 0; i < rows; i++)
            for (int c = 0; c < columns; c++) {
                aa += a->at[i][c] * a->at[i][c];
                bb += b->at[i][c] * b->at[i][c];
                ab += a->at[i][c] * b->at[i][c];
                difference += pow(a->at[i][c] - b->at[i][c], 2.0);
            }
        expect("cosine", f, FIGURE_COSINE + p, ab / sqrt(aa * bb));
        expect("distance", f, FIGURE_DISTANCE + p, sqrt(difference / (aa + bb)));
        matrix qa, qb;
        decompose(*a, values, &qa);
        decompose(*b, values, &qb);
        matrix product = {.rows = columns, .columns = columns};
        for (int i = 0; i < columns; i++)
            for (int j = 0; j < columns; j++)
                product.at[i][j] = inner(&qa, i, &qb, j);
        decompose(product, values, NULL);
        for (int i = 0; i < columns; i++)
            mean += acos(fmin(values[i], 1.0)) * 180.0 / acos(-1.0) / columns;
        expect("mean angle", f, FIGURE_ANGLE + p, mean);
        expect("least angle", f, FIGURE_LEAST_ANGLE + p, acos(fmin(values[0], 1.0)) * 180.0 / acos(-1.0));
        expect("greatest angle", f, FIGURE_GREATEST_ANGLE + p,
               acos(fmin(values[columns - 1], 1.0)) * 180.0 / acos(-1.0));
    }
}

/* More rows than are multiplied at once; independent heads are unlike in every figure, and always the same. */
static void test_random(void) {
    figures_space *space;
    double f[FIGURES], again[FIGURES];
    if (!test_check(figures_space_create(1500, 8, &space) == 0, "no space"))
        return;
    test_check(figures_random(space, 3, f) == 0 && figures_random(space, 4, again) == 0, "LAPACK failed");
    test_check(memcmp(f, again, sizeof f) != 0, "two random heads are the same");
    test_check(figures_random(space, 3, again) == 0 && memcmp(f, again, sizeof f) == 0, "a random head changes");
    for (int p = 0; p < 3; p++)
        test_check(fabs(f[FIGURE_COSINE + p]) < 0.05 && f[FIGURE_LEAST_ANGLE + p] > 75.0, "random: %g, %g",
                   f[FIGURE_COSINE + p], f[FIGURE_LEAST_ANGLE + p]);
    test_check(f[FIGURE_RANK] > 7.5 && f[FIGURE_RANK] <= 8.0, "random: effective rank %g", f[FIGURE_RANK]);
    figures_space_free(space);
    test_check(figures_space_create(8, FIGURES_MOST_CHANNELS + 1, &space) != 0 && space == NULL, "too large a head");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "inspect-figures", NULL);
    test_identical();
    test_orthogonal();
    test_turned();
    test_of_w();
    test_rounded_rank();
    test_degenerate();
    test_reference(12, 3);
    test_reference(15, 7);
    test_reference(5, 5);
    test_random();
    return test_end();
}
