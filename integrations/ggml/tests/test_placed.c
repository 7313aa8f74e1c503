/* Where weights are placed and operations run: the answers of supports_op(), which depend on the question alone;
 * graphs of two models; whatever reads or writes a tensor that a program placed in our buffers. --tuned: answers by a
 * tuning file. */
#define _DEFAULT_SOURCE
#include "placed.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct ggml_tensor tensor;

static ggml_backend_reg_t reg;
static ggml_backend_buffer_type_t packed_type, cpu_type;
static bool all;          /* FOVEA_GGML=all */
static const char *tuned; /* a tuning file: tune() */
static ggml_backend_t backends[3];
enum { WIDTH = 256, ROWS = 3 };

/* ----------------------------------------------------------------------------------------------------- questions -- */

typedef enum question {
    PRODUCT,
    EXPERTS,
    EMBEDDING,
    FACTOR,
    BEHIND_PACKED,
    BEHIND_OTHER,
    BEHIND_EXPERTS,
    FIRST
} question;

static const struct {
    const char *name;
    question question;
    enum ggml_type type;
} questions[] = {
    {"f32", PRODUCT, GGML_TYPE_F32},
    {"f16", PRODUCT, GGML_TYPE_F16},
    {"bf16", PRODUCT, GGML_TYPE_BF16},
    {"q8_0", PRODUCT, GGML_TYPE_Q8_0},
    {"q4_0", PRODUCT, GGML_TYPE_Q4_0},
    {"q4_1", PRODUCT, GGML_TYPE_Q4_1},
    {"q4_K", PRODUCT, GGML_TYPE_Q4_K},
    {"q5_K", PRODUCT, GGML_TYPE_Q5_K},
    {"q6_K", PRODUCT, GGML_TYPE_Q6_K},
    {"q5_0", PRODUCT, GGML_TYPE_Q5_0},
    {"q5_1", PRODUCT, GGML_TYPE_Q5_1},
    {"iq4_nl", PRODUCT, GGML_TYPE_IQ4_NL},
    {"mxfp4", PRODUCT, GGML_TYPE_MXFP4},
    {"q3_K", PRODUCT, GGML_TYPE_Q3_K},
    {"experts", EXPERTS, GGML_TYPE_Q8_0},
    {"embedding", EMBEDDING, GGML_TYPE_Q8_0},
    {"weights of a norm", FACTOR, GGML_TYPE_F32},
    {"SCALE behind a packed product", BEHIND_PACKED, GGML_TYPE_Q8_0},
    {"SCALE behind another product", BEHIND_OTHER, GGML_TYPE_Q3_K},
    {"SCALE behind experts", BEHIND_EXPERTS, GGML_TYPE_Q8_0},
    {"SCALE of an input", FIRST, GGML_TYPE_F32},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

static bool expected(int i) {
    const enum ggml_type type = questions[i].type;
    /* faster on each CPU that was measured */
    const bool proved = i < 2 || type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_1, served = type != GGML_TYPE_Q3_K;
    switch (questions[i].question) {
    case PRODUCT:
    case EXPERTS:
        return served && (all || (tuned && type == GGML_TYPE_Q4_K) || (proved && !(tuned && type == GGML_TYPE_Q8_0)));
    case BEHIND_OTHER:
    case BEHIND_EXPERTS: return all;
    case BEHIND_PACKED:
    case FIRST: return true;
    default: return false;
    }
}

/* As llama.cpp asks while it loads a model: in a buffer of no bytes; the rest as its scheduler does. */
static bool ask(int i) {
    const question what = questions[i].question;
    const bool experts = what == EXPERTS || what == BEHIND_EXPERTS, factor = what == FACTOR || what == FIRST;
    struct ggml_context *ctx = context_of(8);
    tensor *w = ggml_new_tensor_3d(ctx, questions[i].type, WIDTH, factor ? 1 : WIDTH, experts ? 4 : 1);
    tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, ROWS), *op = NULL;
    tensor *ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, experts ? 1 : ROWS, experts ? ROWS : 1);
    if (experts)
        op = ggml_mul_mat_id(ctx, w, ggml_reshape_3d(ctx, x, WIDTH, 1, ROWS), ids);
    else if (what == EMBEDDING)
        op = ggml_get_rows(ctx, w, ids);
    else if (factor)
        op = what == FIRST ? x : ggml_mul(ctx, x, w);
    else
        op = ggml_mul_mat(ctx, w, x);
    ggml_backend_buffer_t buffer = NULL;
    if (what == BEHIND_PACKED) {
        buffer = ggml_backend_buft_alloc_buffer(packed_type, ggml_nbytes(w) + 4096);
        ggml_backend_tensor_alloc(buffer, w, ggml_backend_buffer_get_base(buffer));
    } else {
        w->buffer = buffer = ggml_backend_buft_alloc_buffer(what <= FACTOR ? packed_type : cpu_type, 0);
    }
    if (what > FACTOR)
        op = ggml_scale(ctx, ggml_rms_norm(ctx, op, 1e-5f), 2);
    const bool is = ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(reg, what <= FACTOR), op);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return is;
}

