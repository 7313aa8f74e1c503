/* The frame of every trial (check.h). */
#include "check.h"

#include "abi.h"
#include "fp_control.h"
#include "test.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "dispatch/dispatch.h"

enum {
    ARENA_BYTES = 64 << 20, /* of virtual memory: what trials do not use is never touched */
    SHOWN_FAILURES = 5      /* of each row */
};

/* A row a line. */
/* clang-format off */
static const op_check *const op_checks[FV_OP_COUNT] = {
    [FV_OP_scale] = &check_scale,
    [FV_OP_copy] = &check_copy,
    [FV_OP_pack] = &check_pack,
    [FV_OP_softmax] = &check_softmax,
    [FV_OP_merge] = &check_merge,
    [FV_OP_accumulate] = &check_accumulate,
    [FV_OP_finish] = &check_finish,
    [FV_OP_mask_to_bits] = &check_mask_to_bits,
    [FV_OP_add_mask] = &check_add_mask,
    [FV_OP_softcap] = &check_softcap,
    [FV_OP_normalize] = &check_normalize,
    [FV_OP_weights] = &check_weights,
    [FV_OP_weight_sums] = &check_weight_sums,
    [FV_OP_finite] = &check_finite,
    [FV_OP_bias_act_residual] = &check_bias_act_residual,
    [FV_OP_exp] = &check_exp,
    [FV_OP_unpack] = &check_unpack,
    [FV_OP_widen] = &check_widen,
    [FV_OP_narrow] = &check_narrow,
    [FV_OP_quantize] = &check_quantize,
    [FV_OP_scales] = &check_group_scales,
    [FV_OP_expand] = &check_expand,
    [FV_OP_delta] = &check_delta,
    [FV_OP_sweep] = &check_sweep,
    [FV_OP_scan] = &check_scan,
    [FV_OP_convolve] = &check_convolve,
};
/* clang-format on */

const op_check *check_of(const fv_kernel *kernel) {
    if (fv_format_of(kernel->format).scale == FV_SCALE_group)
        return kernel->op == FV_OP_multiply ? &check_groups : &check_unpack_groups;
    if (fv_multiply_keys(kernel))
        return kernel->kind == FV_KIND_i16 ? &check_keys_i8 : &check_keys;
    if (kernel->op == FV_OP_multiply)
        return kernel->few                                                      ? &check_few
               : kernel->kind == FV_KIND_f32 && kernel->format != FV_FORMAT_f32 ? &check_multiply_widen
                                                                                : &check_many;
    if (kernel->op == FV_OP_pack && kernel->format != FV_FORMAT_f32)
        return kernel->source == FV_SOURCE_columns ? &check_pack_columns
               : kernel->source == FV_SOURCE_steps ? &check_pack_steps
                                                   : &check_pack_rows;
    return op_checks[kernel->op];
}

/* Where an operand lies in the run of the row under test. */
typedef enum placement { AT_END, AT_START, MISALIGNED, PLACEMENTS } placement;
static const char *const placement_words[PLACEMENTS] = {"end at a page's end", "start at a page's start", "misaligned"};

/* ----------------------------------------------------------------------------------------------------- reporting -- */

static void count_failure(const trial *t, const char *what) {
    checker *c = t->checker;
    if (c->failed++ == 0)
        snprintf(c->first_failure, sizeof c->first_failure, "%s: %s", t->title, what);
    if (!c->quiet && c->failed <= SHOWN_FAILURES)
        printf("FAILED: %s: %s: %s\n  replay: fovea-check -k %s%s --seed %" PRIu64 "\n", c->kernel->name, t->title,
               what, c->kernel->name, c->flush ? " --flush-to-zero" : "", c->seed);
}

void trial_fail(const trial *t, const char *format, ...) {
    char what[384];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    count_failure(t, what);
}

static void element_text(const operand *o, const unsigned char *data, int64_t e, char *text, size_t size) {
    if (o->size == sizeof(float)) {
        float f;
        memcpy(&f, data + e * (int64_t)sizeof f, sizeof f);
        snprintf(text, size, "%.9g (0x%08" PRIx32 ")", (double)f, float_bits(f));
    } else if (o->size == sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, data + e * (int64_t)sizeof word, sizeof word);
        snprintf(text, size, "0x%016" PRIx64, word);
    } else {
        snprintf(text, size, "0x%02x", data[e * (int64_t)o->size]);
    }
}

/* ----------------------------------------------------------------------------------------------- trials and data -- */

trial *trial_begin(checker *c, const char *format, ...) {
    char stream[64];
    const int64_t number = c->trials++;
    if (c->quiet ? c->failed > 0 : !test_takes(c->trials)) /* of mutants, no trial is left out */
        return NULL;
    snprintf(stream, sizeof stream, "%s %" PRId64, c->kernel->name, number);
    trial *t = &c->trial;
    memset(t, 0, sizeof *t);
    t->checker = c;
    t->rng = rng_stream(c->seed, stream);
    va_list values;
    va_start(values, format);
    vsnprintf(t->title, sizeof t->title, format, values);
    va_end(values);
    c->arena_used = 0;
    c->compared++;
    return t;
}

