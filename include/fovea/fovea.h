/* Fovea: CPU kernels for multi-head attention, softmax(scale * Q K^T) V, fused, in float32.
 *
 * The promise: a row of output (one query of one head) has the same bits on every instruction set, with every tile
 * size, thread count, batch size and position, whether computed alone, in a chunk, or with the whole prompt. Results
 * can be compared with memcmp.
 *
 * Use: create a context (once), describe an attention, make a plan (once per shape), execute it (many times):
 *
 *     fovea_context *ctx;
 *     fovea_attention_plan *plan;
 *     fovea_attention_desc desc;
 *     fovea_attention_args args;
 *     fovea_context_create(NULL, &ctx);
 *     fovea_attention_desc_init(&desc);
 *     desc.batch = 1; desc.q_heads = desc.kv_heads = 12; desc.q_len = desc.kv_len = 512;
 *     desc.head_dim = desc.value_dim = 64;
 *     fovea_attention_plan_create(ctx, &desc, &plan);
 *     fovea_attention_args_init(&args);
 *     args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 12, 512, 64);   ... k, v, out likewise
 *     fovea_attention_execute(plan, &args, NULL, 0);
 *     fovea_attention_plan_destroy(plan);
 *     fovea_context_destroy(ctx);
 *
 * or call fovea_sdpa_f32(), which does all of this for contiguous arrays.
 *
 * Errors: functions that can fail return a fovea_status; fovea_error_detail() then gives a sentence. All arguments are
 * checked, and all memory is had, before any output is touched: after an error, outputs hold what they held before the
 * call. Nothing here aborts, prints (unless FOVEA_DEBUG=1 is in the environment) or reads past a named element.
 *
 * Speed can be tuned to a machine by the program fovea-tune, which writes a tuning file that contexts load.
 *
 * Sizes and strides are in elements, int64_t. Workspace sizes are in bytes, size_t.
 *
 * Structs that may grow begin with struct_size, which their _init function sets; a struct_size this library does not
 * know is refused with FOVEA_ERROR_VERSION.
 */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include <stddef.h>
#include <stdint.h>

#define FOVEA_VERSION_MAJOR 0
#define FOVEA_VERSION_MINOR 1
#define FOVEA_VERSION_PATCH 0
#define FOVEA_VERSION_STRING "0.1.0"

#if defined(__GNUC__) || defined(__clang__)
#define FOVEA_API __attribute__((visibility("default")))
#else
#define FOVEA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------- status -- */

typedef enum fovea_status {
    FOVEA_OK = 0,
    FOVEA_ERROR_NULL = 1,         /* a required pointer is NULL */
    FOVEA_ERROR_SHAPE = 2,        /* a size is zero, negative, does not divide, or two shapes disagree */
    FOVEA_ERROR_OVERFLOW = 3,     /* sizes or strides whose product does not fit in memory */
    FOVEA_ERROR_STRIDE = 4,       /* channel stride is not 1, a stride is negative, or an output overlaps itself */
    FOVEA_ERROR_DTYPE = 5,        /* an element type that this operation does not take */
    FOVEA_ERROR_ALIAS = 6,        /* an output overlaps an input, another output or the workspace */
    FOVEA_ERROR_WORKSPACE = 7,    /* a workspace smaller than the _workspace_size() of its object */
    FOVEA_ERROR_VERSION = 8,      /* struct_size of another version of this header */
    FOVEA_ERROR_ARGUMENT = 9,     /* any other value out of its range */
    FOVEA_ERROR_ENVIRONMENT = 10, /* FOVEA_ISA names no tier of this library */
    FOVEA_ERROR_UNSUPPORTED = 11, /* asks for what this CPU, this build or this form of a layer does not have */
    FOVEA_ERROR_OUT_OF_MEMORY = 12,
    FOVEA_ERROR_FILE = 13,   /* a file that cannot be read or written, or that is not to be trusted */
    FOVEA_ERROR_TUNING = 14, /* not a tuning file of this version, cut, damaged, or with rows that cannot be */
    FOVEA_ERROR_FOREIGN = 15, /* a sound tuning file for other CPUs or other builds of this library */
    FOVEA_ERROR_BUSY = 16     /* another process holds a lock: try again */
} fovea_status;