static void test_questions(void) {
    uint64_t seed = 11;
    for (int i = 0; i < 20 * QUESTIONS; i++) { /* each once, then in any order, some more often than others */
        const float random = (random_float(&seed) + 1) / 2;
        const int which = i < QUESTIONS ? i : (int)(random * random * QUESTIONS);
        check(ask(which) == expected(which), i < QUESTIONS ? "wrong answer" : "another answer than before",
              questions[which].name);
    }
}

/* -------------------------------------------------------------------------------------------------------- models -- */

/* A layer with a gate, then a head; weights where a program would place them. */
typedef struct model {
    enum ggml_type type, head_type;
    struct ggml_context *placed[2], *ctx;
    ggml_backend_buffer_t buffers[2];
    tensor *nodes[8];
    ggml_backend_sched_t sched;
} model;
enum { NODES = 7, NORM = 0, GATE = 1, UP = 2, GLU = 3, SUM = 4, LAST_NORM = 5, HEAD = 6 };

static tensor *matrix(model *m, enum ggml_type type) {
    const bool ours = type != GGML_TYPE_Q3_K;
    return ggml_new_tensor_2d(m->placed[ours], type, WIDTH, WIDTH);
}

static void make(model *m) {
    m->ctx = context_of(24);
    m->placed[0] = context_of(4);
    m->placed[1] = context_of(4);
    tensor *gate = matrix(m, m->type), *up = matrix(m, m->type), *head = matrix(m, m->head_type);
    m->buffers[0] = ggml_get_first_tensor(m->placed[0]) ? place(m->placed[0], cpu_type) : NULL;
    m->buffers[1] = ggml_get_first_tensor(m->placed[1]) ? place(m->placed[1], packed_type) : NULL;
    tensor **n = m->nodes, *x = ggml_new_tensor_2d(m->ctx, GGML_TYPE_F32, WIDTH, ROWS);
    ggml_set_input(x);
    n[NORM] = ggml_rms_norm(m->ctx, x, 1e-5f);
    n[GATE] = ggml_mul_mat(m->ctx, gate, n[NORM]);
    n[UP] = ggml_mul_mat(m->ctx, up, n[NORM]);
    n[GLU] = ggml_swiglu_split(m->ctx, n[GATE], n[UP]);
    n[SUM] = ggml_add(m->ctx, n[GLU], x);
    n[LAST_NORM] = ggml_rms_norm(m->ctx, n[SUM], 1e-5f);
    n[HEAD] = ggml_mul_mat(m->ctx, head, n[LAST_NORM]);
    ggml_set_output(n[HEAD]);
    struct ggml_cgraph *graph = ggml_new_graph(m->ctx);
    ggml_build_forward_expand(graph, n[HEAD]);
    m->sched = ggml_backend_sched_new(backends, NULL, 3, GGML_DEFAULT_GRAPH_SIZE, false, true);
    check(ggml_backend_sched_alloc_graph(m->sched, graph), "no graph", "models");
}

static void release(model *m) {
    ggml_backend_sched_free(m->sched);
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_free(m->buffers[i]);
        ggml_free(m->placed[i]);
    }
    ggml_free(m->ctx);
}

static bool is_ours(const model *m, int node) {
    return ggml_backend_sched_get_tensor_backend(m->sched, m->nodes[node]) == backends[0];
}

static void check_packed(const model *m) {
    for (int i = 0; i < NODES; i++)
        check(is_ours(m, i), "a part of the packed model is elsewhere", "models");
    check(ggml_backend_sched_get_n_splits(m->sched) == 1, "the packed model is split", "models");
}

