/* A cache over ranks and one of this rank alone, with the same sequences. */
#ifndef FOVEA_MPI_CACHE_PAIR_H
#define FOVEA_MPI_CACHE_PAIR_H

#include "case.h"
#include "fovea_mpi_cache.h"
#include "groups.h"

enum { MOST_SEQUENCES = 5, MOST_TOKENS = 1700, MOST_LAYERS = 2 };

extern fovea_context *ctx;

typedef struct both {
    fovea_kv_cache_desc desc;
    int64_t windows[MOST_LAYERS], stripe;
    fovea_kv_cache *one;
    fovea_mpi_cache *spread;
    struct {
        int64_t one, spread;
    } sequence[MOST_SEQUENCES];
    int64_t count;
    char text[256];
} both;

/* cache_pair.c: random caches; have both the same status and lengths after a step?; a random call of attention. */
void open_both(both *x, rng *r, int64_t index, const fovea_rope *rope, int64_t pages);
void same(const both *x, fovea_status one, fovea_status spread, const char *step);
int64_t length_of(const both *x, int64_t layer, int64_t i);
float *floats(rng *r, int64_t count);
void attend(both *x, rng *r);

#endif
