/* Attention over ranks: the bits of one rank. Run by mpirun with any number of ranks (groups.h).
 *     test-mpi [--cases N] [--seed N]      default: 80 cases, or FOVEA_TEST_SCALE of them
 * Rank 0 computes a problem alone by fovea_attention_execute(), then all their parts of it together, and compare.
 * Problems: each feature alone with both methods, then random ones. Errors: a bad argument on each rank in turn is told
 * on all. The last line counts; exit code 0 or 1. */
#include "case.h"
#include "groups.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fovea_context *contexts[2]; /* of 1 and of 3 threads */

/* ------------------------------------------------------------------------------------------------------ problems -- */

static bool run_alone(const problem *p) {
    fovea_attention_plan *plan;
    fovea_attention_args args = problem_args(p);
    int status = rank ? FOVEA_OK : (int)fovea_attention_plan_create(contexts[0], &p->desc, &plan);
    if (rank == 0 && status == FOVEA_OK) {
        status = fovea_attention_execute(plan, &args, NULL, 0);
        fovea_attention_plan_destroy(plan);
    }
    const int64_t rows = p->desc.batch * p->desc.q_heads * p->desc.q_len;
    MPI_Bcast(&status, 1, MPI_INT, 0, comm);
    MPI_Bcast(p->out.data, (int)(rows * p->desc.value_dim * (p->out.dtype == FOVEA_DTYPE_F32 ? 4 : 2)), MPI_BYTE, 0,
              comm);
    MPI_Bcast(p->lse_out.data, (int)rows, MPI_FLOAT, 0, comm);
    return check(status == FOVEA_OK, "alone: %s (%s)", fovea_error_detail(), problem_text(p));
}

/* This rank's part; freed by free_parts(). */
static fovea_attention_args parts(const problem *p, const fovea_mpi_attention_plan *plan) {
    fovea_attention_args args = problem_args(p);
    args.q = part_of(&p->q, plan, rank, fovea_mpi_attention_query_stripe, true);
    args.k = part_of(&p->k, plan, rank, fovea_mpi_attention_key_stripe, true);
    args.v = part_of(&p->v, plan, rank, fovea_mpi_attention_key_stripe, true);
    args.out = part_of(&p->out, plan, rank, fovea_mpi_attention_query_stripe, false);
    if (p->lse)
        args.lse = part_of(&p->lse_out, plan, rank, fovea_mpi_attention_query_stripe, false);
    return args;
}

static void free_parts(fovea_attention_args *args) {
    free(args->q.data);
    free(args->k.data);
    free(args->v.data);
    free(args->out.data);
    free(args->lse.data);
}

static fovea_mpi_attention_plan *plan_of(problem *p) {
    fovea_mpi_attention_plan *plan;
    p->over.attention = &p->desc;
    const fovea_status status = fovea_mpi_attention_plan_create(comm, contexts[p->threads > 1], &p->over, &plan);
    check(status == FOVEA_OK, "plan: %s (%s)", fovea_mpi_error_detail(), problem_text(p));
    return plan;
}

static void same_bits(const problem *p, const fovea_attention_args *args, const fovea_mpi_attention_plan *plan) {
    char text[512];
    fovea_mpi_attention_plan_describe(plan, text, sizeof text);
    check(part_same(&args->out, &p->out, plan, rank, fovea_mpi_attention_query_stripe), "out differs: %s\n%s",
          problem_text(p), text);
    check(!p->lse || part_same(&args->lse, &p->lse_out, plan, rank, fovea_mpi_attention_query_stripe),
          "lse differs: %s\n%s", problem_text(p), text);
}

static void run(problem *p, rng *r) {
    problem_fill(p, r);
    fovea_mpi_attention_plan *plan = run_alone(p) ? plan_of(p) : NULL;
    if (plan) {
        fovea_attention_args args = parts(p, plan);
        const size_t size = fovea_mpi_attention_plan_workspace_size(plan);
        const bool own = rng_below(r, 3) != 0;
        unsigned char *workspace = own ? malloc(size + 8) : NULL;
        if (own)
            memset(workspace, 0xff, size + 8);
        const fovea_status status = fovea_mpi_attention_execute(plan, &args, workspace, own ? size : 0);
        check(status == FOVEA_OK, "%s (%s)", fovea_mpi_error_detail(), problem_text(p));
        for (int i = 0; own && i < 8; i++)
            check(workspace[size + (size_t)i] == 0xff, "writes past the workspace: %s", problem_text(p));
        if (status == FOVEA_OK)
            same_bits(p, &args, plan);
        free(workspace);
        free_parts(&args);
    }
    fovea_mpi_attention_plan_destroy(plan);
    problem_free(p);
}

