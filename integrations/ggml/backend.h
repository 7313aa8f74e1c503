/* The parts of the backend, and what they share.
 *
 *   registration.c        what a program loads
 *   device.c              the devices: what they say of themselves, and which operations they take
 *   backend.c             a backend's life and its graphs
 *   backend_operations.c  the list of operations
 *   attention*.c          FLASH_ATTN_EXT
 *   linear.c              MUL_MAT
 *   elementwise*.c        what is between them
 *   pays.c                which operations are faster than ggml's
 *   delegate.c            what ggml's CPU backend computes for us
 *   weights*.c            the buffer type of packed weights
 *   backend_threads.c     memory and threads of a backend
 *   backend_options.c     FOVEA_GGML
 *   rules.c               the data that pays.c goes by
 *   backend_ggml.c        the program's ggml: functions, numbers, checks
 *
 * A file needs files below it alone.
 *
 * A backend is what ggml calls a stream: a llama_context has one. One thread at a time computes on it. */
#ifndef FG_BACKEND_H
#define FG_BACKEND_H

#include "backend_ggml.h"

typedef struct fg_backend fg_backend;

typedef struct fg_operation {
    bool (*serves)(const struct ggml_tensor *op); /* can it be computed? Data may be absent */
    enum ggml_status (*compute)(fg_backend *backend, struct ggml_tensor *op); /* after an error: fg_say() said why */
} fg_operation;

extern const fg_operation fg_operations[FG_OPERATIONS];

/* ------------------------------------------------------------------------------------------------------ backends -- */

/* Memory that only grows. */
typedef struct fg_memory {
    void *data;
    size_t size;
} fg_memory;

/* At least this many bytes, aligned to a cache line; the content is lost. NULL if there are none. */
void *fg_memory_get(fg_memory *memory, size_t size);
void fg_memory_free(fg_memory *memory);

enum { FG_TEAMS = 8, FG_PLANS = 32, FG_PLAN_KEY = 18 };

/* Threads, and the plans that are made for so many. */
typedef struct fg_team {
    int threads;
    uint64_t used; /* when: the one that was not used for longest goes first */
    fovea_context *context;
    struct fg_plan {
        int64_t key[FG_PLAN_KEY];
        uint64_t used;
        fovea_attention_plan *plan;
    } plans[FG_PLANS];
} fg_team;

struct fg_backend {
    struct ggml_backend ggml; /* first: ggml's pointer is ours */
    int threads;
    ggml_abort_callback abort;
    void *abort_data;
    fg_team teams[FG_TEAMS];
    uint64_t clock;
    int64_t calls[FG_OPERATIONS]; /* of each operation so far */
    struct fg_ropes *ropes;       /* elementwise_rope.c */
    ggml_backend_t cpu;           /* delegate.c */
    fg_memory workspace, ranges, bits, bias, widened;
};

/* Threads for the backend's present number of them, or NULL, having said why. */
fg_team *fg_backend_team(fg_backend *backend);
/* The same for so many floating-point operations: fewer threads if waking them takes longer than they save. */
fg_team *fg_backend_team_for(fg_backend *backend, double operations);
void fg_backend_teams_free(fg_backend *backend);

ggml_backend_t fg_backend_create(ggml_backend_dev_t device);
void fg_backend_set_n_threads(ggml_backend_t backend, int threads);
void fg_backend_set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void *data);
int64_t fg_backend_calls(ggml_backend_t backend, const char *operation);

/* The devices: none if nothing is taken. */
size_t fg_device_count(void);
ggml_backend_dev_t fg_device(ggml_backend_reg_t reg, size_t index);

/* ------------------------------------------------------------------------------------------------------- options -- */

/* Reads FOVEA_GGML and FOVEA_DEBUG, once. */
void fg_options_load(void);
/* Is this operation taken, as far as FOVEA_GGML says; and whether it pays or not? */
bool fg_options_take(fg_op op, bool *always);
const char *fg_options_none(void); /* why nothing is taken; NULL: something is */
bool fg_options_listed(void);      /* operations are named, or all: they are taken whether faster or not */
bool fg_options_debug(void);
/* Tier and threads, as the environment allows them. */
const fovea_info *fg_options_info(void);
/* Of products with quantised weights. */
fovea_arithmetic fg_options_arithmetic(void);

#endif
