/* bout.h.
 *
 * How it measures: what is compared takes turns (BOUT_ROUNDS times), so that a machine that slows down slows all;
 * each turn begins with one run that is not counted (once is enough where a run outlasts a turn) and repeats until its
 * share of the time is over; the median of all counted runs is what the table shows. The peak takes turns with them.
 * What runs on one thread is timed by that thread's CPU clock: on a machine that does other things too, a long run is
 * interrupted more often than a short one, and the slow would look slower than they are. Of several threads only the
 * time that passed tells how fast they are together, and one that waits for a CPU holds up all: a note under the table
 * says so where they did not have theirs. */
#include "bout.h"

#include "peak_run.h"
#include "progress.h"
#include "stopwatch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 2000 }; /* of a contestant in one round */

void bout_die(const char *what) {
    fprintf(stderr, "fovea-minilm: %s\n", what);
    exit(1);
}

static void require(fovea_status status, const char *what) {
    if (status != FOVEA_OK) {
        fprintf(stderr, "fovea-minilm: %s: %s (%s)\n", what, fovea_error_detail(), fovea_status_name(status));
        exit(1);
    }
}

void *bout_allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL)
        bout_die("out of memory");
    return memory;
}

/* --------------------------------------------------------------------------------------------------- contestants -- */

static size_t out_bytes(const bout *b) {
    return (size_t)(b->data.tokens * b->data.heads * b->data.head_dim) * sizeof(float);
}

static contestant *add_contestant(bout *b, const char *name) {
    if (b->row_count == BOUT_ROWS)
        bout_die("more tiers than the table has lines");
    contestant *row = &b->rows[b->row_count++];
    row->name = name;
    row->out = bout_allocate(out_bytes(b), 1);
    row->samples = bout_allocate((size_t)BOUT_ROUNDS * MOST_SAMPLES, sizeof *row->samples);
    row->same_bits = 1;
    return row;
}

/* The arrays lie [token][head][channel], as the model's projections write them: strides are all the library needs. */
static fovea_tensor tensor_of(const bout *b, float *array) {
    return fovea_tensor_bthd(array, FOVEA_DTYPE_F32, 1, b->data.tokens, b->data.heads, b->data.head_dim);
}

/* Takes the context over. */
static void add_tier(bout *b, fovea_context *context) {
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    require(fovea_context_info(context, &info), "context info");

    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.q_heads = desc.kv_heads = b->data.heads;
    desc.q_len = desc.kv_len = b->data.tokens;
    desc.head_dim = desc.value_dim = b->data.head_dim;

    contestant *row = add_contestant(b, fovea_isa_name(info.isa));
    row->context = context;
    row->info = info;
    require(fovea_attention_plan_create(context, &desc, &row->plan), "plan");
    row->workspace_size = fovea_attention_plan_workspace_size(row->plan);
    row->workspace = bout_allocate(row->workspace_size + 1, 1);
    fovea_attention_args_init(&row->args);
    row->args.q = tensor_of(b, b->data.q);
    row->args.k = tensor_of(b, b->data.k);
    row->args.v = tensor_of(b, b->data.v);
    row->args.out = tensor_of(b, row->out);
}

/* A context of that tier at most; its info too. */
static fovea_context *make_context(fovea_isa isa, int threads, fovea_context_facts *info) {
    fovea_context_options opts;
    fovea_context_options_init(&opts);
    opts.isa = isa;
    opts.threads = threads;
    opts.threads_backend = FOVEA_THREADS_POOL;
    fovea_context *context;
    require(fovea_context_create(&opts, &context), "context");
    fovea_context_facts_init(info);
    require(fovea_context_info(context, info), "context info");
    return context;
}

