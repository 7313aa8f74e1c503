/* Made by keep.sh. */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H
#include <stddef.h>
#include <stdint.h>
#define FOVEA_VERSION_MAJOR 0
#define FOVEA_VERSION_MINOR 3
#define FOVEA_VERSION_PATCH 0
#define FOVEA_VERSION_STRING "0.3.0"
typedef enum fovea_status {
    FOVEA_OK = 0,
    FOVEA_ERROR_NULL = 1,
    FOVEA_ERROR_SHAPE = 2,
    FOVEA_ERROR_OVERFLOW = 3,
    FOVEA_ERROR_STRIDE = 4,
    FOVEA_ERROR_DTYPE = 5,
    FOVEA_ERROR_ALIAS = 6,
    FOVEA_ERROR_WORKSPACE = 7,
    FOVEA_ERROR_VERSION = 8,
    FOVEA_ERROR_ARGUMENT = 9,
    FOVEA_ERROR_ENVIRONMENT = 10,
    FOVEA_ERROR_UNSUPPORTED = 11,
    FOVEA_ERROR_OUT_OF_MEMORY = 12,
    FOVEA_ERROR_FILE = 13,
    FOVEA_ERROR_TUNING = 14,
    FOVEA_ERROR_INCOMPATIBLE = 15,
    FOVEA_ERROR_BUSY = 16,
    FOVEA_ERROR_FULL = 17
} fovea_status;
const char *fovea_status_name(fovea_status status);
const char *fovea_error_detail(void);
const char *fovea_version(void);
typedef enum fovea_dtype {
    FOVEA_DTYPE_F32 = 1,
    FOVEA_DTYPE_BOOL = 2,
    FOVEA_DTYPE_BITS = 3,
    FOVEA_DTYPE_I64 = 4,
    FOVEA_DTYPE_BF16 = 5,
    FOVEA_DTYPE_F16 = 6,
    FOVEA_DTYPE_I8 = 7
} fovea_dtype;
typedef enum fovea_arithmetic {
    FOVEA_ARITHMETIC_EXACT = 0,
    FOVEA_ARITHMETIC_BF16 = 1,
    FOVEA_ARITHMETIC_BF16_TILE = 2,
    FOVEA_ARITHMETIC_FASTEST = 3
} fovea_arithmetic;
const char *fovea_arithmetic_name(fovea_arithmetic arithmetic);
typedef struct fovea_quantization {
    size_t struct_size;
    const float *scales;
} fovea_quantization;
#define fovea_quantization_init(quantization) fovea_quantization_init_size((quantization), sizeof(fovea_quantization))
void fovea_quantization_init_size(fovea_quantization *quantization, size_t size);
typedef struct fovea_tensor {
    void *data;
    fovea_dtype dtype;
    int64_t shape[4];
    int64_t stride[4];
    const fovea_quantization *quantization;
} fovea_tensor;
fovea_tensor fovea_tensor_bhtd(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                               int64_t channels);
fovea_tensor fovea_tensor_bthd(void *data, fovea_dtype dtype, int64_t batch, int64_t tokens, int64_t heads,
                               int64_t channels);
