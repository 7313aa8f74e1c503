/* The library touches what it was given and nothing else.
 *
 *   operands   random problems with every operand (q, k, v, mask, lengths, outputs, workspace of exactly the told size)
 *              between forbidden pages, flush with the end, then with the start: no fault, and the bits of ordinary
 *              memory. Rows past a length do not even exist where the last sequence is short
 *   unseen     segments of keys and values that no row sees lie on forbidden pages: no time is spent on them
 *   gaps       bytes between the rows of outputs, and around the workspace, keep what they held
 *   workspace  any alignment, larger than needed, dirty, NULL; too small is refused and nothing written
 *   inputs     are not changed */
#include "attention_case.h"
#include "guard.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static fovea_context *ctx;

/* Elements from a tensor's first to past its last one, where sequences have the given lengths (NULL: whole). */
static int64_t tensor_extent(const fovea_tensor *t, const int64_t *lens) {
    int64_t extent = 0;
    for (int64_t b = 0; b < t->shape[0]; b++) {
        int64_t tokens = lens ? lens[b] : t->shape[2];
        if (t->shape[1] == 0 || tokens == 0 || t->shape[3] == 0)
            continue;
        int64_t end = b * t->stride[0] + (t->shape[1] - 1) * t->stride[1] + (tokens - 1) * t->stride[2] +
                      (t->shape[3] - 1) * t->stride[3] + 1;
        extent = end > extent ? end : extent;
    }
    return extent;
}

enum { OPERANDS = 11 };

typedef struct guarded {
    guard *blocks[OPERANDS];
    int count;
    fovea_attention_args args;
    void *workspace;
    size_t workspace_size;
} guarded;

static void *guarded_part(guarded *g, const char *name, const void *from, size_t size, size_t whole, guard_side side) {
    guard *block = guard_alloc_part(name, size, whole, side);
    g->blocks[g->count++] = block;
    if (from && size > 0)
        memcpy(block->data, from, size);
    return block->data;
}

static void *guarded_copy(guarded *g, const char *name, const void *from, size_t size, guard_side side) {
    return guarded_part(g, name, from, size, size, side);
}

static void guarded_tensor(guarded *g, const char *name, fovea_tensor *t, const int64_t *lens, guard_side side) {
    if (t->data == NULL)
        return;
    size_t element = t->dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
    t->data = guarded_part(g, name, t->data, (size_t)tensor_extent(t, lens) * element,
                           (size_t)tensor_extent(t, NULL) * element, side);
}

static guarded guard_all(const attention_case *c, const inputs *in, const outputs *out, size_t workspace_size,
                         guard_side side) {
    guarded g = {.args = case_args(in, out), .workspace_size = workspace_size};
    size_t lengths = (size_t)c->desc.batch * sizeof(int64_t);
    guarded_tensor(&g, "q", &g.args.q, in->q_lens, side);
    guarded_tensor(&g, "k", &g.args.k, in->kv_lens, side);
    guarded_tensor(&g, "v", &g.args.v, in->kv_lens, side);
    guarded_tensor(&g, "mask", &g.args.mask, NULL, side);
    guarded_tensor(&g, "out", &g.args.out, NULL, side);
    guarded_tensor(&g, "lse", &g.args.lse, NULL, side);
    guarded_tensor(&g, "weights", &g.args.weights, NULL, side);
    if (in->q_lens)
        g.args.q_lens = guarded_copy(&g, "q_lens", in->q_lens, lengths, side);
    if (in->kv_lens)
        g.args.kv_lens = guarded_copy(&g, "kv_lens", in->kv_lens, lengths, side);
    if (in->q_offsets)
        g.args.q_offsets = guarded_copy(&g, "q_offsets", in->q_offsets, lengths, side);
    g.workspace = guarded_copy(&g, "workspace", NULL, workspace_size, side);
    return g;
}

/* For guard_try(). */
typedef struct call {
    const fovea_attention_plan *plan;
    guarded *memory;
    fovea_status status;
} call;

static void execute_call(void *arg) {
    call *x = arg;
    x->status = fovea_attention_execute(x->plan, &x->memory->args, x->memory->workspace, x->memory->workspace_size);
}

/* Executes it; false, and a failed check, if it touched what is forbidden. */
static bool executes(call *x, const char *where, const char *text) {
    guard_fault fault;
    char what[256];
    if (guard_try(execute_call, x, &fault))
        return test_check(x->status == FOVEA_OK, "%s: %s (%s)", where, fovea_error_detail(), text);
    guard_describe(&fault, what, sizeof what);
    return test_check(false, "%s: %s (%s)", where, what, text);
}

