/* States (fovea/state.h) refuse bad input: a status and a sentence, and nothing is written. That they give the bits of
 * one call: test_state.c. */
#include "attention_case.h"
#include "refusals.h"

#include <inttypes.h>
#include <stdlib.h>

static fovea_context *ctx;

static fovea_attention_plan *plan_of(const fovea_attention_desc *desc) {
    fovea_attention_plan *plan;
    check_status("plan", fovea_attention_plan_create(ctx, desc, &plan), FOVEA_OK, NULL);
    return plan;
}

static fovea_attention_state *state_of(const fovea_attention_plan *plan) {
    const size_t size = fovea_attention_plan_state_size(plan);
    fovea_attention_state *state = NULL;
    check_status("a state", fovea_attention_state_init(plan, must_alloc((int64_t)size, 1), size, &state), FOVEA_OK,
                 NULL);
    return state;
}

/* A state with the first 256 keys of a problem. */
static fovea_attention_state *first_segment(const attention_case *c, const inputs *in) {
    attention_case piece = *c;
    piece.desc.kv_len = 256;
    fovea_attention_plan *plan = plan_of(&piece.desc);
    fovea_attention_args args = in->args;
    args.k = fovea_tensor_tokens(args.k, 0, 256);
    args.v = fovea_tensor_tokens(args.v, 0, 256);
    args.state = state_of(plan);
    check_status("a segment", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    fovea_attention_plan_destroy(plan);
    return args.state;
}

/* A call that goes on with a state. */
typedef struct call {
    fovea_attention_desc desc;
    fovea_attention_args args;
} call;

static void execute(void *spoiled, fovea_status want, const char *words) {
    const call *x = spoiled;
    check_status(words ? words : "a good call", attention_once(ctx, &x->desc, &x->args), want, words);
}

static void test_execute_errors(void) {
    attention_case c = case_plain(1, 2, 1, 3, 300, 8, 4);
    rng r = rng_stream(test_seed(), "errors");
    inputs *in = inputs_make(&c, &r);
    c.weights = true;
    outputs *out = outputs_make(&c, LAYOUT_BHTD), *clean = outputs_make(&c, LAYOUT_BHTD);
    fovea_attention_state *state = first_segment(&c, in);
    c.desc.kv_len = 44;
    fovea_attention_plan *plan = plan_of(&c.desc);
    const size_t size = fovea_attention_plan_state_size(plan);
    fovea_attention_plan_destroy(plan);
    uint8_t *before = must_alloc((int64_t)size, 1);
    memcpy(before, state, size);
    call x = {.desc = c.desc, .args = in->args};
    x.args.k = fovea_tensor_tokens(x.args.k, 256, 44);
    x.args.v = fovea_tensor_tokens(x.args.v, 256, 44);
    x.args.out = out->out;
    x.args.lse = out->lse;
    x.args.state = state;
    x.args.first_key = 256;
#define A(field, number) SPOIL(call, args.field, number)
#define ADDRESS(pointer) (uintptr_t)(pointer)
    const char *place = "first_key|multiple of 256";
    const refusal rows[] = {
        {FOVEA_ERROR_ARGUMENT, place, {A(first_key, 1)}},
        {FOVEA_ERROR_ARGUMENT, place, {A(first_key, 128)}},
        {FOVEA_ERROR_ARGUMENT, place, {A(first_key, 255)}},
        {FOVEA_ERROR_ARGUMENT, place, {A(first_key, 257)}},
        {FOVEA_ERROR_ARGUMENT, place, {A(first_key, -256)}},
        {FOVEA_ERROR_ARGUMENT, place, {A(first_key, ((int64_t)1 << 48) + 256)}},
        {FOVEA_ERROR_ARGUMENT, "key 0|up to 256|ascending", {A(first_key, 0)}},
        {FOVEA_ERROR_ARGUMENT, "first_key|256|no state", {A(state, 0)}},
        {FOVEA_ERROR_NULL, "lse|out", {A(out.data, 0)}},
        {FOVEA_ERROR_ARGUMENT, "state|aligned", {A(state, ADDRESS(before + 1))}},
        {FOVEA_ERROR_ARGUMENT, "fovea_attention_state_init", {A(state, (ADDRESS(in->args.q.data) + 7) / 8 * 8)}},
        {FOVEA_ERROR_ALIAS, "out|state", {A(out.data, ADDRESS((char *)state + size - sizeof(float)))}},
        {FOVEA_ERROR_ALIAS, "q|state", {A(q.data, ADDRESS(state))}},
        {FOVEA_ERROR_UNSUPPORTED, "BOTTOM_RIGHT|OFFSET", {SPOIL(call, desc.causal, FOVEA_CAUSAL_BOTTOM_RIGHT)}},
    };
    refuse_each(&x, rows, sizeof rows / sizeof rows[0], execute);
    call other = x;
    other.args.weights = out->weights;
    other.args.weights.shape[3] = 44;
    execute(&other, FOVEA_ERROR_UNSUPPORTED, "weights");
    other = x;
    other.desc.q_len = 2;
    other.args.q = fovea_tensor_tokens(x.args.q, 0, 2);
    other.args.out = fovea_tensor_tokens(x.args.out, 0, 2);
    other.args.lse = fovea_tensor_tokens(x.args.lse, 0, 2);
    execute(&other, FOVEA_ERROR_SHAPE, "state|q_len|3|2");
    outputs_same(out, clean, "outputs after errors");
    test_check(memcmp(before, state, size) == 0, "an error changed the state");
    x.args.out.data = x.args.lse.data = NULL;
    execute(&x, FOVEA_OK, NULL);
    test_check(memcmp(before, state, size) != 0, "a good call did not change the state");
    free(before);
    free(state);
    inputs_free(in);
    outputs_free(out);
    outputs_free(clean);
}

static void test_state_errors(void) {
    attention_case c = case_plain(1, 2, 1, 3, 256, 8, 4), other = c;
    rng r = rng_stream(test_seed(), "state errors");
    inputs *in = inputs_make(&c, &r);
    other.desc.value_dim = 5;
    fovea_attention_plan *plan = plan_of(&c.desc), *wider = plan_of(&other.desc);
    const size_t size = fovea_attention_plan_state_size(plan);
    test_check(fovea_attention_plan_state_size(NULL) == 0, "a state of no plan has a size");
    char *memory = must_alloc((int64_t)size + 8, 1);
    fovea_attention_state *state = (fovea_attention_state *)(void *)memory, *none = NULL;
    check_status("nowhere", fovea_attention_state_init(plan, memory, size, NULL), FOVEA_ERROR_NULL, "state");
    check_status("no plan", fovea_attention_state_init(NULL, memory, size, &state), FOVEA_ERROR_NULL, "plan");
    test_check(state == NULL, "no plan: a state");
    check_status("no memory", fovea_attention_state_init(plan, NULL, size, &state), FOVEA_ERROR_NULL, "memory");
    check_status("too small", fovea_attention_state_init(plan, memory, size - 1, &state), FOVEA_ERROR_WORKSPACE,
                 "bytes");
    check_status("alignment", fovea_attention_state_init(plan, memory + 4, size, &state), FOVEA_ERROR_ARGUMENT,
                 "aligned");
    check_status("good", fovea_attention_state_init(plan, memory, size, &state), FOVEA_OK, NULL);
    fovea_attention_state *a = first_segment(&c, in), *b = state_of(wider);

    check_status("no state", fovea_attention_state_merge(none, a), FOVEA_ERROR_NULL, "state");
    check_status("no later", fovea_attention_state_merge(a, none), FOVEA_ERROR_NULL, "later");
    check_status("itself", fovea_attention_state_merge(a, a), FOVEA_ERROR_ALIAS, "state|later");
    check_status("shape", fovea_attention_state_merge(a, b), FOVEA_ERROR_SHAPE, "value_dim|5|4");
    check_status("of no keys", fovea_attention_state_merge(a, state), FOVEA_OK, NULL);
    check_status("into one of no keys", fovea_attention_state_merge(state, a), FOVEA_OK, NULL);
    test_check(memcmp(state, a, size) == 0, "a partial alone is not itself");
    check_status("twice", fovea_attention_state_merge(state, a), FOVEA_ERROR_ARGUMENT, "later|key 0|256");
    fovea_attention_plan_destroy(plan);
    fovea_attention_plan_destroy(wider);
    free(memory);
    free(a);
    free(b);
    inputs_free(in);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "state_errors", NULL);
    ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    test_execute_errors();
    test_state_errors();
    fovea_context_destroy(ctx);
    return test_end();
}
