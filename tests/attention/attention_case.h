/* Attention problems for tests: a case says what is to be computed, inputs and outputs hold its memory.
 *
 *     attention_case c = case_plain(1, 2, 2, 70, 70, 16, 16);   or case_random(&r, work)
 *     inputs *in = inputs_make(&c, &r);
 *     outputs *out = outputs_make(&c, c.layout);
 *     case_run(ctx, NULL, &c, in, out);                          counts a failed check if the library refuses
 *     outputs_same(out, other, "threads %d", n);                 one check: every byte, gaps between rows too
 *
 * All memory that a correct library does not read holds poison (NaN): gaps between rows, rows and keys past a
 * sequence's length, the mask there. All memory of outputs holds a canary first, so gaps and forgotten elements show
 * up. */
#ifndef FOVEA_TESTS_ATTENTION_CASE_H
#define FOVEA_TESTS_ATTENTION_CASE_H

#include "attention/attention.h"
#include "mask_words.h"
#include "test.h"

typedef enum case_layout {
    LAYOUT_BHTD,
    LAYOUT_BTHD,
    LAYOUT_PACKED, /* q, k, v of a token one after another: [batch, token, (q heads, k heads, v heads) x channels] */
    LAYOUT_ODD,    /* BHTD with gaps of odd sizes after rows, heads and sequences */
    LAYOUT_COUNT
} case_layout;

typedef enum case_values {
    VALUES_RANDOM,    /* normal */
    VALUES_EQUAL,     /* all keys are the same: equal scores */
    VALUES_ONE_HUGE,  /* one key takes all of the weight */
    VALUES_RISING,    /* every key is a new maximum: the running maximum moves at each */
    VALUES_FALLING,   /* the first key is the maximum, later ones underflow */
    VALUES_OVERFLOW,  /* scores that reach +-infinity, and NaN by inf - inf */
    VALUES_SUBNORMAL, /* all of q, k and v below or near the smallest normal */
    VALUES_COUNT
} case_values;

typedef struct attention_case {
    fovea_attention_desc desc;
    case_layout layout;
    case_values values;
    bool q_lens, kv_lens, q_offsets; /* which of these are given */
    bool lse, weights;               /* which optional outputs are asked for */
    bool mask_repeats[4];            /* axes along which the mask is broadcast */
    bool bias_repeats[4];            /* axes along which the bias is */
    int64_t relative_entries;        /* TOEPLITZ: of a head */
    bool relative_repeats[2];        /* is relative the same for all sequences, for all heads? */
    float mask_density;              /* share of keys that the mask lets through; of the rest, the bias half */
    fovea_mask_kind say_mask; /* a boolean mask is given to the library as this kind, if it can be; 0: as it is */
} attention_case;

typedef struct inputs {
    fovea_attention_args args; /* outputs absent */
    int64_t *q_lens, *kv_lens, *q_offsets;
    float *sinks;
    void *memory[6]; /* of q, k, v, mask, bias, relative; k and v are NULL where q's block holds them (packed) */
} inputs;

typedef struct outputs {
    fovea_tensor out, lse, weights;
    float *memory; /* all three, gaps included */
    int64_t floats;
} outputs;

/* Everything at its default: no mask, contiguous, random values, lse asked for. */
attention_case case_plain(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                          int64_t head_dim, int64_t value_dim);

/* Any combination of everything, of at most work multiply-adds. */
attention_case case_random(rng *r, int64_t work);

/* Adds to a case anything that happens to scores other than scale and mask. Golden problems are without. */
void case_random_scores(attention_case *c, rng *r);

/* Adds feature i to a case: everything that happens to scores and every kind of mask, one after another. */
enum { CASE_FEATURES = 4 + FOVEA_RELATIVE_WINDOW_2D + FOVEA_MASK_PREPARED };
void case_feature(attention_case *c, int i);

/* Any tile: product rows of the tier under test, blocks of any size. */
fv_attention_choice choice_random(rng *r);

/* A line that says all about it. Returns text. */
const char *case_text(const attention_case *c, char *text, size_t size);

/* Inputs as the case says, from the stream. The lengths are drawn too: some are 0, some whole. */
inputs *inputs_make(const attention_case *c, rng *r);

/* The same with lengths and offsets given, each [batch] or NULL (drawn); ignored where the case has none. */
inputs *inputs_make_given(const attention_case *c, rng *r, const int64_t *q_lens, const int64_t *kv_lens,
                          const int64_t *q_offsets);
void inputs_free(inputs *in);

/* Outputs filled with the canary. PACKED is taken as BTHD. */
outputs *outputs_make(const attention_case *c, case_layout layout);
void outputs_free(outputs *out);
void outputs_clear(outputs *out); /* the canary again */

/* inputs' arguments with these outputs. */
fovea_attention_args case_args(const inputs *in, const outputs *out);

/* The problem with its mask said as c->say_mask, if that can be. Freed by mask_words_free(). */
mask_words case_said(const fovea_context *ctx, const attention_case *c, const fovea_attention_args *args);

/* Makes a plan with choice (NULL: the planner's), runs it once in a workspace of exactly its size, destroys it. */
bool case_run(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c, const inputs *in,
              outputs *out);

/* One check: all bytes equal. */
bool outputs_same(const outputs *got, const outputs *want, const char *format, ...) TEST_PRINTF(3, 4);

/* Checks that a call gave the status it should, and if that is a failure, that the sentence holds all of the words (one
 * string, separated by |; NULL: none). */
void check_status(const char *what, fovea_status got, fovea_status want, const char *words);

/* fovea_convert() of n elements, a failed check if it refuses. */
void convert_elements(int64_t n, const void *from, fovea_dtype from_dtype, void *to, fovea_dtype to_dtype);

/* Elements of a tensor from the first to the last, gaps included. */
int64_t tensor_elements(const fovea_tensor *tensor);

/* A pointer to element (b, h, t, 0). */
float *tensor_row(const fovea_tensor *tensor, int64_t b, int64_t h, int64_t t);

/* The part of a tensor from token first on, tokens of them. */
fovea_tensor tensor_tokens(fovea_tensor tensor, int64_t first, int64_t tokens);

/* A context of that tier; threads 0: the default. p, if not NULL, is its pool (pool.h). Ends the program if it
 * fails. */
struct thread_pool;
fovea_context *context_of(fovea_isa isa, int threads, struct thread_pool *p);
/* On a pool of the library's own, with that many threads even where there are fewer CPUs. */
fovea_context *context_with_pool(int threads);

/* Contexts that must all give the same bits: the scalar tier on one thread, and the best on one thread, the default
 * number of them, a pool of three, and that pool taken for one of 40. */
typedef struct case_contexts {
    fovea_context *scalar, *one, *own, *three, *many;
    struct thread_pool *threads;
} case_contexts;

case_contexts contexts_make(void);
void contexts_free(const case_contexts *x);

/* Makes a plan or a layer, executes it once without a workspace, and destroys it. */
fovea_status attention_once(const fovea_context *ctx, const fovea_attention_desc *desc,
                            const fovea_attention_args *args);
fovea_status mha_once(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *weights,
                      const fovea_attention_args *args);

/* Likewise; a check. */
bool attention_runs(const fovea_context *ctx, const fovea_attention_desc *desc, const fovea_attention_args *args);

/* malloc that ends the program. */
void *must_alloc(int64_t n, size_t size);

#endif