static unsigned char *arena_take(checker *c, size_t bytes) {
    unsigned char *taken = c->arena + c->arena_used;
    c->arena_used += (bytes + 63) / 64 * 64;
    if (c->arena_used > ARENA_BYTES) {
        fprintf(stderr, "fovea-check: a trial of %s is too large\n", c->kernel->name);
        exit(1);
    }
    return taken;
}

/* Values that must not be read, or not count: a NaN is lost in some maxima, an infinity in some sums, so not always the
 * same. */
static float gap_value(trial *t) {
    const float values[] = {poison(), INFINITY, -INFINITY, 3e38f};
    return values[rng_below(&t->rng, 4)];
}

operand *trial_operand(trial *t, const char *name, size_t size, cell kind, int64_t rows, int64_t cols, int64_t stride) {
    operand *o = &t->operand[t->operands++];
    const int64_t extent = rows > 0 && cols > 0 ? (rows - 1) * stride + cols : 0;
    const size_t bytes = (size_t)extent * size;
    *o = (operand){.name = name, .size = size, .rows = rows, .cols = cols, .stride = stride, .extent = extent};
    o->before = arena_take(t->checker, bytes);
    o->want = arena_take(t->checker, bytes);
    o->cell = arena_take(t->checker, (size_t)extent);
    memset(o->cell, CELL_KEPT, (size_t)extent);
    for (int64_t i = 0; extent > 0 && i < rows; i++)
        memset(cell_of(o, i, 0), kind, (size_t)cols);
    memset(o->before, 0xe5, bytes);
    if (size == sizeof(float)) {
        const float gap = gap_value(t);
        for (int64_t i = 0; i < extent; i++)
            memcpy(o->before + i * (int64_t)sizeof gap, &gap, sizeof gap);
    }
    return o;
}

operand *trial_floats(trial *t, const char *name, cell kind, int64_t rows, int64_t cols, int64_t stride) {
    return trial_operand(t, name, sizeof(float), kind, rows, cols, stride);
}

void *trial_pointer(const trial *t, int i) {
    const operand *o = &t->operand[i];
    return (void *)((uintptr_t)o->at - (uintptr_t)o->origin * o->size); /* may point to before the memory */
}

void fill_uniform(trial *t, operand *o, float low, float high) {
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++)
            *float_before(o, i, j) = rng_uniform(&t->rng, low, high);
}

void fill_normal(trial *t, operand *o) {
    for (int64_t i = 0; i < o->rows; i++)
        rng_fill_normal(&t->rng, float_before(o, i, 0), o->cols);
}

void sprinkle_specials(trial *t, operand *o, int64_t every) {
    static const uint32_t specials[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000,
        0x7f7fffff,                                                 /* zeros, subnormal, least normal, greatest */
        0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, /* infinities, NaN: plain, signalling, odd */
    };
    enum { COUNT = sizeof specials / sizeof specials[0] };
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++)
            if (rng_below(&t->rng, every) == 0)
                *float_before(o, i, j) = bits_float(specials[rng_below(&t->rng, COUNT)]);
}

int64_t some_stride(trial *t, int64_t cols) {
    static const int64_t gaps[] = {0, 0, 1, 3, 7, 16, 17};
    return cols + gaps[rng_below(&t->rng, (int64_t)(sizeof gaps / sizeof gaps[0]))];
}

int edge_sizes(int64_t tile, int64_t sizes[EDGE_SIZES]) {
    const int64_t wanted[EDGE_SIZES] = {1, tile - 1, tile, tile + 1, 2 * tile + 1};
    int count = 0;
    for (int i = 0; i < EDGE_SIZES; i++)
        if (wanted[i] > (count > 0 ? sizes[count - 1] : 0))
            sizes[count++] = wanted[i];
    return count;
}

float some_score_scale(rng *r) {
    static const float scales[] = {1.0f, 1.0f, 0x1.6a09e6p0f, 0x1.000002p0f, 0x1.fffffep0f, 1.25f};
    return scales[rng_below(r, 6)];
}

float scalar_exp(float x) {
    float y;
    fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32)->run.exp_f32(1, &x, &y);
    return y;
}

bool near_double(float got, double exact, double bound) {
    if (isnan(exact))
        return float_is_nan(got);
    return (double)got == exact || fabs((double)got - exact) <= bound; /* the first for infinities */
}

/* ----------------------------------------------------------------------------------------------- running a trial -- */

typedef struct run {
    trial *trial;
    const fv_kernel *kernel;
    const call_fault *fault;
    const char *abi_wrong;
} run;

static void run_kernel(void *arg) {
    run *r = arg;
    abi_state before;
    fv_kernel watched =
        *r->kernel; /* all members of run are pointers to functions: any of them stands for the one in use */
    watched.run.multiply = (fv_multiply_fn *)abi_watched((abi_function *)r->kernel->run.multiply);
    abi_enter(&before);
    if (r->fault)
        fault_invoke(r->fault, &watched, r->trial);
    else
        check_of(r->kernel)->invoke(&watched, r->trial);
    r->abi_wrong = abi_leave(&before);
}

