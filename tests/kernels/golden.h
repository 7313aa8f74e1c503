/* Golden results: what is computed, and what it is hashed to (test_golden.c). */
#ifndef FOVEA_TESTS_GOLDEN_H
#define FOVEA_TESTS_GOLDEN_H

#include "fovea/fovea.h"

#include <stdbool.h>
#include <stdint.h>

/* Hashes (fnv.h) of all that went in and of all that came out. */
typedef struct golden_hash {
    uint64_t inputs, outputs;
} golden_hash;

enum { GOLDEN_SEED = 1 }; /* part of the suite: not test_seed() */

/* Linear maps and layers by number, from 0: the name of one, false if there are no more; and what it gives. */
bool golden_layer_name(int number, char name[32]);
golden_hash golden_layer(const fovea_context *ctx, int number, bool flush);

/* The same of attention, linear maps and layers of 16-bit types, by arithmetic. */
bool golden_type_name(int number, char name[32]);
golden_hash golden_type(const fovea_context *ctx, int number, bool flush);

/* The same of all else: rotary embedding, norms, activations, recurrences, experts, quantized weights. */
bool golden_subject_name(int number, char name[32]);
golden_hash golden_subject(const fovea_context *ctx, int number, bool flush);

#endif