/* Same bytes in a guarded tensor as in the ordinary one, gaps included. */
static bool tensor_same(const fovea_tensor *got, const fovea_tensor *want) {
    if (want->data == NULL)
        return true;
    return memcmp(got->data, want->data, (size_t)tensor_extent(want, NULL) * sizeof(float)) == 0;
}

static void check_guarded(const attention_case *c, const inputs *in, const outputs *want, const outputs *blank,
                          const fv_attention_choice *choice, guard_side side, const char *text) {
    fovea_attention_plan *plan;
    if (!test_check(fv_attention_plan_create_chosen(ctx, &c->desc, choice, &plan) == FOVEA_OK, "plan: %s (%s)",
                    fovea_error_detail(), text))
        return;
    guarded memory = guard_all(c, in, blank, fovea_attention_plan_workspace_size(plan), side);
    call x = {.plan = plan, .memory = &memory};
    if (executes(&x, side == GUARD_END ? "guarded at the end" : "guarded at the start", text))
        test_check(tensor_same(&memory.args.out, &want->out) && tensor_same(&memory.args.lse, &want->lse) &&
                       tensor_same(&memory.args.weights, &want->weights),
                   "other bits between forbidden pages (%s)", text);
    for (int i = 0; i < memory.count; i++) {
        int64_t where = 0;
        test_check(guard_intact(memory.blocks[i], &where), "%s: byte %" PRId64 " outside of it was written (%s)",
                   memory.blocks[i]->name, where, text);
        guard_free(memory.blocks[i]);
    }
    fovea_attention_plan_destroy(plan);
}

static void test_operands(void) {
    for (int64_t n = 0, count = test_scaled(350); n < count; n++) {
        char name[32], text[600];
        snprintf(name, sizeof name, "memory %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 100000);
        int at = snprintf(text, sizeof text, "%s: ", name);
        case_text(&c, text + at, sizeof text - (size_t)at);
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, c.layout), *blank = outputs_make(&c, c.layout);
        case_run(ctx, NULL, &c, in, want);
        fv_attention_choice choice = {0};
        for (int round = 0; round < 2; round++) {
            check_guarded(&c, in, want, blank, &choice, GUARD_END, text);
            check_guarded(&c, in, want, blank, &choice, GUARD_START, text);
            choice = choice_random(&r);
        }
        inputs_free(in);
        outputs_free(want);
        outputs_free(blank);
    }
}

static void forbid(unsigned char *bytes, size_t size) {
    if (size > 0 && mprotect(bytes, size, PROT_NONE) != 0) { /* of nothing, it is an error under qemu */
        perror("mprotect");
        exit(TEST_FAILED);
    }
}

/* A copy of keys or values of one head of which only segments [first, end) may be touched. */
static guard *guard_segments(const char *name, const fovea_tensor *from, int64_t first, int64_t end) {
    const size_t segment = (size_t)(FV_SEGMENT * from->stride[2]) * sizeof(float),
                 all = (size_t)(from->shape[2] * from->stride[2]) * sizeof(float);
    guard *block = guard_alloc(name, all, GUARD_START);
    unsigned char *bytes = block->data;
    memcpy(bytes, from->data, all);
    forbid(bytes, (size_t)first * segment);
    forbid(bytes + (size_t)end * segment, all - (size_t)end * segment);
    return block;
}

static void test_unseen(void) {
    static const struct {
        fovea_causal causal;
        int64_t q_len, offset, left, right; /* offset -1: none */
        int64_t first, end;                 /* segments that are seen */
    } cases[] = {{FOVEA_CAUSAL_TOP_LEFT, 200, -1, -1, -1, 0, 1},     {FOVEA_CAUSAL_TOP_LEFT, 600, -1, -1, -1, 0, 3},
                 {FOVEA_CAUSAL_BOTTOM_RIGHT, 64, -1, 100, -1, 7, 8}, {FOVEA_CAUSAL_OFFSET, 24, 1000, 50, -1, 3, 4},
                 {FOVEA_CAUSAL_OFFSET, 300, 500, -1, -1, 0, 4},      {FOVEA_CAUSAL_NONE, 100, 900, 10, 20, 3, 4},
                 {FOVEA_CAUSAL_OFFSET, 1, 1300, 200, -1, 4, 6},      {FOVEA_CAUSAL_BOTTOM_RIGHT, 1, -1, 255, -1, 7, 8}};
    for (size_t n = 0; n < 2 * sizeof cases / sizeof cases[0]; n++) {
        attention_case c = case_plain(1, 1, 1, cases[n / 2].q_len, 8 * FV_SEGMENT, 64, 64);
        c.desc.causal = cases[n / 2].causal;
        c.desc.window_left = cases[n / 2].left;
        c.desc.window_right = cases[n / 2].right;
        c.q_offsets = cases[n / 2].offset >= 0;
        c.weights = n % 2;
        rng r = rng_stream(test_seed(), "unseen");
        inputs *in = inputs_make_given(&c, &r, NULL, NULL, &cases[n / 2].offset);
        outputs *want = outputs_make(&c, c.layout), *got = outputs_make(&c, c.layout);
        case_run(ctx, NULL, &c, in, want);
        guarded memory = {.args = case_args(in, got)};
        guard *k = guard_segments("k", &memory.args.k, cases[n / 2].first, cases[n / 2].end),
              *v = guard_segments("v", &memory.args.v, cases[n / 2].first, cases[n / 2].end);
        memory.args.k.data = k->data;
        memory.args.v.data = v->data;
        fovea_attention_plan *plan;
        test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
        call x = {.plan = plan, .memory = &memory};
        char text[512];
        if (executes(&x, "segments that no row sees are forbidden", case_text(&c, text, sizeof text)))
            outputs_same(got, want, "unseen segments (%s)", text);
        fovea_attention_plan_destroy(plan);
        guard_free(k);
        guard_free(v);
        inputs_free(in);
        outputs_free(want);
        outputs_free(got);
    }
}

