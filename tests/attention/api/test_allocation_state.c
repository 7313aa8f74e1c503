/* Memory from the heap (test_allocation.c): with a workspace, attention through states takes none, nor does what makes,
 * merges and finishes them. */
#define _POSIX_C_SOURCE 200809L
#include "attention_case.h"
#include "failing.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdlib.h>

static void check_states(const char *what, const fovea_context *ctx, int64_t q_len) {
    attention_case c = case_plain(2, 4, 2, q_len, 256, 24, 24);
    rng r = rng_stream(test_seed(), "no allocation of states");
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    const size_t size = fovea_attention_plan_workspace_size(plan), state_size = fovea_attention_plan_state_size(plan);
    void *workspace = must_alloc((int64_t)size, 1), *memory[2];
    for (int i = 0; i < 2; i++)
        memory[i] = must_alloc((int64_t)state_size, 1);
    fovea_attention_args args = case_args(in, out);
    for (int round = 0; round < 3; round++) { /* the first one may warm up the thread pool of the run-time */
        fovea_attention_state *state[2];
        const long long before = calls;
        fovea_status status = FOVEA_OK;
        for (int i = 0; i < 2 && status == FOVEA_OK; i++) {
            status = fovea_attention_state_init(plan, memory[i], state_size, &state[i]);
            args.state = state[i];
            args.first_key = 256 * i;
            if (status == FOVEA_OK)
                status = fovea_attention_execute(plan, &args, workspace, size);
        }
        if (status == FOVEA_OK)
            status = fovea_attention_state_merge(state[0], state[1]);
        const fovea_attention_part part = {.out = out->out, .lse = out->lse};
        if (status == FOVEA_OK)
            status = fovea_attention_merge(&part, 1, NULL, &part);
        const long long n = calls - before;
        test_check(status == FOVEA_OK, "%s: %s", what, fovea_error_detail());
        test_check(n == 0 || round == 0, "%s, q_len %" PRId64 ": %lld allocations with a state", what, q_len, n);
    }
    for (int i = 0; i < 2; i++)
        free(memory[i]);
    free(workspace);
    fovea_attention_plan_destroy(plan);
    inputs_free(in);
    outputs_free(out);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation_state", NULL);
    thread_pool *p = thread_pool_create(3);
    fovea_context *contexts[] = {context_of(FOVEA_ISA_BEST, 1, NULL), context_of(FOVEA_ISA_BEST, 0, NULL),
                                 context_of(FOVEA_ISA_BEST, 3, p)};
    static const char *const names[] = {"one thread", "default threads", "a pool of 3"};
    for (int i = 0; i < 3; i++) {
        check_states(names[i], contexts[i], 1);
        check_states(names[i], contexts[i], 60);
        fovea_context_destroy(contexts[i]);
    }
    thread_pool_destroy(p);
    return test_end();
}
