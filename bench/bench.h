/* Shared by the files of fovea-bench: the kinds of measurement, each made from a case's words, and small helpers. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "fovea/fovea.h"
#include "shim.h"
#include "words.h"

enum { BENCH_NAME_SIZE = 256, BENCH_ERROR_SIZE = CLI_WORDS_ERROR, BENCH_CACHE_LINE = 64 };

/* A measurement in the making. The kind's own struct starts with it and is freed as a whole. */
typedef struct bench {
    char name[BENCH_NAME_SIZE];
    const char *left_out;                                      /* its element type, where the build leaves it out */
    const char *(*begin)(struct bench *self, shim_cost *cost); /* see shim.h */
    void (*run)(struct bench *self);
    void (*end)(struct bench *self);
    fovea_isa isa;
    int threads;
    bool checked;           /* its result was, before it was timed */
    fovea_context *context; /* from begin to end */
} bench;

/* A kind of measurement: what --case calls it, and how it is made of the key=value words behind that. make() returns
 * NULL and a sentence for what it does not understand. */
typedef struct bench_kind {
    const char *name;
    bench *(*make)(const char *words, char error[BENCH_ERROR_SIZE]);
    const char *help;
} bench_kind;

extern const bench_kind bench_attention, bench_decode, bench_encoder, bench_exp, bench_experts, bench_kernel,
    bench_linear, bench_merge, bench_mha, bench_recurrence;

/* Reads a case's words by count keys, and by isa= and threads= where the kind takes them. Returns zeros of size bytes
 * that begin with a bench with these functions, its tier and threads; NULL and a sentence if the words are wrong. */
typedef enum bench_takes { BENCH_TAKES_NEITHER, BENCH_TAKES_ISA, BENCH_TAKES_THREADS } bench_takes;
void *bench_new(size_t size, const bench *functions, const char *words, const cli_key *keys, size_t count,
                bench_takes takes, char error[BENCH_ERROR_SIZE]);

/* Adds to the name what fits; at its end the tier and threads. */
__attribute__((format(printf, 2, 3))) void bench_name(bench *self, const char *format, ...);
void bench_name_end(bench *self);

/* ----------------------------------------------------------------------------------------------- tiers (tiers.c) -- */

/* Words for a value of isa=, as index: "best", then the tiers. */
extern const char *const bench_isa_words[];

/* The tier that isa= means here; 0 and a sentence where the CPU, or FOVEA_ISA, does not give it. */
fv_isa bench_isa_resolve(int64_t choice, char error[BENCH_ERROR_SIZE]);

/* ----------------------------------------------------------------------------------------- sources (sources.c) -- */

/* Words for keys= and values=, as index: "default", then the sources. */
extern const char *const bench_keys_words[], *const bench_values_words[];

/* A plan that takes these sources; NULL, or what is wrong. */
const char *bench_plan(const fovea_context *context, const fovea_attention_desc *desc, int64_t keys, int64_t values,
                       fovea_attention_plan **plan);

/* ----------------------------------------------------------------------------------------- helpers (support.c) -- */

/* The best tier of this CPU within FOVEA_ISA, and features; the CPU's own name is written to cpu unless it is NULL.
 * Ends the program with a sentence if the library gives no context at all. */
fv_target bench_target(char cpu[64]);

/* A context of that tier with that many threads; NULL, or what is wrong. *context is NULL, or for the caller to
 * destroy. */
const char *bench_context(fovea_isa isa, int threads, fovea_context **context);

/* The arithmetic of a case: fastest becomes what it takes on a tier, in attention or in linear maps, so that the scalar
 * tier can be asked for the same. */
fovea_arithmetic bench_arithmetic(fovea_arithmetic wanted, fv_isa isa, fovea_dtype dtype, int linear);

/* Flops per second of the tier's FMA peak (peak/peak_run.h): the best of many short runs, of this call and of those
 * before. */
double bench_peak(fv_isa isa);

/* Operations per second of the integer peak of the tier with these features, likewise. */
double bench_peak_integers(fv_target target);

/* Bytes per second that a context's threads read from memory (peak/read_speed.h): measured by the call; the best of it
 * and of those just before that had as many threads. */
double bench_read_speed(const fovea_context *context, int threads);

/* Aligned memory, freed by free(); NULL if there is none. */
void *bench_alloc(int64_t bytes);

/* n floats evenly in [low, high), the same on every call with the same seed. */
void bench_fill(float *data, int64_t n, float low, float high, uint64_t seed);

/* Memory with n numbers evenly in [low, high) of a type, the same on every call with the same seed; freed by free().
 * NULL if there is none. */
void *bench_numbers(int64_t n, fovea_dtype dtype, float low, float high, uint64_t seed);

/* One step of a generator of 64 random bits. */
uint64_t bench_random(uint64_t *state);

#endif
