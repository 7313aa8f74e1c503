/* Exp against double. Rows of exp over all floats, rows of softmax over those that it can give to its exp.
 *
 *     test-exp                   a sample of all floats from -104 to 90, and all near places of interest; a few seconds
 *     test-exp --exhaustive      each float, on all cores; some minutes (make test-exhaustive)
 *
 * For every row of exp and of softmax that the CPU can run (under FOVEA_ISA: of that tier):
 *   - at most 1 ulp from exact where the result is a normal float, exactly +0 below, +inf above
 *   - monotonic, also from one span of the sample to the next
 *   - the same bits as the scalar row
 *   - exp(+-0) = 1, exp(-inf) = +0, exp(inf) = inf, NaN of any payload gives NaN (exp: one), in every lane
 * It prints the greatest error, where it is, and how many results are not the nearest float.
 *
 * How: the floats are cut into spans, which threads claim one after another; each is computed by all rows and once by
 * the C library's double exp, whose own error (below 2^-28 of a float's ulp) does not matter here. */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu.h"
#include "dispatch/dispatch.h"
#include "target.h"
#include "test.h"

#include <float.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_ROWS = 16,
    MAX_SPANS = 1 << 16,
    MAX_THREADS = 64,
    BLOCK = 1024,        /* floats computed at once */
    CHUNK = 1 << 17,     /* floats of an exhaustive span */
    SAMPLE = CHUNK / 32, /* of which the sample takes this many in a row */
    /* Ordinals count down from inf: that of -0 is 0, of floats below it positive, above it negative (+0 is left
     * out). */
    FIRST_ORDINAL = -0x7f800000, /* inf */
    FIRST_FINITE = -0x42b40000,  /* 90: above, results are inf */
    ZERO = 0,
    LAST_ORDINAL = 0x42d00000, /* -104: below, results are 0 */
    LEAST_ORDINAL = 0x7f800000 /* -inf */
};

static float nth_below_zero(int64_t ordinal) {
    return bits_float(ordinal < 0 ? (uint32_t)-ordinal : 0x80000000u + (uint32_t)ordinal);
}

/* Consecutive floats, downwards from the first. */
typedef struct span {
    int64_t first, count;
} span;

/* The facts known about a row after some spans. The _at are the floats at which a thing was seen first. */
typedef struct findings {
    int64_t checked;
    double max_ulp;
    float max_at;
    int64_t not_nearest;            /* results that are not the float nearest to exact */
    int64_t wrong, rising, differs; /* more than 1 ulp or not 0 below; not monotonic; other bits than the scalar row */
    float wrong_at, rising_at, differs_at;
} findings;

static struct {
    const fv_kernel *row[MAX_ROWS];
    findings found[MAX_ROWS];
    int rows;
    span spans[MAX_SPANS];
    int span_count, next; /* next span to claim */
    double started;
    bool progress;
    pthread_mutex_t lock;
} walk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --------------------------------------------------------------------------------------------------------- spans -- */

static void add_span(int64_t first, int64_t last) {
    first = first < FIRST_ORDINAL ? FIRST_ORDINAL : first;
    last = last > LEAST_ORDINAL ? LEAST_ORDINAL : last;
    if (first < ZERO && last >= ZERO) { /* softmax has those from -0 on */
        add_span(first, ZERO - 1);
        first = ZERO;
    }
    if (walk.span_count == MAX_SPANS || last < first) {
        printf("FAILED: span table\n");
        exit(TEST_FAILED);
    }
    walk.spans[walk.span_count++] = (span){first, last - first + 1};
}

/* All floats within radius steps of x. */
static void add_near(double x, int64_t radius) {
    const int64_t center = -float_ordinal((float)x);
    add_span(center - radius, center + radius);
}