/* Its head alone is packed. */
static void check_other(const model *m) {
    check(is_ours(m, HEAD), "the head is elsewhere", "models");
    for (int i = GATE; i < LAST_NORM; i++)
        check(is_ours(m, i) == (all && i != GATE && i != UP), "operations follow the head", "models");
}

static void test_models(void) {
    model packed = {.type = GGML_TYPE_Q8_0, .head_type = GGML_TYPE_Q8_0}, other = packed;
    other.type = GGML_TYPE_Q3_K;
    for (int order = 0; order < 4; order++) {
        make(order % 2 ? &packed : &other);
        if (order < 2) {
            order % 2 ? check_packed(&packed) : check_other(&other);
        } else {
            make(order % 2 ? &other : &packed);
            check_packed(&packed);
            check_other(&other);
            release(order % 2 ? &other : &packed);
        }
        release(order % 2 ? &packed : &other);
    }
}

/* -------------------------------------------------------------------------------- uses of tensors in our buffers -- */

/* A case's node reads w, which is [WIDTH, 40, experts] of this type, x of float32 and ids; or writes w. */
typedef struct use {
    const char *name;
    enum ggml_type type;
    int64_t rows, experts;
    tensor *(*build)(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids);
    bool writes;
} use;

static tensor *embed(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    (void)x;
    return ggml_get_rows(ctx, w, ids);
}
static tensor *factor(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    (void)ids;
    return ggml_mul(ctx, x, w);
}
static tensor *product(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    (void)ids;
    return ggml_mul_mat(ctx, w, x);
}
static tensor *experts(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    return ggml_mul_mat_id(ctx, w, ggml_reshape_3d(ctx, x, WIDTH, 1, ROWS), ggml_reshape_2d(ctx, ids, 1, ROWS));
}
static tensor *copy(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    (void)ids;
    return ggml_cpy(ctx, x, ggml_view_2d(ctx, w, WIDTH, ROWS, w->nb[1], 5 * w->nb[1]));
}
static tensor *set_rows(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    return ggml_set_rows(ctx, w, x, ids);
}
static tensor *add_inplace(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    (void)ids;
    return ggml_add_inplace(ctx, w, ggml_view_1d(ctx, x, WIDTH, 0));
}

/* A step of training: x is the gradient. */
static tensor *train(struct ggml_context *ctx, tensor *w, tensor *x, tensor *ids) {
    (void)ids;
    ggml_set_param(w);
    return ggml_opt_step_sgd(ctx, w, x, ggml_view_1d(ctx, x, 2, 0));
}

static const use uses[] = {
    {"GET_ROWS", GGML_TYPE_Q4_0, 40, 1, embed, false},
    {"GET_ROWS of float16", GGML_TYPE_F16, 40, 1, embed, false},
    {"MUL", GGML_TYPE_F32, 1, 1, factor, false},
    {"MUL_MAT of q3_K", GGML_TYPE_Q3_K, 40, 1, product, false},
    {"MUL_MAT_ID", GGML_TYPE_Q8_0, 40, 4, experts, false},
    {"MUL_MAT_ID of q3_K", GGML_TYPE_Q3_K, 40, 4, experts, false},
    {"CPY into q8_0", GGML_TYPE_Q8_0, 40, 1, copy, true},
    {"CPY into float16", GGML_TYPE_F16, 40, 1, copy, true},
    {"SET_ROWS into q4_0", GGML_TYPE_Q4_0, 40, 1, set_rows, true},
    {"ADD into float32", GGML_TYPE_F32, 40, 1, add_inplace, true},
    {"OPT_STEP_SGD", GGML_TYPE_F32, ROWS, 1, train, true},
};
enum { USES = sizeof uses / sizeof uses[0] };

