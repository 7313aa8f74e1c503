/* Kernels broken on purpose, each in one way that has happened to somebody, to prove that the check sees it. Apart from
 * them the same kernels unbroken, which must pass: otherwise a mutant might be caught for another reason than its own.
 *
 * A mutant is a scalar row of its own. Some only do wrong what no comparison with the scalar row can show, since they
 * stand for a wrong scalar row (the order of a sum, say): these are checked as if they were the reference.
 *
 * mutants_NAME.c has those of the operations whose trials are in NAME.c, and a table of them; mutants.c runs all
 * tables. */
#ifndef FOVEA_TESTS_MUTANTS_H
#define FOVEA_TESTS_MUTANTS_H

#include "check.h"
#include "dispatch/dispatch.h"

/* FLUSHED: under flush-to-zero. */
typedef enum fate { PASSES, PASSES_FLUSHED, DIFFERS, DIFFERS_FLUSHED, DIFFERS_AS_REFERENCE } fate;

typedef struct mutant {
    fate fate;
    bool (*visible)(void); /* can this CPU show what it does wrong? NULL: every CPU can */
    fv_kernel kernel;      /* a scalar row; its name says what is wrong */
} mutant;

#define MUTANT_WHERE(visible, fate, op_, type_, mr_, nr_, function)                                                    \
    {                                                                                                                  \
        fate, visible, {                                                                                               \
            .name = #function, .op = FV_OP_##op_, .type = FV_TYPE_##type_, .isa = FV_ISA_scalar, .mr = mr_, .nr = nr_, \
            .run = {.op_##_##type_ = function}, .op_name = #op_                                                        \
        }                                                                                                              \
    }
#define MUTANT(...) MUTANT_WHERE(NULL, __VA_ARGS__)

/* Mutants of a product. few: its kernel takes few rows. PRODUCT: by sizes (multiply_call.h). */
#define PRODUCT_WHERE(visible, fate, kind_, format_, few_, mr_, nr_, function)                                         \
    {                                                                                                                  \
        fate, visible, {                                                                                               \
            .name = #function, .op = FV_OP_multiply, .type = (fv_type)FV_ELEMENT_##format_, .kind = FV_KIND_##kind_,   \
            .format = FV_FORMAT_##format_, .few = few_, .isa = FV_ISA_scalar, .mr = mr_, .nr = nr_,                    \
            .run = {.multiply = function}, .op_name = "multiply"                                                       \
        }                                                                                                              \
    }
#define PRODUCT_ROW(...) PRODUCT_WHERE(NULL, __VA_ARGS__)
#define PRODUCT(fate, kind, format, few, mr, nr, function) PRODUCT_ROW(fate, kind, format, few, mr, nr, function##_row)
enum { MANY, FEW };

/* Mutants of a row that packs a source in a format, and of one that unpacks a format. */
#define PACK(fate, source_, format_, function)                                                                         \
    {                                                                                                                  \
        fate, NULL, {                                                                                                  \
            .name = #function, .op = FV_OP_pack, .type = (fv_type)FV_ELEMENT_##format_, .source = FV_SOURCE_##source_, \
            .format = FV_FORMAT_##format_, .isa = FV_ISA_scalar, .mr = 1, .nr = 1, .run = {.pack = function},          \
            .op_name = "pack"                                                                                          \
        }                                                                                                              \
    }
#define UNPACK(fate, format_, function)                                                                                \
    {                                                                                                                  \
        fate, NULL, {                                                                                                  \
            .name = #function, .op = FV_OP_unpack, .type = (fv_type)FV_ELEMENT_##format_,                              \
            .format = FV_FORMAT_##format_, .isa = FV_ISA_scalar, .mr = 1, .nr = 1, .run = {.unpack = function},        \
            .op_name = "unpack"                                                                                        \
        }                                                                                                              \
    }

#define PACK_PARAMETERS                                                                                                \
    int64_t rows, int64_t n, const void *x, int64_t ldx, int exponent, float *y, int64_t ldy, fv_exponent_range *m,    \
        float *norm
#define PACK_ARGUMENTS rows, n, x, ldx, exponent, y, ldy, m, norm

typedef struct mutant_table {
    const mutant *mutants;
    size_t count;
} mutant_table;

extern const mutant_table mutants_bias_act_residual, mutants_array, mutants_many, mutants_half, mutants_mask,
    mutants_merge, mutants_normalize, mutants_softcap, mutants_softmax, mutants_weight_sums, mutants_few, mutants_int8,
    mutants_groups, mutants_multiply_groups;

/* The scalar row of the list, for float32. */
static inline const fv_kernel *honest(fv_op op) { return fv_kernel_scalar(op, FV_TYPE_f32); }

static inline fv_pack_fn *honest_pack(fv_source source, fv_format format) {
    return fv_pack_best(source, format, (fv_target){FV_ISA_scalar, FV_HAS_nothing})->run.pack;
}

static inline fv_unpack_fn *honest_unpack(fv_format format) {
    return fv_unpack_best(format, (fv_target){FV_ISA_scalar, FV_HAS_nothing})->run.unpack;
}

static inline fv_multiply_fn *honest_product(fv_kind kind, fv_format format, bool few) {
    const fv_target scalar = {FV_ISA_scalar, FV_HAS_nothing};
    return (few ? fv_multiply_few : fv_multiply_best)(kind, format, scalar)->run.multiply;
}

#endif
