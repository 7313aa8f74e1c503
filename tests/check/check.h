/* fovea-check's inside: a trial is one call of one kernel, with everything that it may touch and what must come of it.
 *
 * An operation's file (array.c, multiply_many.c and so on, named in CMakeLists.txt) supplies three functions, as an
 * op_check:
 *   trials   describes trials one after another: trial_begin(), operands with their data, trial_run()
 *   invoke   calls a kernel with a trial's operands
 *   verify   holds the results of the scalar row against float64 and against the arithmetic of kernels.h
 *
 * trial_run() then does for each trial what is the same for all operations:
 *   - the scalar row runs first and its results are what every other row has to give, bit for bit;
 *   - the row under test runs on memory with a forbidden page right after each operand, then right before each, then at
 *     addresses aligned to one element only;
 *   - every element and every byte around is compared: results with the scalar row's, everything else (inputs, the gaps
 *     that strides leave, the rest of the pages) with what it was before. Gaps hold NaN, infinity or a huge number;
 *   - the ABI check of abi.h; a crash counts as a failure like any other and does not end the run.
 */
#ifndef FOVEA_TESTS_CHECK_H
#define FOVEA_TESTS_CHECK_H

#include "floats.h"
#include "guard.h"
#include "kernels.h"
#include "rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_PRINTF(sentence, values) __attribute__((format(printf, sentence, values)))

/* The value of an element after the call. */
typedef enum cell {
    CELL_KEPT, /* what it held before */
    CELL_BITS, /* the scalar row's bits */
    CELL_NAN,  /* the scalar row's bits, or any NaN where that has one: a NaN's payload is not part of the contract */
    CELL_ZERO, /* likewise, or a zero of either sign where that has one: maxima, in which the sign is lost again */
    CELL_ANY   /* the contract leaves it open */
} cell;

/* A matrix in memory that the kernel sees: element (i, j) is at i * stride + j. */
typedef struct operand {
    const char *name;
    size_t size; /* of an element, in bytes */
    int64_t rows, cols, stride;
    int64_t extent; /* elements from the first to the last one */
    int64_t origin; /* the kernel's pointer is this many elements before the first one */
    unsigned char *before, *want;
    unsigned char *cell; /* extent of them */
    unsigned char *at;   /* the first element, in the run that goes on */
} operand;

enum { TRIAL_OPERANDS = 12, TRIAL_SIZES = 12 };

typedef struct trial {
    char title[192];
    rng rng;
    int64_t size[TRIAL_SIZES]; /* what they are is the operation's business */
    float number, c;
    operand operand[TRIAL_OPERANDS];
    int operands;
    int64_t result, want_result; /* of kernels that return something */
    struct checker *checker;
} trial;

/* A fault that is put into calls of a kernel (faults.c). */
typedef enum fault_kind {
    FAULT_SIZE,   /* size[index] is one less */
    FAULT_NUMBER, /* number is the next float */
    FAULT_C,      /* c is the next float */
    FAULT_INPUT,  /* a bit of an element of operand[index] is wrong */
    FAULT_RESULT  /* the lowest bit of a result in operand[index] is wrong */
} fault_kind;

typedef struct call_fault {
    fault_kind kind;
    int index;
    bool reference; /* the scalar row has it, too: verify() must see it */
} call_fault;

/* The run over one row of the list. */
typedef struct checker {
    const fv_kernel *kernel;
    const fv_kernel *reference; /* the scalar row of the operation */
    uint64_t seed;
    bool flush; /* run kernels under flush-to-zero; the scalar row's results are then not held against float64 */
    bool room;  /* leave room behind operands */
    bool quiet; /* print no failures and stop at the first: for mutants, where a failure is what is wanted */
    const call_fault *fault;          /* in calls of the row, or NULL */
    void (*look)(const trial *t);     /* called in place of the kernels, or NULL */
    int64_t trials, compared, failed; /* described, run, wrong */
    char first_failure[640];
    trial trial;
    unsigned char *arena; /* memory of the trial's operands */
    size_t arena_used;
} checker;