static void choose_spans(bool exhaustive) {
    rng r = rng_stream(test_seed(), "exp sample");
    const int64_t begin = exhaustive ? FIRST_ORDINAL : FIRST_FINITE, end = exhaustive ? LEAST_ORDINAL : LAST_ORDINAL;
    int64_t chunk = 0;
    for (int64_t first = begin; first <= end; first += CHUNK) {
        if (!exhaustive && !test_takes(chunk++))
            continue;
        const int64_t start = exhaustive ? first : first + rng_below(&r, CHUNK - SAMPLE);
        if (start <= end)
            add_span(start, start + (exhaustive ? CHUNK : SAMPLE) - 1);
    }
    if (exhaustive)
        return;
    const double ln2 = 0.69314718055994530942;
    for (int n = 0; n < 2400; n++) /* multiples of ln(2) / 16: where the range reduction turns, and the middles */
        if (test_takes(n))
            add_near(-n * ln2 / 16, 500), add_near(n * ln2 / 16, 500);
    for (int exponent = -149; exponent <= 6; exponent++)
        add_near(-ldexp(1.0, exponent), 100), add_near(ldexp(1.0, exponent), 100);
    add_near(128.0 * ln2, 50000);  /* where results become inf */
    add_near(87.33654, 50000);     /* where care begins */
    add_near(-126.0 * ln2, 50000); /* where results stop being normal */
    add_near(-104.0, 1000);
}

/* ---------------------------------------------------------------------------------------------------------- walk -- */

/* The exp of a row of either operation: where the first score of a whole segment is 0, the highest, p of the others is
 * their exp. */
static void exp_by(const fv_kernel *row, int64_t n, const float *x, float *y) {
    enum { OTHERS = FV_SEGMENT - 1, MOST = (BLOCK + OTHERS - 1) / OTHERS };
    float s[MOST][FV_SEGMENT] = {{0}}, lanes[MOST][FV_LANES] = {{0}}, m[MOST], l[MOST];
    if (row->op == FV_OP_exp) {
        row->run.exp_f32(n, x, y);
        return;
    }
    bool normal = true; /* then softmax need not look */
    for (int64_t i = 0; i < n; i++) {
        s[i / OTHERS][1 + i % OTHERS] = x[i];
        normal = normal && x[i] >= -87.33654f;
    }
    row->run.softmax_f32(&(fv_softmax_f32_args){.rows = (n + OTHERS - 1) / OTHERS,
                                                .end = FV_SEGMENT,
                                                .s = s[0],
                                                .lds = FV_SEGMENT,
                                                .c = 1.0f,
                                                .p = s[0],
                                                .ldp = FV_SEGMENT,
                                                .lanes = lanes[0],
                                                .row_max_end = FV_SEGMENT,
                                                .no_underflow = normal,
                                                .m = m,
                                                .l = l});
    for (int64_t i = 0; i < n; i++)
        y[i] = s[i / OTHERS][1 + i % OTHERS];
}

/* The ulp of a float result near exact, inverted; exact is in [2^-126, 2^128). */
static double inverse_ulp(double exact) {
    uint64_t bits;
    memcpy(&bits, &exact, sizeof bits);
    bits = ((uint64_t)(2 * 1023 + 23) - (bits >> 52)) << 52;
    memcpy(&exact, &bits, sizeof bits);
    return exact;
}

/* One block of a row: x, exact results, the scalar row's, and its own. before: the result for the float before x[0]. */
static void judge(findings *f, int64_t n, const float *x, const double *exact, const float *scalar, const float *y,
                  float before) {
    for (int64_t i = 0; i < n; i++) {
        bool wrong;
        if (exact[i] < 0x1p-126) {
            wrong = float_bits(y[i]) != 0;
        } else if (exact[i] > FLT_MAX) {
            wrong = float_bits(y[i]) != float_bits(INFINITY);
        } else {
            const double ulp = fabs((double)y[i] - exact[i]) * inverse_ulp(exact[i]);
            wrong = !(ulp <= 1.0);
            f->not_nearest += y[i] != (float)exact[i];
            if (!(ulp <= f->max_ulp)) {
                f->max_ulp = ulp;
                f->max_at = x[i];
            }
        }
        if (wrong && f->wrong++ == 0)
            f->wrong_at = x[i];
        if (!(y[i] <= before) && f->rising++ == 0)
            f->rising_at = x[i];
        if (float_bits(y[i]) != float_bits(scalar[i]) && f->differs++ == 0)
            f->differs_at = x[i];
        before = y[i];
    }
    f->checked += n;
}

