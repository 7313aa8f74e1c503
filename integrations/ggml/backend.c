/* Registration with ggml, and a backend's life: threads, graphs, aborts, counts. */
#include "backend.h"
#include "delegate.h"
#include "elementwise.h"
#include "weights.h"

#include <stdio.h>
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

/* What keeps a thread busy for several times as long as it takes to wake (some 20 microseconds). */
enum { OPERATIONS_OF_THREAD = 2000000 };

static int threads_for(int most, double operations) {
    if (operations >= (double)most * OPERATIONS_OF_THREAD)
        return most;
    int threads = 1; /* powers of 2: few teams serve all sizes */
    while (2 * threads < most && operations >= 2.0 * threads * OPERATIONS_OF_THREAD)
        threads *= 2;
    return threads;
}

static fg_team *team_of(fg_backend *backend, int threads) {
    fg_team *oldest = &backend->teams[0];
    for (int i = 0; i < FG_TEAMS; i++) {
        fg_team *team = &backend->teams[i];
        if (team->context && team->threads == threads) {
            team->used = ++backend->clock;
            return team;
        }
        oldest = team->used < oldest->used ? team : oldest;
    }
    team_free(oldest);
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = threads;
    /* Threads that sleep: ggml's own spin while ours compute, and theirs are waiting while ours would. */
    options.threads_backend = FOVEA_THREADS_POOL;
    if (fg_status(fovea_context_create(&options, &oldest->context), "threads") != GGML_STATUS_SUCCESS)
        return NULL;
    oldest->threads = threads;
    oldest->used = ++backend->clock;
    return oldest;
}

fg_team *fg_backend_team(fg_backend *backend) { return team_of(backend, backend->threads); }

fg_team *fg_backend_team_for(fg_backend *backend, double operations) {
    return team_of(backend, threads_for(backend->threads, operations));
}

enum ggml_status fg_status(fovea_status status, const char *what) {
    if (status == FOVEA_OK)
        return GGML_STATUS_SUCCESS;
    fg_say("%s: %s (%s)", what, fovea_error_detail(), fovea_status_name(status));
    return status == FOVEA_ERROR_OUT_OF_MEMORY ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

void fg_backend_set_n_threads(ggml_backend_t backend, int threads) {
    ((fg_backend *)backend)->threads = threads > 1 ? threads : 1;
}

/* -------------------------------------------------------------------------------------------------------- graphs -- */

/* Has it no elements? ggml gives such tensors no memory. */
static bool is_empty(const struct ggml_tensor *t) { return !t->ne[0] || !t->ne[1] || !t->ne[2] || !t->ne[3]; }

/* Can it be computed here, rather than by ggml's CPU backend on our behalf? */
static bool is_ours(const fg_operation *operation, const struct ggml_tensor *node) {
    return operation && operation->serves(node) && !fg_weights_written(node);
}

static enum ggml_status compute(fg_backend *backend, struct ggml_tensor *node) {
    fg_operation *operation = fg_operation_of(node->op);
    const bool ours = is_ours(operation, node);
    if (!ours && !fg_weights_touched(node)) {
        fg_say("%s was given to this backend, which does not support it", fg_ggml.op_name(node->op));
        return GGML_STATUS_FAILED;
    }
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (node->src[i] && !(ours && fg_weights_multiplied(node, i)) && !fg_weights_bring(node->src[i]))
            return GGML_STATUS_ALLOC_FAILED;
    if (!ours && !fg_weights_bring(node))
        return GGML_STATUS_ALLOC_FAILED;
    const enum ggml_status status = ours ? operation->compute(backend, node) : fg_delegate_compute(backend, node);
    if (fg_weights_written(node))
        fg_weights_changed(node);
    if (ours && status == GGML_STATUS_SUCCESS)
        backend->calls[operation - fg_operations]++;
    return status;
}

static enum ggml_status graph_compute(ggml_backend_t ggml, struct ggml_cgraph *graph) {
    fg_backend *backend = (fg_backend *)ggml;
    const int nodes = fg_ggml.graph_n_nodes(graph);
    for (int i = 0; i < nodes; i++) {
        struct ggml_tensor *node = fg_ggml.graph_node(graph, i);
        if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || fg_is_view(node->op) || is_empty(node))
            continue;
        if (backend->abort && backend->abort(backend->abort_data))
            return GGML_STATUS_ABORTED;
        const enum ggml_status status = compute(backend, node);
        if (status != GGML_STATUS_SUCCESS)
            return status;
    }
    return GGML_STATUS_SUCCESS;
}

