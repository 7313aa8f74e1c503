/* fovea-minilm: attention on the queries, keys and values of a real model reading a real text; what `make run` runs.
 *
 * Runs the same attention with plain C, with every tier of the library that this CPU has (one thread), and with the
 * best tier on all threads. Prints for each how well it agrees with the answer in float64, whether its bits are those
 * of the scalar tier, and how fast it is; then what dispatch chose and why.
 * While it measures, it shows on a terminal (standard error) how far it is.
 *
 * How it measures: what is compared takes turns (ROUNDS times), so that a machine that slows down slows all of them;
 * each turn begins with one run that is not counted (once is enough where a run outlasts a turn) and repeats until its
 * share of the time is over; the median of all counted runs is what the table shows. The peak takes turns with them.
 * What runs on one thread is timed by that thread's CPU clock: on a machine that does other things too, a long run is
 * interrupted more often than a short one, and the slow would look slower than they are. Of several threads only the
 * time that passed tells how fast they are together, and one that waits for a CPU holds up all: a note under the table
 * says so where they did not have theirs. */
#include <fovea/fovea.h>

#include "agreement.h"
#include "cli.h"
#include "inspect/progress.h"
#include "minilm_data.h"
#include "peak.h"
#include "plain_attention.h"
#include "stopwatch.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 5,
    MOST_SAMPLES = 2000, /* of a contestant in one round */
    MOST_ROWS = 16
};

/* One line of the table. */
typedef struct contestant {
    const char *name;
    fovea_context *context; /* NULL: plain C */
    fovea_attention_plan *plan;
    fovea_attention_args args;
    void *workspace;
    size_t workspace_size;
    fovea_info info;
    float *out;
    double *samples; /* seconds of each counted run */
    int64_t sample_count;
    double peak; /* GFLOP/s, 0 where it was not measured */
    agreement errors;
    int same_bits;
} contestant;

/* What runs had of their CPUs, one for each thread: seconds that passed there, and those of them spent on the runs. */
typedef struct cpu_use {
    double passed, worked;
} cpu_use;

typedef struct bout {
    minilm_data data;
    reference ref;
    float *scores; /* scratch of plain C */
    contestant rows[MOST_ROWS];
    int row_count;
    char missing[128]; /* tiers of the library that did not run */
    cpu_use one, all;  /* of the runs on one thread, of those on all */
} bout;

typedef struct options {
    const char *data;
    int threads;
    double seconds;
} options;

/* ----------------------------------------------------------------------------------------------- errors, options -- */

static void die(const char *what) {
    fprintf(stderr, "fovea-minilm: %s\n", what);
    exit(1);
}

static void require(fovea_status status, const char *what) {
    if (status != FOVEA_OK) {
        fprintf(stderr, "fovea-minilm: %s: %s (%s)\n", what, fovea_error_detail(), fovea_status_name(status));
        exit(1);
    }
}

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