/* Runs a kernel on the operands where they are. False (and counted) if it crashes or breaks the ABI. */
static bool run_survives(trial *t, const fv_kernel *kernel, const call_fault *f, const char *where) {
    run r = {t, kernel, f, NULL};
    guard_fault fault;
    char text[256];
    fp_flush(t->checker->flush);
    const bool returned = guard_try(run_kernel, &r, &fault);
    fp_flush(false);
    if (!returned) {
        guard_describe(&fault, text, sizeof text);
        trial_fail(t, "%s (%s)", text, where);
        return false;
    }
    if (r.abi_wrong)
        trial_fail(t, "%s (%s)", r.abi_wrong, where);
    return r.abi_wrong == NULL;
}

static bool cell_holds(const operand *o, const unsigned char *got, int64_t e) {
    const cell kind = o->cell[e];
    const unsigned char *now = got + e * (int64_t)o->size;
    const unsigned char *due = (kind == CELL_KEPT ? o->before : o->want) + e * (int64_t)o->size;
    if (kind == CELL_ANY || memcmp(now, due, o->size) == 0)
        return true;
    if (kind == CELL_KEPT || kind == CELL_BITS)
        return false;
    float f, g;
    memcpy(&f, now, sizeof f);
    memcpy(&g, due, sizeof g);
    return (float_is_nan(f) && float_is_nan(g)) || (kind == CELL_ZERO && f == 0.0f && g == 0.0f);
}

/* Every element of an operand after a run. False (and counted) at the first that is not as it must be. */
static bool operand_holds(const trial *t, const operand *o, const guard *memory, const char *where) {
    char got[64], want[64];
    int64_t place;
    for (int64_t e = 0; e < o->extent; e++)
        if (!cell_holds(o, memory->data, e)) {
            const int64_t row = e / o->stride, col = e % o->stride;
            const bool kept = o->cell[e] == CELL_KEPT;
            element_text(o, memory->data, e, got, sizeof got);
            element_text(o, kept ? o->before : o->want, e, want, sizeof want);
            trial_fail(t, "%s[%" PRId64 "][%" PRId64 "]%s is %s instead of %s (%s)", o->name, row, col,
                       !kept            ? ""
                       : col >= o->cols ? ", in the gap after a row,"
                                        : ", which is not to be changed,",
                       got, want, where);
            return false;
        }
    if (!guard_intact(memory, &place)) {
        trial_fail(t, "writes byte %" PRId64 " of %s, which has %zu (%s)", place, o->name, memory->size, where);
        return false;
    }
    return true;
}

static guard *place(const operand *o, placement where) {
    const size_t bytes = (size_t)o->extent * o->size;
    const size_t shift = where == MISALIGNED ? o->size : 0;
    guard *memory = guard_alloc_shifted(o->name, bytes, where == AT_END ? GUARD_END : GUARD_START, shift);
    memcpy(memory->data, o->before, bytes);
    return memory;
}

/* One run of the row under test. False after a failure. */
static bool run_placed(trial *t, placement where) {
    checker *c = t->checker;
    guard *memory[TRIAL_OPERANDS];
    for (int i = 0; i < t->operands; i++) {
        memory[i] = place(&t->operand[i], where);
        t->operand[i].at = memory[i]->data;
    }
    bool ok = run_survives(t, c->kernel, c->fault, placement_words[where]);
    if (ok && t->result != t->want_result) {
        trial_fail(t, "returns %" PRId64 " instead of %" PRId64 " (%s)", t->result, t->want_result,
                   placement_words[where]);
        ok = false;
    }
    for (int i = 0; i < t->operands; i++) {
        ok = ok && operand_holds(t, &t->operand[i], memory[i], placement_words[where]);
        guard_free(memory[i]);
    }
    return ok;
}

void trial_run(trial *t) {
    checker *c = t->checker;
    if (c->look) {
        c->look(t);
        return;
    }
    if (c->fault && !fault_applies(c->fault, t))
        return;
    for (int i = 0; i < t->operands; i++) {
        operand *o = &t->operand[i];
        memcpy(o->want, o->before, (size_t)o->extent * o->size);
        o->at = o->want;
    }
    if (!run_survives(t, c->reference, c->fault && c->fault->reference ? c->fault : NULL, "the scalar row"))
        return;
    t->want_result = t->result;
    if (c->kernel == c->reference && !c->flush) {
        const int64_t failed = c->failed;
        check_of(c->kernel)->verify(t);
        if (c->failed > failed)
            return;
    }
    for (placement where = c->room ? AT_START : AT_END; where < PLACEMENTS && run_placed(t, where); where++)
        ;
}

void check_kernel(checker *c) {
    const op_check *op = check_of(c->kernel);
    if (op == NULL) {
        c->trial = (trial){.title = "operation", .checker = c};
        trial_fail(&c->trial, "has no trials: fovea-check does not know it yet");
        return;
    }
    c->arena = malloc(ARENA_BYTES);
    if (c->arena == NULL) {
        fprintf(stderr, "fovea-check: no memory\n");
        exit(1);
    }
    op->trials(c);
    free(c->arena);
    c->arena = NULL;
}
