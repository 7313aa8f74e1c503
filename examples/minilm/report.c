/* The output of fovea-minilm (bout.h). */
#include "bout.h"

#include "plural.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static double flops(const minilm_data *data) {
    return 4.0 * (double)data->heads * (double)data->tokens * (double)data->tokens * (double)data->head_dim;
}

static void print_head(const bout *b) {
    const minilm_data *d = &b->data;
    const contestant *best = &b->rows[b->row_count - 1];
    printf("Fovea %s on %s: attention in float32, %s: %lld token%s, %lld head%s of %lld channel%s\n", fovea_version(),
           best->info.cpu[0] != 0 ? best->info.cpu : "a CPU without a name", b->title, (long long)d->tokens,
           plural(d->tokens), (long long)d->heads, plural(d->heads), (long long)d->head_dim, plural(d->head_dim));
}

/* Says so if other programs had CPUs that the runs needed.
 *
 * Threads hardly sleep here if the machine is idle. Another program takes half a CPU at least, however many there are:
 * the limit is in CPUs, with a little for each thread for what an idle machine does besides. Of 2 CPUs 0.02 were
 * missing on an idle machine (0.12 where threads slept whenever they waited), 0.6 to 1 with a loop in another process.
 * Clocks of other threads advance by the kernel's tick: what took less than a tenth of a second is not judged. */
static void print_busy(const bout *b) {
    const int threads = b->rows[b->row_count - 1].info.threads;
    const double had = threads * b->all.worked / b->all.passed; /* not a number if one thread is all */
    if (b->all.passed > 0.1 * threads && threads - had > 0.2 + 0.02 * threads)
        printf("This machine is busy: the %d threads of the first line got %.1f CPUs; on an idle one they may be "
               "faster.\n",
               threads, had);
    else if (b->one.passed > 1.1 * b->one.worked)
        printf("This machine is busy: other programs used this CPU for %.0f%% of the time, which disturbs several "
               "threads.\n",
               100.0 * (1.0 - b->one.worked / b->one.passed));
}

/* The scalar tier is what the others are compared with: nobody runs it for its speed. */
static const char *kernels(const contestant *row) {
    return strcmp(row->name, "scalar") == 0 ? "portable reference (slow)" : row->name;
}

static void print_table(bout *b) {
    puts("kernels                    threads  same bits  time, ms  GFLOP/s    error  times plain C");
    double times[BOUT_ROWS];
    for (int i = 0; i < b->row_count; i++)
        times[i] = median(b->rows[i].samples, b->rows[i].sample_count);
    for (int i = b->row_count - 1; i >= 0; i--) { /* the best tier first */
        const contestant *row = &b->rows[i];
        printf("%-25s  %7d  %9s  %8.3f  %7.2f  %7.1e  %12.1fx\n", kernels(row),
               row->plan == NULL ? 1 : row->info.threads,
               row->plan == NULL ? "-"
               : row->same_bits  ? "yes"
                                 : "NO",
               1e3 * times[i], 1e-9 * flops(&b->data) / times[i], row->errors.relative, times[0] / times[i]);
    }
    print_busy(b);
}

static void print_columns(const bout *b) {
    puts("\n"
         "same bits      yes: every output has the same 32 bits as the portable reference (FOVEA_ISA=scalar)\n"
         "error          sqrt(sum of (o - o64)^2 / sum of o64^2); o64 is the output in float64, from the data file\n"
         "time           median of warm runs, in turns with the other lines. One thread: its CPU time, which\n"
         "               other programs hardly disturb. Several threads: elapsed time");
    printf("GFLOP/s        multiplications and additions of q k^T and p v, %.1f million. Not counted: one exp for\n"
           "               each %lld of them, maxima, sums and packing\n",
           1e-6 * flops(&b->data), 4 * (long long)b->data.head_dim);
    puts("plain C        three plain loops with libm's expf (examples/plain_attention.c), one thread,\n"
         "               compiled like the library's portable C, for no particular CPU");
}

static void print_errors(bout *b) {
    puts("\n"
         "kernels                    threads  absolute  scaled  of limit  FMA peak, GFLOP/s  of peak");
    for (int i = b->row_count - 1; i >= 0; i--) {
        const contestant *row = &b->rows[i];
        char peak[16] = "-", share[16] = "-";
        if (row->peak > 0.0) {
            snprintf(peak, sizeof peak, "%.1f", row->peak);
            snprintf(share, sizeof share, "%.0f%%",
                     1e-7 * flops(&b->data) / median(row->samples, row->sample_count) / row->peak);
        }
        printf("%-25s  %7d  %8.1e  %6.1f  %7.0f%%  %17s  %7s\n", kernels(row),
               row->plan == NULL ? 1 : row->info.threads, row->errors.absolute, row->errors.scaled,
               100.0 * row->errors.of_limit, peak, share);
    }
    puts(
        "absolute       largest |o - o64|\n"
        "scaled         largest |o - o64| / (2^-23 * sum p|v|): in units of one rounding of every term.\n"
        "               Rounding a score s changes it by about 2^-23 |s|, and its weight p by that share of p.\n"
        "               So where scores are large, as in some rows here, float32 needs more than a few units\n"
        "of limit       the same as a share of its row's limit, 4 + 4 * (largest scale * sum |q||k| of the row) units\n"
        "FMA peak       the most that FMA instructions of the tier reached between these runs, on one thread, in\n"
        "               registers only; the reference's fma is a call of libm if the CPU may lack it");
    printf("The float64 output was computed again here; it differs by at most %.0f * 2^-52 * sum p|v|.\n",
           b->ref.drift);
}

static void print_dispatch(const bout *b) {
    const contestant *best = &b->rows[b->row_count - 1];
    if (b->missing[0] != 0)
        printf("\nNot run: %s.", b->missing);
    printf("\nDispatch: %s, %d thread%s.\n  %s\n", best->name, best->info.threads, plural(best->info.threads),
           best->info.reason);
    size_t size = fovea_attention_plan_describe(best->plan, NULL, 0) + 1;
    char *text = bout_allocate(size, 1);
    fovea_attention_plan_describe(best->plan, text, size);
    puts("Plan:");
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        printf("  %s\n", line);
    free(text);
}

/* 0 if all is well. */
static int print_verdict(const bout *b) {
    int wrong = 0;
    if (!(b->ref.drift < 0x1p20)) {
        puts("WRONG: the output in the data file does not belong to its q, k and v.");
        wrong = 1;
    }
    for (int i = 1; i < b->row_count; i++) {
        const contestant *row = &b->rows[i];
        if (!row->same_bits || !(row->errors.of_limit <= 1.0)) {
            printf("WRONG: %s, %d thread%s: %s\n", row->name, row->info.threads, plural(row->info.threads),
                   row->same_bits ? "an error exceeds its limit" : "the bits differ from the scalar tier's");
            wrong = 1;
        }
    }
    if (!wrong)
        puts("All right: the same bits with all of Fovea's kernels, and every error is within its limit.");
    return wrong;
}

int bout_report(bout *b, bool verbose) {
    print_head(b);
    print_table(b);
    const int wrong = print_verdict(b);
    if (verbose) {
        print_columns(b);
        print_errors(b);
        print_dispatch(b);
    }
    return wrong;
}
