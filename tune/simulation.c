/* The machine that is made up (simulation.h). */
#include "simulation.h"

#include "cpu/isa.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const weather weathers[WEATHERS] = {
    {.name = "calm", .jitter = 0.003},
    {.name = "drift", .jitter = 0.005, .drift = 0.1},
    {.name = "quick start", .jitter = 0.005, .quick = 0.02},
    {.name = "bursts", .jitter = 0.005, .bursts = 5, .burst = 0.03, .slow = 0.6},
    {.name = "long bursts", .jitter = 0.005, .bursts = 0.4, .burst = 0.5, .slow = 0.5},
    {.name = "switches", .jitter = 0.005, .switches = 20, .away = 0.004},
    {.name = "steal", .jitter = 0.005, .steals = 4, .stolen = 0.012},
    {.name = "quota", .jitter = 0.005, .quota = 0.06, .period = 0.1, .may_give_up = true},
    {.name = "all at once",
     .jitter = 0.01,
     .drift = 0.05,
     .bursts = 4,
     .burst = 0.02,
     .slow = 0.6,
     .switches = 10,
     .away = 0.004,
     .steals = 1,
     .stolen = 0.01,
     .may_give_up = true},
    {.name = "storm",
     .jitter = 0.1,
     .drift = 0.1,
     .bursts = 100,
     .burst = 0.005,
     .slow = 0.3,
     .switches = 200,
     .away = 0.004,
     .steals = 30,
     .stolen = 0.01,
     .may_give_up = true},
};

static struct {
    machine machine;
    weather weather;
    rng r;
    double now, speed_until, speed, next_switch, next_steal, used;
    long involuntary;
    long long steal, throttled;
    int scattered, controls; /* samples */
    const tune_plan *base, *last;
    int in_a_row;    /* samples of last */
    tune_shape told; /* the shape of */
    tune_choice told_best;
} sim;

static double kernel_cost(const fv_kernel *kernel, uint64_t salt) {
    if (!kernel) /* a source that needs none of the choice is as slow as the slowest */
        return 1;
    const int tile[2] = {kernel->mr, kernel->nr};
    uint64_t hash = salt;
    for (int i = 0; i < 2; i++) {
        hash = (hash ^ (uint64_t)tile[i]) * UINT64_C(0x100000001b3);
        hash = (hash ^ hash >> 29) * UINT64_C(0x100000001b3);
    }
    return (double)(hash >> 40 & 0xff) / 255; /* 0 .. 1 */
}

double sim_cost(const tune_choice *made) {
    /* By these salts the best pair of kernels is 6 to 7 % faster than the default's in the search of test_search.c. */
    const double score = kernel_cost(made->knob[FV_ATTENTION_KNOB_score].kernel, 36),
                 value = kernel_cost(made->knob[FV_ATTENTION_KNOB_value].kernel, 74);
    const double tile = log2((double)made->knob[FV_ATTENTION_KNOB_tile_rows].number /
                             (double)(sim.machine.tile_rows ? sim.machine.tile_rows : 64)),
                 block = log2((double)made->knob[FV_ATTENTION_KNOB_block_rows].number / 128);
    return 1 + 0.15 * score + 0.1 * value + 0.03 * fabs(tile) + 0.01 * fabs(block);
}

static double exponential(double mean) { return -mean * log(1 - rng_unit(&sim.r) * 0.999999); }

/* Work that takes `seconds` at full speed, and longer under disturbances. */
static void work(double seconds) {
    const weather *w = &sim.weather;
    const double slice = 1e-4;
    for (double left = seconds; left > 0;) {
        if (w->bursts > 0 && sim.now >= sim.speed_until) {
            sim.speed = sim.speed < 1 ? 1 : w->slow;
            sim.speed_until = sim.now + exponential(sim.speed < 1 ? w->burst : 1 / w->bursts);
        }
        const double step = fmin(slice, left / sim.speed);
        const double frequency = (1 + w->drift * sin(sim.now * 1.7)) * (sim.now < w->quick ? 2 : 1);
        left -= step * sim.speed * frequency;
        sim.now += step;
        sim.used += step;
        if (w->switches > 0 && sim.now >= sim.next_switch) {
            sim.involuntary++;
            sim.now += w->away;
            sim.next_switch = sim.now + exponential(1 / w->switches);
        }
        if (w->steals > 0 && sim.now >= sim.next_steal) {
            sim.steal++;
            sim.now += w->stolen;
            sim.next_steal = sim.now + exponential(1 / w->steals);
        }
        if (w->quota > 0 && sim.used >= w->quota) {
            sim.throttled++;
            sim.now += w->period - w->quota;
            sim.used = 0;
        }
    }
}

static double sim_now(void) {
    sim.now += sim.weather.stall > 0 && rng_unit(&sim.r) < 0.5 ? sim.weather.stall : 1e-7;
    return sim.now;
}

static void sim_rest(double seconds) {
    sim.now += seconds;
    sim.used = fmax(sim.used - seconds, 0);
}

static long sim_involuntary(void) { return sim.involuntary += sim.weather.interrupts && sim.now >= sim.weather.clear; }
static tune_noise sim_noise(void) { return (tune_noise){sim.involuntary, sim.steal, sim.throttled}; }

void sim_problem(const fovea_context *ctx, const tune_shape *shape, tune_problem *problem) {
    char error[256];
    if (!test_check(tune_problem_make(ctx, shape, problem, error), "problem: %s", error))
        exit(TEST_FAILED);
}

