/* A linear map with packed weights. Made by pack.c, checked by check.c, executed by execute.c
 * with what heuristics.c decides for the number of rows.
 *
 * The columns (output channels) of all parts are numbered together and packed in panels as wide as the register tile
 * of the product: panel p holds its columns of input channel 0, then of channel 1 and so on, so that a product reads it
 * from front to back.
 */
#ifndef FV_LINEAR_H
#define FV_LINEAR_H

#include "context/context.h"
#include "core/core.h"
#include "kernels.h"
#include "linear/heuristics.h"
#include "pack_any.h"
#include "quantization/quantization.h"
#include "tuning/tuning.h"

typedef struct fv_linear_part {
    int64_t first, out; /* columns */
    float *bias;        /* [out], or NULL */
} fv_linear_part;

/* A type of weights: how they are packed and multiplied (formats.c). */
typedef struct fv_linear_format {
    fovea_dtype dtype;
    fv_format format;       /* of packed weights */
    fv_kind pairs;          /* of words of two elements, where x has the type of weights; f32: there are none */
    fv_format pairs_format; /* of weights that are multiplied so */
    /* Most rows for which weights are widened in registers, once for each tile, instead of once for all into a block
     * of floats; the second on CPUs of 16 lanes. */
    int64_t register_rows[2];
    bool own_width; /* panels are as wide as the tile of the kernel that widens them, at least */
} fv_linear_format;

struct fovea_linear {
    /* Facts of the context that packed it, which may be gone: */
    fv_target target;
    int64_t l1d, l2;
    fv_tuning_use *tuning;
    const fv_linear_format *kept; /* what weights are: the row of weight_dtype */
    const fv_kernel *gemm;        /* for many rows: the default */
    fv_bias_act_residual_f32_fn *bias_act_residual;
    fv_activation activation; /* of the gate, if gated */
    int64_t in, out;          /* input channels, columns of all parts */
    bool gated; /* one y of two parts: a panel holds as many columns of one as of the other, those of the gate first */
    int64_t part_count; /* of y */
    fv_linear_part *parts;
    float *bias;        /* of the parts that have one */
    fv_operand weights; /* of all panels, columns that no channel fills among them; range: of bf16x2 for pairs */
    void *memory;       /* theirs, */
    bool shared;        /* of a slab (memory.h), */
    float *scales;      /* and that of the scales of integers */
    fovea_dtype weight_dtype, x_dtype, y_dtype, residual_dtype;
    fv_widen_bf16_fn *widen_weights, *widen_x, *widen_residual; /* NULL: float32 */
    fv_narrow_bf16_fn *narrow_y;
    fv_copy_f32_fn *copy;
    fv_multiply_fn *gemm_widen; /* of weights of 16 bits; */
    fv_unpack_fn *unpack;       /* of all but float16, which widen_weights does */
    const fv_kernel
        *pairs; /* bf16x2 or f16x2 or, of bf16_tile, bf16x2_amx_order; NULL: this CPU, or a type, has no use for it. Of
                   float16 all rows are multiplied so, as then no other kernel can read the weights */
    /* Quantized weights in groups (groups.c): */
    bool grouped;
    fv_quantized quantized;
    int32_t *order;           /* quantized.order, or NULL */
    fovea_quantization given; /* group_size, scale_dtype and whether there are zeros: as the parts have them */
    const fv_kernel *few;     /* q16 and q8: products with words as they lie; */
    const fv_kernel *many;    /* the default of a choice, */
    int64_t many_number;      /* and its number */
    fv_quantize_i8_fn *quantize;
    fv_scales_f32_fn *read_scales;
    fv_expand_i4_fn *expand;      /* NULL: the words are those of i8g */
    fovea_arithmetic arithmetic;  /* bf16 is exact here */
    fv_multiply_fn *blocks;       /* of bf16_tile, in the place of that of floats */
    fv_pack_fn *pack_x;           /* NULL of float16, whose pairs are x as it lies */
    fv_exponent_range *exponents; /* of panels in pairs, [panels] */
    int64_t few_rows;             /* the default of a choice; 0: there is no other */
    int64_t panel, panels;
    const fv_tuning_row **tuned; /* [tuned_count], of tuning: those for maps of this size, for any number of threads */
    int tuned_count;
    int64_t thread_bytes;           /* of workspace, a thread; */
    int64_t gathered_bytes;         /* where rows of x are gathered */
    fv_placement placement;         /* of panels */
    fovea_linear *copies[FV_NODES]; /* of COPIES: the map for threads of a node; NULL: this one */
};