void bout_add_contestants(bout *b, int threads) {
    fovea_context_facts info;
    add_contestant(b, "plain C");
    for (int isa = FOVEA_ISA_SCALAR; strcmp(fovea_isa_name((fovea_isa)isa), "unknown") != 0; isa++) {
        fovea_context *context = make_context((fovea_isa)isa, 1, &info);
        if (info.isa == (fovea_isa)isa) {
            add_tier(b, context);
        } else {
            size_t length = strlen(b->missing);
            snprintf(b->missing + length, sizeof b->missing - length, "%s%s", length > 0 ? ", " : "",
                     fovea_isa_name((fovea_isa)isa));
            fovea_context_destroy(context);
        }
    }
    fovea_context *context = make_context(FOVEA_ISA_BEST, threads, &info);
    if (info.threads > 1)
        add_tier(b, context);
    else
        fovea_context_destroy(context);
}

static void run(bout *b, contestant *row) {
    const minilm_data *d = &b->data;
    if (row->plan == NULL)
        plain_attention(d->q, d->k, d->v, row->out, b->scores, d->tokens, d->heads, d->head_dim);
    else
        require(fovea_attention_execute(row->plan, &row->args, row->workspace, row->workspace_size), row->name);
}

/* ----------------------------------------------------------------------------------------- correctness and speed -- */

/* One turn of one contestant: counted runs for about that many seconds of its clock, at least one. */
static void take_turn(bout *b, contestant *row, double seconds) {
    int alone = row->plan == NULL || row->info.threads == 1;
    clockid_t clock = alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    clockid_t work = alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
    if (row->sample_count == 0 || row->samples[row->sample_count - 1] < seconds)
        run(b, row);
    double passed = stopwatch(CLOCK_MONOTONIC), worked = stopwatch(work);
    double start = stopwatch(clock), begin = start, end;
    int count = 0;
    do {
        run(b, row);
        end = stopwatch(clock);
        row->samples[row->sample_count++] = end - begin;
        begin = end;
    } while (end - start < seconds && ++count < MOST_SAMPLES);
    cpu_use *use = alone ? &b->one : &b->all;
    use->worked += stopwatch(work) - worked;
    use->passed += (alone ? 1 : row->info.threads) * (stopwatch(CLOCK_MONOTONIC) - passed);
}

/* The most GFLOP/s of a tier's FMA instructions in about that many seconds, by the loop that benchmarks use, too; 0 if
 * this build has none for the tier. */
static double peak_gflops(fovea_isa isa, double seconds) {
    enum { ROUNDS = 20000 };
    double start = stopwatch(CLOCK_MONOTONIC), best = 0.0, end;
    do {
        double begin = stopwatch(CLOCK_MONOTONIC), flops = peak_run((int)isa, ROUNDS);
        end = stopwatch(CLOCK_MONOTONIC);
        best = fmax(best, 1e-9 * flops / (end - begin));
    } while (end - start < seconds);
    return best;
}

void bout_measure(bout *b, double seconds) {
    /* Four parts of the time for runs, one for the peak. */
    double turn = 0.8 * seconds / (BOUT_ROUNDS * b->row_count),
           peak_turn = 0.2 * seconds / (BOUT_ROUNDS * b->row_count);
    progress p;
    progress_begin(&p, "turns", (int64_t)BOUT_ROUNDS * b->row_count);
    for (int round = 0; round < BOUT_ROUNDS; round++)
        for (int i = 0; i < b->row_count; i++) {
            contestant *row = &b->rows[i];
            take_turn(b, row, turn);
            row->same_bits &= memcmp(row->out, b->rows[1].out, out_bytes(b)) == 0;
            if (row->plan != NULL && row->info.threads == 1)
                row->peak = fmax(row->peak, peak_gflops(row->info.isa, peak_turn));
            if (p.terminal) /* elsewhere it would leave lines, which nobody needs of a few seconds */
                progress_show(&p, (int64_t)round * b->row_count + i + 1);
        }
    progress_end(&p);
    for (int i = 0; i < b->row_count; i++)
        b->rows[i].errors = reference_compare(&b->ref, &b->data, b->rows[i].out);
}

void bout_free(bout *b) {
    for (int i = 0; i < b->row_count; i++) {
        contestant *row = &b->rows[i];
        fovea_attention_plan_destroy(row->plan);
        fovea_context_destroy(row->context);
        free(row->workspace);
        free(row->out);
        free(row->samples);
    }
}
