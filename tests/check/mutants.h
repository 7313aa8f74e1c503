/* Kernels broken on purpose, to prove that the check sees it: faults of arithmetic, which only data of some kinds
 * show. Faults that any data show are in faults.c. With each the same kernel unbroken, which must pass: otherwise a
 * mutant might be caught for another reason than its own.
 *
 * A mutant is a scalar row of its own, whose function asks for `flaw`. Some stand for a wrong scalar row (the order
 * of a sum, say): these are checked as if they were the reference. mutants_NAME.c have tables of them; mutants.c runs
 * all. */
#ifndef FOVEA_TESTS_MUTANTS_H
#define FOVEA_TESTS_MUTANTS_H

#include "check.h"
#include "dispatch/dispatch.h"

/* FLUSHED: under flush-to-zero. */
typedef enum fate { PASSES, PASSES_FLUSHED, DIFFERS, DIFFERS_FLUSHED, DIFFERS_AS_REFERENCE } fate;

typedef struct mutant {
    fate fate;
    int flaw; /* a number of its file's; 0: none */
    const char *words;
    fv_kernel kernel; /* a scalar row */
} mutant;

/* The flaw of the mutant that runs. */
extern int flaw;

#define MUTANT(fate, flaw, op_, type_, mr_, nr_, function)                                                             \
    {                                                                                                                  \
        fate, flaw, #flaw, {                                                                                           \
            .name = #function, .op = FV_OP_##op_, .type = FV_TYPE_##type_, .isa = FV_ISA_scalar, .mr = mr_, .nr = nr_, \
            .run = {.op_##_##type_ = function}, .op_name = #op_                                                        \
        }                                                                                                              \
    }

/* A product. few: its kernel takes few rows. */
#define PRODUCT(fate, flaw, kind_, format_, few_, mr_, nr_, function)                                                  \
    {                                                                                                                  \
        fate, flaw, #flaw, {                                                                                           \
            .name = #function, .op = FV_OP_multiply, .type = (fv_type)FV_ELEMENT_##format_, .kind = FV_KIND_##kind_,   \
            .format = FV_FORMAT_##format_, .few = few_, .isa = FV_ISA_scalar, .mr = mr_, .nr = nr_,                    \
            .run = {.multiply = function}, .op_name = "multiply"                                                       \
        }                                                                                                              \
    }
enum { MANY, FEW };

#define UNPACK(fate, flaw, format_, function)                                                                          \
    {                                                                                                                  \
        fate, flaw, #flaw, {                                                                                           \
            .name = #function, .op = FV_OP_unpack, .type = (fv_type)FV_ELEMENT_##format_,                              \
            .format = FV_FORMAT_##format_, .isa = FV_ISA_scalar, .mr = 1, .nr = 1, .run = {.unpack = function},        \
            .op_name = "unpack"                                                                                        \
        }                                                                                                              \
    }

#define PRODUCT_PARAMETERS                                                                                             \
    const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,                         \
        const fv_prefetch *prefetch
#define PRODUCT_ARGUMENTS a, b, c, ldc, epilogue, prefetch

typedef struct mutant_table {
    const mutant *mutants;
    size_t count;
} mutant_table;

extern const mutant_table mutants_elements, mutants_segments, mutants_products, mutants_groups;

/* The scalar row of the list, for float32. */
static inline const fv_kernel *honest(fv_op op) { return fv_kernel_scalar(op, FV_TYPE_f32); }

static inline fv_unpack_fn *honest_unpack(fv_format format) {
    return fv_unpack_best(format, (fv_target){FV_ISA_scalar, FV_HAS_nothing})->run.unpack;
}

static inline fv_multiply_fn *honest_product(fv_kind kind, fv_format format, bool few) {
    const fv_target scalar = {FV_ISA_scalar, FV_HAS_nothing};
    return (few ? fv_multiply_few : fv_multiply_best)(kind, format, scalar)->run.multiply;
}

#endif
