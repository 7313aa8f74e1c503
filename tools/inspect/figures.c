/* figures.h. All of it comes from one product, the inner products of the 3 d_k columns with each other,
 *
 *     G = X^T X,   X = [W^Q  W^K  W^V]   (d_model x 3 d_k),   in blocks d_k x d_k: G_QQ, G_QK, ...
 *
 * so that whatever follows costs d_k^3, not d_model^3: no matrix of d_model x d_model is ever made.
 *   norms, <A, B>        traces of blocks
 *   column spaces        G_AA = V L V^T gives A = U S V^T with S = sqrt(L), and an orthonormal base U = A V / S of the
 *                        column space; singular values below those of rounding (numpy's matrix_rank for float32
 *                        numbers) are left out
 *   principal angles     the singular values of U_A^T U_B = S_A^-1 V_A^T G_AB V_B S_B^-1 are their cosines [1]
 *   singular values of B those of S_Q V_Q^T V_K S_K, as B = U_Q (S_Q V_Q^T V_K S_K) U_K^T
 *   symmetry             |B|^2 = sum of G_QQ * G_KK elementwise; tr(B B) = sum of G_QK * G_QK^T elementwise;
 *                        |(B + B^T) / 2|^2 = (|B|^2 + tr(B B)) / 2
 * Float64 holds squares of float32 numbers exactly, so what squaring the singular values loses lies below what float32
 * weights know. [1] A. Bjorck, G. Golub: Numerical methods for computing angles between linear subspaces. 1973. */
#include "figures.h"

#include "splitmix.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, MATRICES };
enum { CHUNK = 12288 }; /* numbers that are multiplied at once: 96 KiB */

const figure_group figure_groups[FIGURE_GROUPS] = {
    {FIGURE_COSINE, 3, "cosine", "cosine", 3},
    {FIGURE_DISTANCE, 3, "distance", "relative Frobenius distance", 3},
    {FIGURE_ANGLE, 3, "angle", "mean principal angle, °", 1},
    {FIGURE_LEAST_ANGLE, 3, "least_angle", "smallest principal angle, °", 1},
    {FIGURE_GREATEST_ANGLE, 3, "greatest_angle", "largest principal angle, °", 1},
    {FIGURE_SYMMETRY, 1, "symmetry", "symmetric share of B", 3},
    {FIGURE_RANK, 1, "effective_rank", "effective rank of B", 1},
};
const char *const figure_pairs[3] = {"qk", "qv", "kv"};

struct figures_space {
    int64_t d_model;
    int d_k;
    double *columns;                         /* [d_model][3 d_k] */
    double *gram;                            /* [3 d_k][3 d_k]; only elements (row <= column) */
    double *base[MATRICES], *size[MATRICES]; /* V [d_k][d_k], a row for each vector, and S [d_k], both falling */
    int rank[MATRICES];
    double *block, *half, *core; /* [d_k][d_k] */
    double *singular;            /* [d_k] */
};

/* -------------------------------------------------------------------------------------------------------- memory -- */

int figures_space_create(int64_t d_model, int64_t d_k, figures_space **space) {
    *space = NULL;
    figures_space *s = calloc(1, sizeof *s);
    if (s == NULL || d_model > INT32_MAX || d_k > FIGURES_MOST_CHANNELS) {
        free(s);
        return -1;
    }
    s->d_model = d_model;
    s->d_k = (int)d_k;
    const size_t rows = (size_t)d_model, n = (size_t)d_k;
    double **const all[] = {&s->columns, &s->gram, &s->block, &s->half, &s->core, &s->singular};
    const size_t sizes[] = {rows * 3 * n, 9 * n * n, n * n, n * n, n * n, n};
    bool complete = true;
    for (int i = 0; i < 6; i++)
        complete = (*all[i] = malloc(sizes[i] * sizeof(double))) != NULL && complete;
    for (int m = 0; m < MATRICES; m++) {
        s->base[m] = malloc(n * n * sizeof(double));
        s->size[m] = malloc(n * sizeof(double));
        complete = complete && s->base[m] != NULL && s->size[m] != NULL;
    }
    if (!complete) {
        figures_space_free(s);
        return -1;
    }
    *space = s;
    return 0;
}

void figures_space_free(figures_space *s) {
    if (s == NULL)
        return;
    for (int m = 0; m < MATRICES; m++) {
        free(s->base[m]);
        free(s->size[m]);
    }
    free(s->columns);
    free(s->gram);
    free(s->block);
    free(s->half);
    free(s->core);
    free(s->singular);
    free(s);
}

double *figures_columns(figures_space *s) { return s->columns; }

/* --------------------------------------------------------------------------------------------------------- steps -- */

/* Column i of one matrix times column j of another: an element of their block, from the stored half. */
static double inner(const figures_space *s, int a, int i, int b, int j) {
    const int64_t row = (int64_t)a * s->d_k + i, column = (int64_t)b * s->d_k + j, n = 3 * (int64_t)s->d_k;
    return row <= column ? s->gram[row * n + column] : s->gram[column * n + row];
}

static double trace(const figures_space *s, int a, int b) {
    double sum = 0.0;
    for (int i = 0; i < s->d_k; i++)
        sum += inner(s, a, i, b, i);
    return sum;
}