/* Are the packed weights pairs? Those of bfloat16 are everywhere, those of float16 for the CPUs that multiply them
 * (kernels.h). */
static inline bool fv_linear_paired(const fovea_linear *linear) {
    return fv_format_of(linear->weights.format).per_word == 2;
}

/* Rows, and columns, beyond which nothing changes. */
enum { FV_LINEAR_MANY_ROWS = 4096 };

/* The product of a map for many rows; for weights of 16 bits one whose panels are whole vectors on all tiers. */
const fv_kernel *fv_linear_gemm(const fovea_context *ctx, int64_t out, bool halves);

/* The width of a map's panels, whose types and product are chosen. */
int64_t fv_linear_panel(const fovea_linear *linear);

/* The row of a type of weights; NULL: maps do not take it, or not in this build. Of quantized weights in groups all
 * have one. */
const fv_linear_format *fv_linear_format_of(fovea_dtype dtype);

/* Are weights of that matrix packed in groups? int8 with a scale for each column are not, if the map is exact. */
static inline bool fv_linear_grouped(const fovea_matrix *w, fovea_arithmetic arithmetic) {
    const bool columns = w->dtype == FOVEA_DTYPE_I8 && w->quantization->scales;
    return fv_dtype_quantized(w->dtype) && (!columns || arithmetic != FOVEA_ARITHMETIC_EXACT);
}

/* Are rows of x multiplied as integers? */
static inline bool fv_linear_integers(const fovea_linear *l) {
    return l->grouped && l->arithmetic != FOVEA_ARITHMETIC_EXACT;
}

/* Do few rows read the weights as one stream, which they fetch ahead? */
static inline bool fv_linear_streams(const fovea_linear *l) { return fv_linear_integers(l) && !l->quantized.apart; }

/* The product of many rows of integers that a choice names. */
static inline const fv_kernel *fv_linear_many(const fovea_linear *l, const fv_linear_choice *choice) {
    return choice->integers == l->many_number ? l->many : fv_linear_product(choice->integers);
}

/* Rows of a tile of the product of many rows. */
static inline int64_t fv_linear_tile_rows(const fovea_linear *l, const fv_linear_choice *choice) {
    return fv_linear_integers(l) ? fv_linear_many(l, choice)->mr : choice->gemm->mr;
}

/* Channels that a block of weights in groups is a multiple of: scales are read by super-blocks. */
static inline int64_t fv_linear_block_unit(const fovea_linear *l) {
    return l->quantized.group * fv_scales_per_super(l->quantized.scales);
}

/* Bytes of a panel, whose width is known. */
static inline int64_t fv_linear_panel_bytes(const fovea_linear *l) {
    return l->grouped ? 4 * fv_quantized_words(&l->quantized, l->panel, l->in)
                      : fv_operand_bytes(l->weights.format, l->in, l->panel);
}

/* "weights are ...", for sentences of errors. */
extern const char fv_linear_weight_types[];

/* Weights as packing reads them. */
fv_matrix fv_linear_source(const fovea_matrix *weights, fv_target target);

/* Weights in groups: takes the description of the first part's; false if there is no memory. Packs columns of a part to
 * columns from place on, which lie in one panel. */
bool fv_linear_describe_groups(fovea_linear *linear, const fovea_matrix *first);
void fv_linear_pack_groups(fovea_linear *linear, const fovea_matrix *weights, int64_t first, int64_t count,
                           int64_t place);