fovea_tensor fovea_tensor_tokens(fovea_tensor tensor, int64_t first, int64_t count);
typedef struct fovea_matrix {
    const void *data;
    fovea_dtype dtype;
    int64_t in, out;
    int64_t in_stride, out_stride;
    const fovea_quantization *quantization;
} fovea_matrix;
fovea_matrix fovea_matrix_in_out(const void *data, fovea_dtype dtype, int64_t in, int64_t out);
fovea_matrix fovea_matrix_out_in(const void *data, fovea_dtype dtype, int64_t out, int64_t in);
fovea_status fovea_exp_f32(int64_t n, const float *x, float *y);
fovea_status fovea_convert(int64_t n, const void *from, fovea_dtype from_dtype, void *to, fovea_dtype to_dtype);
typedef enum fovea_isa {
    FOVEA_ISA_BEST = 0,
    FOVEA_ISA_SCALAR = 1,
    FOVEA_ISA_AVX2 = 2,
    FOVEA_ISA_AVX512 = 3,
    FOVEA_ISA_NEON = 4
} fovea_isa;
const char *fovea_isa_name(fovea_isa isa);
typedef void (*fovea_parallel_for)(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);
typedef enum fovea_threads_backend {
    FOVEA_THREADS_DEFAULT = 0,
    FOVEA_THREADS_OPENMP = 1,
    FOVEA_THREADS_POOL = 2
} fovea_threads_backend;
typedef struct fovea_context_options {
    size_t struct_size;
    fovea_isa isa;
    const char *tuning_file;
    int threads;
    fovea_threads_backend threads_backend;
    int pool_spin_us;
    fovea_parallel_for parallel_for;
    void *pool;
} fovea_context_options;
#define fovea_context_options_init(options) fovea_context_options_init_size((options), sizeof(fovea_context_options))
void fovea_context_options_init_size(fovea_context_options *options, size_t size);
typedef struct fovea_context fovea_context;
fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **ctx);
void fovea_context_destroy(fovea_context *ctx);
typedef struct fovea_context_facts {
    size_t struct_size;
    char cpu[64];
    char features[192];
    int64_t l1d_bytes;
    int64_t l2_bytes;
    fovea_isa isa;
    int threads;
    fovea_arithmetic fastest_attention, fastest_linear;
    char reason[512];
    fovea_status tuning_status;
    int tuning_rows;
    char tuning[512];
} fovea_context_facts;
#define fovea_context_facts_init(info) fovea_context_facts_init_size((info), sizeof(fovea_context_facts))
void fovea_context_facts_init_size(fovea_context_facts *info, size_t size);
fovea_status fovea_context_info(const fovea_context *ctx, fovea_context_facts *info);
fovea_status fovea_parallel(const fovea_context *ctx, int64_t count, void (*task)(void *arg, int64_t index), void *arg);
typedef enum fovea_rope_pairing { FOVEA_ROPE_HALVES = 0, FOVEA_ROPE_ADJACENT = 1 } fovea_rope_pairing;
typedef enum fovea_rope_scaling {
    FOVEA_ROPE_UNSCALED = 0,
    FOVEA_ROPE_LINEAR = 1,
    FOVEA_ROPE_NTK = 2,
    FOVEA_ROPE_YARN = 3,
    FOVEA_ROPE_LLAMA3 = 4
} fovea_rope_scaling;
typedef struct fovea_rope_desc {
    size_t struct_size;
    int64_t rotary_dim;
    fovea_rope_pairing pairing;
    fovea_rope_scaling scaling;
    double base;
    double factor;
    double original_positions;
    double beta_fast, beta_slow;
    double attention_factor;
    double low_frequency, high_frequency;
    const float *divisors;
} fovea_rope_desc;
#define fovea_rope_desc_init(desc) fovea_rope_desc_init_size((desc), sizeof(fovea_rope_desc))
void fovea_rope_desc_init_size(fovea_rope_desc *desc, size_t size);
typedef struct fovea_rope fovea_rope;
#define FOVEA_ROPE_MAX_POSITION 16777215
fovea_status fovea_rope_create(const fovea_rope_desc *desc, fovea_rope **rope);
void fovea_rope_destroy(fovea_rope *rope);
fovea_status fovea_rope_apply(const fovea_context *ctx, const fovea_rope *rope, const fovea_tensor *x,
                              const int64_t *positions, const fovea_tensor *y);
#define FOVEA_KV_PAGE_KEYS 256
typedef struct fovea_kv_cache_desc {
    size_t struct_size;
    int64_t layers;
    int64_t kv_heads;
    int64_t head_dim;
    int64_t value_dim;
    fovea_dtype k_dtype, v_dtype;
    int64_t max_pages;
    int64_t max_bytes;
    const int64_t *windows;
    const fovea_rope *rope;
} fovea_kv_cache_desc;
#define fovea_kv_cache_desc_init(desc) fovea_kv_cache_desc_init_size((desc), sizeof(fovea_kv_cache_desc))
void fovea_kv_cache_desc_init_size(fovea_kv_cache_desc *desc, size_t size);
typedef struct fovea_kv_cache fovea_kv_cache;
fovea_status fovea_kv_cache_create(const fovea_context *ctx, const fovea_kv_cache_desc *desc, fovea_kv_cache **cache);
void fovea_kv_cache_destroy(fovea_kv_cache *cache);
fovea_status fovea_kv_cache_add(fovea_kv_cache *cache, int64_t *sequence);
fovea_status fovea_kv_cache_fork(fovea_kv_cache *cache, int64_t sequence, int64_t *fork);
fovea_status fovea_kv_cache_remove(fovea_kv_cache *cache, int64_t sequence);
void fovea_kv_cache_clear(fovea_kv_cache *cache);
fovea_status fovea_kv_cache_length(fovea_kv_cache *cache, int64_t layer, int64_t sequence, int64_t *length);
fovea_status fovea_kv_cache_reserve(fovea_kv_cache *cache, int64_t count, const int64_t *sequences,
                                    const int64_t *tokens);
