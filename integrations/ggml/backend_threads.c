/* Memory and threads of a backend (backend_threads.h). */
#include "backend_threads.h"
#include "openmp.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- memory -- */

void *fg_memory_get(fg_memory *memory, size_t size) {
    enum { LINE = 64 };
    if (size > memory->size || !memory->data) {
        if (size > SIZE_MAX / 2)
            return NULL;
        fg_memory_free(memory);
        /* Room for a cache that grows by a block of keys at a time. */
        memory->size = (size + size / 4 + LINE) / LINE * LINE;
        memory->data = aligned_alloc(LINE, memory->size);
        if (!memory->data)
            memory->size = 0;
    }
    return memory->data;
}

void fg_memory_free(fg_memory *memory) {
    free(memory->data);
    *memory = (fg_memory){0};
}

/* ------------------------------------------------------------------------------------------------------- threads -- */

static void team_free(fg_team *team) {
    for (int i = 0; i < FG_PLANS; i++)
        fovea_attention_plan_destroy(team->plans[i].plan);
    fovea_context_destroy(team->context);
    memset(team, 0, sizeof *team);
}

/* Operations that keep a thread busy for several times as long as it takes to wake (some 20 microseconds). */
enum { OPERATIONS_OF_THREAD = 2000000 };

/* shared: OpenMP ends threads for a smaller team, and makes them again, so it is all or one. */
static int threads_for(int most, bool shared, double operations) {
    if (operations >= (double)(shared && most > 2 ? 2 : most) * OPERATIONS_OF_THREAD)
        return most;
    if (shared)
        return 1;
    int threads = 1; /* powers of 2: few teams serve all sizes */
    while (2 * threads < most && operations >= 2.0 * threads * OPERATIONS_OF_THREAD)
        threads *= 2;
    return threads;
}

static bool is_shared(const fg_backend *backend) { return backend->beside && fg_openmp_shared(); }

static fg_team *team_of(fg_backend *backend, int threads) {
    const bool shared = threads > 1 && is_shared(backend);
    fg_team *oldest = &backend->teams[0];
    for (int i = 0; i < FG_TEAMS; i++) {
        fg_team *team = &backend->teams[i];
        if (team->context && team->threads == threads && team->shared == shared) {
            team->used = ++backend->clock;
            return team;
        }
        oldest = team->used < oldest->used ? team : oldest;
    }
    team_free(oldest);
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = threads;
    /* Threads that sleep: ggml's own spin while ours compute, and theirs are waiting while ours would. Where ggml's can
     * be had instead, decoding is up to 1.25 times as fast; but on busy CPUs they wait for each other for long, which a
     * graph that is all ours is spared. */
    options.threads_backend = shared ? FOVEA_THREADS_OPENMP : FOVEA_THREADS_POOL;
    if (fg_status(fovea_context_create(&options, &oldest->context), "threads") != GGML_STATUS_SUCCESS)
        return NULL;
    oldest->threads = threads;
    oldest->shared = shared;
    oldest->used = ++backend->clock;
    return oldest;
}

fg_team *fg_backend_team(fg_backend *backend) { return team_of(backend, backend->threads); }

fg_team *fg_backend_team_for(fg_backend *backend, double operations) {
    return team_of(backend, threads_for(backend->threads, is_shared(backend), operations));
}

void fg_backend_teams_free(fg_backend *backend) {
    for (int i = 0; i < FG_TEAMS; i++)
        team_free(&backend->teams[i]);
}