static int read_options(int argc, char **argv, options *opts) {
    static const cli_option table[] = {
        {"--data", "FILE", "@file " FOVEA_MINILM_DATA, cli_read_text, 0, 0, offsetof(options, data), 1,
         "queries, keys, values and float64 answer, as examples/minilm/make_data.py writes them (default: layer 0 of "
         "all-MiniLM-L6-v2, on the Gettysburg Address)"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, offsetof(options, threads), 1,
         "threads of the last line of the table (default: all CPUs this process may use)"},
        {"--seconds", "S", "5", cli_read_real, 0, 3600, offsetof(options, seconds), 1,
         "how long to measure in all, about (default: 5)"},
    };
    static const cli_command command = {
        "",
        1,
        0,
        0,
        "",
        "",
        "run the attention of a real model on a real text with every kernel tier that this CPU has"};
    const cli program = {.program = "fovea-minilm",
                         .version = fovea_version(),
                         .exit_statuses = "0 all bits are the same, and all errors are within their limits; 1 they are "
                                          "not, or the data cannot be read; 2 wrong usage",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    int words;
    *opts = (options){.data = FOVEA_MINILM_DATA, .seconds = 5.0};
    return cli_read(&program, argc, argv, opts, &only, NULL, &words);
}

/* --------------------------------------------------------------------------------------------------- contestants -- */

static size_t out_bytes(const bout *b) {
    return (size_t)(b->data.tokens * b->data.heads * b->data.head_dim) * sizeof(float);
}

static contestant *add_contestant(bout *b, const char *name) {
    if (b->row_count == MOST_ROWS)
        die("more tiers than the table has lines");
    contestant *row = &b->rows[b->row_count++];
    row->name = name;
    row->out = allocate(out_bytes(b), 1);
    row->samples = allocate((size_t)ROUNDS * MOST_SAMPLES, sizeof *row->samples);
    row->same_bits = 1;
    return row;
}

/* The arrays lie [token][head][channel], as the model's projections write them: strides are all the library needs. */
static fovea_tensor tensor_of(const bout *b, float *array) {
    return fovea_tensor_bthd(array, FOVEA_DTYPE_F32, 1, b->data.tokens, b->data.heads, b->data.head_dim);
}

/* Takes the context over. */
static void add_tier(bout *b, fovea_context *context) {
    fovea_info info;
    fovea_info_init(&info);
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
    row->workspace = allocate(row->workspace_size + 1, 1);
    fovea_attention_args_init(&row->args);
    row->args.q = tensor_of(b, b->data.q);
    row->args.k = tensor_of(b, b->data.k);
    row->args.v = tensor_of(b, b->data.v);
    row->args.out = tensor_of(b, row->out);
}

/* A context of that tier at most; its info too. */
static fovea_context *make_context(fovea_isa isa, int threads, fovea_info *info) {
    fovea_context_options opts;
    fovea_context_options_init(&opts);
    opts.isa = isa;
    opts.threads = threads;
    fovea_context *context;
    require(fovea_context_create(&opts, &context), "context");
    fovea_info_init(info);
    require(fovea_context_info(context, info), "context info");
    return context;
}

/* Plain C, every tier with one thread, the best tier with all threads if these are more than one. */
static void add_contestants(bout *b, int threads) {
    fovea_info info;
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

/* Takes the turns; after each, the bits are held against those of rows[1], which is the scalar tier. */
static void measure(bout *b, double seconds) {
    /* Four parts of the time for runs, one for the peak. */
    double turn = 0.8 * seconds / (ROUNDS * b->row_count), peak_turn = 0.2 * seconds / (ROUNDS * b->row_count);
    progress p;
    progress_begin(&p, "turns", (int64_t)ROUNDS * b->row_count);
    for (int round = 0; round < ROUNDS; round++)
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

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* -------------------------------------------------------------------------------------------------------- report -- */

static double flops(const minilm_data *data) {
    return 4.0 * (double)data->heads * (double)data->tokens * (double)data->tokens * (double)data->head_dim;
}

static void print_head(const bout *b) {
    const minilm_data *d = &b->data;
    const contestant *best = &b->rows[b->row_count - 1];
    printf("Fovea %s on %s\n", fovea_version(), best->info.cpu[0] != 0 ? best->info.cpu : "a CPU without a name");
    printf("%s, layer %lld: %lld tokens, %lld heads of %lld channels.\n", d->title, (long long)d->layer,
           (long long)d->tokens, (long long)d->heads, (long long)d->head_dim);
    printf("Computes softmax(q k^T / sqrt(%lld)) v in float32: %.1f MFLOP and %.2f million exp.\n\n",
           (long long)d->head_dim, 1e-6 * flops(d), 1e-6 * (double)d->heads * (double)d->tokens * (double)d->tokens);
}

/* Says so if other programs had CPUs that the runs needed.
 *
 * OpenMP's threads spin for a while before they sleep, so here all of them work all the time if the machine is idle.
 * Another program takes half a CPU at least, however many there are: the limit is in CPUs, with a little for each
 * thread for what an idle machine does besides. Of 2 CPUs 0.02 were missing on an idle machine (0.12 where
 * OMP_WAIT_POLICY lets threads sleep), 0.6 to 1 beside a loop in another process. Clocks of other threads advance by
 * the kernel's tick: what took less than a tenth of a second is not judged. */
static void print_busy(const bout *b) {
    const int threads = b->rows[b->row_count - 1].info.threads;
    const double had = threads * b->all.worked / b->all.passed; /* not a number if one thread is all */
    if (b->all.passed > 0.1 * threads && threads - had > 0.2 + 0.02 * threads)
        printf("This machine is busy: the %d threads of the last line had %.1f CPUs, as other programs had the rest\n"
               "(or OpenMP's settings made threads sleep). Alone they may be much faster.\n",
               threads, had);
    else if (b->one.passed > 1.1 * b->one.worked)
        printf("This machine is busy: other programs had this CPU for %.0f%% of the time, and more than one thread\n"
               "cannot be measured well.\n",
               100.0 * (1.0 - b->one.worked / b->one.passed));
}

static void print_table(bout *b) {
    printf("                  error against float64      bits as              speed,   FMA peak,   share   times\n"
           "tier     threads  absolute relative  scaled  scalar  time, ms  GFLOP/s   GFLOP/s   of peak  plain C\n"
           "-------  -------  -------- --------  ------  ------  --------  -------  ---------  -------  -------\n");
    double plain_time = median(b->rows[0].samples, b->rows[0].sample_count);
    for (int i = 0; i < b->row_count; i++) {
        contestant *row = &b->rows[i];
        double time = median(row->samples, row->sample_count), speed = 1e-9 * flops(&b->data) / time;
        char peak[16] = "-", share[16] = "-";
        if (row->peak > 0.0) {
            snprintf(peak, sizeof peak, "%.1f", row->peak);
            snprintf(share, sizeof share, "%.1f%%", 100.0 * speed / row->peak);
        }
        printf("%-7s  %7d  %8.1e %8.1e  %6.1f  %6s  %8.3f  %7.2f  %9s  %7s  %6.1fx\n", row->name,
               row->plan == NULL ? 1 : row->info.threads, row->errors.absolute, row->errors.relative,
               row->errors.scaled,
               row->plan == NULL ? "-"
               : row->same_bits  ? "yes"
                                 : "NO",
               1e3 * time, speed, peak, share, plain_time / time);
    }
    if (b->missing[0] != 0)
        printf("Not run: %s (of another architecture, or see dispatch below).\n", b->missing);
    print_busy(b);
}

static void print_columns(const bout *b) {
    puts("\n"
         "absolute       largest |o - o64|; o64 is the answer in float64 that the data file holds\n"
         "relative       root of the sum of (o - o64)^2 over the sum of o64^2\n"
         "scaled         largest |o - o64| / (2^-23 * sum p|v|): in units of what one rounding of every term\n"
         "               may do. A score s is rounded by some 2^-23 |s|, which is a relative error of its\n"
         "               weight p: where scores are large, as in some rows here, float32 cannot stay at a few\n"
         "bits as        yes: every output has the same 32 bits as the scalar tier's\n"
         "time           median of warm runs that took turns with the other lines'; of one thread its CPU\n"
         "               time, so that other programs do not count; of more the time that passed");
    printf("speed          multiplications and additions of q k^T and p v. Not counted: an exp for each %lld of\n"
           "               them, maxima, sums and packing\n",
           4 * (long long)b->data.head_dim);
    puts("FMA peak       the most that the tier's instructions did between these runs, on one thread, in\n"
         "               registers only; the scalar tier's fma is a call of libm where the CPU may lack it\n"
         "share of peak  speed / FMA peak\n"
         "plain C        three plain loops with libm's expf (examples/plain_attention.c), one thread,\n"
         "               compiled like the library's portable C: no instruction set named");
    printf("\nThe float64 answer was computed again here: it differs by at most %.0f * 2^-52 * sum p|v|.\n",
           b->ref.drift);
}

static void print_dispatch(const bout *b) {
    const contestant *best = &b->rows[b->row_count - 1];
    printf("\nDispatch: %s, %d thread%s.\n  %s\n", best->name, best->info.threads, best->info.threads == 1 ? "" : "s",
           best->info.reason);
    size_t size = fovea_attention_plan_describe(best->plan, NULL, 0) + 1;
    char *text = allocate(size, 1);
    fovea_attention_plan_describe(best->plan, text, size);
    puts("Plan:");
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        printf("  %s\n", line);
    free(text);
}

/* 0 if all is well. */
static int print_verdict(const bout *b) {
    int wrong = 0;
    double worst = 0.0;
    putchar('\n');
    if (!(b->ref.drift < 0x1p20)) {
        puts("WRONG: the data file's answer is not that of its own q, k and v.");
        wrong = 1;
    }
    for (int i = 1; i < b->row_count; i++) {
        const contestant *row = &b->rows[i];
        worst = fmax(worst, row->errors.of_limit);
        if (!row->same_bits || !(row->errors.of_limit <= 1.0)) {
            printf("WRONG: %s, %d thread%s: %s\n", row->name, row->info.threads, row->info.threads == 1 ? "" : "s",
                   row->same_bits ? "an error is beyond its limit" : "the bits differ from the scalar tier's");
            wrong = 1;
        }
    }
    if (!wrong)
        printf("All right: the same bits on every line, and no error above %.0f%% of its row's limit of\n"
               "4 + 4 * (largest scale * sum |q||k| of the row) units (plain C: %.0f%%).\n",
               100.0 * worst, 100.0 * b->rows[0].errors.of_limit);
    return wrong;
}

int main(int argc, char **argv) {
    static bout b;
    options opts;
    const int status = read_options(argc, argv, &opts);
    if (status >= 0)
        return status;
    char message[512];
    if (minilm_data_load(opts.data, &b.data, message, sizeof message) != 0)
        die(message);
    if (reference_create(&b.data, &b.ref) != 0)
        die("out of memory");
    b.scores = allocate((size_t)(b.data.tokens * b.data.tokens), sizeof *b.scores);

    add_contestants(&b, opts.threads);
    measure(&b, opts.seconds);

    print_head(&b);
    print_table(&b);
    print_columns(&b);
    print_dispatch(&b);
    int wrong = print_verdict(&b);

    for (int i = 0; i < b.row_count; i++) {
        contestant *row = &b.rows[i];
        fovea_attention_plan_destroy(row->plan);
        fovea_context_destroy(row->context);
        free(row->workspace);
        free(row->out);
        free(row->samples);
    }
    free(b.scores);
    reference_free(&b.ref);
    minilm_data_free(&b.data);
    return wrong;
}
