/* A difference on one rank, on each in turn, is refused on all with a sentence: the arithmetic of
 * FOVEA_ARITHMETIC_FASTEST in attention, also over caches, and ropes of caches. Run by mpirun. Contexts take another
 * arithmetic by FOVEA_ARITHMETIC, so that CPUs of any kind, and of one, tell the same. */
#define _POSIX_C_SOURCE 200809L /* setenv() */
#include "fovea_mpi_cache.h"
#include "groups.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 32, HEADS = 8 };

static fovea_context *usual, *other; /* of FASTEST: exact, and bf16_tile */

static fovea_context *context_of(const char *arithmetic) {
    setenv("FOVEA_ARITHMETIC", arithmetic, 1);
    fovea_context *ctx = group_context(FOVEA_ISA_BEST, 2);
    unsetenv("FOVEA_ARITHMETIC");
    return ctx;
}

/* words: in the sentence of a call that is refused. */
static void expect(fovea_status status, bool made, bool served, const char *words, const char *what) {
    check(status == (served ? FOVEA_OK : FOVEA_ERROR_ARGUMENT) && made == served &&
              (served || strstr(fovea_mpi_error_detail(), words) != NULL),
          "%s: %s (%s)", what, fovea_status_name(status), fovea_mpi_error_detail());
}

/* ---------------------------------------------------------------------------------------------------- arithmetic -- */

static fovea_attention_desc attention(fovea_arithmetic arithmetic, fovea_dtype dtype) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.q_heads = d.kv_heads = HEADS;
    d.q_len = d.kv_len = 512;
    d.head_dim = d.value_dim = CHANNELS;
    d.dtype = dtype;
    d.arithmetic = arithmetic;
    return d;
}

static void try_plan(const fovea_context *ctx, const fovea_attention_desc *d, fovea_mpi_method method, bool served,
                     const char *what) {
    fovea_mpi_attention_desc over;
    fovea_mpi_attention_plan *plan;
    fovea_mpi_attention_desc_init(&over);
    over.attention = d;
    over.method = method;
    const fovea_status status = fovea_mpi_attention_plan_create(comm, ctx, &over, &plan);
    expect(status, plan != NULL, served, "FOVEA_ARITHMETIC_FASTEST", what);
    fovea_mpi_attention_plan_destroy(plan);
}

static void test_arithmetic(bool me) {
    const fovea_context *ctx = me ? other : usual;
    const bool alone = ranks == 1;
    fovea_attention_desc fastest = attention(FOVEA_ARITHMETIC_FASTEST, FOVEA_DTYPE_BF16), paged = fastest,
                         floats = attention(FOVEA_ARITHMETIC_FASTEST, FOVEA_DTYPE_F32),
                         named = attention(FOVEA_ARITHMETIC_BF16, FOVEA_DTYPE_BF16);
    paged.page_keys = FOVEA_KV_PAGE_KEYS;
    try_plan(ctx, &fastest, FOVEA_MPI_METHOD_PASS, alone, "fastest, PASS");
    try_plan(ctx, &fastest, FOVEA_MPI_METHOD_GATHER, alone, "fastest, GATHER");
    try_plan(ctx, &paged, FOVEA_MPI_METHOD_MODEL, alone, "fastest over a cache");
    try_plan(ctx, &floats, FOVEA_MPI_METHOD_GATHER, true, "fastest of float32");
    try_plan(ctx, &named, FOVEA_MPI_METHOD_PASS, true, "bf16");
    try_plan(other, &fastest, FOVEA_MPI_METHOD_PASS, true, "fastest that is one");
}

/* --------------------------------------------------------------------------------------------------------- ropes -- */

static fovea_rope *rope_of(const fovea_rope_desc *desc) {
    fovea_rope *rope = NULL;
    check(fovea_rope_create(desc, &rope) == FOVEA_OK, "rope: %s", fovea_error_detail());
    return rope;
}

static void try_ropes(const fovea_rope *here, bool served, const char *what) {
    fovea_kv_cache_desc d;
    fovea_mpi_cache *cache;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = 1;
    d.head_dim = d.value_dim = CHANNELS;
    d.max_pages = 4;
    d.rope = here;
    const fovea_status status = fovea_mpi_cache_create(comm, usual, &d, 1, &cache);
    expect(status, cache != NULL, served, "the angles of desc.rope", what);
    fovea_mpi_cache_destroy(cache);
}

static void test_ropes(bool me) {
    static const float divisors[CHANNELS / 2] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1.0001f};
    fovea_rope_desc plain;
    fovea_rope_desc_init(&plain);
    plain.rotary_dim = CHANNELS;
    fovea_rope_desc descs[7];
    for (int i = 0; i < 7; i++)
        descs[i] = plain;
    descs[1].base = 10000.001;
    descs[2].rotary_dim = CHANNELS - 2;
    descs[3].pairing = FOVEA_ROPE_ADJACENT;
    descs[4].divisors = divisors;
    descs[5].attention_factor = 1.0001;
    descs[6].scaling = FOVEA_ROPE_LINEAR; /* by a factor of 1 */
    static const char *const names[] = {"copy",  "base", "rotary_dim", "pairing", "divisor", "attention_factor",
                                        "scaled"};
    fovea_rope *all = rope_of(&plain);
    for (int i = 0; i < 7; i++) {
        fovea_rope *one = rope_of(&descs[i]);
        try_ropes(me ? one : all, i == 0 || i == 6 || ranks == 1, names[i]);
        fovea_rope_destroy(one);
    }
    try_ropes(me ? NULL : all, ranks == 1, "no rope");
    fovea_rope_destroy(all);
}

/* ------------------------------------------------------------------------------------------------------- offsets -- */

static void try_offsets(int64_t min, int64_t max, bool served) {
    fovea_attention_desc d = attention(FOVEA_ARITHMETIC_EXACT, FOVEA_DTYPE_F32);
    fovea_mpi_attention_desc over;
    fovea_mpi_attention_plan *plan;
    d.causal = FOVEA_CAUSAL_OFFSET;
    fovea_mpi_attention_desc_init(&over);
    over.attention = &d;
    over.method = FOVEA_MPI_METHOD_PASS;
    over.min_offset = min;
    over.max_offset = max;
    const fovea_status status = fovea_mpi_attention_plan_create(comm, usual, &over, &plan);
    expect(status, plan != NULL, served, "min_offset is ", "offsets");
    fovea_mpi_attention_plan_destroy(plan);
}

int main(int argc, char **argv) {
    group_begin(&argc, &argv, MPI_THREAD_FUNNELED);
    usual = context_of("exact");
    other = context_of("bf16_tile");
    while (group_next()) {
        for (int guilty = 0; guilty<ranks; guilty += ranks> 3 ? ranks - 1 : 1) {
            test_arithmetic(rank == guilty);
            test_ropes(rank == guilty);
        }
        try_offsets(-7, 7, true);
        try_offsets(7, 7, true);
        try_offsets(8, 7, false);
        try_offsets(1, FOVEA_MPI_OFFSET_FULL, false); /* which is 0 */
        try_offsets(FOVEA_MPI_OFFSET_FULL, -1, false);
    }
    fovea_context_destroy(usual);
    fovea_context_destroy(other);
    return group_report("agreement");
}
