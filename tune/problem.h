/* Problems: operands for a shape, and plans for them. */
#ifndef TUNE_PROBLEM_H
#define TUNE_PROBLEM_H

#include "attention/plan/plan.h"
#include "linear/linear.h"
#include "shapes.h"

/* A choice, as the knobs of its operation. */
typedef struct tune_choice {
    fv_tuning_value knob[FV_TUNING_KNOBS];
} tune_choice;

/* An executable plan. */
typedef struct tune_plan {
    tune_choice made; /* what it does: the effect of the choice (fv_attention_effect(), fv_linear_effect()) */
    fovea_attention_plan *attention; /* NULL: a linear map */
    fv_linear_choice linear;
} tune_plan;

/* A shape with its operands. Cold operations go through as many sets of operands as no cache holds. */
typedef struct tune_problem {
    const fovea_context *ctx;
    tune_shape shape;
    fv_tuning_op operation;
    fovea_attention_args *attention; /* [sets] */
    fovea_kv_cache *cache;           /* of cold attentions: a layer for each set */
    int64_t *sequences;              /* [batch] of the cache */
    fovea_linear *packed;            /* of a linear map, whose weights are not used: */
    fovea_linear map;                /* those of the arena are, of each set in turn */
    fovea_linear_args linear;
    fovea_tensor y;
    int64_t *ranges;   /* of a shape with a mask */
    void *out;         /* what is written */
    int64_t set_bytes; /* from one set to the next */
    int sets, next;
    uint64_t random; /* for the set that a sample begins with */
    void *workspace;
    size_t workspace_size;
    int executions; /* of a sample */
} tune_problem;

/* problem_cache.c: puts keys and values of all sets into a cache, which takes their place in the arguments; false
 * and a sentence. */
bool tune_problem_cache(tune_problem *problem, char error[256]);

/* false and a sentence if there is no memory. */
bool tune_problem_make(const fovea_context *ctx, const tune_shape *shape, tune_problem *problem, char error[256]);
void tune_problem_free(tune_problem *problem);

/* A plan with a choice, and room for it in the problem's workspace; NULL if there is none. */
tune_plan *tune_problem_plan(tune_problem *problem, const tune_choice *choice);
void tune_plan_free(tune_plan *plan);

/* Describes a shape's weights, all rows of which are read from `zeros`: zeros for one row, for its scales, and for the
 * scales of all output channels. weights points to quantization. */
void tune_weights(const tune_shape *shape, const void *zeros, fovea_quantization *quantization, fovea_matrix *weights);

/* A map of a shape that has no weights, for what can be asked without; false if there is no memory. The caller frees
 * map->tuned. */
bool tune_map_make(const fovea_context *ctx, const tune_shape *shape, fovea_linear *map);

/* Completes a requested choice (NULL: that of the tuning file, else the default) for a map or an attention: all fields
 * decided, and the effect. NULL: no plan. */
fv_linear_choice tune_linear_choice(const fovea_linear *map, fv_tuning_op operation, int threads, int64_t rows,
                                    const tune_choice *requested, tune_choice *effect);
fovea_attention_plan *tune_attention_plan(const fovea_context *ctx, const fovea_attention_desc *desc,
                                          fv_tuning_op operation, const tune_choice *requested, tune_choice *effect);

/* Completes a requested choice (NULL: that of the context's tuning file, else the default) for a shape: all fields
 * decided, and the effect. false if there is no memory. */
bool tune_choice_of(const fovea_context *ctx, const tune_shape *shape, const tune_choice *requested,
                    tune_choice *choice, tune_choice *effect);

/* "score=NAME, tile_rows=64": the fields that are decided, with these values; returns text. */
const char *tune_choice_text(fv_tuning_op operation, const fv_tuning_value *decided, const fv_tuning_value *values,
                             char *text, size_t size);
bool tune_same_choice(const tune_choice *a, const tune_choice *b);

/* Do two plans of a problem do the same? */
bool tune_same_plan(const tune_plan *a, const tune_plan *b);

/* Seconds of an execution, by one sample; negative: it failed. The second always executes. */
double tune_problem_time(tune_problem *problem, const tune_plan *plan);
double tune_time_execution(tune_problem *problem, const tune_plan *plan);

/* Frees what problems share. */
void tune_problem_end(void);

#endif
