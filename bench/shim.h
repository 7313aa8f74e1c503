/* Google Benchmark for programs in C: the one file that calls it is the only C++ of this project.
 *
 * Use: fill one shim_bench per measurement and hand them to shim_run(), which prints the table, writes the JSON file
 * and says whether a measurement failed.
 */
#ifndef BENCH_SHIM_H
#define BENCH_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Cost of one run, for the rates that are shown with the time. 0: not shown. */
typedef struct shim_cost {
    double flops;
    double bytes;
    double elements;
    double peak; /* flops per second of the hardware: flops are shown as a share of it, too; */
    double read; /* bytes per second that it reads: bytes likewise, and the larger of the two shares */
} shim_cost;

/* One measurement. Timed is run() alone, called as often as it takes; begin() and end() are called around each series
 * of runs, several times in all. */
typedef struct shim_bench {
    const char *name;
    const char *(*begin)(void *self, shim_cost *cost); /* makes, checks, warms up: NULL, or what went wrong */
    void (*run)(void *self);
    void (*end)(void *self); /* releases, also after a begin() that failed */
    void *self;
} shim_bench;

typedef struct shim_options {
    const char *json;          /* file for the results, or NULL */
    double min_time;           /* seconds for each measurement */
    int repetitions;           /* more than 1: shows mean, median and spread */
    const char *const *passed; /* [passed_count] options of Google Benchmark's own */
    int passed_count;
} shim_options;

/* A line of the heading, in the table and in the JSON file. Before shim_run(). */
void shim_context(const char *key, const char *value);

/* Runs all of them; once only in a process. 0: every begin() was content; 1: one was not, or the JSON file is not
 * whole; 2: a passed option is none. */
int shim_run(const shim_bench *benches, int count, const shim_options *options);

#ifdef __cplusplus
}
#endif
#endif
