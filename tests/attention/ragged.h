/* Sequences of a problem, put elsewhere: padded on one side or both, or on one token axis. What is no sequence's holds
 * NaN (boolean masks: attend); operands end, or begin, at a forbidden page. */
#ifndef FOVEA_TESTS_RAGGED_H
#define FOVEA_TESTS_RAGGED_H

#include "attention_case.h"
#include "guard.h"
#include "mask_words.h"

typedef enum place_kind {
    PLACE_ALONE,
    PLACE_LEFT,
    PLACE_START,
    PLACE_BOTH,
    PLACE_PACKED,
    PLACE_GAPS,
    PLACES,
    PLACE_PAGED = PLACES /* queries packed; keys, still to be put into pages, padded on the right */
} place_kind;

enum { MOST_BATCH = 8, OPERANDS = 8 };

/* A tensor in memory of its own. */
typedef struct placed {
    fovea_tensor t;
    guard *memory;
} placed;

/* Some sequences of a problem, put elsewhere. */
typedef struct ragged {
    place_kind kind;
    fovea_attention_desc desc;
    fovea_attention_args args;
    int64_t first, count;                                /* of the problem's sequences */
    int64_t q_at[MOST_BATCH + 1], kv_at[MOST_BATCH + 1]; /* of packed ones the end of the last, too */
    int64_t q_len[MOST_BATCH], kv_len[MOST_BATCH], offset[MOST_BATCH];
    placed q, k, v, mask, bias, out, lse, weights;
} ragged;

bool ragged_packed(const ragged *x);

extern const char *const place_words[PLACES + 1];

/* The problem with its mask said as c->say_mask, if that can be. Freed by mask_words_free(). */
mask_words ragged_said(const fovea_context *ctx, const ragged *x, const attention_case *c, const inputs *in);

/* Fills the outputs with a number that no result is. */
void ragged_clear(const ragged *x);

/* Checks whole outputs against the problem's, computed in one call: padding, in the columns around a sequence's keys,
 * too, is +0 (lse -inf); of packed sequences it is not written. */
void ragged_check(const ragged *x, const outputs *want, const char *text);

/* The batch entry of a sequence in its tensors. */
int64_t ragged_entry(const ragged *x, int64_t n);

/* Puts sequences [first, first + count) of a problem there, at places that are drawn. */
void ragged_make(ragged *x, place_kind kind, const attention_case *c, const inputs *in, int64_t first, int64_t count,
                 rng *r);
void ragged_free(ragged *x);

/* Copies the rows of a sequence: count tokens of all heads, from token 0 of entry b on to token at of another entry. */
void ragged_copy_rows(const fovea_tensor *from, int64_t b, const fovea_tensor *to, int64_t entry, int64_t at,
                      int64_t count);

/* The same of a tensor that has a column for each key. */
void ragged_copy_columns(const ragged *x, int64_t n, const fovea_tensor *from, const fovea_tensor *to, int64_t entry);

#endif
