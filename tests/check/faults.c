/* Faults in calls, by which the check is checked: for each scalar row, each number and operand that its trials hand
 * over is changed a little in turn, and each result. Some trial must see it in the row under test; verify() must see
 * it in the scalar row, which is then wrong in the same way. */
#include "groups.h"

#include "dispatch/dispatch.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

/* An element of the operand that the trial names, another one in each trial; -1: it hits a gap, or another cell. */
static int64_t element_of(const trial *t, int i, bool result) {
    const operand *o = &t->operand[i];
    if (i >= t->operands || o->extent == 0)
        return -1;
    const int64_t e = t->checker->trials * 7919 % o->extent;
    const bool open = o->cell[e] == CELL_ANY;
    return e % o->stride < o->cols && !open && (o->cell[e] != CELL_KEPT) == result ? e : -1;
}

bool fault_applies(const call_fault *f, const trial *t) {
    switch (f->kind) {
    case FAULT_SIZE: return t->size[f->index] > 0;
    case FAULT_NUMBER: return t->number != 0.0f;
    case FAULT_C: return t->c != 0.0f;
    default: return element_of(t, f->index, f->kind == FAULT_RESULT) >= 0;
    }
}

/* The bytes to change; of floats a bit that rounding does not hide. */
static void spoil(const trial *t, const call_fault *f) {
    const operand *o = &t->operand[f->index];
    const int64_t n = t->checker->trials, e = element_of(t, f->index, f->kind == FAULT_RESULT);
    unsigned char *at = o->at + e * (int64_t)o->size;
    if (f->kind == FAULT_RESULT)
        *at ^= 1;
    else if (o->size == sizeof(float))
        at[2] ^= 0x20;
    else
        at[n % (int64_t)o->size] ^= (unsigned char)(1 << n % 8);
}

void fault_invoke(const call_fault *f, const fv_kernel *kernel, trial *t) {
    const trial before = *t;
    t->size[f->index % TRIAL_SIZES] -= f->kind == FAULT_SIZE;
    t->number = f->kind == FAULT_NUMBER ? nextafterf(t->number, INFINITY) : t->number;
    t->c = f->kind == FAULT_C ? nextafterf(t->c, INFINITY) : t->c;
    if (f->kind == FAULT_INPUT)
        spoil(t, f);
    check_of(kernel)->invoke(kernel, t);
    memcpy(t->size, before.size, sizeof t->size);
    t->number = before.number;
    t->c = before.c;
    if (f->kind >= FAULT_INPUT)
        spoil(t, f);
}

/* The largest of each size in trials of a row, and their operands. */
static struct {
    int64_t size[TRIAL_SIZES];
    bool number, c, input[TRIAL_OPERANDS], result[TRIAL_OPERANDS];
} seen;

static void look(const trial *t) {
    for (int i = 0; i < TRIAL_SIZES; i++)
        seen.size[i] = t->size[i] > seen.size[i] ? t->size[i] : seen.size[i];
    seen.number |= t->number != 0.0f;
    seen.c |= t->c != 0.0f;
    for (int i = 0; i < t->operands; i++) {
        seen.input[i] |= element_of(t, i, false) >= 0;
        seen.result[i] |= element_of(t, i, true) >= 0;
    }
}