/* The constant's name, as "FOVEA_ERROR_SHAPE"; "unknown status" for any other value. Static string, thread-safe. */
FOVEA_API const char *fovea_status_name(fovea_status status);

/* A sentence about this thread's last failure ("q_heads 12 is not a multiple of kv_heads 5"), "" before the first.
 * Owned by the library; valid until this thread's next failing call. Thread-safe. */
FOVEA_API const char *fovea_error_detail(void);

/* Version of the library that is linked, as "0.1.0" (FOVEA_VERSION_STRING is the header's). Static string. */
FOVEA_API const char *fovea_version(void);

/* ------------------------------------------------------------------------------------------------------- tensor -- */

typedef enum fovea_dtype {
    FOVEA_DTYPE_F32 = 1, /* IEEE binary32, 4-byte aligned */
    FOVEA_DTYPE_BOOL = 2 /* one byte: 0 = masked, anything else = attend */
} fovea_dtype;

/* A view of the caller's memory, [batch, head, token, channel]. Element (b,h,t,c) is data[b*stride[0] + h*stride[1] +
 * t*stride[2] + c*stride[3]]. The channel stride is 1 (masks: 1, or 0 to broadcast); others are from 0 to 2^48, and 0
 * repeats an input. So BHTD, BTHD and packed QKV are all just strides. Never owned, never freed. data == NULL: absent.
 */
typedef struct fovea_tensor {
    void *data;
    fovea_dtype dtype;
    int64_t shape[4];
    int64_t stride[4];
} fovea_tensor;

/* Contiguous [batch, heads, tokens, channels] memory. Cannot fail: bad sizes are found by the function it is given to.
 */
FOVEA_API fovea_tensor fovea_tensor_bhtd(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                         int64_t channels);

/* Contiguous [batch, tokens, heads, channels] memory, viewed as [batch, head, token, channel]. */
FOVEA_API fovea_tensor fovea_tensor_bthd(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                         int64_t channels);

/* ------------------------------------------------------------------------------------------------------ context -- */

/* Tiers: the instruction-set levels for which kernels exist. Those of an architecture are in the order of preference,
 * and each CPU has those of lower number too. */
typedef enum fovea_isa {
    FOVEA_ISA_BEST = 0,   /* as an option: the best that CPU, operating system and FOVEA_ISA allow */
    FOVEA_ISA_SCALAR = 1, /* portable C */
    FOVEA_ISA_AVX2 = 2,   /* AVX2 and FMA3 */
    FOVEA_ISA_AVX512 = 3, /* AVX-512 F, BW, DQ, VL */
    FOVEA_ISA_NEON = 4    /* NEON (Advanced SIMD): every 64-bit Arm CPU */
} fovea_isa;

/* "scalar", "avx2", ...; "unknown" for any other value. These are the words that FOVEA_ISA takes. Static string.
 * Thread-safe. */
FOVEA_API const char *fovea_isa_name(fovea_isa isa);

/* A caller's own thread pool. Must call task(arg, i) exactly once for each i in [0, count), on any threads, in any
 * order, at once or one after another, and return when all have returned. count is at most the context's thread count.
 */
typedef void (*fovea_parallel_for)(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

typedef struct fovea_context_options {
    size_t struct_size;
    fovea_isa isa;                   /* the highest tier to use; default FOVEA_ISA_BEST */
    int threads;                     /* default 0: all CPUs of the affinity mask and the cgroup quota */
    fovea_parallel_for parallel_for; /* default NULL: OpenMP */
    void *pool;                      /* handed to parallel_for */
    const char *tuning_file;         /* default NULL: looked for, see fovea_context_create(); "": none */
} fovea_context_options;

/* Sets struct_size and the defaults. NULL is ignored. Thread-safe on different options. */
FOVEA_API void fovea_context_options_init(fovea_context_options *options);

/* Tier choice and thread count, immutable after creation: any number of threads may use one at once, and contexts with
 * different tiers may live in one process. Must outlive its plans. */
typedef struct fovea_context fovea_context;

/* Makes a context. options may be NULL (all defaults). The environment is read here and nowhere else:
 * FOVEA_ISA=scalar|avx2|avx512|neon caps the tier (an unknown word: FOVEA_ERROR_ENVIRONMENT; a tier above what the CPU
 * has is a cap like any other and chooses the best below it, so one of another architecture leaves the portable C);
 * FOVEA_DEBUG=1 writes to stderr what was chosen and why, for the context and for each plan and linear map;
 * FOVEA_LOG_SHAPES=file adds a line to that file for each shape that is executed, for fovea-tune to read (at most 1
 * MiB; a file that cannot be written is told by FOVEA_DEBUG=1 alone). The tuning file is options->tuning_file, or
 * FOVEA_TUNING_FILE, or else the first of $XDG_CACHE_HOME/fovea/tuning ($HOME/.cache where that is unset) and
 * /etc/fovea/tuning that is there; an empty name: none. It can change speed and no bit of any result. One that is
 * damaged, foreign or not to be trusted is not an error here: the defaults are used, and fovea_context_info() says why.
 * threads is capped at the affinity mask and the cgroup quota unless parallel_for is given (the pool knows better). On
 * error *ctx is set to NULL. Thread-safe. */
FOVEA_API fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **ctx);

