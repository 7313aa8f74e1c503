/* What the files of fovea-tune share.
 *
 * The way of a run: shapes (shapes.c) fall into classes (classes.c), each a box of sizes that one row of the tuning
 * file covers; for each class search.c looks among candidates (candidates.c) for a choice that is faster than the
 * default, by measurements (measure.c) of problems (problem.c), and proof.c proves it on shapes that the search did not
 * see; run.c puts what was proved into the file. An operation is known to shapes.c, classes.c, candidates.c and
 * problem.c only.
 */
#ifndef TUNE_TUNE_H
#define TUNE_TUNE_H

#include "attention/plan.h"
#include "attention/tuning.h"
#include "linear/linear.h"
#include "linear/tuning.h"
#include "tuning/tuning.h"

#include <signal.h>
#include <stdbool.h>

enum {
    TUNE_GOOD = 0,
    TUNE_DRIFT = 1,
    TUNE_USAGE = 2,
    TUNE_NOISY = 3,
    TUNE_FAILED = 4,
    TUNE_FOREIGN = 5,
    TUNE_STOPPED = 130
};

/* ---------------------------------------------------------------------------------------------------- options.c -- */

typedef enum tune_effort { EFFORT_quick, EFFORT_normal, EFFORT_thorough } tune_effort;

enum { TUNE_WORDS = 64 };

typedef struct tune_shape_list {
    const char *text[TUNE_WORDS];
    int count;
} tune_shape_list;

typedef struct tune_options {
    const char *command;
    double budget; /* seconds */
    tune_effort effort;
    tune_shape_list shapes; /* --shape */
    const char *presets;    /* names, parted by commas */
    const char *log;        /* of FOVEA_LOG_SHAPES */
    const char *output;
    fovea_isa isa;
    int threads;
    bool dry_run, json, quiet;
    const char *files[TUNE_WORDS]; /* what is no option */
    int file_count;
} tune_options;

/* Reads them; a sentence to stderr and TUNE_USAGE if they are wrong, -1 if the program goes on. --help, --version and
 * the commands man and completion end here, too. */
int tune_options_read(int argc, char **argv, tune_options *options);

/* ----------------------------------------------------------------------------------------------------- output.c -- */

/* "-", where a file is to be written: the standard output, for machines on which nothing can be written. What is else
 * printed there goes to stderr then, from tune_output_begin() on. */
bool tune_is_standard_output(const char *path);
bool tune_output_begin(const char *path);
fovea_status tune_output_write(const char *path, const char *text, size_t length, char error[FV_FILE_ERROR]);

/* The text of a tuning; of a file, between fv_file_lock() and fv_file_unlock(). */
fovea_status tune_output_tuning(const char *path, const fovea_tuning *tuning, char error[FV_FILE_ERROR]);

/* ---------------------------------------------------------------------------------------------------- machine.c -- */

/* What may disturb a measurement, as counts since the machine or the process began. */
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

/* Bytes of memory that are available, and that each cgroup of this process and all above them have left. root: "" but
 * in tests. */
int64_t tune_memory_left(const char *root);

/* Bytes of memory that may be taken: a quarter of that. */
int64_t tune_memory_allowed(void);

/* One line each on what is seen: CPU, caches, cores, quota, steadiness. */
void tune_machine_print(const fovea_context *ctx);

double tune_now(void); /* seconds, of a clock that does not jump */
void tune_rest(double seconds);

/* ----------------------------------------------------------------------------------------------------- shapes.c -- */

/* What is executed: an attention, or a linear map of so many rows. */
typedef struct tune_shape {
    bool linear;
    fovea_attention_desc attention;
    int64_t rows, in, out;
} tune_shape;

/* Reads "batch=1 q_heads=12 ... causal=top_left" or "linear rows=512 in=768 out=768"; false and a sentence if it is no
 * shape. */
bool tune_shape_read(const char *text, tune_shape *shape, char error[256]);

/* A short name, as b1_h12_q512_kv512_d64 or r512_in768_out768; returns text. */
const char *tune_shape_name(const tune_shape *shape, char *text, size_t size);

/* Its operation and keys. */
fv_tuning_op tune_shape_keys(const tune_shape *shape, int64_t key[FV_TUNING_KEYS]);

/* Operations and bytes of an execution. */
double tune_flops(const tune_shape *shape);
double tune_bytes(const tune_shape *shape);

/* What takes the time of it: bytes where operands come from memory, else operations. */
double tune_work(const tune_shape *shape);

/* All shapes that the options name; the number of them, or -1 and a sentence to stderr. The caller frees *shapes. */
int tune_shapes(const tune_options *options, tune_shape **shapes);

/* ---------------------------------------------------------------------------------------------------- classes.c -- */