/* One span by all rows. */
static void walk_span(span s, findings found[MAX_ROWS]) {
    const fv_kernel *scalar_row = fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32);
    float x[BLOCK], scalar[BLOCK], y[BLOCK], before[MAX_ROWS];
    double exact[BLOCK];
    for (int r = 0; r < walk.rows; r++) {
        const int64_t first = walk.row[r]->op == FV_OP_exp ? FIRST_ORDINAL : ZERO;
        const float above = nth_below_zero(s.first > first ? s.first - 1 : first);
        exp_by(walk.row[r], 1, &above, &before[r]);
    }
    for (int64_t done = 0; done < s.count; done += BLOCK) {
        const int64_t n = s.count - done < BLOCK ? s.count - done : BLOCK;
        for (int64_t i = 0; i < n; i++)
            x[i] = nth_below_zero(s.first + done + i);
        for (int64_t i = 0; i < n; i++)
            exact[i] = exp((double)x[i]);
        scalar_row->run.exp_f32(n, x, scalar);
        for (int r = 0; r < walk.rows; r++) {
            if (s.first < ZERO && walk.row[r]->op != FV_OP_exp)
                continue;
            exp_by(walk.row[r], n, x, y);
            judge(&found[r], n, x, exact, scalar, y, before[r]);
            before[r] = y[n - 1];
        }
    }
}

static void add_findings(findings *to, const findings *f) {
    to->checked += f->checked;
    to->not_nearest += f->not_nearest;
    if (!(f->max_ulp <= to->max_ulp)) {
        to->max_ulp = f->max_ulp;
        to->max_at = f->max_at;
    }
    to->wrong_at = to->wrong ? to->wrong_at : f->wrong_at;
    to->rising_at = to->rising ? to->rising_at : f->rising_at;
    to->differs_at = to->differs ? to->differs_at : f->differs_at;
    to->wrong += f->wrong;
    to->rising += f->rising;
    to->differs += f->differs;
}

static void show_progress(void) {
    static double shown;
    const double time = now(), part = (double)walk.next / walk.span_count;
    if (!walk.progress || time < shown + 0.5 || part <= 0.0)
        return;
    shown = time;
    fprintf(stderr, "\r%3.0f%%, %.0f s left ", 100.0 * part, (time - walk.started) * (1.0 - part) / part);
}

static void *worker(void *unused) {
    findings found[MAX_ROWS];
    memset(found, 0, sizeof found);
    for (;;) {
        pthread_mutex_lock(&walk.lock);
        const int mine = walk.next < walk.span_count ? walk.next++ : -1;
        show_progress();
        pthread_mutex_unlock(&walk.lock);
        if (mine < 0)
            break;
        walk_span(walk.spans[mine], found);
    }
    pthread_mutex_lock(&walk.lock);
    for (int r = 0; r < walk.rows; r++)
        add_findings(&walk.found[r], &found[r]);
    pthread_mutex_unlock(&walk.lock);
    return unused;
}

static void walk_all(void) {
    pthread_t thread[MAX_THREADS];
    const int cpus = fv_cpu_affinity(), wanted = cpus < MAX_THREADS ? cpus : MAX_THREADS;
    int threads = 0;
    walk.started = now();
    while (threads < wanted - 1 && pthread_create(&thread[threads], NULL, worker, NULL) == 0)
        threads++;
    worker(NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    if (walk.progress)
        fprintf(stderr, "\r%30s\r", "");
}

/* -------------------------------------------------------------------------------------------------------- checks -- */

static void report(const fv_kernel *row, const findings *f) {
    printf("%-24s %" PRId64 " floats: at most %.4f ulp, at %.9g; %" PRId64 " not the nearest float; monotonic: %s\n",
           row->name, f->checked, f->max_ulp, (double)f->max_at, f->not_nearest, f->rising ? "no" : "yes");
    test_check(f->wrong == 0,
               "%s: %" PRId64 " results over 1 ulp, or not +0 where exact is not normal, the first at %a", row->name,
               f->wrong, (double)f->wrong_at);
    test_check(f->rising == 0, "%s: not monotonic %" PRId64 " times, first at %a", row->name, f->rising,
               (double)f->rising_at);
    test_check(f->differs == 0, "%s: %" PRId64 " results differ from the scalar row's, the first at %a", row->name,
               f->differs, (double)f->differs_at);
}

/* Values outside of the walk, each in each lane of a vector among ordinary ones. */
static void check_special(const fv_kernel *row, float x, float want) {
    enum { LANES = 33 };
    const float usual = -1.0f;
    float in[LANES], out[LANES], usual_result;
    bool ok = true;
    exp_by(row, 1, &usual, &usual_result);
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < LANES; i++)
            in[i] = i == lane ? x : usual;
        exp_by(row, LANES, in, out);
        for (int i = 0; i < LANES; i++) {
            const float due = i == lane ? want : usual_result;
            const bool any_nan = row->op == FV_OP_softmax && float_is_nan(due);
            ok = ok && (float_bits(out[i]) == float_bits(due) || (any_nan && float_is_nan(out[i])));
        }
    }
    test_check(ok, "%s: exp(%g = 0x%08" PRIx32 ") is not %g, or changes its neighbours", row->name, (double)x,
               float_bits(x), (double)want);
}