/* The gaps of LAYOUT_ODD hold the canary after a run: outputs_make() of two such cases share it, so a run whose rows
 * are copied over a fresh canary must give the same memory. */
static void test_gaps(void) {
    for (int64_t n = 0, count = test_scaled(40); n < count; n++) {
        char name[32];
        snprintf(name, sizeof name, "gaps %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 100000);
        c.layout = LAYOUT_ODD;
        c.lse = c.weights = true;
        inputs *in = inputs_make(&c, &r);
        outputs *got = outputs_make(&c, LAYOUT_ODD), *want = outputs_make(&c, LAYOUT_ODD);
        case_run(ctx, NULL, &c, in, got);
        const fovea_tensor *from[] = {&got->out, &got->lse, &got->weights};
        const fovea_tensor *to[] = {&want->out, &want->lse, &want->weights};
        for (int i = 0; i < 3; i++)
            for (int64_t b = 0; b < c.desc.batch; b++)
                for (int64_t h = 0; h < c.desc.q_heads; h++)
                    for (int64_t t = 0; t < c.desc.q_len; t++)
                        memcpy(tensor_row(to[i], b, h, t), tensor_row(from[i], b, h, t),
                               (size_t)from[i]->shape[3] * sizeof(float));
        char text[512];
        outputs_same(got, want, "gaps between rows of outputs (%s: %s)", name, case_text(&c, text, sizeof text));
        inputs_free(in);
        outputs_free(got);
        outputs_free(want);
    }
}

/* A plan, its inputs and what they give, for the tests of the workspace. One row and many take different paths. */
typedef struct bench {
    attention_case c;
    inputs *in;
    outputs *want, *got;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    size_t size;
} bench;

static bench bench_make(int64_t q_len) {
    bench x = {.c = case_plain(1, 4, 2, q_len, 700, 24, 24)};
    rng r = rng_stream(test_seed(), "workspace");
    x.c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    x.c.weights = true;
    x.in = inputs_make(&x.c, &r);
    x.want = outputs_make(&x.c, LAYOUT_BHTD);
    x.got = outputs_make(&x.c, LAYOUT_BHTD);
    case_run(ctx, NULL, &x.c, x.in, x.want);
    test_check(fovea_attention_plan_create(ctx, &x.c.desc, &x.plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    x.args = case_args(x.in, x.got);
    x.size = fovea_attention_plan_workspace_size(x.plan);
    return x;
}

static void bench_free(bench *x) {
    fovea_attention_plan_destroy(x->plan);
    inputs_free(x->in);
    outputs_free(x->want);
    outputs_free(x->got);
}

static void test_workspace(int64_t q_len) {
    bench x = bench_make(q_len);
    unsigned char *memory = must_alloc((int64_t)x.size + 4096, 1);
    for (size_t shift = 0; shift <= 130; shift += shift < 70 ? 1 : 15) {
        memset(memory, (int)(shift * 37 + 1), x.size + 4096);
        outputs_clear(x.got);
        fovea_status status = fovea_attention_execute(x.plan, &x.args, memory + shift, x.size);
        test_check(status == FOVEA_OK, "workspace at byte %zu: %s", shift, fovea_error_detail());
        outputs_same(x.got, x.want, "workspace at byte %zu", shift);
        int64_t written = 0;
        for (size_t i = 0; i < x.size + 4096; i++)
            written += (i < shift || i >= shift + x.size) && memory[i] != (unsigned char)(shift * 37 + 1);
        test_check(written == 0, "%" PRId64 " bytes around the workspace at byte %zu were written", written, shift);
    }
    outputs_clear(x.got);
    test_check(fovea_attention_execute(x.plan, &x.args, memory, x.size + 4096) == FOVEA_OK, "a larger workspace: %s",
               fovea_error_detail());
    outputs_same(x.got, x.want, "a larger workspace");
    outputs_clear(x.got);
    test_check(fovea_attention_execute(x.plan, &x.args, NULL, 0) == FOVEA_OK, "no workspace: %s", fovea_error_detail());
    outputs_same(x.got, x.want, "no workspace");

    outputs *blank = outputs_make(&x.c, LAYOUT_BHTD);
    const size_t small[] = {0, 1, x.size / 2, x.size - 1};
    for (int i = 0; i < 4 && x.size > 1; i++) {
        char needed[32], given[32];
        snprintf(needed, sizeof needed, "%zu", x.size);
        snprintf(given, sizeof given, "%zu", small[i]);
        outputs_clear(x.got);
        fovea_status status = fovea_attention_execute(x.plan, &x.args, memory, small[i]);
        test_check(status == FOVEA_ERROR_WORKSPACE, "workspace of %zu for %zu: %s", small[i], x.size,
                   fovea_status_name(status));
        test_check(strstr(fovea_error_detail(), needed) && strstr(fovea_error_detail(), given),
                   "the detail names %s and %s: %s", needed, given, fovea_error_detail());
        outputs_same(x.got, blank, "outputs after a workspace of %zu for %zu", small[i], x.size);
    }
    outputs_free(blank);
    free(memory);
    bench_free(&x);
}

/* Scratch grows with threads and tiles, not with q_len x kv_len; partial sums of split rows grow with kv_len alone, and
 * with the window where there is one. */
static void test_workspace_size(void) {
    size_t sizes[2];
    for (int n = 0; n < 2; n++) {
        attention_case c = case_plain(1, 8, 8, n ? 16384 : 2048, n ? 16384 : 2048, 64, 64);
        fovea_attention_plan *plan;
        test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
        sizes[n] = fovea_attention_plan_workspace_size(plan);
        fovea_attention_plan_destroy(plan);
    }
    test_check(sizes[1] <= 9 * sizes[0] && sizes[1] < (size_t)64 << 20,
               "workspace of %zu bytes for 2048 tokens, %zu for 16384", sizes[0], sizes[1]);
    for (int n = 0; n < 2; n++) { /* a window of 1000 keys: the partial sums of 5 segments, however many there are */
        attention_case c = case_plain(1, 1, 1, 1, (int64_t)1 << (n ? 40 : 13), 16, 16);
        c.desc.causal = FOVEA_CAUSAL_OFFSET;
        c.desc.window_left = 999;
        fovea_attention_plan *plan;
        test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
        sizes[n] = fovea_attention_plan_workspace_size(plan);
        fovea_attention_plan_destroy(plan);
    }
    test_check(sizes[0] == sizes[1], "workspace of %zu bytes for a window in 2^13 keys, %zu in 2^40", sizes[0],
               sizes[1]);
    test_check(fovea_attention_plan_workspace_size(NULL) == 0, "workspace size of no plan");
}

static void test_inputs_unchanged(void) {
    attention_case c = case_plain(2, 4, 2, 50, 300, 20, 24);
    c.desc.mask = FOVEA_MASK_ADDITIVE;
    c.weights = true;
    rng r = rng_stream(test_seed(), "unchanged"), again = r;
    inputs *in = inputs_make(&c, &r), *copy = inputs_make(&c, &again);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    case_run(ctx, NULL, &c, in, out);
    const fovea_tensor *got[] = {&in->args.q, &in->args.k, &in->args.v, &in->args.mask};
    const fovea_tensor *want[] = {&copy->args.q, &copy->args.k, &copy->args.v, &copy->args.mask};
    for (int i = 0; i < 4; i++)
        test_check(tensor_same(got[i], want[i]), "input %d was changed", i);
    inputs_free(in);
    inputs_free(copy);
    outputs_free(out);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "memory_bounds", NULL);
    /* Pages are forbidden to all threads alike, but only the calling one can report a fault: so one thread. */
    ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    test_operands();
    test_unseen();
    test_gaps();
    fovea_context_destroy(ctx);
    thread_pool *p = thread_pool_create(3);
    ctx = context_of(FOVEA_ISA_BEST, 3, p);
    test_workspace(1);
    test_workspace(60);
    test_workspace_size();
    test_inputs_unchanged();
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    return test_end();
}