/* Takes the kernels that its types ask for, and facts of the context's machine. */
void fv_linear_select_kernels(fovea_linear *linear, const fovea_context *ctx);

/* Finds the rows of the context's tuning file; false if there is no memory. */
bool fv_linear_find_tuned(fovea_linear *linear, const fovea_context *ctx);

/* The row of tuning that decides for that many threads and rows, or NULL. */
const fv_tuning_row *fv_linear_tuned(const fovea_linear *linear, int threads, int64_t rows);

/* One thread's scratch, in bytes: products, [row_block][panel]; and what has other types in the caller's memory or in
 * the packed weights, as floats: rows of x, [row_block][in], a block of weights, [widened][panel], results,
 * [chunk][panel]. Rows of x in pairs, [row_block][(in + 1) / 2], and their exponents, [row_block]. With weights in
 * groups rows of x as integers, [row_block][fv_group_words()] of l->few or the choice's, and of a block its scales as
 * floats and its integers as words of i8g. bytes is -1 if that is more than memory. */
typedef struct fv_linear_scratch {
    int64_t products, x, pairs, weights, y, exponents, integers, scales, words, bytes;
} fv_linear_scratch;

fv_linear_scratch fv_linear_lay_out(const fovea_linear *linear, const fv_linear_choice *choice);

/* Checks at the public edge (check.c). */
fovea_status fv_linear_read_desc(const fovea_linear_desc *given, fovea_linear_desc *desc);

/* Brings desc->arithmetic to what it is computed in, or refuses it for these types. */
fovea_status fv_linear_select_arithmetic(const fovea_context *ctx, fovea_linear_desc *desc);

fovea_status fv_linear_read_args(const fovea_linear_args *given, fovea_linear_args *args);
fovea_status fv_linear_check_args(const fovea_linear *linear, const fovea_linear_args *args, const void *workspace,
                                  size_t workspace_size, size_t bytes);

/* The first part of y from p on that the caller wants, or part_count. */
int64_t fv_linear_next_part(const fovea_linear *linear, const fovea_linear_args *args, int64_t p);

/* Channels of y that a panel gives. */
static inline int64_t fv_linear_panel_out(const fovea_linear *linear) {
    return linear->gated ? linear->panel / 2 : linear->panel;
}

/* Executes checked arguments in a workspace that is large enough. */
void fv_linear_run(const fovea_context *ctx, const fovea_linear *linear, const fovea_linear_args *args,
                   void *workspace);

/* Several maps that are applied to rows of their own, in one go (jobs.c). */
typedef struct fv_linear_job {
    const fovea_linear *linear;
    int64_t first, rows; /* those of y, and of index or x; rows >= 1 */
    /* Set by fv_linear_run_jobs(): */
    int64_t row_block, group, groups, first_item;
} fv_linear_job;

typedef struct fv_linear_jobs {
    const fovea_context *ctx;
    fv_linear_job *job;
    int64_t count;
    const int64_t *index;  /* row i of the jobs is of row index[i] of x; NULL: of row i */
    const int64_t *places; /* it goes to row places[i] of y; NULL: to row i */
    fovea_tensor x;        /* [batch, 1, tokens, channels], without index of one batch */
    fovea_tensor y[2];     /* the same of each part, with its type, without places of one batch */
    char *scratches;       /* aligned; thread_bytes for each thread: at least the maps' own, or gathered ones */
    int64_t thread_bytes;
} fv_linear_jobs;

void fv_linear_run_jobs(const fv_linear_jobs *jobs);

/* Whether an activation takes two parts, and what it does with the first, or with the only one. */
static inline bool fv_linear_gates(fovea_activation activation, fv_activation *act) {
    const fovea_activation gate = fovea_activation_info(activation)->gate;
    *act = (fv_activation)gate;
    return gate != activation;
}

/* desc's parts, whichever way they are given. */
static inline const fovea_linear_part *fv_linear_parts(const fovea_linear_desc *desc) {
    return desc->parts ? desc->parts : &desc->part;
}

#endif