void fg_backend_set_abort_callback(ggml_backend_t ggml, ggml_abort_callback callback, void *data) {
    fg_backend *backend = (fg_backend *)ggml;
    backend->abort = callback;
    backend->abort_data = data;
}

int64_t fg_backend_calls(ggml_backend_t backend, const char *name) {
    const fg_operation *operation = fg_operation_named(name);
    return operation ? ((fg_backend *)backend)->calls[operation - fg_operations] : -1;
}

/* ---------------------------------------------------------------------------------------------------------- life -- */

static const char *backend_name(ggml_backend_t backend) {
    (void)backend;
    return "Fovea";
}

static void backend_free(ggml_backend_t ggml) {
    fg_backend *backend = (fg_backend *)ggml;
    if (fg_options_debug())
        for (int i = 0; i < FG_OPERATIONS; i++)
            if (backend->calls[i])
                fg_say("%s: %lld computed", fg_operations[i].name, (long long)backend->calls[i]);
    for (int i = 0; i < FG_TEAMS; i++)
        team_free(&backend->teams[i]);
    fg_memory *memories[] = {&backend->workspace, &backend->ranges, &backend->bits, &backend->bias, &backend->widened};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        fg_memory_free(memories[i]);
    fg_ropes_free(backend);
    fg_delegate_free(backend);
    free(backend);
}

ggml_backend_t fg_backend_create(ggml_backend_dev_t device) {
    static ggml_guid guid = {0x66, 0x6f, 0x76, 0x65, 0x61, 0x2d, 0x61, 0x74,
                             0x74, 0x65, 0x6e, 0x74, 0x69, 0x6f, 0x6e, 0x31};
    fg_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return NULL;
    backend->ggml = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = backend_name, .free = backend_free, .graph_compute = graph_compute},
        .device = device,
    };
    backend->threads = GGML_DEFAULT_N_THREADS;
    return &backend->ggml;
}

/* -------------------------------------------------------------------------------------------------- registration -- */

static const char *reg_name(ggml_backend_reg_t reg) {
    (void)reg;
    return "Fovea";
}

static size_t reg_device_count(ggml_backend_reg_t reg) {
    (void)reg;
    return fg_device_count();
}

static void *reg_proc_address(ggml_backend_reg_t reg, const char *name) {
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {
        {"ggml_backend_set_n_threads", (void (*)(void))fg_backend_set_n_threads},
        {"ggml_backend_set_abort_callback", (void (*)(void))fg_backend_set_abort_callback},
        {"fovea_ggml_calls", (void (*)(void))fg_backend_calls},
    };
    (void)reg;
    void *found = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!strcmp(functions[i].name, name)) /* ISO C has no conversion to a pointer to data */
            memcpy(&found, &functions[i].function, sizeof found);
    return found;
}

static void say_status(void) {
    if (fg_options_none()) {
        fg_say("Fovea %s is loaded, and takes nothing: %s", fovea_version(), fg_options_none());
        return;
    }
    char names[400] = "";
    bool always = false;
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (fg_options_take(&fg_operations[i], &always)) {
            const size_t n = strlen(names);
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", fg_operations[i].name);
        }
    fg_say("Fovea %s computes%s %s", fovea_version(), fg_options_listed() ? "" : ", where it is faster,", names);
}

static ggml_backend_reg_t registration(void *caller) {
    static struct ggml_backend_reg reg = {.api_version = GGML_BACKEND_API_VERSION,
                                          .iface = {.get_name = reg_name,
                                                    .get_device_count = reg_device_count,
                                                    .get_device = fg_device,
                                                    .get_proc_address = reg_proc_address}};
    static bool said;
    if (!fg_ggml_load(caller))
        return NULL;
    if (!said) {
        said = true;
        fg_options_load();
        say_status();
    }
    return &reg;
}

GGML_BACKEND_API ggml_backend_reg_t ggml_backend_init(void);
ggml_backend_reg_t ggml_backend_init(void) { return registration(__builtin_return_address(0)); }

/* 0 tells ggml not to load the backend. */
GGML_BACKEND_API int ggml_backend_score(void);
int ggml_backend_score(void) { return fg_ggml_load(__builtin_return_address(0)) ? 1 : 0; }