/* Frees it; NULL is allowed. No plan made from it may be used afterwards. */
FOVEA_API void fovea_context_destroy(fovea_context *ctx);

typedef struct fovea_info {
    size_t struct_size;
    fovea_isa isa;     /* the tier in use */
    int threads;       /* most threads that an execution uses */
    int64_t l1d_bytes; /* data caches as plans see them: after sanity checks, with fallbacks */
    int64_t l2_bytes;
    char cpu[64];               /* the CPU's own name */
    char reason[512];           /* why this tier, and why not those above it; why this many threads */
    fovea_status tuning_status; /* of the tuning file: FOVEA_OK if it is used, or if there is none */
    int tuning_rows;            /* of it that plans and linear maps of this context may use */
    char tuning[512];           /* which file, or what is wrong with it */
} fovea_info;

/* Sets struct_size, and the rest to 0. NULL is ignored. Thread-safe on different structs. */
FOVEA_API void fovea_info_init(fovea_info *info);

/* Fills *info. Thread-safe. */
FOVEA_API fovea_status fovea_context_info(const fovea_context *ctx, fovea_info *info);

/* Runs task(arg, i) once for each i of [0, count) on the threads of the context, in any order, and returns when all
 * have returned: for what a program computes between calls of this library, or for whole chains of calls, each of which
 * then runs on the thread of its task (those of a task that is the only one, on all threads). Rounding mode and
 * flush-to-zero are the caller's. After an error no task has run. Thread-safe. */
FOVEA_API fovea_status fovea_parallel(const fovea_context *ctx, int64_t count, void (*task)(void *arg, int64_t index),
                                      void *arg);

/* ---------------------------------------------------------------------------------------------------- attention -- */

/* Which keys a query may see by its position. Query i of a sequence stands at key position i + offset:
 *   NONE          no causal limit; offset 0 (or q_offsets[b], which then only places the window)
 *   TOP_LEFT      key j <= i                         offset 0 (PyTorch is_causal)
 *   BOTTOM_RIGHT  key j <= i + kv_len - q_len        offset kv_len - q_len of that sequence (FlashAttention >= 2.1)
 *   OFFSET        key j <= i + q_offsets[b]          the caller's offset (a chunk of a prompt: the tokens before it) */
typedef enum fovea_causal {
    FOVEA_CAUSAL_NONE = 0,
    FOVEA_CAUSAL_TOP_LEFT = 1,
    FOVEA_CAUSAL_BOTTOM_RIGHT = 2,
    FOVEA_CAUSAL_OFFSET = 3
} fovea_causal;

typedef enum fovea_mask_kind {
    FOVEA_MASK_NONE = 0,
    FOVEA_MASK_BOOLEAN = 1, /* FOVEA_DTYPE_BOOL: nonzero = attend */
    FOVEA_MASK_ADDITIVE = 2 /* FOVEA_DTYPE_F32, added to the scaled score; exactly -inf = masked, as false is */
} fovea_mask_kind;