static void check_specials(const fv_kernel *row) {
    static const uint32_t to_one[] = {0x00000000, 0x80000000, 0x80000001, 0x807fffff, 0x80800000};
    static const uint32_t to_zero[] = {0xff800000, 0xff7fffff, 0xc2d00001, 0xc3000000, 0xcb000000};
    static const uint32_t to_nan[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001,
                                      0xffc12345, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof to_one / sizeof to_one[0]; i++)
        check_special(row, bits_float(to_one[i]), 1.0f);
    for (size_t i = 0; i < sizeof to_zero / sizeof to_zero[0]; i++)
        check_special(row, bits_float(to_zero[i]), 0.0f);
    for (size_t i = 0; i < sizeof to_nan / sizeof to_nan[0]; i++)
        check_special(row, bits_float(to_nan[i]), bits_float(CANONICAL_NAN));
    static const uint32_t to_inf[] = {0x42b17218, 0x42c80000, 0x4b000000, 0x7f7fffff, 0x7f800000};
    for (size_t i = 0; i < sizeof to_inf / sizeof to_inf[0] && row->op == FV_OP_exp; i++)
        check_special(row, bits_float(to_inf[i]), INFINITY);
}

/* Where results begin to be 0: nowhere but between the last float whose exp is normal and the next. */
static void check_threshold(const fv_kernel *row) {
    int64_t normal = ZERO, zero = LAST_ORDINAL;
    while (zero - normal > 1) {
        const int64_t middle = normal + (zero - normal) / 2;
        const float x = nth_below_zero(middle);
        float y;
        exp_by(row, 1, &x, &y);
        if (y != 0.0f)
            normal = middle;
        else
            zero = middle;
    }
    const double last = exp((double)nth_below_zero(normal)), next = exp((double)nth_below_zero(zero));
    test_check(last >= 0x1p-126 && next < 0x1p-126, "%s: results are 0 from %a on, whose exp is %a", row->name,
               (double)nth_below_zero(zero), next);
}

/* Softmax with p rounded to bfloat16: 0 where exp is under 2^-40, as kernels.h has it, and nowhere else. */
static void check_weights(const fv_kernel *row) {
    const int64_t middle = -float_ordinal((float)(-40.0 * 0.69314718055994530942));
    int64_t wrong = 0, zeros = 0, first = middle - 5000, last = middle + 5000;
    for (int64_t at = first; at <= last; at++) {
        const float x = nth_below_zero(at);
        float p, y;
        exp_by(fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32), 1, &x, &y);
        exp_by(row, 1, &x, &p);
        wrong += (p == 0.0f) != (y < 0x1p-40f);
        zeros += p == 0.0f;
    }
    test_check(wrong == 0 && zeros > 0 && zeros < last - first,
               "%s: %" PRId64 " of %" PRId64 " p near 2^-40 are on the wrong side of it", row->name, wrong,
               last - first + 1);
}

int main(int argc, char **argv) {
    test_option options[] = {
        {"--exhaustive", NULL, "walk all floats instead of a sample", NULL},
        {NULL, NULL, NULL, NULL},
    };
    test_begin(argc, argv, "exp", options);
    for (int i = 0; i < fv_kernel_count && walk.rows < MAX_ROWS; i++) {
        const fv_kernel *row = &fv_kernels[i];
        if ((row->op != FV_OP_exp && row->op != FV_OP_softmax) ||
            (test_isa_asked() && strcmp(fv_isa_word(row->isa), fovea_isa_name(test_isa())) != 0) || !test_runs(row))
            continue;
        if (row->type == FV_TYPE_f32)
            walk.row[walk.rows++] = row;
        else
            check_weights(row);
    }
    choose_spans(test_option_value(options, "--exhaustive") != NULL);
    walk.progress = isatty(STDERR_FILENO);
    walk_all();
    for (int r = 0; r < walk.rows; r++) {
        report(walk.row[r], &walk.found[r]);
        check_threshold(walk.row[r]);
        check_specials(walk.row[r]);
    }
    return test_end();
}
