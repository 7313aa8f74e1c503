/* Random experts, their inputs, and what they give in float64. */
#ifndef FOVEA_TESTS_EXPERTS_CASE_H
#define FOVEA_TESTS_EXPERTS_CASE_H

#include "attention_case.h"
#include "quantized_case.h"

enum { EXPERTS_MOST = 9 };
enum { E_GATE, E_UP, E_DOWN, E_MAPS };

typedef struct experts_case {
    char title[256];
    fovea_experts_desc desc;
    fovea_experts_weights weights;
    int64_t batch, tokens, k;
    fovea_matrix matrix[E_MAPS][EXPERTS_MOST]; /* as given: up may have the gate */
    void *data[E_MAPS][EXPERTS_MOST];
    quantized_weight quantized[E_MAPS][EXPERTS_MOST];
    float *numbers[E_MAPS][EXPERTS_MOST]; /* [out][in] of gate, up and down */
    float *bias[E_MAPS];                  /* [experts][out], or NULL */
    void *given_bias[E_MAPS];             /* as given */
    fovea_tensor x;
    float *x_floats; /* [batch * tokens][in] */
    int64_t *chosen;
    float *weight;
    double error; /* of the arithmetic, relative to the sizes of results */
} experts_case;

experts_case *experts_case_random(const fovea_context *ctx, rng *r);
void experts_case_free(experts_case *c);

fovea_experts *experts_case_pack(const fovea_context *ctx, const experts_case *c);

/* Rows of y, [out] each, in float64, and how large the numbers are that they are made of. */
void experts_case_oracle(const experts_case *c, int64_t row, double *y, double *size);

#endif