typedef struct fovea_attention_desc {
    size_t struct_size;
    fovea_dtype dtype;    /* default and only choice: FOVEA_DTYPE_F32 */
    int64_t batch;        /* >= 1, default 1 */
    int64_t q_heads;      /* >= 1, a multiple of kv_heads; query head h reads key head h / (q_heads / kv_heads) */
    int64_t kv_heads;     /* >= 1 */
    int64_t q_len;        /* >= 1 queries of a sequence (the longest, where q_lens is given) */
    int64_t kv_len;       /* >= 0 keys of a sequence (the longest, where kv_lens is given) */
    int64_t head_dim;     /* >= 1 channels of q and k */
    int64_t value_dim;    /* >= 1 channels of v and out */
    double scale;         /* default 0: 1/sqrt(head_dim); rounded to float32 once */
    fovea_causal causal;  /* default FOVEA_CAUSAL_NONE */
    int64_t window_left;  /* keys before the query's position that it sees, inclusive; default -1: no limit */
    int64_t window_right; /* keys after it; default -1: no limit (but causal still limits) */
    fovea_mask_kind mask; /* default FOVEA_MASK_NONE */
} fovea_attention_desc;

/* Sets struct_size and the defaults; sizes without one are 0 and must be set. */
FOVEA_API void fovea_attention_desc_init(fovea_attention_desc *desc);

typedef struct fovea_attention_args {
    size_t struct_size;
    fovea_tensor q;         /* [batch, q_heads, q_len, head_dim] */
    fovea_tensor k;         /* [batch, kv_heads, kv_len, head_dim] */
    fovea_tensor v;         /* [batch, kv_heads, kv_len, value_dim] */
    fovea_tensor out;       /* [batch, q_heads, q_len, value_dim], written whole */
    fovea_tensor mask;      /* [batch, q_heads, q_len, kv_len], if desc.mask; a stride of 0 or a size of 1 repeats */
    const int64_t *q_lens;  /* [batch] or NULL: sequence b has q_lens[b] <= q_len queries; rows past it are not read */
    const int64_t *kv_lens; /* [batch] or NULL: likewise its keys and values */
    const int64_t *q_offsets; /* [batch], from -2^60 to 2^60, required by FOVEA_CAUSAL_OFFSET, allowed with NONE, else
                                 NULL */
    fovea_tensor lse;         /* optional [batch, q_heads, q_len, 1]: log(sum(exp(score))), natural logarithm */
    fovea_tensor weights;     /* optional [batch, q_heads, q_len, kv_len]: exp(score - lse), +0 where masked; costs the
                                 scores a second time */
} fovea_attention_args;

/* Sets struct_size and leaves everything else absent. */
FOVEA_API void fovea_attention_args_init(fovea_attention_args *args);

/* Kernels and tiles chosen for one shape. Immutable: any number of threads may execute one at once. */
typedef struct fovea_attention_plan fovea_attention_plan;

/* Checks desc and chooses. *plan is NULL after an error. ctx must outlive the plan. Thread-safe. */
FOVEA_API fovea_status fovea_attention_plan_create(const fovea_context *ctx, const fovea_attention_desc *desc,
                                                   fovea_attention_plan **plan);

/* Frees a plan that no thread executes any more. NULL is allowed. Thread-safe on different plans. */
FOVEA_API void fovea_attention_plan_destroy(fovea_attention_plan *plan);

/* Bytes of workspace that fovea_attention_execute() needs: O(threads x tile + partial sums of rows that are split),
 * never O(q_len x kv_len). 0 for a NULL plan. Thread-safe. */
FOVEA_API size_t fovea_attention_plan_workspace_size(const fovea_attention_plan *plan);

/* Writes a few lines of text about the plan (tier, kernel rows, blocks, threads, whether tuned) into text[size], always
 * terminated if size > 0, and returns the length of the whole text without its terminator, as snprintf does.
 * Thread-safe. */
FOVEA_API size_t fovea_attention_plan_describe(const fovea_attention_plan *plan, char *text, size_t size);

