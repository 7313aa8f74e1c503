/* The state of a backend: memory, and threads with their plans. A backend is what ggml calls a stream: a llama_context
 * has one. One thread at a time computes on it. */
#ifndef FG_BACKEND_THREADS_H
#define FG_BACKEND_THREADS_H

#include "backend_ggml.h"

/* Memory that only grows. */
typedef struct fg_memory {
    void *data;
    size_t size;
} fg_memory;

/* At least this many bytes, aligned to a cache line; the content is lost. NULL if there are none. */
void *fg_memory_get(fg_memory *memory, size_t size);
void fg_memory_free(fg_memory *memory);

enum { FG_TEAMS = 8, FG_PLANS = 32 };
#define FOVEA_DESC(type, name) FG_PLAN_KEY_##name,
enum {
#include "fovea/fields.inc"
    FG_PLAN_KEY
};

/* A number of threads, and the plans that were made for it. */
typedef struct fg_team {
    int threads;
    bool shared;   /* with ggml: its OpenMP threads */
    uint64_t used; /* when: the one that was not used for longest goes first */
    fovea_context *context;
    struct fg_plan {
        int64_t key[FG_PLAN_KEY];
        uint64_t used;
        fovea_attention_plan *plan;
    } plans[FG_PLANS];
} fg_team;

typedef struct fg_backend {
    struct ggml_backend ggml; /* first: ggml's pointer is ours */
    int threads;
    bool beside; /* ggml computes before and behind the present graph, so its threads spin */
    ggml_abort_callback abort;
    void *abort_data;
    fg_team teams[FG_TEAMS];
    uint64_t clock;
    int64_t calls[FG_OPERATIONS]; /* of each operation so far */
    struct fg_ropes *ropes;       /* elementwise_rope.c */
    ggml_backend_t cpu;           /* delegate.c */
    fg_memory workspace, ranges, bits, bias, widened;
} fg_backend;

/* Threads for the backend's present number of them, or NULL, having said why. */
fg_team *fg_backend_team(fg_backend *backend);
/* The same for `operations` floating-point operations: fewer threads if waking them takes longer than they save. */
fg_team *fg_backend_team_for(fg_backend *backend, double operations);
/* Times the operations of a product: products follow one another, so threads seldom sleep, and a fraction of the work
 * is worth sharing. While ggml's threads spin, sharing less takes longer than computing on the calling thread alone. */
enum { FG_AWAKE = 3 };
void fg_backend_teams_free(fg_backend *backend);

#endif