typedef struct fovea_kv_append {
    size_t struct_size;
    int64_t layer;
    int64_t count;
    const int64_t *sequences;
    fovea_tensor k;
    fovea_tensor v;
    const int64_t *lens;
    const int64_t *cu_seqlens;
    int64_t rotated;
} fovea_kv_append;
#define fovea_kv_append_init(append) fovea_kv_append_init_size((append), sizeof(fovea_kv_append))
void fovea_kv_append_init_size(fovea_kv_append *append, size_t size);
fovea_status fovea_kv_cache_append(fovea_kv_cache *cache, const fovea_kv_append *append);
fovea_status fovea_kv_cache_truncate(fovea_kv_cache *cache, int64_t sequence, int64_t length);
fovea_status fovea_kv_cache_evict(fovea_kv_cache *cache, int64_t sequence, int64_t begin, int64_t end);
typedef struct fovea_kv_stats {
    size_t struct_size;
    int64_t page_bytes;
    int64_t token_bytes;
    int64_t max_pages;
    int64_t used_pages;
    int64_t shared_pages;
    int64_t sequences;
    int64_t appended_tokens;
    int64_t copied_pages;
    int64_t window_pages;
    int64_t evicted_pages;
    int64_t peak_pages;
} fovea_kv_stats;
#define fovea_kv_stats_init(stats) fovea_kv_stats_init_size((stats), sizeof(fovea_kv_stats))
void fovea_kv_stats_init_size(fovea_kv_stats *stats, size_t size);
fovea_status fovea_kv_cache_stats(fovea_kv_cache *cache, fovea_kv_stats *stats);
fovea_status fovea_kv_cache_save(fovea_kv_cache *cache, int64_t sequence, void *data, size_t size, size_t *needed);
fovea_status fovea_kv_cache_load(fovea_kv_cache *cache, const void *data, size_t size, int64_t *sequence);
typedef struct fovea_kv_pages {
    size_t struct_size;
    fovea_tensor k;
    fovea_tensor v;
    const int32_t *table;
    int64_t table_stride;
    const int32_t *starts;
} fovea_kv_pages;
#define fovea_kv_pages_init(pages) fovea_kv_pages_init_size((pages), sizeof(fovea_kv_pages))
void fovea_kv_pages_init_size(fovea_kv_pages *pages, size_t size);
typedef enum fovea_mask_kind {
    FOVEA_MASK_NONE = 0,
    FOVEA_MASK_BOOLEAN = 1,
    FOVEA_MASK_ADDITIVE = 2,
    FOVEA_MASK_BITS = 3,
    FOVEA_MASK_KEY_PADDING = 4,
    FOVEA_MASK_RANGES = 5,
    FOVEA_MASK_BLOCKS = 6,
    FOVEA_MASK_PREPARED = 7
} fovea_mask_kind;
typedef struct fovea_mask_desc {
    size_t struct_size;
    fovea_mask_kind kind;
    int64_t batch;
    int64_t q_heads;
    int64_t q_len, kv_len;
    fovea_tensor mask;
    int64_t block_rows, block_keys;
    const int64_t *blocks;
    int64_t block_count;
} fovea_mask_desc;
#define fovea_mask_desc_init(desc) fovea_mask_desc_init_size((desc), sizeof(fovea_mask_desc))
void fovea_mask_desc_init_size(fovea_mask_desc *desc, size_t size);
typedef struct fovea_mask fovea_mask;
fovea_status fovea_mask_create(const fovea_context *ctx, const fovea_mask_desc *desc, fovea_mask **mask);
fovea_status fovea_mask_bits(const fovea_mask *mask, void *bits);
void fovea_mask_destroy(fovea_mask *mask);
typedef enum fovea_causal {
    FOVEA_CAUSAL_NONE = 0,
    FOVEA_CAUSAL_TOP_LEFT = 1,
    FOVEA_CAUSAL_BOTTOM_RIGHT = 2,
    FOVEA_CAUSAL_OFFSET = 3
} fovea_causal;
typedef enum fovea_relative {
    FOVEA_RELATIVE_NONE = 0,
    FOVEA_RELATIVE_ALIBI = 1,
    FOVEA_RELATIVE_TOEPLITZ = 2,
    FOVEA_RELATIVE_T5 = 3,
    FOVEA_RELATIVE_WINDOW_2D = 4
} fovea_relative;
typedef struct fovea_attention_desc {
    size_t struct_size;
    int64_t batch;
    int64_t q_heads;
    int64_t kv_heads;
    int64_t q_len;
    int64_t kv_len;
    int64_t head_dim;
    int64_t value_dim;
    fovea_dtype dtype;
    fovea_dtype k_dtype, v_dtype, out_dtype;
    fovea_arithmetic arithmetic;
    double scale;
    double softcap;
    int has_scale;
    int has_bias;
    int has_sinks;
    fovea_relative relative;
    int relative_bidirectional;
    int64_t relative_buckets;
    int64_t relative_max_distance;
    int64_t relative_height;
    int64_t relative_width;
    fovea_causal causal;
    fovea_mask_kind mask;
    int64_t window_left;
    int64_t window_right;
    int64_t mask_block_rows, mask_block_keys;
    int packed;
    int64_t page_keys;
} fovea_attention_desc;
#define fovea_attention_desc_init(desc) fovea_attention_desc_init_size((desc), sizeof(fovea_attention_desc))
void fovea_attention_desc_init_size(fovea_attention_desc *desc, size_t size);
typedef struct fovea_attention_stats {
    size_t struct_size;
    int64_t visited_tiles, skipped_tiles;
    int64_t full_tiles;
    int64_t fast_tiles;
    int64_t shared_prefixes;
    int64_t split_blocks;
} fovea_attention_stats;
#define fovea_attention_stats_init(stats) fovea_attention_stats_init_size((stats), sizeof(fovea_attention_stats))
void fovea_attention_stats_init_size(fovea_attention_stats *stats, size_t size);
typedef struct fovea_attention_state fovea_attention_state;
typedef struct fovea_attention_scores fovea_attention_scores;
typedef struct fovea_attention_summary fovea_attention_summary;
typedef struct fovea_attention_args {
    size_t struct_size;
    fovea_tensor q;
    fovea_tensor k;
    fovea_tensor v;
    fovea_tensor out;
    fovea_tensor lse;
    const int64_t *q_lens;
    const int64_t *kv_lens;
    const int64_t *q_starts;
    const int64_t *kv_starts;
    const int64_t *q_offsets;
    const int64_t *q_cu_seqlens;
    const int64_t *kv_cu_seqlens;
    fovea_tensor mask;
    const fovea_mask *prepared;
    const int64_t *mask_blocks;
    int64_t mask_block_count;
    const void *key_list;
    fovea_tensor bias;
    fovea_tensor relative;
    const float *sinks;
    fovea_kv_cache *cache;
    int64_t cache_layer;
    const int64_t *cache_sequences;
    const fovea_kv_pages *pages;
    fovea_attention_state *state;
    int64_t first_key;
    fovea_tensor weights;
    const fovea_attention_scores *scores;
    const fovea_attention_summary *summary;
    fovea_attention_stats *stats;
} fovea_attention_args;
#define fovea_attention_args_init(args) fovea_attention_args_init_size((args), sizeof(fovea_attention_args))
void fovea_attention_args_init_size(fovea_attention_args *args, size_t size);
typedef struct fovea_attention_plan fovea_attention_plan;
fovea_status fovea_attention_plan_create(const fovea_context *ctx, const fovea_attention_desc *desc,
                                         fovea_attention_plan **plan);