typedef struct tune_class {
    fv_tuning_op operation;
    fv_interval key[FV_TUNING_KEYS];
    int64_t group;     /* of an attention: query heads of a key head in its shapes */
    bool square;       /* as many keys as queries */
    tune_shape search; /* the shape of the search */
    char name[160];
} tune_class;

/* The operations that are measured with operands in no cache. */
static inline bool tune_is_cold(fv_tuning_op operation) {
    return operation == FV_TUNING_attention_few_f32 || operation == FV_TUNING_linear_few_f32;
}
static inline bool tune_is_linear(fv_tuning_op operation) {
    return operation == FV_TUNING_linear_f32 || operation == FV_TUNING_linear_few_f32;
}

/* The classes of all shapes that the options name, no two alike; the number of them, or -1 and a sentence to stderr.
 * The caller frees *classes. */
int tune_classes(const tune_options *options, int threads, fv_isa isa, tune_class **classes);

/* Seconds that an execution of its shape of the search takes, about. */
double tune_class_cost(const tune_class *c, int threads, fv_isa isa);

tune_class tune_class_of(const tune_shape *shape, int threads, fv_isa isa);
tune_class tune_class_of_row(const fv_tuning_row *row, fv_isa isa);

/* Shapes of the class on which a choice is proved, no two alike and none that of the search: as many as there are, up
 * to TUNE_PROOFS. */
enum { TUNE_PROOFS = 3 };
int tune_class_proofs(const tune_class *c, int threads, fv_isa isa, tune_shape shapes[TUNE_PROOFS]);

/* Another shape of the class, near where, that neither search nor proof measures; false if there is none. */
bool tune_class_unseen(const tune_class *c, double where, int threads, fv_isa isa, tune_shape *shape);

/* A shape of the class: where from 0 (its smallest) to 1 (its largest). */
tune_shape tune_class_shape(const tune_class *c, double where, int threads, fv_isa isa);

/* ---------------------------------------------------------------------------------------------------- problem.c -- */

/* A choice, as the knobs of its operation; and where caches are not to count as they do for the context, as what. */
typedef struct tune_choice {
    fv_tuning_value knob[FV_TUNING_KNOBS];
    int64_t cache_scale; /* 0: the context's */
} tune_choice;

/* What is executed, with all knobs decided. */
typedef struct tune_plan {
    tune_choice made;                /* cache_scale: 0, as what it decides beside sizes is */
    int64_t panel;                   /* the keys of a packed panel, */
    bool fetches;                    /* and whether the next item is fetched */
    fovea_attention_plan *attention; /* NULL: a linear map */
    fv_linear_choice linear;
} tune_plan;

/* A shape with its operands. Cold operations go through as many sets of operands as no cache holds. */
typedef struct tune_problem {
    const fovea_context *ctx;
    tune_shape shape;
    fv_tuning_op operation;
    fovea_attention_args *attention; /* [sets] */
    fovea_linear *packed;            /* of a linear map, whose weights are not used: */
    fovea_linear map;                /* those of the arena are, of each set in turn */
    fovea_linear_args linear;
    fovea_tensor y;
    void *out;         /* what is written */
    int64_t set_bytes; /* from one set to the next */
    int sets, next;
    uint64_t random; /* for the set that a sample begins with */
    void *workspace;
    size_t workspace_size;
    int executions; /* of a sample */
} tune_problem;

/* false and a sentence if there is no memory. */
bool tune_problem_make(const fovea_context *ctx, const tune_shape *shape, tune_problem *problem, char error[256]);
void tune_problem_free(tune_problem *problem);

/* A plan with a choice, and room for it in the problem's workspace; NULL if there is none. */
tune_plan *tune_problem_plan(tune_problem *problem, const tune_choice *choice);
void tune_plan_free(tune_plan *plan);

/* A map of a shape that has no weights, for what can be asked without; false if there is no memory. The caller frees
 * map->tuned. */
bool tune_map_make(const fovea_context *ctx, const tune_shape *shape, fovea_linear *map);

/* The choice that a context makes for a shape, its tuning file included; false if there is no memory. */
bool tune_choice_of(const fovea_context *ctx, const tune_shape *shape, tune_choice *choice);
bool tune_same_choice(const tune_choice *a, const tune_choice *b);

/* Do two plans of a problem do the same? */
bool tune_same_plan(const tune_plan *a, const tune_plan *b);

/* Seconds of an execution, by one sample; negative: it failed. The second always executes. */
double tune_problem_time(tune_problem *problem, const tune_plan *plan);
double tune_time_execution(tune_problem *problem, const tune_plan *plan);

/* Frees what problems share. */
void tune_problem_end(void);