/* V, S and the rank of one matrix. */
static int decompose(figures_space *s, int m) {
    const int n = s->d_k;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            s->block[i * n + j] = -inner(s, m, i, m, j); /* negative: eigenvalues ascend, singular values shall fall */
    if (LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', n, s->block, n, s->size[m]) != 0)
        return -1;
    memcpy(s->base[m], s->block, (size_t)n * (size_t)n * sizeof(double)); /* its columns are rows here */
    const double longer = (double)(s->d_model > n ? s->d_model : n);
    s->rank[m] = 0;
    for (int i = 0; i < n; i++) {
        s->size[m][i] = s->size[m][i] < 0.0 ? sqrt(-s->size[m][i]) : 0.0;
        s->rank[m] += s->size[m][i] > s->size[m][0] * longer * 0x1p-23;
    }
    return 0;
}

/* The singular values of the first rows x columns of core, falling. LAPACK reads it as its transpose, which has the
 * same. */
static int singular_values(figures_space *s, int rows, int columns) {
    return LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', columns, rows, s->core, s->d_k, s->singular, NULL, 1, NULL, 1);
}

static int angles(figures_space *s, int a, int b, double *mean, double *least, double *greatest) {
    const int n = s->d_k, ra = s->rank[a], rb = s->rank[b], count = ra < rb ? ra : rb;
    const double degrees = 57.295779513082320877;
    *mean = *least = *greatest = NAN;
    if (count == 0)
        return 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            s->block[i * n + j] = inner(s, a, i, b, j);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, ra, n, n, 1.0, s->base[a], n, s->block, n, 0.0, s->half, n);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ra, rb, n, 1.0, s->half, n, s->base[b], n, 0.0, s->core, n);
    for (int i = 0; i < ra; i++)
        for (int j = 0; j < rb; j++)
            s->core[i * n + j] /= s->size[a][i] * s->size[b][j];
    if (singular_values(s, ra, rb) != 0)
        return -1;
    *mean = 0.0;
    for (int i = 0; i < count; i++)
        *mean += degrees * acos(fmin(s->singular[i], 1.0)) / count;
    *least = degrees * acos(fmin(s->singular[0], 1.0));
    *greatest = degrees * acos(fmin(s->singular[count - 1], 1.0));
    return 0;
}

static int effective_rank(figures_space *s, double *rank) {
    const int n = s->d_k;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1.0, s->base[Q], n, s->base[K], n, 0.0, s->core, n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            s->core[i * n + j] *= s->size[Q][i] * s->size[K][j];
    if (singular_values(s, n, n) != 0)
        return -1;
    double sum = 0.0, entropy = 0.0;
    for (int i = 0; i < n; i++)
        sum += s->singular[i];
    for (int i = 0; i < n; i++)
        if (s->singular[i] > 0.0)
            entropy -= s->singular[i] / sum * log(s->singular[i] / sum);
    *rank = sum > 0.0 ? exp(entropy) : NAN;
    return 0;
}

static double symmetry(const figures_space *s) {
    double all = 0.0, twice = 0.0;
    for (int i = 0; i < s->d_k; i++)
        for (int j = 0; j < s->d_k; j++) {
            all += inner(s, Q, i, Q, j) * inner(s, K, i, K, j);
            twice += inner(s, Q, i, K, j) * inner(s, Q, j, K, i);
        }
    return all > 0.0 ? (1.0 + twice / all) / 2.0 : NAN;
}

/* ------------------------------------------------------------------------------------------------------- figures -- */

int figures_compute(figures_space *s, double figure[FIGURES]) {
    static const int pairs[3][2] = {{Q, K}, {Q, V}, {K, V}};
    const int n = 3 * s->d_k;
    /* Column-major, the columns of a row side by side: the order in which plain BLAS runs along memory; and as many
     * rows at once as stay in a cache (1.3 times as fast as all at once). What it calls lower is (row <= column) here.
     */
    const int64_t rows = CHUNK / n + 1;
    for (int64_t row = 0; row < s->d_model; row += rows) {
        const int count = (int)(s->d_model - row < rows ? s->d_model - row : rows);
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, n, count, 1.0, s->columns + row * n, n,
                    row > 0 ? 1.0 : 0.0, s->gram, n);
    }
    for (int m = 0; m < MATRICES; m++)
        if (decompose(s, m) != 0)
            return -1;
    for (int p = 0; p < 3; p++) {
        const int a = pairs[p][0], b = pairs[p][1];
        const double aa = trace(s, a, a), bb = trace(s, b, b), ab = trace(s, a, b);
        figure[FIGURE_COSINE + p] = aa > 0.0 && bb > 0.0 ? ab / sqrt(aa * bb) : NAN;
        figure[FIGURE_DISTANCE + p] = aa + bb > 0.0 ? sqrt(fmax(aa + bb - 2.0 * ab, 0.0) / (aa + bb)) : NAN;
        if (angles(s, a, b, &figure[FIGURE_ANGLE + p], &figure[FIGURE_LEAST_ANGLE + p],
                   &figure[FIGURE_GREATEST_ANGLE + p]) != 0)
            return -1;
    }
    figure[FIGURE_SYMMETRY] = symmetry(s);
    return effective_rank(s, &figure[FIGURE_RANK]);
}

/* Mean 0, variance 1, near enough to normal: the sum of twelve uniforms. */
static double normal(uint64_t *state) {
    int64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        const uint64_t bits = splitmix64(state);
        sum += (int64_t)(bits & 0xffffff) + (int64_t)(bits >> 40);
    }
    return (double)(float)(sum - 6 * 0xffffff) * 0x1p-24;
}

int figures_random(figures_space *s, int64_t index, double figure[FIGURES]) {
    uint64_t state = (uint64_t)index;
    state = splitmix64(&state) ^ UINT64_C(0xe4cd081737d25d2a); /* far from other indices; any constant would do */
    for (int64_t i = 0; i < s->d_model * 3 * s->d_k; i++)
        s->columns[i] = normal(&state);
    return figures_compute(s, figure);
}