void fovea_attention_plan_destroy(fovea_attention_plan *plan);
size_t fovea_attention_plan_workspace_size(const fovea_attention_plan *plan);
fovea_arithmetic fovea_attention_plan_arithmetic(const fovea_attention_plan *plan);
size_t fovea_attention_plan_describe(const fovea_attention_plan *plan, char *text, size_t size);
fovea_status fovea_attention_execute(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                     void *workspace, size_t workspace_size);
fovea_status fovea_sdpa_f32(const float *q, const float *k, const float *v, float *out, int64_t batch, int64_t q_heads,
                            int64_t kv_heads, int64_t q_len, int64_t kv_len, int64_t head_dim, int64_t value_dim,
                            fovea_causal causal);
fovea_tensor fovea_tensor_broadcast(void *data, fovea_dtype dtype, int rank, const int64_t *shape);
fovea_status fovea_from_torch_mha(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                                  const uint8_t *key_padding_mask, int64_t keys, int is_causal, uint8_t *buffer);
fovea_status fovea_from_torch_key(fovea_tensor tensor, int64_t token, const float *value);
fovea_status fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                             int is_causal, int64_t past_length, const int64_t *nonpad_kv_seqlen, int64_t *buffer);
fovea_status fovea_from_ort_gqa(fovea_attention_desc *desc, fovea_attention_args *args, const int32_t *seqlens_k,
                                int is_prompt, int64_t local_window_size, int64_t *buffer);