/* Runs the node in the scheduler, twice, then a product of w. Results and bytes of w into to; how many floats. */
static int64_t run(const use *u, ggml_backend_buffer_type_t type, float *to, char *bytes) {
    const bool ours = type == packed_type;
    struct ggml_context *placed = context_of(1), *ctx = context_of(24);
    tensor *w = ggml_new_tensor_3d(placed, u->type, WIDTH, u->rows, u->experts);
    tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, ROWS),
           *ids = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, ROWS);
    tensor *out = u->build(ctx, w, x, ids), *result = u->writes ? ggml_mul_mat(ctx, w, x) : out;
    ggml_backend_buffer_t weights = place(placed, type);
    ggml_set_input(x);
    ggml_set_input(ids);
    ggml_set_output(out);
    ggml_set_output(result);
    void *given = weights_of(u->type, WIDTH, u->rows * u->experts, 8);
    ggml_backend_tensor_set(w, given, 0, ggml_nbytes(w));
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    ggml_build_forward_expand(graph, result);
    ggml_backend_sched_t sched = ggml_backend_sched_new(ours ? backends : backends + 2, NULL, ours ? 3 : 1,
                                                        GGML_DEFAULT_GRAPH_SIZE, false, true);
    check(ggml_backend_sched_alloc_graph(sched, graph), "no graph", u->name);
    if (ours) {
        check(ggml_backend_sched_get_tensor_backend(sched, out) == backends[0], "not ours", u->name);
        check(ggml_backend_sched_get_n_splits(sched) == 1, "split: weights are copied", u->name);
    }
    for (int i = 0; i < 2; i++) {
        if (x->data) /* the graph has it */
            fill(x, 6);
        for (int j = 0; ids->data && j < ROWS; j++)
            ((int32_t *)ids->data)[j] = (int32_t)((7 * j + 2) % (u->experts > 1 ? u->experts : u->rows));
        check(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "error", u->name);
    }
    const int64_t n = ggml_nelements(result);
    ggml_backend_tensor_get(result, to, 0, ggml_nbytes(result));
    ggml_backend_tensor_get(w, bytes, 0, ggml_nbytes(w));
    check(u->writes == !!memcmp(given, bytes, ggml_nbytes(w)), "weights", u->name);
    free(given);
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(weights);
    ggml_free(placed);
    ggml_free(ctx);
    return n;
}

static void test_uses(void) {
    enum { MOST = WIDTH * 64, BYTES = WIDTH * 40 * 4 * 4 };
    float *ours = malloc(MOST * sizeof *ours), *theirs = malloc(MOST * sizeof *theirs);
    double *reference = malloc(MOST * sizeof *reference);
    char *our_bytes = calloc(BYTES, 1), *their_bytes = calloc(BYTES, 1);
    for (const use *u = uses; u < uses + USES; u++) {
        const int64_t n = run(u, cpu_type, theirs, their_bytes);
        run(u, packed_type, ours, our_bytes);
        for (int64_t i = 0; i < n; i++)
            reference[i] = (double)theirs[i];
        const bool multiplied = u->writes || (u->build == experts && u->type == GGML_TYPE_Q8_0);
        /* ggml rounds products' rows to 8 bits */
        check(problem_error(ours, reference, n) <= (multiplied ? 2e-2 : 0), "another result than ggml's", u->name);
        check(!memcmp(our_bytes, their_bytes, BYTES), "another weight than ggml's", u->name);
    }
    free(their_bytes);
    free(our_bytes);
    free(reference);
    free(theirs);
    free(ours);
}

/* A tuning file whose rows say no to q8_0 and yes to q4_K. */
static void tune(void) {
    static char path[] = "/tmp/fovea-test-XXXXXX";
    fovea_context *context;
    fovea_tuning *tuning = NULL;
    check(fovea_context_create(NULL, &context) == FOVEA_OK &&
              fovea_tuning_put_adapter_row(&tuning, context, "ggml.mul_mat", "type=q8_0 : take=0") == FOVEA_OK &&
              fovea_tuning_put_adapter_row(&tuning, context, "ggml.mul_mat", "type=q4_K : take=1") == FOVEA_OK,
          fovea_error_detail(), "rows");
    close(mkstemp(path));
    check(fovea_tuning_save(tuning, path) == FOVEA_OK, fovea_error_detail(), "a file");
    setenv("FOVEA_TUNING_FILE", path, 1);
    tuned = path;
    fovea_tuning_destroy(tuning);
    fovea_context_destroy(context);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--tuned"))
        tune();
    reg = begin();
    packed_type = ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(reg, 1));
    cpu_type = ggml_backend_cpu_buffer_type();
    all = takes_all();
    backends[0] = make_fovea(reg, 2);
    backends[1] = ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 1), NULL);
    backends[2] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    test_questions();
    if (!tuned) {
        test_models();
        test_questions();
        test_uses();
    } else {
        unlink(tuned);
    }
    for (int i = 0; i < 3; i++)
        ggml_backend_free(backends[i]);
    return end();
}
