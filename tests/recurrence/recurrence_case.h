/* Random calls of the functions of fovea/recurrence.h, parts of them, and their results in float64. */
#ifndef FOVEA_TESTS_RECURRENCE_CASE_H
#define FOVEA_TESTS_RECURRENCE_CASE_H

#include "attention_case.h"

typedef enum recurrence { DELTA, SCAN, CONV, RECURRENCES } recurrence;

/* Tensors of a case: the output, then inputs. */
enum { T_OUT, T_Q, T_K, T_V, T_GATE, T_BETA, T_TENSORS };              /* of the delta rule */
enum { S_C = T_Q, S_B = T_K, S_X = T_V, S_DT = T_GATE, S_Z = T_BETA }; /* of a scan */
enum { C_X = T_V };                                                    /* of a convolution */

typedef struct recurrence_case {
    recurrence kind;
    char title[256];
    int64_t batch, tokens, heads, rows, columns; /* rows x columns: a state */
    fovea_tensor tensor[T_TENSORS];              /* data NULL: absent */
    float *floats[T_TENSORS];                    /* the same numbers, [batch, tokens, heads, channels] */
    float *a, *d, *bias;                         /* a_log, a or weight; d; dt_bias or bias; NULL: absent */
    float *state;                                /* [batch, heads, rows, columns] */
    fovea_delta_args delta;                      /* options of the kind; the rest absent */
    fovea_scan_args scan;
    fovea_conv_args conv;
} recurrence_case;

recurrence_case *recurrence_case_of(recurrence kind, int64_t tokens, rng *r); /* of 0 tokens: a random number */
recurrence_case *recurrence_case_random(recurrence kind, rng *r);
void recurrence_case_free(recurrence_case *c);

/* Tokens [first, first + count) of one sequence, or, with sequence -1, of all; out goes to the same place of *out. */
fovea_status recurrence_call(const fovea_context *ctx, const recurrence_case *c, int64_t sequence, int64_t first,
                             int64_t count, fovea_tensor out, const fovea_states *states, void *workspace, size_t size);
size_t recurrence_workspace(const fovea_context *ctx, const recurrence_case *c, int64_t sequence, int64_t first,
                            int64_t count, const fovea_states *states);

/* Bytes of the case's output, and elements of a state. */
int64_t recurrence_bytes(const recurrence_case *c);
int64_t recurrence_state_size(const recurrence_case *c);

/* The output of a sequence and its state after count tokens in float64: [heads of out][count][columns], and as state;
 * scale gets the largest number on the way. */
void recurrence_oracle(const recurrence_case *c, int64_t sequence, int64_t count, double *out, double *state,
                       double *scale);

#endif