fovea_status fovea_from_flash(fovea_attention_desc *desc, fovea_attention_args *args, int causal, int64_t window_left,
                              int64_t window_right, int64_t *buffer);
fovea_status fovea_from_flash_varlen(fovea_attention_desc *desc, fovea_attention_args *args, int64_t batch,
                                     const int32_t *cu_seqlens_q, const int32_t *cu_seqlens_k, int64_t max_seqlen_q,
                                     int64_t max_seqlen_k, int causal, int64_t window_left, int64_t window_right,
                                     int64_t *buffer);
fovea_status fovea_from_flash_kvcache(fovea_attention_desc *desc, fovea_attention_args *args,
                                      const int32_t *cache_seqlens, int64_t new_keys, const int32_t *cache_leftpad,
                                      int causal, int64_t window_left, int64_t window_right, int64_t *buffer);
fovea_status fovea_from_keras(fovea_attention_desc *desc, fovea_attention_args *args, const uint8_t *query_mask,
                              const uint8_t *value_mask, const uint8_t *key_mask, fovea_tensor attention_mask,
                              int use_causal_mask, uint8_t *buffer);
typedef enum fovea_activation {
    FOVEA_ACTIVATION_NONE = 0,
    FOVEA_ACTIVATION_RELU = 1,
    FOVEA_ACTIVATION_GELU = 2,
    FOVEA_ACTIVATION_GELU_TANH = 3,
    FOVEA_ACTIVATION_SILU = 4,
    FOVEA_ACTIVATION_SILU_GATED = 5
} fovea_activation;
typedef struct fovea_linear_part {
    fovea_matrix weight;
    const void *bias;
    fovea_dtype bias_dtype;
    int has_scale;
    double scale;
    const void *reserved;
} fovea_linear_part;
typedef struct fovea_linear_desc {
    size_t struct_size;
    int64_t in_features;
    fovea_dtype dtype;
    fovea_dtype y_dtype;
    fovea_dtype residual_dtype;
    fovea_arithmetic arithmetic;
    fovea_activation activation;
    int64_t part_count;
    fovea_linear_part part;
    const fovea_linear_part *parts;
} fovea_linear_desc;
#define fovea_linear_desc_init(desc) fovea_linear_desc_init_size((desc), sizeof(fovea_linear_desc))
void fovea_linear_desc_init_size(fovea_linear_desc *desc, size_t size);
typedef struct fovea_linear fovea_linear;
fovea_status fovea_linear_create(const fovea_context *ctx, const fovea_linear_desc *desc, fovea_linear **linear);
fovea_status fovea_linear_unpack(const fovea_linear *linear, int64_t part, void *weight, float *bias,
                                 fovea_dtype *dtype);