/* out = softmax(scale * q k^T + mask) v, row by row.
 *   - A row that may see no key (or whose scores are all -inf) gives out +0, lse -inf, weights +0; so do the rows from
 *     q_lens[b] on.
 *   - Masked keys and keys past a length are skipped, not multiplied by zero: their bytes in k, v and mask may be NaN
 *     or uninitialised and no output bit changes. NaN in an attended q or k, or a score of +inf, gives a row of NaN;
 *     NaN in an attended v gives NaN in that channel. Output NaN is always 0x7fc00000, output zero always +0.
 *   - workspace: workspace_size bytes at any alignment, at least fovea_attention_plan_workspace_size(); not shared with
 *     a concurrent call; its content before and after means nothing. NULL (and 0): allocated for this call and freed,
 *     which may fail with FOVEA_ERROR_OUT_OF_MEMORY, outputs untouched. With a workspace, nothing is allocated.
 *   - Outputs must not overlap inputs (q_lens, kv_lens and q_offsets among them), each other, or the workspace. What
 *     counts is the memory from a tensor's first to its last element: an output in the gaps between an input's rows is
 *     refused, too.
 *   - Uses the caller's rounding mode and flush-to-zero setting in all its threads. Called from within a parallel
 *     region or a task of its own parallel_for, it runs on the calling thread alone; so it does, without a parallel_for,
 *     in the forked child of a process that had more than one thread.
 * Thread-safe for one plan and for many. */
FOVEA_API fovea_status fovea_attention_execute(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                               void *workspace, size_t workspace_size);

/* The ten-second start: contiguous [batch, heads, tokens, channels] arrays, scale 1/sqrt(head_dim), a default context
 * made at the first call (all defaults; the environment is read then) and kept for the life of the process, with the
 * plans and workspaces of the last few shapes. Same bits and, from the second call of a shape on, the speed of the
 * planned form. Thread-safe. causal: any but FOVEA_CAUSAL_OFFSET. */
FOVEA_API fovea_status fovea_sdpa_f32(const float *q, const float *k, const float *v, float *out, int64_t batch,
                                      int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                                      int64_t head_dim, int64_t value_dim, fovea_causal causal);

/* ------------------------------------------------------------------------------------------------------- linear -- */

/* A view of the caller's weights: element (i, o), from input channel i to output channel o, is data[i*in_stride +
 * o*out_stride], strides >= 0. Never owned. data == NULL: absent. */
typedef struct fovea_matrix {
    const float *data;
    int64_t in, out;
    int64_t in_stride, out_stride;
} fovea_matrix;

/* Contiguous [in, out] memory, as papers write x W. Cannot fail: bad sizes are found by the function it is given to. */
FOVEA_API fovea_matrix fovea_matrix_in_out(const float *data, int64_t in, int64_t out);

/* Contiguous [out, in] memory, as PyTorch's nn.Linear keeps it. */
FOVEA_API fovea_matrix fovea_matrix_out_in(const float *data, int64_t out, int64_t in);

typedef enum fovea_activation {
    FOVEA_ACTIVATION_NONE = 0,
    FOVEA_ACTIVATION_RELU = 1,
    FOVEA_ACTIVATION_GELU = 2,     /* t/2 * (1 + erf(t / sqrt(2))) */
    FOVEA_ACTIVATION_GELU_TANH = 3 /* its approximation t/2 * (1 + tanh(sqrt(2/pi) * (t + 0.044715 t^3))) */
} fovea_activation;

/* One of the matrices that are multiplied by the same input. */
typedef struct fovea_linear_part {
    fovea_matrix weight; /* [in_features, any number] */
    const float *bias;   /* [weight.out] or NULL */
    double scale;        /* multiplies weight and bias when they are packed, rounded to float32; 0: 1 */
} fovea_linear_part;

typedef struct fovea_linear_desc {
    size_t struct_size;
    fovea_dtype dtype;              /* default and only choice: FOVEA_DTYPE_F32 */
    int64_t in_features;            /* >= 1 */
    int64_t part_count;             /* >= 1, default 1 */
    fovea_linear_part part;         /* the one part, where part_count is 1 and parts is NULL */
    const fovea_linear_part *parts; /* [part_count]: several matrices, as Q, K and V, in one product */
    fovea_activation activation;    /* of all parts; default FOVEA_ACTIVATION_NONE */
} fovea_linear_desc;

/* Sets struct_size and the defaults. */
FOVEA_API void fovea_linear_desc_init(fovea_linear_desc *desc);

/* Packed weights and biases. Immutable: any number of threads may execute one at once. */
typedef struct fovea_linear fovea_linear;

