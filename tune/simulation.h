/* A machine that is made up, for tests of the search.
 *
 * Clock, counters and execution are a simulation's (tune_instrument): an execution takes the time that its plan costs
 * by a formula, stretched by disturbances of a seed's own. So what is really fastest is known, and a search of
 * seconds takes milliseconds. Disturbances are as on real hosts: jitter, a clock frequency that drifts, bursts of a
 * neighbour who takes half of a core's speed and of whom no counter tells, switches away, stolen ticks, a quota that
 * throttles, a beginning that is faster than anything later. */
#ifndef TUNE_SIMULATION_H
#define TUNE_SIMULATION_H

#include "machine.h"
#include "problem.h"

/* Disturbances: rates in a second of time, lengths in seconds. */
typedef struct weather {
    const char *name;
    double jitter;              /* of each execution, relative */
    double drift;               /* of the frequency, relative, over some seconds */
    double bursts, burst, slow; /* how often, how long, and what becomes of the speed */
    double switches, away;
    double steals, stolen;
    double quota, period; /* seconds of each period; 0: none */
    double quick;         /* seconds at the beginning at twice the speed: what should be cold is not yet */
    bool interrupts;      /* every sample, */
    double clear;         /* from this second on */
    double stall;         /* seconds of every other look at the clock: not even spinning is steady */
    double sleep;         /* real seconds of a sample, for tests that send signals */
    bool may_give_up;     /* so bad that "too noisy" is a good answer, too */
} weather;

enum { WEATHERS = 10, SEEDS = 12 };
extern const weather weathers[WEATHERS];

/* Time of a trap, relative to the same plan elsewhere: large enough to be slower than the default. */
static const double trap_factor = 1.15;

/* Costs of a plan of attention: of its kernels by name, of its sizes by their distance from the best ones. All plans of
 * a linear map take equally long. */
typedef struct machine {
    bool flat;        /* nothing is faster than the default */
    double seconds;   /* of an execution */
    double flops;     /* of the shape that takes so long, others in proportion (0: all take as long) */
    tune_choice trap; /* a trap on the shape with trap_keys keys (0: on none), */
    int64_t trap_keys;
    bool trap_tiles;    /* or all choices are whose tiles are not the default's, */
    bool trap_all;      /* or all but the default's; */
    bool trap_scatters; /* what is trapped takes as long as the default in the middle, but no two blocks agree */
    double changed;     /* what all takes but the default (0: as by the formula) */
    int64_t tile_rows;  /* tiles that are fastest by the formula (0: of 64) */
    bool told;       /* what a plan takes is how far its fields are from those that the default would have if caches */
    int64_t l1d, l2; /* of these sizes were told, and these thresholds of attentions were the defaults */
    tune_choice constants;
    double control; /* log of the control's time relative to the default's; negated in every other block */
} machine;

/* A problem of a shape, or the end of the test. */
void sim_problem(const fovea_context *ctx, const tune_shape *shape, tune_problem *problem);

/* The cost of a plan by the formula. */
double sim_cost(const tune_choice *made);

/* The sizes and kernels that a choice comes to on a shape. */
tune_choice sim_made(tune_problem *problem, const tune_choice *choice);

/* The cost of a plan if caches or thresholds are reported wrongly, 1 being the best. */
double sim_cost_told(tune_problem *problem, const tune_choice *made);

bool sim_trapped(tune_problem *problem, const tune_choice *made);

/* Puts the simulation in the place of the machine, in that weather; returns what was there. */
tune_instruments sim_enter(const machine *m, const weather *w, int seed);

/* From now on, `rate` ticks a second are stolen. */
void sim_steal(double rate);

#endif