fovea_status fovea_linear_unpack_scales(const fovea_linear *linear, int64_t part, float *scales);
void fovea_linear_destroy(fovea_linear *linear);
size_t fovea_linear_workspace_size(const fovea_linear *linear);
size_t fovea_linear_describe(const fovea_linear *linear, char *text, size_t size);
typedef struct fovea_linear_stats {
    size_t struct_size;
    int64_t products;
    int64_t fast_products;
} fovea_linear_stats;
#define fovea_linear_stats_init(stats) fovea_linear_stats_init_size((stats), sizeof(fovea_linear_stats))
void fovea_linear_stats_init_size(fovea_linear_stats *stats, size_t size);
typedef struct fovea_linear_args {
    size_t struct_size;
    fovea_tensor x;
    const fovea_tensor *y;
    const fovea_tensor *residual;
    const int64_t *lens;
    fovea_linear_stats *stats;
    int has_activation;
    fovea_activation activation;
} fovea_linear_args;
#define fovea_linear_args_init(args) fovea_linear_args_init_size((args), sizeof(fovea_linear_args))
void fovea_linear_args_init_size(fovea_linear_args *args, size_t size);
fovea_status fovea_linear_execute(const fovea_linear *linear, const fovea_linear_args *args, void *workspace,
                                  size_t workspace_size);
typedef enum fovea_mha_form {
    FOVEA_MHA_FACTORED = 0,
    FOVEA_MHA_MERGED = 1,
    FOVEA_MHA_FOLDED = 2,
    FOVEA_MHA_PROJECTED = 3,
    FOVEA_MHA_TIED = 4,
    FOVEA_MHA_FUSED = 5
} fovea_mha_form;
typedef enum fovea_mha_inputs { FOVEA_MHA_SELF = 0, FOVEA_MHA_CROSS = 1, FOVEA_MHA_SEPARATE = 2 } fovea_mha_inputs;
typedef enum fovea_mha_merge { FOVEA_MHA_MERGE_QUERIES = 0, FOVEA_MHA_MERGE_KEYS = 1 } fovea_mha_merge;
typedef enum fovea_mha_fold {
    FOVEA_MHA_FOLD_NEVER = 0,
    FOVEA_MHA_FOLD_CHEAPER = 1,
    FOVEA_MHA_FOLD_ALWAYS = 2
} fovea_mha_fold;
typedef enum fovea_mha_order { FOVEA_MHA_ORDER_QKV = 0, FOVEA_MHA_ORDER_GROUPED = 1 } fovea_mha_order;
typedef struct fovea_mha_desc {
    size_t struct_size;
    fovea_mha_form form;
    fovea_mha_merge merge;
    fovea_mha_fold fold_values;
    const fovea_attention_desc *attention;
    int64_t q_tokens;
    int64_t kv_tokens;
    fovea_mha_inputs inputs;
    int64_t q_features;
    int64_t k_features;
    int64_t v_features;
    int64_t out_features;
    int biases;
    double norm_eps;
} fovea_mha_desc;
#define fovea_mha_desc_init(desc) fovea_mha_desc_init_size((desc), sizeof(fovea_mha_desc))
void fovea_mha_desc_init_size(fovea_mha_desc *desc, size_t size);
typedef struct fovea_mha_weights {
    size_t struct_size;
    fovea_matrix q, k, v;
    fovea_matrix o;
    int64_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;
    fovea_dtype bias_dtype;
    const void *q_bias, *k_bias, *v_bias, *o_bias;
    const void *q_norm, *k_norm;
    fovea_matrix outer_q, outer_k, outer_v;
    const void *outer_q_bias, *outer_k_bias, *outer_v_bias;
    const fovea_matrix *merged;
    fovea_mha_order order;
    fovea_matrix fused;
    const void *fused_bias;
} fovea_mha_weights;
#define fovea_mha_weights_init(weights) fovea_mha_weights_init_size((weights), sizeof(fovea_mha_weights))
void fovea_mha_weights_init_size(fovea_mha_weights *weights, size_t size);
typedef struct fovea_mha fovea_mha;
fovea_status fovea_mha_create(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *weights,
                              fovea_mha **mha);
fovea_status fovea_mha_reshape(const fovea_mha *mha, int64_t batch, int64_t q_len, int64_t kv_len, fovea_mha **other);
fovea_status fovea_mha_linear(const fovea_mha *mha, int weight, const fovea_linear **linear, int64_t *part, int64_t *in,
                              int64_t *out);