/* Checks desc and packs copies of its weights and biases, which may be freed afterwards. *linear is NULL after an error
 * (FOVEA_ERROR_OUT_OF_MEMORY among them). ctx must outlive it. Thread-safe. */
FOVEA_API fovea_status fovea_linear_pack(const fovea_context *ctx, const fovea_linear_desc *desc,
                                         fovea_linear **linear);

/* Frees a map that no thread executes any more. NULL is allowed. Thread-safe on different maps. */
FOVEA_API void fovea_linear_destroy(fovea_linear *linear);

/* Bytes of workspace that fovea_linear_execute() needs, whatever the number of rows: O(threads). 0 for NULL.
 * Thread-safe. */
FOVEA_API size_t fovea_linear_workspace_size(const fovea_linear *linear);

/* As fovea_attention_plan_describe(): what is decided by default, and a line for each row of the tuning file that is
 * for maps of this size (500 bytes at most; a file has room for some 200), or one that says why there is none. */
FOVEA_API size_t fovea_linear_describe(const fovea_linear *linear, char *text, size_t size);

typedef struct fovea_linear_args {
    size_t struct_size;
    fovea_tensor x; /* [batch, groups, tokens, channels]: groups * channels = in_features, channel c of group g being
                       input channel g * channels + c. So the output of attention is an input as it is, and rows of
                       in_features are groups = 1 */
    const fovea_tensor *y;        /* [part_count] of [batch, heads, tokens, channels], heads * channels = the part's
                                     out: what attention reads, with no transpose between */
    const fovea_tensor *residual; /* [part_count] or NULL: added to y, of y's shape; may be y itself */
    const int64_t *lens; /* [batch] or NULL: of sequence b only the first lens[b] <= tokens rows are read and written */
} fovea_linear_args;

/* Sets struct_size and leaves everything else absent. */
FOVEA_API void fovea_linear_args_init(fovea_linear_args *args);

/* y = act(x W + bias) + residual, row by row: a row's bits depend on nothing but its x and the weights. Output NaN is
 * always 0x7fc00000. Workspace, overlap, rounding mode and nested calls: as fovea_attention_execute(). Thread-safe. */
FOVEA_API fovea_status fovea_linear_execute(const fovea_linear *linear, const fovea_linear_args *args, void *workspace,
                                            size_t workspace_size);

/* -------------------------------------------------------------------------------------------------------- layer -- */

/* How the layer MultiHead(Q, K, V) = Concat(head_1 .. head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), is
 * given. All forms that are equal in algebra give results that differ by rounding only. */
typedef enum fovea_mha_form {
    FOVEA_MHA_FACTORED = 0,  /* q, k, v, o as in the paper */
    FOVEA_MHA_MERGED = 1,    /* scores Q W_i K^T: merged holds the W_i, or they are made of q and k */
    FOVEA_MHA_FOLDED = 2,    /* outer W^Q, then W_i^Q: folded into one at creation, likewise K and V */
    FOVEA_MHA_PROJECTED = 3, /* inputs are the heads' Q_i, K_i, V_i already */
    FOVEA_MHA_TIED = 4,      /* q is the one W of Q, K and V, and what it gives is computed once */
    FOVEA_MHA_FUSED = 5      /* fused holds W^Q, W^K and W^V */
} fovea_mha_form;

typedef enum fovea_mha_inputs {
    FOVEA_MHA_SELF = 0,    /* one: args.q is the input of all three, read once; args.k and args.v are absent */
    FOVEA_MHA_CROSS = 1,   /* two: args.k is the input of keys and values; args.v is absent */
    FOVEA_MHA_SEPARATE = 2 /* three */
} fovea_mha_inputs;

typedef enum fovea_mha_merge {
    FOVEA_MHA_MERGE_QUERIES = 0, /* (Q W_i) K^T */
    FOVEA_MHA_MERGE_KEYS = 1     /* Q (K W_i^T)^T; cannot hold a bias of the queries */
} fovea_mha_merge;

typedef enum fovea_mha_fold {
    FOVEA_MHA_FOLD_NEVER = 0,
    FOVEA_MHA_FOLD_CHEAPER = 1, /* where it costs fewer flops for this shape */
    FOVEA_MHA_FOLD_ALWAYS = 2
} fovea_mha_fold;

