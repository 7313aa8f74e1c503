/* The module of rotary embedding (fovea/rope.h): what caches and layers know of it. */
#ifndef FV_ROPE_H
#define FV_ROPE_H

#include "arrays/arrays.h"
#include "fovea/fovea.h"

enum {
    FV_ROPE_MOST_PAIRS = 512,
    FV_ROPE_MOST_ANGLE = 1 << 20 /* of a pair at position 1: fv_sincos() takes 2^24 times as much */
};

/* The angle of p = a + 256 b + 65536 c is that of its three digits added, so each digit has a table, and cos and sin of
 * a position are two complex products in double; frequencies, cos and sin as in core/elementary.h. */
enum { FV_ROPE_DIGITS = 3, FV_ROPE_BASE = 256 };

struct fovea_rope {
    fovea_rope_desc desc; /* divisors: own, behind the tables, or NULL */
    int64_t pairs;
    double factor;  /* of cos and sin */
    double table[]; /* [digit][value][cos, sin][pairs] */
};

/* cos and sin of the pairs at one position. */
typedef struct fv_rope_turn {
    float cos[FV_ROPE_MOST_PAIRS], sin[FV_ROPE_MOST_PAIRS];
} fv_rope_turn;

void fv_rope_at(const fovea_rope *rope, int64_t position, fv_rope_turn *turn);

/* Turns a head's row of channels: n elements of from's type to those of to's, by way of float32. from may be to, where
 * the types are the same. */
void fv_rope_row(const fovea_rope *rope, const fv_rope_turn *turn, const fv_converter *convert, int64_t n,
                 const void *from, void *to);

/* The same to floats, all n of them. */
void fv_rope_floats(const fovea_rope *rope, const fv_rope_turn *turn, const fv_converter *floats, int64_t n,
                    const void *from, float *to);

/* A hash of its angles and pairing, never 0: ropes that rotate alike have one hash. */
uint64_t fv_rope_hash(const fovea_rope *rope);

#endif