void fovea_mha_destroy(fovea_mha *mha);
size_t fovea_mha_workspace_size(const fovea_mha *mha);
fovea_status fovea_mha_execute(const fovea_mha *mha, const fovea_attention_args *args, void *workspace,
                               size_t workspace_size);
typedef struct fovea_mha_costs {
    size_t struct_size;
    double parameters;
    double projection_flops;
    double attention_flops;
    double output_flops;
    double bytes;
    double scratch;
} fovea_mha_costs;
#define fovea_mha_costs_init(cost) fovea_mha_costs_init_size((cost), sizeof(fovea_mha_costs))
void fovea_mha_costs_init_size(fovea_mha_costs *cost, size_t size);
fovea_status fovea_mha_desc_costs(const fovea_mha_desc *desc, fovea_mha_costs *cost);
typedef struct fovea_norm_args {
    size_t struct_size;
    fovea_tensor x;
    fovea_tensor y;
    const void *weight;
    const void *bias;
    fovea_dtype weight_dtype;
    fovea_dtype bias_dtype;
    double eps;
    void *workspace;
    size_t workspace_size;
} fovea_norm_args;
#define fovea_norm_args_init(args) fovea_norm_args_init_size((args), sizeof(fovea_norm_args))
void fovea_norm_args_init_size(fovea_norm_args *args, size_t size);
fovea_status fovea_rms_norm(const fovea_context *ctx, const fovea_norm_args *args);
fovea_status fovea_layer_norm(const fovea_context *ctx, const fovea_norm_args *args);
size_t fovea_norm_workspace_size(const fovea_context *ctx, const fovea_norm_args *args);
typedef enum fovea_score_kind {
    FOVEA_SCORES_RAW = 0,
    FOVEA_SCORES_CAPPED = 1,
    FOVEA_SCORES_BIASED = 2,
    FOVEA_SCORES_WEIGHTS = 3
} fovea_score_kind;
struct fovea_attention_scores {
    size_t struct_size;
    fovea_score_kind kind;
    const int64_t *heads;
    int64_t first_head, first_query, first_key;
    fovea_tensor out;
};
#define fovea_attention_scores_init(scores) fovea_attention_scores_init_size((scores), sizeof(fovea_attention_scores))
void fovea_attention_scores_init_size(fovea_attention_scores *scores, size_t size);
struct fovea_attention_summary {
    size_t struct_size;
    fovea_tensor key_sums;
    fovea_tensor entropy;
    fovea_tensor max_weight;
    fovea_tensor top_keys;
    fovea_tensor top_weights;
};
#define fovea_attention_summary_init(summary)                                                                          \
    fovea_attention_summary_init_size((summary), sizeof(fovea_attention_summary))
void fovea_attention_summary_init_size(fovea_attention_summary *summary, size_t size);
typedef struct fovea_attention_part {
    fovea_tensor out;
    fovea_tensor lse;
} fovea_attention_part;
fovea_status fovea_attention_merge(const fovea_attention_part *parts, int64_t count, const float *sinks,
                                   const fovea_attention_part *whole);
size_t fovea_attention_plan_state_size(const fovea_attention_plan *plan);
fovea_status fovea_attention_state_init(const fovea_attention_plan *plan, void *memory, size_t size,
                                        fovea_attention_state **state);
fovea_status fovea_attention_state_merge(fovea_attention_state *state, const fovea_attention_state *later);
typedef struct fovea_tuning fovea_tuning;
fovea_status fovea_tuning_load(const char *path, fovea_tuning **tuning);
fovea_status fovea_tuning_save(const fovea_tuning *tuning, const char *path);
fovea_status fovea_tuning_merge(fovea_tuning *into, const fovea_tuning *from);
typedef struct fovea_tuning_match {
    size_t struct_size;
    int found;
    int line;
    double gain;
    double gain_low;
    double gain_high;
    char row[1024];
    char reason[256];
} fovea_tuning_match;
#define fovea_tuning_match_init(match) fovea_tuning_match_init_size((match), sizeof(fovea_tuning_match))
void fovea_tuning_match_init_size(fovea_tuning_match *match, size_t size);
fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                                 fovea_tuning_match *match);
void fovea_tuning_destroy(fovea_tuning *tuning);
#endif