/* Order of the output channels of a fused weight. */
typedef enum fovea_mha_order {
    FOVEA_MHA_ORDER_QKV = 0,    /* all heads of Q, then of K, then of V: PyTorch's in_proj_weight */
    FOVEA_MHA_ORDER_GROUPED = 1 /* for each key head: its query heads, its key, its value (grouped QKV) */
} fovea_mha_order;

typedef struct fovea_mha_desc {
    size_t struct_size;
    fovea_mha_form form;
    fovea_mha_inputs inputs;
    int64_t q_features;   /* d_model of queries, keys and values; FOVEA_MHA_PROJECTED: not used */
    int64_t k_features;   /* default 0: q_features */
    int64_t v_features;   /* default 0: k_features */
    int64_t out_features; /* d_out; 0: no W^O, the heads are the result */
    int biases;           /* nonzero: those that are not NULL are used; default 0: none may be given */
    fovea_mha_merge merge;
    fovea_mha_fold fold_values;     /* W_i^V W_i^O as one matrix behind attention over V itself; needs W^O and no v_bias
                                       (FOLD_CHEAPER does not fold then). Not with TIED and PROJECTED */
    fovea_attention_desc attention; /* shape and options: q_heads = h, kv_heads, head_dim = d_k, value_dim = d_v. The
                                       default scale is 1/sqrt(d_k) in every form */
} fovea_mha_desc;

/* Sets struct_size, also of attention, and the defaults. */
FOVEA_API void fovea_mha_desc_init(fovea_mha_desc *desc);

/* Weights: any order and strides; column i * d_k + c of q belongs to channel c of head i. For weights that lie head by
 * head ([heads, d_model, d_k]), head_stride is the distance of a head's first element to the next one's (0: heads
 * follow each other as columns, or as rows of o). */
typedef struct fovea_mha_weights {
    size_t struct_size;
    fovea_matrix q, k, v;                           /* [features, heads * d_k or d_v], k and v with kv_heads */
    fovea_matrix o;                                 /* [heads * d_v, out_features] */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* [out] of each, or NULL */
    int64_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;
    fovea_matrix outer_q, outer_k,
        outer_v; /* FOLDED: [features, any]; q, k, v then take those as input; absent: none */
    const float *outer_q_bias, *outer_k_bias, *outer_v_bias;
    const fovea_matrix *merged; /* MERGED: [heads] of [q_features, k_features], or NULL: made of q and k */
    fovea_matrix fused;         /* FUSED: [features, (heads + kv_heads) * d_k + kv_heads * d_v] */
    const float *fused_bias;
    fovea_mha_order order;
} fovea_mha_weights;

/* Sets struct_size and leaves everything else absent. */
FOVEA_API void fovea_mha_weights_init(fovea_mha_weights *weights);

/* A layer for one shape with packed weights. Immutable: any number of threads may execute one at once. */
typedef struct fovea_mha fovea_mha;

/* Checks, folds and packs copies of the weights, which may be freed afterwards. Products of matrices are computed in
 * float64 and rounded once. *mha is NULL after an error. ctx must outlive it. Thread-safe. */
FOVEA_API fovea_status fovea_mha_create(const fovea_context *ctx, const fovea_mha_desc *desc,
                                        const fovea_mha_weights *weights, fovea_mha **mha);

/* The same layer for another shape: shares the packed weights, which live as long as any layer that has them; costs no
 * more than a plan. The form's choices (fold_values) stay. Thread-safe. */
FOVEA_API fovea_status fovea_mha_reshape(const fovea_mha *mha, int64_t batch, int64_t q_len, int64_t kv_len,
                                         fovea_mha **other);

/* Frees a layer that no thread executes any more. NULL is allowed. Thread-safe on different layers, also on those that
 * share weights. */
FOVEA_API void fovea_mha_destroy(fovea_mha *mha);

/* Bytes of workspace that fovea_mha_execute() needs: projections and heads, and the scratch of attention. 0 for NULL.
 * Thread-safe. */
FOVEA_API size_t fovea_mha_workspace_size(const fovea_mha *mha);

