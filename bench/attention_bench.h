/* Shared by attention.c, which times attentions, attention_data.c, which makes their operands, and attention_check.c,
 * which checks their results. */
#ifndef BENCH_ATTENTION_BENCH_H
#define BENCH_ATTENTION_BENCH_H

#include <stdbool.h>

#include "bench.h"

/* The byte that fills an output before it is computed. Four of them are no value that the library writes: its NaN is
 * another. */
enum { ATTENTION_UNWRITTEN = 0xff };

typedef enum memory_layout { LAYOUT_BHTD, LAYOUT_BTHD } memory_layout;

/* fovea_attention_execute, or fovea_sdpa_f32. */
typedef enum attention_call { CALL_PLAN, CALL_SDPA } attention_call;

/* Keys that a mask lets rows see: all but one key in eight, no key after the row, one of 16 documents, all but the last
 * eighth. */
typedef enum attention_pattern {
    PATTERN_SCATTERED,
    PATTERN_CAUSAL,
    PATTERN_DOCUMENTS,
    PATTERN_PADDED
} attention_pattern;

/* Outputs of an attention: out, and what args may ask for besides. */
enum { ATTENTION_OUTPUTS = 3 };

/* Outputs besides out: scores of a kind, sums of keys, or all statistics of rows. */
typedef enum attention_beside {
    BESIDE_NOTHING,
    BESIDE_RAW,
    BESIDE_CAPPED,
    BESIDE_BIASED,
    BESIDE_WEIGHTS,
    BESIDE_KEY_SUMS,
    BESIDE_ROWS
} attention_beside;

typedef struct attention {
    bench base;
    fovea_attention_desc desc;
    int64_t q_shortest, kv_shortest; /* lengths fall to these; -1: none are given */
    bool halved;                     /* each is half of the one before, not evenly less */
    int64_t keys, values;            /* sources, as words of bench_keys_words; 0: the default */
    int64_t pieces, prefix;          /* 1 and 0: attention goes through no state (attention_state.c) */
    int64_t offset;                  /* of all sequences, if has_offset; else 0 */
    bool has_offset, lse, weights;
    memory_layout layout;
    attention_call call;
    attention_pattern pattern;
    attention_beside beside;
    double pairs; /* attended to, of rows and keys */
    /* From begin to end. */
    fovea_attention_plan *plan;
    fovea_attention_args args;
    int64_t *lengths;  /* what args.q_lens, args.kv_lens and args.q_offsets point into: [3][batch] */
    fovea_tensor seen; /* what a mask that selects keys lets rows see, as bytes */
    fovea_mask *prepared;
    int64_t *blocks;
    fovea_attention_scores scores; /* what args.scores and args.summary point to */
    fovea_attention_summary summary;
#define FOVEA_ARGS_HEADS(name, flag, text) float *name; /* as args has it */
#include "fovea/fields.inc"
    void *workspace;
    size_t workspace_size;
    fovea_attention_plan *prefix_plan;
    void *state;
    size_t state_size;
    int64_t *piece_lens; /* [batch] */
} attention;

/* From the first to the last element of a tensor. */
static inline int64_t attention_elements(const fovea_tensor *t) {
    int64_t last = 1;
    for (int i = 0; i < 4; i++)
        last += (t->shape[i] - 1) * t->stride[i];
    return last;
}

/* An output by number; its data is NULL if it is not asked for. */
static inline fovea_tensor *attention_output(fovea_attention_args *args, int i) {
    fovea_tensor *const all[ATTENTION_OUTPUTS] = {&args->out, &args->lse, &args->weights};
    return all[i];
}

/* One sequence of the batch. */
typedef struct attention_sequence {
    int64_t q_len, kv_len;
    int64_t offset; /* the position of query 0 among the keys */
} attention_sequence;

/* From the longest, sequence 0, to the shortest; a batch of one has the shortest. */
static inline int64_t attention_length(const attention *self, int64_t longest, int64_t shortest, int64_t b) {
    const int64_t batch = self->desc.batch;
    if (shortest < 0)
        return longest;
    if (self->halved && batch > 1) {
        const int64_t half = b < 63 ? longest >> b : 0;
        return half > shortest ? half : shortest;
    }
    return batch == 1 ? shortest : longest - (longest - shortest) * b / (batch - 1);
}

static inline attention_sequence attention_sequence_of(const attention *self, int64_t b) {
    const fovea_attention_desc *desc = &self->desc;
    attention_sequence s = {.q_len = attention_length(self, desc->q_len, self->q_shortest, b),
                            .kv_len = attention_length(self, desc->kv_len, self->kv_shortest, b)};
    s.offset = desc->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? s.kv_len - s.q_len : self->offset;
    return s;
}

/* Where a sequence begins in the tensors, b = desc.batch: where the last one ends. */
typedef struct attention_place {
    int64_t entry, q_start, kv_start;
} attention_place;

static inline attention_place attention_place_of(const attention *self, int64_t b) {
    attention_place p = {b, 0, 0};
    if (!self->desc.packed)
        return p;
    p.entry = 0;
    for (int64_t i = 0; i < b; i++) {
        const attention_sequence s = attention_sequence_of(self, i);
        p.q_start += s.q_len;
        p.kv_start += s.kv_len;
    }
    return p;
}

/* Makes self->args for the shape and options of the case, outputs unwritten; NULL, or what is wrong. */
const char *attention_make_arguments(attention *self);

/* attention_mask.c: what is wrong with a kind of mask and its pattern, or NULL; block sizes; the mask of args, of which
 * the context is there; NULL, or what is wrong. */
const char *attention_mask_problem(const attention *self);
void attention_mask_blocks(fovea_attention_desc *desc);
const char *attention_make_mask(attention *self);
void attention_free_mask(attention *self);

/* attention_beside.c: words of attention_beside; makes and frees what is asked for, the other arguments being there;
 * NULL, or what is wrong. */
extern const char *const attention_beside_words[];
const char *attention_make_beside(attention *self);
void attention_free_beside(attention *self);

/* attention_state.c: does it go through a state? What is wrong with that, or NULL; its plans and memory, the context
 * being there; keys that k and v have room for; makes keys of the prefix those of the first sequence; executes;
 * frees. */
bool attention_has_state(const attention *self);
const char *attention_state_problem(const attention *self);
const char *attention_state_plans(attention *self);
int64_t attention_state_room(const attention *self);
void attention_state_share(attention *self);
fovea_status attention_state_execute(attention *self);
void attention_state_end(attention *self);

/* Pairs of a row and a key that it attends to: of one head of a sequence (boolean: its mask, or NULL), and of all.
 * Bytes of all operands. */
double attention_pairs_of(const fovea_attention_desc *desc, const attention_sequence *s, const uint8_t *boolean);
double attention_pairs(const attention *self);
double attention_bytes(attention *self);

/* Checks the outputs that were just computed into self->args; NULL, or what is wrong with them. */
const char *attention_check(attention *self);

#endif
