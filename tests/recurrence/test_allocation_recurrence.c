/* Memory from the heap (test_allocation.c): each call of a recurrence without a workspace, and the making of a cache of
 * states, with its 1st, 2nd ... allocation failing until it gets through. A failed call has written nothing. */
#include "failing.h"
#include "recurrence_case.h"

#include <stdlib.h>

static void test_call(const fovea_context *ctx, recurrence kind, rng *r) {
    recurrence_case *c = recurrence_case_random(kind, r);
    const int64_t size = recurrence_state_size(c);
    const size_t bytes = (size_t)recurrence_bytes(c);
    fovea_tensor out = c->tensor[T_OUT];
    memset(out.data, 0x5a, bytes);
    char *untouched = must_alloc((int64_t)bytes, 1);
    memcpy(untouched, out.data, bytes);
    fovea_state_cache_desc d;
    fovea_state_cache *cache;
    fovea_state_cache_desc_init(&d);
    d.states = 1;
    d.floats = &size;
    d.max_sequences = c->batch;
    d.slots = 3;
    const bool cached = size > 0; /* a convolution of one tap has no state */
    if (cached)
        FAIL_MAKING("create", 5, rng_below(r, 2), cache, fovea_state_cache_destroy,
                    fovea_state_cache_create(&d, &cache))
    test_check(!cached || fovea_state_cache_create(&d, &cache) == FOVEA_OK, "%s", fovea_error_detail());
    int64_t sequences[4] = {0}, length = 0;
    for (int64_t b = 0; b < c->batch && cached; b++)
        FAIL_EACH("add", -1, false, fovea_state_cache_add(cache, &sequences[b]));
    fovea_states states;
    fovea_states_init(&states);
    states.cache = cached ? cache : NULL;
    states.cache_sequences = sequences;
    FAIL_EACH(c->title, 0, false, recurrence_call(ctx, c, -1, 0, c->tokens, out, &states, NULL, 0)) {
        test_check(!cached || fovea_state_cache_length(cache, 0, sequences[0], &length) == FOVEA_OK, "%s",
                   fovea_error_detail());
        test_check(f.through || (memcmp(untouched, out.data, bytes) == 0 && length == 0),
                   "%s, allocation %" PRId64 " fails: something is written", c->title, f.n);
    }
    test_check(!cached || length == c->tokens, "%s: %" PRId64 " tokens", c->title, length);
    if (cached)
        fovea_state_cache_destroy(cache);
    free(untouched);
    recurrence_case_free(c);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation_recurrence", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "allocation_recurrence");
    for (int64_t i = test_scaled(10); i > 0; i--)
        for (int kind = 0; kind < RECURRENCES; kind++)
            test_call(rng_below(&r, 2) ? contexts.three : contexts.own, (recurrence)kind, &r);
    contexts_free(&contexts);
    return test_end();
}