typedef struct op_check {
    void (*trials)(checker *c);
    void (*invoke)(const fv_kernel *kernel, trial *t);
    void (*verify)(const trial *t);
} op_check;

extern const op_check check_many, check_scale, check_copy, check_pack, check_softmax, check_weights, check_exp,
    check_merge, check_accumulate, check_finish, check_mask_to_bits, check_add_mask, check_finite,
    check_bias_act_residual, check_softcap, check_widen, check_narrow, check_weight_sums, check_pack_columns,
    check_pack_steps, check_pack_rows, check_unpack, check_multiply_widen, check_normalize, check_keys, check_keys_i8,
    check_few, check_groups, check_quantize, check_group_scales, check_expand, check_unpack_groups, check_delta,
    check_sweep, check_scan, check_convolve;

/* The trials of a row of the list; NULL: there are none. */
const op_check *check_of(const fv_kernel *kernel);

/* Runs all trials of c->kernel; the fields before trials are the caller's to set. */
void check_kernel(checker *c);

/* A new trial, its sizes set by the caller, or NULL if enough is known. The format names it in failures. */
trial *trial_begin(checker *c, const char *format, ...) CHECK_PRINTF(2, 3);

/* Adds an operand, in the order in which invoke() counts them. kind is that of its named elements; gaps are always
 * kept. All elements hold poison to begin with. */
operand *trial_operand(trial *t, const char *name, size_t size, cell kind, int64_t rows, int64_t cols, int64_t stride);
operand *trial_floats(trial *t, const char *name, cell kind, int64_t rows, int64_t cols, int64_t stride);

void trial_run(trial *t);

/* Within verify(): reports that the scalar row is wrong. */
void trial_fail(const trial *t, const char *format, ...) CHECK_PRINTF(2, 3);

/* The kernel's pointer to operand i in the run that goes on. */
void *trial_pointer(const trial *t, int i);

/* Data: the content before the call, of element (row, column), and after the scalar row's call. */
static inline float *float_before(const operand *o, int64_t row, int64_t col) {
    return (float *)o->before + row * o->stride + col;
}

static inline float float_want(const operand *o, int64_t row, int64_t col) {
    return ((const float *)o->want)[row * o->stride + col];
}

static inline unsigned char *cell_of(const operand *o, int64_t row, int64_t col) {
    return o->cell + row * o->stride + col;
}

void fill_normal(trial *t, operand *o);
void fill_uniform(trial *t, operand *o, float low, float high);
/* Replaces about one element in every `every` by special values: zeros, infinities, NaN, subnormal and huge numbers. */
void sprinkle_specials(trial *t, operand *o, int64_t every);

/* A row's stride: the columns, sometimes with a gap, often odd. */
int64_t some_stride(trial *t, int64_t cols);

/* The sizes at which tiles go wrong: 1, t-1, t, t+1, 2t+1. Returns how many, without repeats. */
enum { EDGE_SIZES = 5 };
int edge_sizes(int64_t tile, int64_t sizes[EDGE_SIZES]);

/* The factor of scores: 1, sqrt 2, or another number below 2. */
float some_score_scale(rng *r);

/* The scalar row of exp, which test-exp proves for itself. */
float scalar_exp(float x);

/* Whether got is within bound of exact, both NaN, or the same infinity. */
bool near_double(float got, double exact, double bound);

/* Whether a trial has what the fault changes; invoke() with it. */
bool fault_applies(const call_fault *f, const trial *t);
void fault_invoke(const call_fault *f, const fv_kernel *kernel, trial *t);

/* The check itself: that it finds each fault of a call, kernels broken on purpose (mutants.h), and what the harness
 * watches around a call, broken by hand. Counts with test_check(). */
void check_faults(uint64_t seed);
void check_mutants(uint64_t seed);
void check_breaches(uint64_t seed);

#endif