/* One thing at a time, by both methods, queries in both places; of these one in every. Other numbers of ranks take
 * others. */
static void test_each(rng *r, int every) {
    enum { FEATURES = 16 };
    for (int i = 0; i < FEATURES * 4; i++) {
        if ((i + ranks) % every != 0)
            continue;
        problem p = problem_plain();
        fovea_attention_desc *d = &p.desc;
        p.over.method = (fovea_mpi_method)(1 + i % 2);
        p.over.queries = (fovea_mpi_queries)(i / 2 % 2);
        d->relative_buckets = 32;
        d->relative_max_distance = 500;
        d->relative_width = 30;
        d->relative_height = 50;
        const int feature = i / 4;
        switch (feature) {
        case 1:
        case 2: d->causal = (fovea_causal)feature; break;
        case 3: d->causal = FOVEA_CAUSAL_OFFSET, p.offsets = true, p.over.max_offset = 2000; break;
        case 4: d->window_left = 300; break;
        case 5: d->window_left = 100, d->window_right = 400, d->causal = FOVEA_CAUSAL_NONE; break;
        case 6:
        case 7:
        case 8: d->relative = (fovea_relative)(feature - 5), d->causal = FOVEA_CAUSAL_TOP_LEFT; break;
        case 9:
            d->relative = FOVEA_RELATIVE_WINDOW_2D, p.over.method = FOVEA_MPI_METHOD_PASS;
            d->window_left = i % 2 ? 100 : -1;
            d->window_right = i % 2 ? 100 : -1;
            break;
        case 10: d->has_sinks = 1; break;
        case 11: d->softcap = 2; break;
        case 12: d->dtype = FOVEA_DTYPE_BF16, d->causal = FOVEA_CAUSAL_TOP_LEFT; break;
        case 13: d->dtype = FOVEA_DTYPE_F16; break;
        case 14: d->dtype = FOVEA_DTYPE_BF16, d->arithmetic = FOVEA_ARITHMETIC_BF16_TILE; break;
        case 15: p.lens = true, d->causal = FOVEA_CAUSAL_BOTTOM_RIGHT, p.over.max_offset = 1500, d->q_len = 1; break;
        default: break;
        }
        run(&p, r);
    }
}

/* -------------------------------------------------------------------------------------------------------- errors -- */

static void all_failed(fovea_status status, fovea_status want, int guilty, const char *what) {
    char name[32];
    snprintf(name, sizeof name, "rank %d: ", guilty);
    check(status == want, "%s: %s, not %s", what, fovea_status_name(status), fovea_status_name(want));
    check(guilty < 0 || strncmp(fovea_mpi_error_detail(), name, strlen(name)) == 0, "%s: the sentence is '%s'", what,
          fovea_mpi_error_detail());
}

