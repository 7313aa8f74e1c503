/* The machine as the tuner sees it, apart from the facts of its context: clocks and disturbances. */
#ifndef TUNE_MACHINE_H
#define TUNE_MACHINE_H

#include "context/context.h"
#include "options.h"

#include <signal.h>
#include <stdbool.h>

/* Disturbances of a measurement, as counts since the machine or the process started. */
typedef struct tune_noise {
    long involuntary;    /* switches away from this process */
    long long steal;     /* ticks that the hypervisor gave to others */
    long long throttled; /* periods in which the cgroup's quota was used up */
} tune_noise;

tune_noise tune_noise_now(void);
long tune_involuntary(void);

/* Periods in which the quota was used up of the cgroups that lines of /proc/self/cgroup name, version 2
 * ("0::/folder") or 1 ("4:cpu,cpuacct:/folder"), and of all groups above them. root: "" but in tests. */
long long tune_throttled(const char *root);

/* Bytes of memory that may be taken: a quarter of what was left when the context was made. */
int64_t tune_memory_allowed(const fovea_context *ctx);

/* How evenly the same work goes on one thread, for about a tenth of a second. */
typedef struct tune_steadiness {
    double excess;    /* of the average time over the least, as a share of the least */
    tune_noise noise; /* meanwhile */
} tune_steadiness;

tune_steadiness tune_measure_steadiness(const fovea_context *ctx);

/* So uneven that nothing could be told: this process got less than a third of a core. */
bool tune_is_busy(const tune_steadiness *s);

/* One line each on what is seen: CPU, caches, cores, quota, steadiness. */
void tune_machine_print(const fovea_context *ctx, const tune_steadiness *steady);

double tune_now(void); /* seconds, of a clock that does not jump */
void tune_rest(double seconds);

/* The instruments of a measurement: clock, counters of disturbances, execution. Tests replace them. */
struct tune_problem;
struct tune_plan;
typedef struct tune_instruments {
    double (*now)(void);
    void (*rest)(double seconds);
    long (*involuntary)(void);
    tune_noise (*noise)(void);
    double (*time)(struct tune_problem *problem, const struct tune_plan *plan); /* NULL: it is executed */
} tune_instruments;
extern tune_instruments tune_instrument;

extern volatile sig_atomic_t tune_stopped; /* a signal that ends the program: what was proved is kept */

/* A context as the command line wants it, without a tuning file. */
fovea_context *tune_context(const tune_options *options);

#endif
