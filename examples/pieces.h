/* Pieces of keys and values, as keys_on_disk.c and stream.c read them: [token][keys, values][head][channel],
 * float32. */
#ifndef PIECES_H
#define PIECES_H

#include <fovea/fovea.h>

enum { HEADS = 8, DIM = 64, QUERIES = 4, ROW = 2 * HEADS * DIM };

/* Stands for a model: numbers in [-2, 2), the same on every machine. */
void make_numbers(float *x, size_t count, uint32_t seed);

/* Attention of QUERIES rows to at most that many keys, or NULL, which is told. */
fovea_attention_plan *plan_for(const fovea_context *context, int64_t keys);

/* Attends to keys that lie in a buffer of that many rows. state is the one before them, or NULL; first is the position
 * of the first. 0: an error, which is told. */
int attend(const fovea_attention_plan *plan, float *q, float *rows, int64_t buffer, int64_t keys,
           fovea_attention_state *state, int64_t first, float *out);

#endif