/* Each rank in turn is given something wrong. The plan then serves a good call. */
static void test_execute_errors(rng *r) {
    for (int i = 0; i < 4; i++) {
        problem p = problem_plain();
        p.over.method = (fovea_mpi_method)(1 + i % 2);
        p.over.queries = (fovea_mpi_queries)(i / 2);
        p.lens = true;
        problem_fill(&p, r);
        run_alone(&p);
        fovea_mpi_attention_plan *plan = plan_of(&p);
        if (!plan)
            return;
        fovea_attention_args good = parts(&p, plan);
        for (int guilty = i % 2; guilty < ranks; guilty += 2) {
            const bool me = rank == guilty;
            char small[64];
            fovea_attention_args bad = good;
            bad.k.shape[2] += me;
            all_failed(fovea_mpi_attention_execute(plan, &bad, NULL, 0), FOVEA_ERROR_SHAPE, guilty, "keys");
            bad = good;
            if (me)
                bad.q.dtype = FOVEA_DTYPE_F16;
            all_failed(fovea_mpi_attention_execute(plan, &bad, NULL, 0), FOVEA_ERROR_DTYPE, guilty, "type");
            bad = good;
            if (me)
                bad.out.data = bad.q.data;
            all_failed(fovea_mpi_attention_execute(plan, &bad, NULL, 0),
                       fovea_mpi_attention_queries(plan, guilty) ? FOVEA_ERROR_ALIAS : FOVEA_OK,
                       fovea_mpi_attention_queries(plan, guilty) ? guilty : -1, "alias");
#define REFUSE(name, value)                                                                                            \
    bad = good;                                                                                                        \
    if (me)                                                                                                            \
        bad.name = value;                                                                                              \
    all_failed(fovea_mpi_attention_execute(plan, &bad, NULL, 0), FOVEA_ERROR_UNSUPPORTED, guilty, #name);
            REFUSE(first_key, 256)
            REFUSE(weights, bad.q)
            REFUSE(q_starts, p.kv_lens)
#define FOVEA_ARGS_POINTER(name, type, text) REFUSE(name, (void *)small)
#include "fovea/fields.inc"
            all_failed(fovea_mpi_attention_execute(plan, me ? NULL : &good, NULL, 0), FOVEA_ERROR_NULL, guilty, "args");
            if (me)
                all_failed(fovea_mpi_attention_execute(plan, &good, small, sizeof small), FOVEA_ERROR_WORKSPACE, guilty,
                           "workspace");
            else
                all_failed(fovea_mpi_attention_execute(plan, &good, NULL, 0), FOVEA_ERROR_WORKSPACE, guilty,
                           "workspace");
            int64_t lens[4];
            memcpy(lens, p.kv_lens, sizeof lens);
            bad = good;
            bad.kv_lens = lens;
            lens[0] = me ? p.desc.kv_len + 1 : lens[0];
            all_failed(fovea_mpi_attention_execute(plan, &bad, NULL, 0), FOVEA_ERROR_SHAPE, guilty, "kv_lens");
            lens[0] = me ? p.kv_lens[0] / 2 : p.kv_lens[0];
            if (ranks > 1)
                all_failed(fovea_mpi_attention_execute(plan, &bad, NULL, 0), FOVEA_ERROR_ARGUMENT, -1, "other kv_lens");
        }
        check(fovea_mpi_attention_execute(plan, &good, NULL, 0) == FOVEA_OK, "after errors: %s",
              fovea_mpi_error_detail());
        same_bits(&p, &good, plan);
        free_parts(&good);
        fovea_mpi_attention_plan_destroy(plan);
        problem_free(&p);
    }
}

static fovea_status plan_status(const fovea_context *ctx, const fovea_mpi_attention_desc *desc) {
    fovea_mpi_attention_plan *plan;
    const fovea_status status = fovea_mpi_attention_plan_create(comm, ctx, desc, &plan);
    check((plan == NULL) == (status != FOVEA_OK), "a plan and an error");
    fovea_mpi_attention_plan_destroy(plan);
    return status;
}

static void test_plan_errors(void) {
    for (int guilty = 0; guilty < ranks; guilty++) {
        const bool me = rank == guilty;
        problem p = problem_plain(), bad = p;
        p.over.attention = &p.desc;
        bad.over.attention = &bad.desc;
        fovea_mpi_attention_plan *none;
        all_failed(fovea_mpi_attention_plan_create(comm, contexts[0], &p.over, me ? NULL : &none), FOVEA_ERROR_NULL,
                   guilty, "plan");
        all_failed(plan_status(me ? NULL : contexts[0], &p.over), FOVEA_ERROR_NULL, guilty, "ctx");
        all_failed(plan_status(contexts[0], me ? NULL : &p.over), FOVEA_ERROR_NULL, guilty, "desc");
        bad.desc.head_dim = me ? 0 : 16;
        all_failed(plan_status(contexts[0], &bad.over), FOVEA_ERROR_SHAPE, guilty, "head_dim");
        bad = p, bad.over.attention = &bad.desc;
        bad.desc.mask = me ? FOVEA_MASK_BOOLEAN : FOVEA_MASK_NONE;
        all_failed(plan_status(contexts[0], &bad.over), FOVEA_ERROR_UNSUPPORTED, guilty, "mask");
        bad = p, bad.over.attention = &bad.desc;
        bad.over.in_flight = me ? -1 : 0;
        all_failed(plan_status(contexts[0], &bad.over), FOVEA_ERROR_ARGUMENT, guilty, "in_flight");
        bad = p, bad.over.attention = &bad.desc;
        bad.over.struct_size += me ? 8 : 0;
        all_failed(plan_status(contexts[0], &bad.over), FOVEA_ERROR_VERSION, guilty, "struct_size");
    }
}

/* A field of the description that is another on one rank, each in turn: no rank gets a plan. */
static void test_agreement(int guilty) {
    const bool me = rank == guilty;
    problem p = problem_plain(), bad;
    p.desc.has_scale = 1;
    const fovea_attention_desc *const d = &p.desc;
#define CHANGE(name, value)                                                                                            \
    bad = p;                                                                                                           \
    bad.over.attention = &bad.desc;                                                                                    \
    if (me)                                                                                                            \
        bad.desc.name = value;                                                                                         \
    check(plan_status(contexts[0], &bad.over) != FOVEA_OK, "%s is another on rank %d", #name, guilty);
#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text)                                                \
    if (when) {                                                                                                        \
        CHANGE(name, d->name <= 0 ? 256 : 2 * d->name)                                                                 \
    }
#define FOVEA_DESC_NUMBER(name, least, most, text) CHANGE(name, d->name + 1)
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text) CHANGE(name, d->name + 1)
#define FOVEA_DESC_FLAG(name, text) CHANGE(name, !d->name)
#define FOVEA_DESC_ENUM(name, type, initial, text) CHANGE(name, (fovea_##type)(d->name == 1 ? 2 : 1))
#define FOVEA_DESC_DTYPE(name, initial, text) CHANGE(name, FOVEA_DTYPE_F16)
#include "fovea/fields.inc"
}

/* Offsets that the routes of PASS do not serve are refused, not computed wrongly. */
static void test_offsets(rng *r) {
    problem p = problem_plain();
    p.desc.causal = FOVEA_CAUSAL_OFFSET;
    p.offsets = true;
    p.over.method = FOVEA_MPI_METHOD_PASS;
    problem_fill(&p, r);
    fovea_mpi_attention_plan *plan = plan_of(&p);
    if (!plan)
        return;
    fovea_attention_args args = parts(&p, plan);
    p.q_offsets[0] = 1; /* the plan's is 0 */
    args.q_offsets = p.q_offsets;
    all_failed(fovea_mpi_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_UNSUPPORTED, 0, "an offset");
    free_parts(&args);
    fovea_mpi_attention_plan_destroy(plan);
    problem_free(&p);
}

int main(int argc, char **argv) {
    const char *scaled = getenv("FOVEA_TEST_SCALE");
    const double scale = scaled ? atof(scaled) : 1;
    int64_t cases = (int64_t)(80 * scale) + 1;
    const int fraction = scale < 0.2 ? 7 : scale < 1 ? 3 : 1;
    group_begin(&argc, &argv, MPI_THREAD_FUNNELED);
    for (int i = 1; i + 1 < argc; i += 2) {
        cases = strcmp(argv[i], "--cases") == 0 ? atoll(argv[i + 1]) : cases;
        seed = strcmp(argv[i], "--seed") == 0 ? atoll(argv[i + 1]) : seed;
    }
    for (int i = 0; i < 2; i++)
        contexts[i] = group_context(FOVEA_ISA_BEST, i ? 3 : 1);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const bool groups = ranks == 7;
    cases = groups ? cases / 3 + 1 : cases;
    const int every = groups && scale < 1 ? 7 : fraction;
    while (group_next()) {
        rng r = {(uint64_t)(seed + ranks)};
        test_plan_errors();
        for (int guilty = 0; ranks > 1 && guilty < ranks; guilty++)
            test_agreement(guilty);
        test_execute_errors(&r);
        test_offsets(&r);
        test_each(&r, every);
        for (int64_t i = 0; i < cases; i++) {
            problem p = problem_random(&r);
            run(&p, &r);
        }
    }
    for (int i = 0; i < 2; i++)
        fovea_context_destroy(contexts[i]);
    return group_report("mpi");
}