/* Faults that no call shows, in the row under test, or in the scalar row, too. */
enum { ROW = 1, SCALAR_ROW = 2, EITHER = ROW | SCALAR_ROW };
static const struct {
    const op_check *check;
    fault_kind kind;
    int index, where;
} hidden[] = {
    {&check_softmax, FAULT_SIZE, 2, EITHER},     /* the end: kernels take whole vectors */
    {&check_softmax, FAULT_SIZE, 6, EITHER},     /* no_underflow, which only saves time */
    {&check_finite, FAULT_INPUT, 0, EITHER},     /* that bit makes no number infinite */
    {&check_normalize, FAULT_NUMBER, 0, EITHER}, /* the least bit of eps */
    {&check_normalize, FAULT_RESULT, 0, EITHER}, /* verify() has a bound */
    {&check_normalize, FAULT_RESULT, 3, EITHER}, /* likewise */
    {&check_pack_columns, FAULT_SIZE, 3, ROW},   /* norms, whose sums are in any order */
    {&check_pack_rows, FAULT_SIZE, 3, ROW},      /* likewise */
    {&check_keys_i8, FAULT_SIZE, 4, EITHER},     /* kind of data */
    {&check_keys_i8, FAULT_INPUT, 4, EITHER},    /* what verify() makes words of */
    {&check_groups, FAULT_SIZE, 6, EITHER},      /* kind of data */
    {&check_groups, FAULT_SIZE, 10, EITHER},     /* largest integer of data */
    {&check_groups, FAULT_INPUT, 5, EITHER},     /* what verify() makes words of */
    {&check_quantize, FAULT_SIZE, 1, EITHER},    /* groups: more words than there is memory for */
    {&check_quantize, FAULT_SIZE, 6, EITHER},    /* kind of data */
    {&check_expand, FAULT_SIZE, 6, EITHER},      /* likewise */
    {&check_expand, FAULT_SIZE, 7, EITHER},      /* rounding mode, of what rounds nothing */
    {&check_sweep, FAULT_INPUT, 7, EITHER},      /* results where there is no update */
    {&check_sweep, FAULT_INPUT, 10, EITHER},     /* likewise */
    {&check_delta, FAULT_NUMBER, 0, SCALAR_ROW}, /* verify() has a bound, as for all below */
    {&check_delta, FAULT_RESULT, 7, SCALAR_ROW},  {&check_delta, FAULT_RESULT, 8, SCALAR_ROW},
    {&check_delta, FAULT_RESULT, 10, SCALAR_ROW}, {&check_scan, FAULT_RESULT, 6, SCALAR_ROW},
    {&check_scan, FAULT_RESULT, 7, SCALAR_ROW},   {&check_convolve, FAULT_RESULT, 3, SCALAR_ROW},
    {&check_sweep, FAULT_NUMBER, 0, SCALAR_ROW},  {&check_sweep, FAULT_RESULT, 6, SCALAR_ROW},
    {&check_sweep, FAULT_RESULT, 7, SCALAR_ROW},  {&check_sweep, FAULT_RESULT, 9, SCALAR_ROW},
    {&check_sweep, FAULT_RESULT, 10, SCALAR_ROW}, {&check_unpack_groups, FAULT_SIZE, 6, EITHER}}; /* kind of data */

/* The table where there is none, and what groups have besides scales where they have nothing. */
static bool is_unused(const fv_kernel *kernel, const call_fault *f) {
    const bool table = kernel->format == FV_FORMAT_i4tg, alone = table || kernel->format == FV_FORMAT_f8g,
               groups = check_of(kernel) == &check_groups || check_of(kernel) == &check_unpack_groups,
               expands = check_of(kernel) == &check_expand;
    return f->kind == FAULT_SIZE &&
           ((f->index == GROUP_EXTRA && groups && alone) ||
            (f->index == GROUP_TABLE && ((groups && !table) || (expands && kernel->type != FV_TYPE_i4))));
}

static bool is_hidden(const fv_kernel *kernel, const call_fault *f) {
    if (is_unused(kernel, f))
        return true;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (hidden[i].check == check_of(kernel) && hidden[i].kind == f->kind && hidden[i].index == f->index)
            return hidden[i].where & (f->reference ? SCALAR_ROW : ROW);
    return false;
}

static void check_fault(const fv_kernel *kernel, uint64_t seed, fault_kind kind, int index, bool there) {
    static const char *const words[] = {"a size", "a number", "c", "an input", "a result"};
    for (int reference = kind == FAULT_RESULT; there && reference < 2; reference++) {
        const call_fault f = {kind, index, reference};
        if (is_hidden(kernel, &f))
            continue;
        checker c = {.kernel = kernel, .reference = kernel, .seed = seed, .quiet = true, .fault = &f};
        check_kernel(&c);
        test_check(c.failed > 0, "%s: %s (%d) that is wrong%s is not seen by %" PRId64 " calls", kernel->name,
                   words[kind], index, reference ? " in the scalar row, too," : "", c.compared);
    }
}

static void check_row_faults(const fv_kernel *kernel, uint64_t seed) {
    checker c = {.kernel = kernel, .reference = kernel, .seed = seed, .quiet = true, .look = look};
    memset(&seen, 0, sizeof seen);
    check_kernel(&c);
    for (int i = 0; i < TRIAL_SIZES; i++)
        check_fault(kernel, seed, FAULT_SIZE, i, seen.size[i] > 0);
    check_fault(kernel, seed, FAULT_NUMBER, 0, seen.number);
    check_fault(kernel, seed, FAULT_C, 0, seen.c);
    for (int i = 0; i < TRIAL_OPERANDS; i++) {
        check_fault(kernel, seed, FAULT_INPUT, i, seen.input[i]);
        check_fault(kernel, seed, FAULT_RESULT, i, seen.result[i]);
    }
}

void check_faults(uint64_t seed) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].isa == FV_ISA_scalar)
            check_row_faults(&fv_kernels[i], seed);
}
