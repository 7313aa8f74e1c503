/* Bad arguments of fovea_attention_execute() give a status and a sentence that names what is wrong, and not a byte of
 * outputs, inputs or workspace is written. Each check takes arguments that work and spoils one thing of them. */
#include "attention_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

/* A problem in one block of memory, for overlaps to be made: q, k, v, mask, out, lse, weights one after another. */
typedef struct problem {
    attention_case c;
    fovea_attention_plan *plan;
    float *memory;
    int64_t floats;
    fovea_attention_args args;
    void *workspace;
    size_t workspace_size;
} problem;

static void problem_make(problem *p, fovea_mask_kind mask, fovea_causal causal) {
    p->c = case_plain(2, 4, 2, 10, 20, 16, 24);
    fovea_attention_desc *d = &p->c.desc;
    d->mask = mask;
    d->causal = causal;
    test_check(fovea_attention_plan_create(ctx, d, &p->plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    p->floats = 40000;
    p->memory = must_alloc(p->floats, sizeof(float));
    for (int64_t i = 0; i < p->floats; i++)
        p->memory[i] = (float)(i % 13) * 0.125F;
    float *at = p->memory + 100;
    fovea_attention_args_init(&p->args);
    p->args.q = fovea_tensor_bhtd(at, FOVEA_DTYPE_F32, 2, 4, 10, 16);
    p->args.k = fovea_tensor_bhtd(at += 2 * 4 * 10 * 16, FOVEA_DTYPE_F32, 2, 2, 20, 16);
    p->args.v = fovea_tensor_bhtd(at += 2 * 2 * 20 * 16, FOVEA_DTYPE_F32, 2, 2, 20, 24);
    p->args.out = fovea_tensor_bhtd(at += 2 * 2 * 20 * 24, FOVEA_DTYPE_F32, 2, 4, 10, 24);
    p->args.lse = fovea_tensor_bhtd(at += 2 * 4 * 10 * 24, FOVEA_DTYPE_F32, 2, 4, 10, 1);
    p->args.weights = fovea_tensor_bhtd(at += 2 * 4 * 10, FOVEA_DTYPE_F32, 2, 4, 10, 20);
    at += 2 * 4 * 10 * 20;
    if (mask == FOVEA_MASK_BOOLEAN)
        p->args.mask = fovea_tensor_bhtd(at, FOVEA_DTYPE_BOOL, 2, 4, 10, 20);
    if (mask == FOVEA_MASK_ADDITIVE)
        p->args.mask = fovea_tensor_bhtd(at, FOVEA_DTYPE_F32, 2, 4, 10, 20);
    p->workspace_size = fovea_attention_plan_workspace_size(p->plan);
    p->workspace = must_alloc((int64_t)p->workspace_size, 1);
}

static void problem_free(problem *p) {
    fovea_attention_plan_destroy(p->plan);
    free(p->memory);
    free(p->workspace);
}

/* Executes spoiled arguments: the status, the sentence, and not a byte of the block or the workspace written. */
static void check_args(const problem *p, const char *what, const fovea_attention_args *args, fovea_status want,
                       const char *words) {
    float *before = must_alloc(p->floats, sizeof *before);
    memcpy(before, p->memory, (size_t)p->floats * sizeof *before);
    fovea_status status = fovea_attention_execute(p->plan, args, p->workspace, p->workspace_size);
    check_status(what, status, want, words);
    if (want != FOVEA_OK)
        test_same(p->memory, before, p->floats, "%s: memory", what);
    else
        memcpy(p->memory, before, (size_t)p->floats * sizeof *before);
    free(before);
}

/* The tensors of the arguments, by name. */
static const struct {
    const char *name;
    size_t offset;
    bool output, optional;
} tensors[] = {{"q", offsetof(fovea_attention_args, q), false, false},
               {"k", offsetof(fovea_attention_args, k), false, false},
               {"v", offsetof(fovea_attention_args, v), false, false},
               {"mask", offsetof(fovea_attention_args, mask), false, false},
               {"out", offsetof(fovea_attention_args, out), true, false},
               {"lse", offsetof(fovea_attention_args, lse), true, true},
               {"weights", offsetof(fovea_attention_args, weights), true, true}};
enum { TENSORS = sizeof tensors / sizeof tensors[0], MASK = 3 };

static fovea_tensor *tensor_of(fovea_attention_args *args, int which) {
    return (fovea_tensor *)((char *)args + tensors[which].offset);
}

static void test_tensor(const problem *p, int which) {
    const char *name = tensors[which].name;
    char words[128], what[128];
    fovea_attention_args args = p->args;
    fovea_tensor *t = tensor_of(&args, which);
    const fovea_tensor good = *t;
    t->data = NULL;
    snprintf(what, sizeof what, "no %s", name);
    check_args(p, what, &args, tensors[which].optional ? FOVEA_OK : FOVEA_ERROR_NULL, name);
    *t = good;
    const int dtypes[] = {0, good.dtype == FOVEA_DTYPE_F32 ? FOVEA_DTYPE_BOOL : FOVEA_DTYPE_F32, 77};
    for (int i = 0; i < 3; i++) {
        t->dtype = (fovea_dtype)dtypes[i];
        const char *constant = fv_enum_name(FV_ENUM_dtype, dtypes[i]);
        snprintf(what, sizeof what, "dtype %d of %s", dtypes[i], name);
        snprintf(words, sizeof words,
                 constant ? "%s: dtype is %s; it must be" : "%s: dtype is %.0s%d, not a fovea_dtype", name,
                 constant ? constant : "", dtypes[i]);
        check_args(p, what, &args, FOVEA_ERROR_DTYPE, words);
    }
    *t = good;
    if (good.dtype == FOVEA_DTYPE_F32) {
        t->data = (char *)good.data + 2;
        snprintf(what, sizeof what, "%s between two elements", name);
        check_args(p, what, &args, FOVEA_ERROR_ARGUMENT, name);
        *t = good;
    }
    for (int axis = 0; axis < 4; axis++) {
        const int64_t shapes[] = {good.shape[axis] + 1, good.shape[axis] - 1, 0, -1, INT64_MAX, INT64_MIN};
        for (int i = 0; i < 6; i++) {
            t->shape[axis] = shapes[i];
            snprintf(what, sizeof what, "shape[%d] = %" PRId64 " of %s", axis, shapes[i], name);
            snprintf(words, sizeof words, "%s|%" PRId64 "|%" PRId64, name, shapes[i], good.shape[axis]);
            if (which != MASK || shapes[i] != 1)
                check_args(p, what, &args, FOVEA_ERROR_SHAPE, words);
            *t = good;
        }
        t->stride[axis] = -good.stride[axis];
        snprintf(what, sizeof what, "stride[%d] = %" PRId64 " of %s", axis, t->stride[axis], name);
        snprintf(words, sizeof words, "%s|%" PRId64, name, t->stride[axis]);
        check_args(p, what, &args, FOVEA_ERROR_STRIDE, words);
        t->stride[axis] = INT64_MIN;
        check_args(p, what, &args, FOVEA_ERROR_STRIDE, name);
        if (axis < 3) {
            /* Addresses of bytes reach further than those of floats. */
            const int64_t strides[] = {INT64_MAX, INT64_MAX / 2 + 1, INT64_MAX / 4};
            for (int i = 0; i < (good.dtype == FOVEA_DTYPE_BOOL ? 1 : 3); i++) {
                t->stride[axis] = strides[i];
                snprintf(what, sizeof what, "stride[%d] = %" PRId64 " of %s", axis, t->stride[axis], name);
                check_args(p, what, &args, FOVEA_ERROR_OVERFLOW, name);
            }
        } else if (good.shape[3] > 1) {
            t->stride[3] = 2;
            snprintf(what, sizeof what, "stride[3] = 2 of %s", name);
            check_args(p, what, &args, FOVEA_ERROR_STRIDE, name);
            t->stride[3] = 0;
            snprintf(what, sizeof what, "stride[3] = 0 of %s", name);
            check_args(p, what, &args, which == MASK ? FOVEA_OK : FOVEA_ERROR_STRIDE, name);
        }
        *t = good;
        if (tensors[which].output && axis < 3) { /* rows on top of each other */
            const int64_t strides[] = {0, axis == 2 ? good.shape[3] - 1 : good.stride[axis] - 1};
            for (int i = 0; i < 2; i++) {
                t->stride[axis] = strides[i];
                snprintf(what, sizeof what, "overlapping stride[%d] = %" PRId64 " of %s", axis, strides[i], name);
                check_args(p, what, &args, FOVEA_ERROR_STRIDE, name);
            }
        } else if (axis < 3) {
            t->stride[axis] = 0;
            snprintf(what, sizeof what, "stride[%d] = 0 of %s", axis, name);
            check_args(p, what, &args, FOVEA_OK, NULL);
        }
        *t = good;
    }
}

/* Elements from the first to past the last one of a contiguous tensor, in bytes. */
static int64_t tensor_bytes(const fovea_tensor *t) {
    return t->shape[0] * t->stride[0] * (t->dtype == FOVEA_DTYPE_BOOL ? 1 : 4);
}

/* Moves output `which` so that it shares its last or its first element with another operand, all of it, or none. */
static void check_alias(const problem *p, int which, int other) {
    fovea_attention_args args = p->args;
    fovea_tensor *t = tensor_of(&args, which);
    const fovea_tensor *with = tensor_of(&args, other);
    char what[128];
    char *start = with->data;
    const struct {
        const char *how;
        char *data;
    } places[] = {{"starts where", start},
                  {"ends in the first element of", start - tensor_bytes(t) + 4},
                  {"starts in the last element of", start + tensor_bytes(with) - 4}};
    for (int i = 0; i < 3; i++) {
        if ((float *)(void *)places[i].data < p->memory ||
            places[i].data + tensor_bytes(t) > (char *)(p->memory + p->floats))
            continue;
        t->data = places[i].data;
        snprintf(what, sizeof what, "%s %s %s", tensors[which].name, places[i].how, tensors[other].name);
        check_args(p, what, &args, FOVEA_ERROR_ALIAS, tensors[which].name);
    }
}

static void test_aliases(const problem *p) {
    for (int which = 0; which < TENSORS; which++) {
        if (!tensors[which].output)
            continue;
        for (int other = 0; other < TENSORS; other++)
            if (other != which)
                check_alias(p, which, other);

        /* The workspace, at both ends and on top of the output. */
        fovea_attention_args args = p->args;
        fovea_tensor *t = tensor_of(&args, which);
        const int64_t room = (int64_t)p->workspace_size, all = 2 * room + tensor_bytes(t) + 4;
        unsigned char *big = must_alloc(all, 1);
        memset(big, 0x55, (size_t)all);
        t->data = big + (room + 3) / 4 * 4;
        const int64_t starts[] = {(room + 3) / 4 * 4 - room + 1, room, (room + 3) / 4 * 4 + tensor_bytes(t) - 1};
        for (int i = 0; i < 3; i++) {
            fovea_status status = fovea_attention_execute(p->plan, &args, big + starts[i], p->workspace_size);
            check_status("workspace over an output", status, FOVEA_ERROR_ALIAS, tensors[which].name);
        }
        int64_t written = 0;
        for (int64_t i = 0; i < all; i++)
            written += big[i] != 0x55;
        test_check(written == 0, "workspace over %s: %" PRId64 " bytes were written", tensors[which].name, written);
        free(big);
    }
    /* Neighbours that touch are no overlap; nor are inputs that are one and the same. */
    fovea_attention_args args = p->args;
    args.lse.data = NULL;
    args.weights.data = NULL;
    args.k = fovea_tensor_bhtd(args.v.data, FOVEA_DTYPE_F32, 2, 2, 20, 16);
    check_args(p, "k and v in one place", &args, FOVEA_OK, NULL);
}

/* The stride of an axis with one element names nothing, so any will do that is no danger to arithmetic. */
static void test_one_element(void) {
    problem p;
    problem_make(&p, FOVEA_MASK_ADDITIVE, FOVEA_CAUSAL_NONE);
    fovea_attention_plan_destroy(p.plan);
    fovea_attention_desc *d = &p.c.desc;
    d->batch = d->q_heads = d->kv_heads = d->q_len = d->kv_len = d->head_dim = d->value_dim = 1;
    test_check(fovea_attention_plan_create(ctx, d, &p.plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    for (int which = 0; which < TENSORS; which++) {
        fovea_tensor *t = tensor_of(&p.args, which);
        *t = fovea_tensor_bhtd(t->data, t->dtype, 1, 1, 1, 1);
        for (int axis = 0; axis < 4; axis++)
            t->stride[axis] = (int64_t)1 << 48;
    }
    check_args(&p, "one element, strides of 2^48", &p.args, FOVEA_OK, NULL);
    for (int which = 0; which < TENSORS; which++)
        for (int axis = 0; axis < 4; axis++) {
            fovea_attention_args args = p.args;
            tensor_of(&args, which)->stride[axis] = INT64_MAX - axis;
            check_args(&p, "one element, a stride of INT64_MAX", &args, FOVEA_ERROR_OVERFLOW, tensors[which].name);
        }
    problem_free(&p);
}

/* Lengths and offsets that an output, or the workspace, would write over. */
static void test_lengths_aliased(const problem *p) {
    fovea_attention_args args = p->args;
    const int64_t **arrays[] = {&args.q_lens, &args.kv_lens, &args.q_starts, &args.kv_starts, &args.q_offsets};
    static const char *const names[] = {"q_lens", "kv_lens", "q_starts", "kv_starts", "q_offsets"};
    const bool offsets = p->c.desc.causal == FOVEA_CAUSAL_NONE || p->c.desc.causal == FOVEA_CAUSAL_OFFSET;
    for (int i = 0; i < (offsets ? 5 : 4); i++) {
        const int64_t *const given = *arrays[i];
        for (int which = 0; which < TENSORS; which++) {
            const fovea_tensor *t = tensor_of(&args, which);
            /* the last elements of the tensor, at an address for int64_t */
            const uintptr_t end = ((uintptr_t)t->data + (uintptr_t)tensor_bytes(t)) / 8 * 8;
            if (!t->data)
                continue;
            int64_t *at = (int64_t *)(end - 16), saved[2];
            memcpy(saved, at, sizeof saved);
            at[0] = at[1] = 3;
            *arrays[i] = at;
            char what[64];
            snprintf(what, sizeof what, "%s in %s", names[i], tensors[which].name);
            if (tensors[which].output)
                check_args(p, what, &args, FOVEA_ERROR_ALIAS, names[i]);
            else
                check_args(p, what, &args, FOVEA_OK, NULL);
            memcpy(at, saved, sizeof saved);
        }
        int64_t *at = (int64_t *)p->workspace;
        at[0] = at[1] = 3;
        *arrays[i] = at;
        check_args(p, "lengths in the workspace", &args, FOVEA_ERROR_ALIAS, names[i]);
        test_check(at[0] == 3 && at[1] == 3, "%s in the workspace were written", names[i]);
        *arrays[i] = given;
    }
}

static void test_lengths(problem *p) {
    fovea_attention_args args = p->args;
    static const int64_t bad_q[][2] = {{11, 3}, {3, 11}, {-1, 3}, {3, INT64_MIN}, {INT64_MAX, 3}};
    static const int64_t bad_kv[][2] = {{21, 3}, {3, 21}, {-1, 3}, {3, INT64_MIN}, {INT64_MAX, 3}};
    const struct {
        const char *name;
        const int64_t **array, (*bad)[2];
    } arrays[] = {{"q_lens", &args.q_lens, bad_q},
                  {"kv_lens", &args.kv_lens, bad_kv},
                  {"q_starts", &args.q_starts, bad_q}, /* of whole sequences: the same range */
                  {"kv_starts", &args.kv_starts, bad_kv}};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++)
        for (int i = 0; i < 5; i++) {
            char words[64];
            snprintf(words, sizeof words, "%s|%" PRId64, arrays[a].name, arrays[a].bad[i][i == 1 || i == 3]);
            *arrays[a].array = arrays[a].bad[i];
            check_args(p, arrays[a].name, &args, FOVEA_ERROR_SHAPE, words);
            *arrays[a].array = NULL;
        }
    static const int64_t lens[] = {4, 6}, late[] = {6, 5};
    args.q_lens = lens;
    args.q_starts = late;
    check_args(p, "q_starts and q_lens", &args, FOVEA_ERROR_SHAPE, "q_starts[1] is 5|q_lens[1] is 6|10 tokens");
    args.q_starts = NULL;
    args.kv_lens = lens;
    args.kv_starts = (const int64_t[]){16, 15};
    check_args(p, "kv_starts and kv_lens", &args, FOVEA_ERROR_SHAPE, "kv_starts[1] is 15|kv_lens[1] is 6|20 tokens");
    args.q_lens = args.kv_lens = args.kv_starts = NULL;
    static const int64_t offsets[] = {1, 2};
    args.q_offsets = p->c.desc.causal == FOVEA_CAUSAL_OFFSET ? NULL : offsets;
    fovea_status want = p->c.desc.causal == FOVEA_CAUSAL_OFFSET ? FOVEA_ERROR_NULL
                        : p->c.desc.causal == FOVEA_CAUSAL_NONE ? FOVEA_OK
                                                                : FOVEA_ERROR_ARGUMENT;
    char words[64];
    snprintf(words, sizeof words, "q_offsets|causal is %s", fv_enum_name(FV_ENUM_causal, (int)p->c.desc.causal));
    check_args(p, "q_offsets", &args, want, words);
    if (p->c.desc.causal != FOVEA_CAUSAL_NONE && p->c.desc.causal != FOVEA_CAUSAL_OFFSET)
        return;
    static const int64_t far[][2] = {{0, INT64_MAX}, {INT64_MIN, 0}, {0, INT64_MIN + 1}};
    for (int i = 0; i < 3; i++) {
        args.q_offsets = far[i];
        check_args(p, "q_offsets beyond any position", &args, FOVEA_ERROR_ARGUMENT, "q_offsets");
    }
}

static void test_args(fovea_mask_kind mask, fovea_causal causal) {
    problem p;
    problem_make(&p, mask, causal);
    static const int64_t offsets[] = {5, 10};
    if (causal == FOVEA_CAUSAL_OFFSET)
        p.args.q_offsets = offsets;
    check_args(&p, "good arguments", &p.args, FOVEA_OK, NULL);
    for (int which = 0; which < TENSORS; which++)
        if (which != MASK || mask != FOVEA_MASK_NONE)
            test_tensor(&p, which);
    if (mask != FOVEA_MASK_NONE)
        test_aliases(&p);
    test_lengths_aliased(&p);
    test_lengths(&p);

    fovea_attention_args args = p.args;
    args.v = fovea_tensor_bhtd(args.v.data, FOVEA_DTYPE_F32, 2, 2, 19, 24);
    check_args(&p, "k of 20 tokens, v of 19", &args, FOVEA_ERROR_SHAPE, "v|19|20");
    const size_t versions[] = {0, offsetof(fovea_attention_args, stats), sizeof args + 8, SIZE_MAX};
    for (int i = 0; i < 4; i++) {
        args = p.args;
        args.struct_size = versions[i];
        check_args(&p, "struct_size of the arguments", &args, FOVEA_ERROR_VERSION, "");
    }
    args = p.args;
    args.key_list = p.memory;
    check_args(&p, "a list of keys", &args, FOVEA_ERROR_ARGUMENT, "key_list|reserved");
    if (mask == FOVEA_MASK_NONE) {
        args = p.args;
        args.mask = fovea_tensor_bhtd(p.memory, FOVEA_DTYPE_BOOL, 2, 4, 10, 20);
        check_args(&p, "a mask that the descriptor does not have", &args, FOVEA_ERROR_ARGUMENT, "mask");
    }
    args = p.args;
    args.bias = fovea_tensor_bhtd(p.memory, FOVEA_DTYPE_F32, 2, 4, 10, 20);
    check_args(&p, "a bias that the descriptor does not have", &args, FOVEA_ERROR_ARGUMENT, "bias|has_bias");
    args = p.args;
    args.sinks = p.memory;
    check_args(&p, "sinks that the descriptor does not have", &args, FOVEA_ERROR_ARGUMENT, "sinks|has_sinks");
    check_args(&p, "no arguments", NULL, FOVEA_ERROR_NULL, "args");
    check_status("no plan", fovea_attention_execute(NULL, &p.args, p.workspace, p.workspace_size), FOVEA_ERROR_NULL,
                 "plan");
    problem_free(&p);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "attention_execute_errors", NULL);
    ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    test_args(FOVEA_MASK_NONE, FOVEA_CAUSAL_NONE);
    test_args(FOVEA_MASK_BOOLEAN, FOVEA_CAUSAL_TOP_LEFT);
    test_args(FOVEA_MASK_ADDITIVE, FOVEA_CAUSAL_BOTTOM_RIGHT);
    test_args(FOVEA_MASK_NONE, FOVEA_CAUSAL_OFFSET);
    test_one_element();
    fovea_context_destroy(ctx);
    return test_end();
}