tune_choice sim_made(tune_problem *problem, const tune_choice *choice) {
    tune_plan *plan = tune_problem_plan(problem, choice);
    const tune_choice made = plan ? plan->made : (tune_choice){0};
    tune_plan_free(plan);
    return made;
}

/* The best choice on a shape if caches or thresholds are reported wrongly. */
static tune_choice best_told(tune_problem *problem) {
    if (memcmp(&sim.told, &problem->shape, sizeof sim.told) == 0)
        return sim.told_best;
    fv_cpu *cpu = (fv_cpu *)(uintptr_t)&problem->ctx->cpu; /* of the test's context */
    const tune_choice none = {0};
    const int64_t l1d = cpu->l1d, l2 = cpu->l2;
    cpu->l1d = sim.machine.l1d;
    cpu->l2 = sim.machine.l2;
    sim.told_best = sim_made(problem, problem->shape.linear ? &none : &sim.machine.constants);
    cpu->l1d = l1d;
    cpu->l2 = l2;
    memcpy(&sim.told, &problem->shape, sizeof sim.told);
    return sim.told_best;
}

double sim_cost_told(tune_problem *problem, const tune_choice *made) {
    const tune_choice best = best_told(problem);
    double cost = 1;
    for (int i = 0; i < FV_TUNING_KNOBS; i++) {
        const double a = (double)made->knob[i].number, b = (double)best.knob[i].number;
        cost += made->knob[i].kernel != best.knob[i].kernel ? 0.05 : 0;
        cost += a == b ? 0 : a > 1 && b > 1 ? 0.03 * fabs(log2(a / b)) : 0.05;
    }
    return cost;
}

bool sim_trapped(tune_problem *problem, const tune_choice *made) {
    if (problem->shape.linear || problem->shape.attention.kv_len != sim.machine.trap_keys)
        return false;
    const tune_choice none = {0}, usual = sim_made(problem, &none), trap = sim_made(problem, &sim.machine.trap);
    if (sim.machine.trap_all)
        return !tune_same_choice(made, &usual);
    return sim.machine.trap_tiles
               ? made->knob[FV_ATTENTION_KNOB_tile_rows].number != usual.knob[FV_ATTENTION_KNOB_tile_rows].number
               : tune_same_choice(&trap, made);
}

/* Is it the second default? The first is what a measurement begins with, three times. */
static bool is_control(const tune_plan *plan, bool usual) {
    sim.in_a_row = plan == sim.last ? sim.in_a_row + 1 : 1;
    sim.last = plan;
    if (sim.in_a_row == 3)
        sim.base = plan;
    return usual && plan != sim.base;
}

static double sim_time(tune_problem *problem, const tune_plan *plan) {
    const tune_choice none = {0}, base = sim.machine.told ? none : sim_made(problem, &none);
    double relative = sim.machine.told        ? sim_cost_told(problem, &plan->made)
                      : problem->shape.linear ? 1
                                              : sim_cost(&plan->made) / sim_cost(&base);
    if (sim.machine.flat) /* the default is best: what is better by the formula is as good, what is worse is worse */
        relative = fmax(relative, 1);
    if (sim.machine.changed > 0)
        relative = tune_same_choice(&plan->made, &base) ? 1 : sim.machine.changed;
    if (sim.machine.control > 0 && is_control(plan, tune_same_choice(&plan->made, &base)))
        relative *= exp(sim.controls++ / 2 % 2 ? sim.machine.control : -sim.machine.control);
    const bool trapped = sim.machine.trap_keys && sim_trapped(problem, &plan->made);
    if (trapped && !sim.machine.trap_scatters)
        relative *= trap_factor;
    else if (trapped) { /* both samples of a block alike; medians are above 1, and below what is slower */
        static const double factors[] = {0.8, 1.005, 1.25, 1.005};
        relative = factors[sim.scattered++ / 2 % 4];
    }
    if (sim.machine.flops > 0)
        relative *= tune_flops(&problem->shape) / sim.machine.flops;
    if (sim.weather.sleep > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * sim.weather.sleep)}, NULL);
    const double begin = sim.now;
    for (int i = 0; i < problem->executions; i++)
        work(sim.machine.seconds * relative * (1 + sim.weather.jitter * fabs((double)rng_normal(&sim.r))));
    return (sim.now - begin) / problem->executions;
}

/* Puts the simulation in the place of the machine, in that weather; returns what was there. */
tune_instruments sim_enter(const machine *m, const weather *w, int seed) {
    static const tune_instruments simulated = {sim_now, sim_rest, sim_involuntary, sim_noise, sim_time};
    const tune_instruments real = tune_instrument;
    char name[64];
    memset(&sim, 0, sizeof sim);
    snprintf(name, sizeof name, "%s %d", w->name, seed);
    sim.r = rng_stream(test_seed(), name);
    sim.machine = *m;
    sim.weather = *w;
    sim.speed = 1;
    sim.speed_until = w->bursts > 0 ? exponential(1 / w->bursts) : INFINITY;
    tune_instrument = simulated;
    return real;
}

double __wrap_peak_run(int isa, int64_t rounds); /* the linker's name */

/* Nothing is run: the tier may be one that this CPU lacks. */
double __wrap_peak_run(int isa, int64_t rounds) { return 24.0 * fv_isa_lanes((fv_isa)isa) * (double)rounds; }

void sim_steal(double rate) { sim.weather.steals = rate; }