/* Flops per second of the tier's FMA on so many threads, and bytes per second from memory. */
double tune_peak(const fovea_context *ctx);
double tune_bandwidth(const fovea_context *ctx);

/* What measurements are made with: clock, counters of disturbances, execution. A test puts others here. */
typedef struct tune_instruments {
    double (*now)(void);
    void (*rest)(double seconds);
    long (*involuntary)(void);
    tune_noise (*noise)(void);
    double (*time)(tune_problem *problem, const tune_plan *plan);
} tune_instruments;
extern tune_instruments tune_instrument;

/* ---------------------------------------------------------------------------------------------------- measure.c -- */

enum { TUNE_BLOCKS = 512, TUNE_TOGETHER = 4, TUNE_RECENT = 64, TUNE_LEAST = 6 /* blocks that tell of a spread */ };

/* A candidate in a measurement: logarithms of time / time of the default, one of each block. */
typedef struct tune_candidate {
    tune_choice choice;
    tune_plan *plan;
    int blocks;
    double ratio[TUNE_BLOCKS];
    double seconds; /* the fastest sample */
} tune_candidate;

typedef struct tune_interval {
    double median, low, high; /* 95 % */
} tune_interval;

/* A measurement: candidates against the default. */
typedef struct tune_measurement {
    tune_problem *problem;
    tune_candidate base; /* its ratios are those of a second default: the noise */
    tune_plan *twin;
    uint64_t random;
    int kept, thrown;           /* blocks */
    double pause;               /* seconds between blocks, where a quota throttles */
    double recent[TUNE_RECENT]; /* the faster time of the default in each of the last blocks, kept or not */
    int looked_at;              /* blocks since the beginning */
} tune_measurement;

/* How many executions of so many seconds are a sample. */
int tune_executions(double seconds);

bool tune_measurement_begin(tune_measurement *m, tune_problem *problem);
void tune_measurement_end(tune_measurement *m);

bool tune_candidate_make(tune_measurement *m, const tune_choice *choice, tune_candidate *candidate);
void tune_candidate_free(tune_candidate *candidate);

/* Adds blocks to each of the candidates, until so many were kept, the time is up, or it was interrupted. false if too
 * many had to be thrown away. */
bool tune_measure(tune_measurement *m, tune_candidate **candidates, int count, int blocks, double until);

int tune_ascending(const void *a, const void *b); /* doubles, for qsort */

/* Median and its interval by order statistics: no distribution is assumed. */
tune_interval tune_statistic(const double *values, int count);

/* The median of a candidate's ratios. */
double tune_median(const tune_candidate *candidate);

/* Sorts those that were measured by their medians, the fastest first; the number of them. */
int tune_sort(tune_candidate **candidates, int count);

/* The standard error of the median of so many blocks, by the spread of the default against itself. */
double tune_median_error(const tune_measurement *m, int blocks);

/* A candidate's median and its 95 % interval by standard errors: the default's against itself or its own, if that is
 * larger. Narrower than order statistics where blocks are few and one of them had bad luck. Fewer than TUNE_LEAST: no
 * end. */
tune_interval tune_candidate_interval(const tune_measurement *m, const tune_candidate *c);

/* What was measured of a candidate on several shapes, each of which counts as much as any other. Begins as {0}. */
typedef struct tune_together {
    double sum, variance; /* of the shapes' medians */
    int shapes;
} tune_together;

/* Does a candidate come to the same as the default? Nothing is to be measured then. */
bool tune_is_default(const tune_measurement *m, const tune_candidate *candidate);

/* One that is the default counts as that. */
void tune_together_add(tune_together *together, const tune_measurement *m, const tune_candidate *candidate);

/* The mean over the shapes, and its standard error by the spread of the default against itself. */
tune_interval tune_together_ratio(const tune_together *together, double *error);

/* ------------------------------------------------------------------------------------------------- candidates.c -- */

enum { TUNE_CANDIDATES = 128 };

/* What candidates differ in from the best so far, and its names. */
typedef enum tune_stage { TUNE_kernels, TUNE_sizes, TUNE_pairs, TUNE_threads, TUNE_STAGES } tune_stage;
extern const char *const tune_stages[TUNE_STAGES];

/* The candidates of a stage, around the best so far: those whose plans differ from each other and from base's. Kernels
 * are in the order of the model that the defaults come from, others begin with the best so far. */
int tune_list(tune_problem *problem, tune_stage stage, const tune_choice *best, const tune_plan *base,
              tune_choice list[TUNE_CANDIDATES]);

/* Do two plans of a problem differ in the size that shapes of a class may disagree on? Others come to the same on some
 * of them. */
bool tune_is_another_size(const tune_plan *a, const tune_plan *b);