/* The layer. args as for fovea_attention_execute(), but
 *   q, k, v  are the inputs, [batch, groups, tokens, channels] with groups * channels = the features (groups 1: rows as
 *            they are); with FOVEA_MHA_PROJECTED the heads, as in attention
 *   out      is [batch, groups, q_len, channels], groups * channels = out_features; without W^O the heads
 *   mask, lengths, offsets, lse, weights are those of the heads' attention. Rows past q_lens: o_bias, or +0.
 * With FOVEA_MHA_MERGED, lse lacks what biases of keys add to all scores of a row. Everything else, errors and
 * workspace too, as there. Thread-safe. */
FOVEA_API fovea_status fovea_mha_execute(const fovea_mha *mha, const fovea_attention_args *args, void *workspace,
                                         size_t workspace_size);

typedef struct fovea_mha_costs {
    size_t struct_size;
    double parameters;       /* numbers that are stored, as the form stores them for execution */
    double projection_flops; /* of Q, K and V: 2 for a multiplication and an addition */
    double attention_flops;  /* of scores and values, for the pairs that causality and window leave (offsets as 0) */
    double output_flops;     /* of W^O */
    double bytes;            /* inputs, weights, projections, heads and output, each written or read once */
    double scratch;          /* bytes of projections and heads between the steps */
} fovea_mha_costs;

/* Sets struct_size, and the rest to 0. NULL is ignored. Thread-safe on different structs. */
FOVEA_API void fovea_mha_costs_init(fovea_mha_costs *cost);

/* What a layer costs, from its description alone. FOLD_CHEAPER counts v_bias as absent. After an error *cost is as it
 * was. Thread-safe. */
FOVEA_API fovea_status fovea_mha_cost(const fovea_mha_desc *desc, fovea_mha_costs *cost);

/* ------------------------------------------------------------------------------------------------------- tuning -- */

/* The content of a tuning file: rows that say, for shapes of some sizes on one CPU and one build, which kernels and
 * blocks a plan or a linear map takes. Text of at most 64 KiB, with rows for any number of CPUs; written by fovea-tune.
 */
typedef struct fovea_tuning fovea_tuning;

/* Reads a file, all or nothing: *tuning is NULL after an error. FOVEA_ERROR_FILE: it is not there, not readable, not a
 * regular file, too large, or not to be trusted (writable by anybody; or in a folder that is, and then a symbolic link
 * or another user's). FOVEA_ERROR_TUNING: its content; the sentence names the line. Rows for other CPUs are no error
 * here. The caller destroys it. Thread-safe. */
FOVEA_API fovea_status fovea_tuning_load(const char *path, fovea_tuning **tuning);

/* Writes it in place of what is there, if anything: a reader at any time, and whoever comes after a crash, finds the
 * old file whole or the new one whole. Makes missing folders. Writers lock the folder (flock); where another process
 * holds that lock for longer than a second, FOVEA_ERROR_BUSY. After an error the old file is as it was. Thread-safe as
 * long as nobody changes the tuning. */
FOVEA_API fovea_status fovea_tuning_save(const fovea_tuning *tuning, const char *path);

/* Adds the rows of from to into. Where both have a row for the same shape on the same CPU and build, that of from
 * stays. After an error into is as it was. Not thread-safe for one into. */
FOVEA_API fovea_status fovea_tuning_merge(fovea_tuning *into, const fovea_tuning *from);

typedef struct fovea_tuning_match {
    size_t struct_size;
    int found;       /* 1: there is a row; 0: there is none, and reason says why */
    int line;        /* of the file it was loaded from; 0: none */
    double gain;     /* time of the default / time of the choice, as measured when the row was made */
    double gain_low; /* the 95 % interval of it */
    double gain_high;
    char row[1024]; /* the row's text */
    char reason[256];
} fovea_tuning_match;

/* Sets struct_size, and the rest to 0. NULL is ignored. Thread-safe on different structs. */
FOVEA_API void fovea_tuning_match_init(fovea_tuning_match *match);

/* What a plan of that context and shape would take from it, were it the context's own. Thread-safe as long as nobody
 * changes the tuning. */
FOVEA_API fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx,
                                           const fovea_attention_desc *desc, fovea_tuning_match *match);

/* Frees it; NULL is allowed. */
FOVEA_API void fovea_tuning_destroy(fovea_tuning *tuning);

#ifdef __cplusplus
}
#endif
#endif