/* Sizes of caches, in per cent of what the system reports, for which the defaults are tried. */
enum { TUNE_SCALES = 5 };
extern const int64_t tune_scales[TUNE_SCALES];

/* All candidates for a shape: every kernel with the sizes for other caches, with every size that the search tries
 * around the default's, and with pairs of them. For sweeps; the caller frees. */
int tune_all_candidates(const fovea_context *ctx, const tune_shape *shape, tune_choice **choices);

/* ----------------------------------------------------------------------------------------------------- search.c -- */

typedef enum tune_verdict {
    VERDICT_unseen, /* the time was over, or it was interrupted, before anything was known */
    VERDICT_default,
    VERDICT_unconfirmed, /* a candidate was faster in the search, but not in the proof */
    VERDICT_bound,
    VERDICT_tuned,
    VERDICT_noisy,
    VERDICT_large, /* no memory for its operands */
    VERDICTS
} tune_verdict;
extern const char *const tune_verdicts[VERDICTS];

typedef struct tune_result {
    tune_verdict verdict;
    tune_choice choice;
    tune_interval gain; /* time of the default / time of the choice */
    double seen;        /* the gain of the best candidate in the search, where nothing was proved */
    int candidates, blocks;
    double seconds, share; /* of the default; of the bound */
    char shapes[FV_TUNING_SHAPES];
} tune_result;

/* Called as it goes: what is measured, and the best ratio so far. */
typedef void tune_watcher(void *arg, const char *what, double best);

/* Searches within so many seconds. */
void tune_search(const fovea_context *ctx, const tune_class *c, tune_effort effort, double seconds,
                 tune_watcher *watcher, void *arg, tune_result *result);

/* Blocks that check takes of a shape, and a proof about: fewer where they tell, more where they do not. */
int tune_proof_blocks(tune_effort effort);

/* Called before a search (result NULL), and once for each class when its result is final; seconds: of all its searches.
 */
typedef void tune_reporter(void *arg, int index, const tune_result *result, double seconds);

/* Searches the classes one after another, the quickest to measure first, within the budget; then, as long as there is
 * time, those again that were too noisy or in which something was seen but not proved. */
void tune_search_all(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double seconds,
                     tune_watcher *watcher, tune_reporter *reporter, void *arg, tune_result *results);

/* ------------------------------------------------------------------------------------------------------ scale.c -- */

/* As what the caches of this machine count: cache_scale of the tuning file. */
typedef struct tune_scale {
    int64_t percent; /* 100: as the system reports */
    bool known;      /* false: too noisy, or too little time, to tell */
    tune_interval gain;
    double seen; /* the gain of the best of all in the search, which may not have been proved */
    int blocks;
    char shapes[FV_TUNING_SHAPES];
    tune_interval *slower; /* [classes] of those that lose by it, or may, how much as logarithms; the rest 0 */
} tune_scale;

/* Looks for it within two fifths of a budget in seconds: the defaults for caches of other sizes, against those of the context, on the
 * shapes of all classes; the best are proved on others. */
void tune_find_scale(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double budget,
                     tune_watcher *watcher, void *arg, tune_scale *scale);

void tune_scale_free(tune_scale *scale);

/* Classes that lose by it, and for which nothing faster was found, get a row with the sizes that they had without it. */
void tune_keep_sizes(fovea_context *ctx, const tune_scale *scale, const tune_class *classes, int count,
                     tune_result *results);

/* What the file says of it. */
fv_tuning_machine tune_machine(const fovea_context *ctx, const tune_scale *scale);

/* ------------------------------------------------------------------------------------------------------- others -- */

extern volatile sig_atomic_t tune_stopped; /* a signal that ends the program: what was proved is kept */

/* A context without a tuning file. */
fovea_context *tune_context(const tune_options *options);

/* The file that is written where none is named: FOVEA_TUNING_FILE, or the first place of the search path that the
 * environment names: without HOME that is the one in /etc. */
const char *tune_default_file(void);

/* What the verdicts of a run are together. */
typedef struct tune_outcome {
    int counts[VERDICTS];
    double gain; /* of the classes with a faster choice: geometric mean */
    bool store;
    int status; /* the program's, if nothing fails: TUNE_GOOD, TUNE_NOISY, TUNE_FAILED or TUNE_STOPPED */
} tune_outcome;
tune_outcome tune_outcome_of(const tune_result *results, int count, const tune_scale *scale);

/* The row that a result becomes. */
fv_tuning_row tune_row(const fovea_context *ctx, const tune_class *c, const tune_result *result);

int tune_run(const tune_options *options);
int tune_show(const tune_options *options);
int tune_check(const tune_options *options);
int tune_merge(const tune_options *options);
int tune_explain(const tune_options *options);
int tune_report(const tune_options *options);

#endif
